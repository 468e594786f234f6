// SPDX-License-Identifier: Apache-2.0
// Signatures and sizes of zip records, shared by the reader and the writer.
#ifndef LT_CKPT_ZIP_FORMAT_H
#define LT_CKPT_ZIP_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#define ZIP_LOCAL 0x04034b50U
#define ZIP_DESCRIPTOR 0x08074b50U
#define ZIP_CENTRAL 0x02014b50U
#define ZIP_END64 0x06064b50U
#define ZIP_LOCATOR 0x07064b50U
#define ZIP_END 0x06054b50U

enum {
    ZIP_LOCAL_BYTES = 30,
    ZIP_DESCRIPTOR_BYTES = 16,
    ZIP_CENTRAL_BYTES = 46,
    ZIP_END64_BYTES = 56,
    ZIP_LOCATOR_BYTES = 20,
    ZIP_END_BYTES = 22,
    ZIP_ALIGNMENT = 64, /* of an entry's data, from the archive's start */
};

/* A little-endian number of `width` bytes. */
static inline uint64_t zip_get(const uint8_t *p, int width)
{
    uint64_t value = 0;
    for (int i = width; i > 0; i--)
        value = value << 8 | p[i - 1];
    return value;
}

/* zlib counts in 32 bits. */
static inline uint32_t zip_crc(uint32_t crc, const uint8_t *bytes, uint64_t len)
{
    const uint64_t most = 1U << 30;
    uLong sum = crc;
    while (len > 0) {
        const uint64_t n = len < most ? len : most;
        sum = crc32(sum, bytes, (uInt)n);
        bytes += n;
        len -= n;
    }
    return (uint32_t)sum;
}
#endif
