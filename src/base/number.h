// SPDX-License-Identifier: Apache-2.0
// Numbers as text: the shortest form that reads back as the same double, and byte counts that
// people write.
#ifndef LT_BASE_NUMBER_H
#define LT_BASE_NUMBER_H

#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/** x as Python's repr writes it: "512.0", "0.1", "1e-05", "1e+16", "nan", "-inf": the shortest that
 * reads back equal. */
lt_text32 lt_double_text(double x);

/**
 * A byte count: digits, an optional fraction, then B, kB, MB, GB, TB (powers of 1000), KiB, MiB,
 * GiB, TiB (powers of 1024; K, M, G, T alone mean these too) or nothing; blanks between them and
 * letter case do not matter.
 *
 * errors   false when the text is anything else, is negative, or does not fit; *bytes is then
 * untouched
 */
bool lt_bytes_parse(const char *text, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
