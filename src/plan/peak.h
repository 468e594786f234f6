// SPDX-License-Identifier: Apache-2.0
// The peak of a step's memory: when it is, and what fills it.
#ifndef LT_PLAN_PEAK_H
#define LT_PLAN_PEAK_H

#include "plan/program.h"

typedef struct lt_peak {
    int32_t action; /* the action at which most bytes are alive */
    int64_t alive;  /* bytes alive then: at most program->step_bytes, which packing may exceed */
    int64_t kind[LT_N_BUFFER_KINDS]; /* alive bytes by kind */
} lt_peak;
lt_peak lt_program_peak(const lt_program *p);
/** "block outputs", "saved values", ... */
const char *lt_buffer_kind_name(lt_buffer_kind kind);
#endif
