// SPDX-License-Identifier: Apache-2.0
// Writing pictures: PNG and JPEG, for the demo's drawings and for tests.
#ifndef LT_DATA_IMAGE_ENCODE_H
#define LT_DATA_IMAGE_ENCODE_H

#include "base/text.h"
#include "data/image/image.h"

/**
 * The bytes of a file with that picture, appended to `out`. errors: LT_ERR_MEMORY, LT_ERR_INTERNAL
 */
LT_NODISCARD lt_status lt_png_encode(const lt_image *image, lt_buf *out);
/** quality 1 .. 100; colours at full resolution (4:4:4) */
LT_NODISCARD lt_status lt_jpeg_encode(const lt_image *image, int quality, lt_buf *out);
#endif
