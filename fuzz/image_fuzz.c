// SPDX-License-Identifier: Apache-2.0
// Pictures as strangers send them: header probing, decoding, budget, patch rows. PNG checksums are
// mended.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/memory.h"
#include "data/image/image.h"

enum { MAX_BYTES = 1 << 16, MAX_FUZZ_PIXELS = 1 << 20 };

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/** Give every whole chunk the checksum that its bytes have. */
static void mend_png(uint8_t *bytes, size_t len)
{
    for (size_t at = 8; at + 12 <= len;) {
        const uint32_t n = be32(bytes + at);
        if (n > len - at - 12)
            return;
        const uint32_t crc = (uint32_t)crc32(0, bytes + at + 4, n + 4);
        for (int i = 0; i < 4; i++)
            bytes[at + 8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + (size_t)n;
    }
}

static void try_rows(const lt_image *image)
{
    lt_image_processor p = lt_image_processor_default();
    lt_grid grid;
    void *rows = NULL;
    p.min_pixels = 1024;
    p.max_pixels = 65536;
    if (lt_image_grid_of_size(&p, image->h, image->w, &grid) != LT_OK)
        return;
    const size_t bytes = (size_t)(lt_grid_patches(grid) * lt_image_row_width(&p));
    if (lt_mem_alloc(&rows, bytes, "fuzz") == LT_OK)
        LT_ASSERT(lt_image_rows(&p, image, LT_U8, rows) == LT_OK);
    lt_mem_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const lt_image_budget budget = {65536, 1024, LT_IMAGE_BICUBIC, false};
    lt_image_info info;
    lt_image image = {0};
    uint8_t *copy = len <= MAX_BYTES ? malloc(len + (len == 0)) : NULL; // exact, for the sanitizer
    if (copy == NULL)
        return 0;
    if (len > 0)
        memcpy(copy, data, len);
    if (len > 8 && memcmp(copy, "\x89PNG\r\n\x1a\n", 8) == 0)
        mend_png(copy, len);
    if (lt_image_probe_bytes(copy, len, "fuzz", &info) == LT_OK &&
        info.h * info.w <= MAX_FUZZ_PIXELS &&
        lt_image_load_bytes(copy, len, "fuzz", &budget, &image) == LT_OK)
        try_rows(&image);
    lt_image_deinit(&image);
    free(copy);
    return 0;
}
