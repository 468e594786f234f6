// SPDX-License-Identifier: Apache-2.0
// The memory of a training step, from the planner alone: no device, no weights.
#ifndef LT_BENCH_STEP_PLAN_H
#define LT_BENCH_STEP_PLAN_H

#include "plan/program.h"

/**
 * Prints one JSON line: the state by part, the step pool, and what fills it at its peak. With
 * `details` also, on stderr, what each kind of block saves and how large its workspaces are.
 */
LT_NODISCARD lt_status bench_print_plan(const char *size, const char *policy,
                                        const lt_state_layout *state, const lt_program *p,
                                        bool details);
#endif
