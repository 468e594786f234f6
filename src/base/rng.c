// SPDX-License-Identifier: Apache-2.0
// MT19937 as torch's CPU generator draws from it, and Philox 4x32-10.
#include "base/rng.h"
#include <math.h>

enum { MT_N = 624, MT_M = 397 };

void lt_mt19937_seed(lt_mt19937 *g, uint64_t seed)
{
    g->mt[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT_N; i++)
        g->mt[i] = 1812433253U * (g->mt[i - 1] ^ (g->mt[i - 1] >> 30)) + i;
    g->next = MT_N;
}

static uint32_t twist(uint32_t far, uint32_t a, uint32_t b)
{
    const uint32_t y = (a & 0x80000000U) | (b & 0x7fffffffU);
    return far ^ (y >> 1) ^ ((b & 1U) != 0 ? 0x9908b0dfU : 0U);
}

static void next_block(lt_mt19937 *g)
{
    uint32_t *mt = g->mt;
    int i = 0;
    for (; i < MT_N - MT_M; i++)
        mt[i] = twist(mt[i + MT_M], mt[i], mt[i + 1]);
    for (; i < MT_N - 1; i++)
        mt[i] = twist(mt[i + MT_M - MT_N], mt[i], mt[i + 1]);
    mt[MT_N - 1] = twist(mt[MT_M - 1], mt[MT_N - 1], mt[0]);
    g->next = 0;
}

uint32_t lt_mt19937_next(lt_mt19937 *g)
{
    if (g->next >= MT_N)
        next_block(g);
    uint32_t y = g->mt[g->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

static uint64_t next_64(lt_mt19937 *g)
{
    const uint64_t high = lt_mt19937_next(g);
    return high << 32 | lt_mt19937_next(g);
}

// torch changes its method at UINT32_MAX / 20 items, where the bias of a 32-bit remainder would
// begin to show.
void lt_randperm(int64_t n, uint64_t seed, int64_t *out)
{
    const int64_t few = UINT32_MAX / 20;
    lt_mt19937 g;
    lt_mt19937_seed(&g, seed);
    if (n >= few) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t z = (int64_t)(next_64(&g) % (uint64_t)(i + 1));
            out[i] = i;
            out[i] = out[z];
            out[z] = i;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        const int64_t z = i + (int64_t)(lt_mt19937_next(&g) % (uint64_t)(n - i));
        const int64_t was = out[i];
        out[i] = out[z];
        out[z] = was;
    }
}

void lt_philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xd2511f53U * c0, p1 = (uint64_t)0xcd9e8d57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9U;
        k1 += 0xbb67ae85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static uint64_t top_53(uint32_t low, uint32_t high)
{
    return ((uint64_t)high << 32 | low) >> 11;
}

// The two streams of one key take their counters from different halves, so they are independent.
enum { NORMAL_STREAM = 0, UNIFORM_STREAM = 1 };

double lt_normal(uint64_t key, uint64_t i)
{
    uint32_t w[4];
    lt_philox(key, NORMAL_STREAM, i, w);
    const double radius = ((double)top_53(w[0], w[1]) + 1.0) * 0x1p-53; // (0, 1]
    const double turn = (double)top_53(w[2], w[3]) * 0x1p-53;
    return sqrt(-2.0 * log(radius)) * cos(6.283185307179586476925 * turn);
}

double lt_uniform(uint64_t key, uint64_t i)
{
    uint32_t w[4];
    lt_philox(key, UNIFORM_STREAM, i, w);
    return (double)top_53(w[0], w[1]) * 0x1p-53;
}

uint64_t lt_rng_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (int i = 0; i < 8; i++)
        h = (h ^ (seed >> (8 * i) & 0xffU)) * 0x100000001b3U;
    for (const char *c = name; *c; c++)
        h = (h ^ (uint8_t)*c) * 0x100000001b3U;
    return h;
}
