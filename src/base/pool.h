// SPDX-License-Identifier: Apache-2.0
// The thread pool: a parallel loop over indices. What an index computes never depends on which
// thread takes it.
#ifndef LT_BASE_POOL_H
#define LT_BASE_POOL_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lt_pool lt_pool;
/**
 * n_threads counts the caller, who works too; 0 = the CPUs this process may use (affinity,
 * container quota).
 */
LT_NODISCARD lt_status lt_pool_create(int n_threads, lt_pool **out);
void lt_pool_destroy(lt_pool *pool);
int lt_pool_threads(const lt_pool *pool);
/**
 * Call fn(ctx, i, thread) for each i in [0, n); returns when all are done. thread in [0,
 * lt_pool_threads).
 * Indices are handed out one by one. A NULL pool, a call from inside a loop, or one made while
 * another thread's loop has the pool, runs on the caller alone (as thread 0).
 * errors   the failure of the lowest failing index, its message included; the other indices still
 *          run or are skipped
 */
typedef lt_status (*lt_pool_fn)(void *ctx, int64_t i, int thread);
LT_NODISCARD lt_status lt_pool_run(lt_pool *pool, int64_t n, lt_pool_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
