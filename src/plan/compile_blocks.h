// SPDX-License-Identifier: Apache-2.0
// Compiling the blocks of a program, equal ones once.
#ifndef LT_PLAN_COMPILE_BLOCKS_H
#define LT_PLAN_COMPILE_BLOCKS_H

#include "plan/program.h"

/** Fills p->compiled and p->owned. */
LT_NODISCARD lt_status lt_compile_blocks(lt_program *p, const lt_policy *policy, const bool *needs);
/** Whether the mode runs the block at all. */
bool lt_program_uses(const lt_program *p, int32_t block);
#endif
