// SPDX-License-Identifier: Apache-2.0
// Segments by their lengths.
#include "op/attention_groups.h"
#include "base/status.h"
#include "tensor/tensor.h"

static int64_t power_below(int64_t n) // the largest power of two that is at most n
{
    int64_t p = 1;
    while (p <= n / 2)
        p *= 2;
    return p;
}

int64_t lt_attention_length(int64_t tokens)
{
    enum { STEPS = 16, LEAST_STEP = 64 };
    if (tokens <= LT_ATTENTION_TILE)
        return LT_ATTENTION_TILE;
    return lt_round_up(tokens, lt_max_i64(power_below(tokens) / STEPS, LEAST_STEP));
}

// 1, 2, 3, 4, 6, 8, 12, 16, ...: at most half more
static int64_t batch_of(int64_t n)
{
    const int64_t p = power_below(n);
    return n == p ? p : n <= p + p / 2 ? p + p / 2 : 2 * p;
}

static int64_t longest(const int32_t *segments, int64_t n, int64_t most)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = segments[i + 1] - segments[i];
        if (length <= most)
            found = lt_max_i64(found, length);
    }
    return found;
}

static int64_t count(const int32_t *segments, int64_t n, int64_t above, int64_t most)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = segments[i + 1] - segments[i];
        found += above < length && length <= most;
    }
    return found;
}

int lt_attention_groups(const int32_t *segments, int64_t n,
                        lt_attention_group groups[LT_MAX_ATTENTION_GROUPS])
{
    int n_groups = 0;
    for (int64_t most = longest(segments, n, INT32_MAX); most > 0;) {
        LT_ASSERT(n_groups < LT_MAX_ATTENTION_GROUPS);
        const int64_t above = most <= LT_ATTENTION_TILE ? 0 : most - most / 4 - 1;
        lt_attention_group *g = &groups[n_groups++];
        g->above = above;
        g->most = most;
        g->n = count(segments, n, above, most);
        g->batch = batch_of(g->n);
        g->length = lt_attention_length(most);
        most = longest(segments, n, above);
    }
    return n_groups;
}

lt_attention_group lt_attention_short_group(const int32_t *segments, int64_t n)
{
    lt_attention_group g = {.above = 0, .most = LT_ATTENTION_TILE, .length = LT_ATTENTION_TILE};
    g.n = count(segments, n, g.above, g.most);
    g.batch = g.n > 0 ? batch_of(g.n) : 0;
    return g;
}

int64_t lt_attention_equal_length(const int32_t *segments, int64_t n)
{
    const int64_t length = n > 0 ? segments[1] - segments[0] : 0;
    if (length == 0 || length % LT_ATTENTION_TILE != 0)
        return 0;
    for (int64_t i = 1; i < n; i++)
        if (segments[i + 1] - segments[i] != length)
            return 0;
    return length;
}

int64_t lt_attention_most_short(int64_t n)
{
    return (n + n / 2 + 1) * LT_ATTENTION_TILE;
}

// A group of short ones: at most 3/2 n sequences of a tile. Another: n' sequences longer than 3/4
// of the longest, m, so n' m <= 4/3 tokens; its batch is at most 3/2 n' (n' for one or two), its
// length at most m + max(m / 16, 63).
int64_t lt_attention_most_padded(int64_t tokens, int64_t n)
{
    return lt_max_i64(lt_attention_most_short(n), 3 * tokens + LT_ATTENTION_TILE);
}
