// SPDX-License-Identifier: Apache-2.0
// Random numbers: the generator of torch's CPU (MT19937, randperm) for sample order, and a
// counter-based one (Philox 4x32-10)
// for everything inside lathe, where a number depends on its key and index alone.
#ifndef LT_BASE_RNG_H
#define LT_BASE_RNG_H

#include "base/status.h"

typedef struct lt_mt19937 {
    uint32_t mt[624];
    int32_t next; /* draws taken from the present block */
} lt_mt19937;
void lt_mt19937_seed(lt_mt19937 *g, uint64_t seed); /* low 32 bits, as torch does */
uint32_t lt_mt19937_next(lt_mt19937 *g);
/** torch.randperm(n) of a CPU generator with that seed. out: int64 [n] */
void lt_randperm(int64_t n, uint64_t seed, int64_t *out);

/** Philox 4x32-10 (Salmon et al. 2011): four words for (key, counter). */
void lt_philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4]);
/** Standard normal number i of stream `key` (Box-Muller on Philox words, computed in double). */
double lt_normal(uint64_t key, uint64_t i);
/** Uniform in [0, 1) with 53 bits, number i of stream `key`. */
double lt_uniform(uint64_t key, uint64_t i);
/**
 * A key from a seed and a name (FNV-1a, 64 bits): parameter initialisation does not depend on
 * order.
 */
uint64_t lt_rng_key(uint64_t seed, const char *name);
#endif
