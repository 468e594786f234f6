// SPDX-License-Identifier: Apache-2.0
// Resampling that gives Pillow's and torchvision's bytes. Internal to image/.
#ifndef LT_DATA_IMAGE_RESAMPLE_H
#define LT_DATA_IMAGE_RESAMPLE_H

#include "base/memory.h"

/**
 * Both are antialiased bicubic (a = -0.5) in integer arithmetic; they differ in how weights are
 * rounded.
 */
typedef enum lt_cubic { LT_CUBIC_PILLOW, LT_CUBIC_TORCH } lt_cubic;

/**
 * in       px u8 [h, w, channels], channels 1 .. 4, treated one by one
 * out      out u8 [out_h, out_w, channels]
 * source   Pillow's 8-bit resize, with the pass order of 12.2 (vertical first for pictures over 100
 *          times as tall as wide that get shorter); torch's uint8 upsample_bicubic2d_aa
 * errors   LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_resample_u8(const uint8_t *px, int64_t h, int64_t w, int channels,
                                      lt_cubic cubic, int64_t out_h, int64_t out_w, uint8_t *out);
/**
 * Pillow's bicubic for 16-bit grey (mode I;16): weights in double, each pass rounded to 16 bits. px
 * u16 [h, w].
 */
LT_NODISCARD lt_status lt_resample_u16(const uint16_t *px, int64_t h, int64_t w, int64_t out_h,
                                       int64_t out_w, uint16_t *out);
/**
 * Pillow's nearest: the source coordinate is accumulated in double. A pixel has `bytes` bytes.
 * errors: LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_resample_nearest(const uint8_t *px, int64_t h, int64_t w, int bytes,
                                           int64_t out_h, int64_t out_w, uint8_t *out);
#endif
