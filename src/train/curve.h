// SPDX-License-Identifier: Apache-2.0
// A curve as an SVG picture.
#ifndef LT_TRAIN_CURVE_H
#define LT_TRAIN_CURVE_H

#include "base/text.h"

typedef struct lt_curve_point {
    double x, y;
} lt_curve_point;

/**
 * points[0..n) as a thin line, and their running mean as a thick one, with axes from round numbers.
 * Points that are not finite
 * leave a gap. out: appended, a whole SVG document
 */
LT_NODISCARD lt_status lt_curve_svg(const lt_curve_point *points, int64_t n, const char *title,
                                    lt_buf *out);
#endif
