// SPDX-License-Identifier: Apache-2.0
// A forecast in words: what a run's memory consists of, what its steps take, and what would help.
#ifndef LT_TRAIN_PLAN_TEXT_H
#define LT_TRAIN_PLAN_TEXT_H

#include "train/forecast.h"

typedef struct lt_plan_text {
    lt_engine *engine; /* its settings are tried out, and are as before in the end */
    const lt_forecast *forecast;
    const lt_rates *rates;
    int64_t memory; /* what the run may have; 0: no verdict */
} lt_plan_text;

/** Append the plan of a run, whose program is not NULL. */
LT_NODISCARD lt_status lt_plan_text_print(const lt_plan_text *p, lt_buf *out);
/** Append its picture as an SVG. */
LT_NODISCARD lt_status lt_plan_text_svg(const lt_plan_text *p, lt_buf *out);
#endif
