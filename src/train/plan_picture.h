// SPDX-License-Identifier: Apache-2.0
// The memory of a step over its time, as a picture.
#ifndef LT_TRAIN_PLAN_PICTURE_H
#define LT_TRAIN_PLAN_PICTURE_H

#include "plan/cost.h"

typedef struct lt_plan_picture {
    const lt_program *program;
    const int64_t *state_part; /* [LT_N_STATE_PARTS] bytes on the device */
    int64_t batch;             /* bytes of batches that lie apart */
    int64_t limit;             /* what the device has; 0: not drawn */
    const double *begin_s;     /* [actions] */
    const char *title;
} lt_plan_picture;

/** Append an SVG: what is alive at each moment, in layers. */
LT_NODISCARD lt_status lt_plan_picture_svg(const lt_plan_picture *p, lt_buf *out);
#endif
