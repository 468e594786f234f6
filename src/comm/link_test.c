// SPDX-License-Identifier: Apache-2.0
#include "comm/link.h"

#include "base/rng.h"
#include "comm/local.h"
#include "tests/kit/lt_test.h"

#include <string.h>

enum { N = 700, PARTS = 3 };

// Sizes that divide, that do not, and of which late ranks have nothing.
static const int64_t totals[PARTS] = {N, 11, 1}, chunks[2][PARTS] = {{350, 6, 1}, {234, 4, 1}};

typedef struct outcome {
    float gathered[PARTS][N], reduced[PARTS][N], summed[N];
} outcome;

typedef struct job {
    bool through_host;
    outcome *of; /* [ranks] */
} job;

static void fill(float *x, int32_t rank, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)lt_normal((uint64_t)rank + 3, (uint64_t)i);
}

static lt_status run_all(lt_link *l, lt_group *g, lt_stream *s, outcome *out)
{
    const int32_t n = lt_group_size(g), rank = lt_group_rank(g);
    float shard[PARTS][N];
    lt_pieces full[PARTS];
    for (int i = 0; i < PARTS; i++) {
        fill(shard[i], rank + 10 * i, chunks[n - 2][i]);
        full[i] = (lt_pieces){out->gathered[i], shard[i], totals[i], chunks[n - 2][i]};
    }
    LT_TRY(lt_link_all_gather(l, s, full, PARTS, LT_F32));
    for (int i = 0; i < PARTS; i++) {
        fill(out->reduced[i], rank + 20 * i, totals[i]);
        full[i].full = out->reduced[i];
    }
    LT_TRY(lt_link_reduce_scatter(l, s, full, PARTS, LT_F32));
    fill(out->summed, rank, N);
    const lt_pieces all = {.full = out->summed, .total = N};
    return lt_link_all_reduce(l, s, &all, 1, LT_F32);
}

static lt_status run_rank(void *ctx, lt_group *world)
{
    const job *j = ctx;
    lt_device *d = NULL;
    lt_stream *s = NULL;
    lt_link *l = NULL;
    lt_status st;
    LT_TRY_GOTO(st, lt_cpu_open(NULL, &d), done);
    LT_TRY_GOTO(st, d->stream_create(d, &s), done);
    LT_TRY_GOTO(st, lt_link_open(d, world, j->through_host, &l), done);
    if (lt_link_kind_of(l) != (j->through_host ? LT_LINK_THROUGH_HOST : LT_LINK_IN_PLACE))
        LT_TRY_GOTO(st, LT_FAIL(LT_ERR_INTERNAL, "the wrong kind of link"), done);
    LT_TRY_GOTO(st, run_all(l, world, s, &j->of[lt_group_rank(world)]), done);
done:
    lt_link_close(l);
    if (s)
        d->stream_destroy(d, s);
    lt_device_close(d);
    return st;
}

static void compare_ranks(const outcome *a, const outcome *b, int32_t n)
{
    for (int32_t r = 0; r < n; r++) {
        for (int i = 0; i < PARTS; i++) {
            const lt_pieces p = {.total = totals[i], .chunk = chunks[n - 2][i]};
            const lt_piece_range mine = lt_piece_of(&p, p.chunk, r);
            assert_memory_equal(a[r].gathered[i], b[r].gathered[i],
                                (size_t)totals[i] * sizeof(float));
            assert_memory_equal(a[r].reduced[i] + mine.first, b[r].reduced[i] + mine.first,
                                (size_t)mine.n * sizeof(float));
        }
        assert_memory_equal(a[r].summed, b[r].summed, sizeof a[r].summed);
    }
}

static void both_ways_bring_the_same_bits(void **state)
{
    (void)state;
    static outcome in_place[3], through_host[3];
    for (int32_t n = 2; n <= 3; n++) {
        job direct = {false, in_place}, staged = {true, through_host};
        assert_ok(lt_local_run(n, run_rank, &direct));
        assert_ok(lt_local_run(n, run_rank, &staged));
        compare_ranks(in_place, through_host, n);
        float want[N];
        fill(want, 1, chunks[n - 2][0]); // rank 1's shard of the first part
        assert_memory_equal(&through_host[0].gathered[0][chunks[n - 2][0]], want,
                            (size_t)chunks[n - 2][0] * sizeof(float));
    }
}

static void one_rank_has_no_link(void **state)
{
    (void)state;
    lt_device *d = NULL;
    lt_link *l = NULL;
    float x = 3.0F;
    const lt_pieces p = {.full = &x, .total = 1, .chunk = 1};
    assert_ok(lt_cpu_open(NULL, &d));
    assert_ok(lt_link_open(d, NULL, false, &l));
    assert_null(l);
    assert_ok(lt_link_all_reduce(l, NULL, &p, 1, LT_F32));
    assert_true(x == 3.0F);
    lt_link_close(l);
    lt_device_close(d);
}

LT_TEST_MAIN(LT_TEST(both_ways_bring_the_same_bits), LT_TEST(one_rank_has_no_link))
