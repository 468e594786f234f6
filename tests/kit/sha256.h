// SPDX-License-Identifier: Apache-2.0
// SHA-256, for golden cases that state a hash instead of their bytes.
#ifndef LT_TESTS_KIT_SHA256_H
#define LT_TESTS_KIT_SHA256_H

#include <stddef.h>

typedef struct lt_sha256_text {
    char s[65];
} lt_sha256_text;
/** Lower-case hexadecimal. source: FIPS 180-4 */
lt_sha256_text lt_sha256(const void *bytes, size_t len);
#endif
