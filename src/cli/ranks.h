// SPDX-License-Identifier: Apache-2.0
// This program as one of several that a launcher has started: mpirun -n 4 lathe train CONFIG.yaml.
#ifndef LT_CLI_RANKS_H
#define LT_CLI_RANKS_H

#include "comm/comm.h"

/** Join the other ranks, where there are any. Called once, before everything else. */
LT_NODISCARD lt_status lt_cli_join(void);
/** The group of all ranks; NULL where this program was started alone. */
lt_group *lt_cli_world(void);
bool lt_cli_is_first(void);
/**
 * The end of the program: tells the user why, on one rank alone, and takes the others along when
 * it is a failure. The exit code.
 */
int lt_cli_leave(lt_status st);
#endif
