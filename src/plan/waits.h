// SPDX-License-Identifier: Apache-2.0
// Which actions wait for which.
#ifndef LT_PLAN_WAITS_H
#define LT_PLAN_WAITS_H

#include "plan/program.h"

/** Fills p->waits: as few as make every conflicting pair ordered. Offsets are set. */
LT_NODISCARD lt_status lt_place_waits(lt_program *p);
#endif
