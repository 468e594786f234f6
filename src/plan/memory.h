// SPDX-License-Identifier: Apache-2.0
// The step pool: how long each buffer lives, and where it lies.
#ifndef LT_PLAN_MEMORY_H
#define LT_PLAN_MEMORY_H

#include "plan/program.h"

/**
 * Puts a FREE behind the last user of every activation, sets lifetimes, offsets and p->step_bytes,
 * and
 * fills p->work_buffer. Actions and accesses are complete.
 */
LT_NODISCARD lt_status lt_program_lay_out(lt_program *p);
#endif
