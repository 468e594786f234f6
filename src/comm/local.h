// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process.
#ifndef LT_COMM_LOCAL_H
#define LT_COMM_LOCAL_H

#include "comm/comm.h"

enum { LT_MAX_LOCAL_RANKS = 64 };

/** One rank's work. `world` ends when it returns. */
typedef lt_status (*lt_rank_fn)(void *ctx, lt_group *world);

/**
 * Run fn on n ranks, each a thread, and wait for all. When one fails, every other that waits or
 * comes to wait in a collective fails too, so that none hangs.
 * errors   that of the first rank to fail, "rank 2 of 4: " in front of its message
 */
LT_NODISCARD lt_status lt_local_run(int32_t n, lt_rank_fn fn, void *ctx);
#endif
