// SPDX-License-Identifier: Apache-2.0
// Trying changes on paper, alone and together.
#include "train/advise.h"

#include "plan/policy.h"

#include <string.h>

/* ---- the changes ---- */

typedef enum keeping { AS_IS, MIXED, ALL_LEAN, ALL_FULL, N_KEEPINGS } keeping;

typedef struct change {
    keeping keep;
    bool offload; /* inputs of blocks that keep nothing else, on top of what is there */
} change;

// A change that was tried.
typedef struct way {
    change c;
    lt_trial t;
    lt_buf text; /* the keys to set */
} way;

typedef struct adviser {
    lt_engine *e;
    const lt_extents *batch;
    const lt_rates *rates;
    const lt_trial *now;
    int64_t limit;
    lt_policy *policy; /* [n_blocks] of the run as it is */
    bool *offload;     /* the same, or NULL */
    bool *own_offload; /* [n_blocks] */
    lt_vec ways;       /* way */
} adviser;

static void restore(adviser *a)
{
    lt_engine *e = a->e;
    memcpy(e->policy, a->policy, (size_t)e->model->n_blocks * sizeof(lt_policy));
    e->offload = a->offload;
}

static lt_status apply(adviser *a, change c)
{
    lt_engine *e = a->e;
    restore(a);
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        if (c.keep == ALL_LEAN || c.keep == ALL_FULL)
            e->policy[b] = c.keep == ALL_LEAN ? LT_LEAN : LT_FULL;
    if (c.keep == MIXED) {
        e->offload = a->own_offload;
        memset(e->offload, 0, (size_t)e->model->n_blocks * sizeof(bool));
        return lt_trial_choose(e, a->batch, a->limit, a->rates);
    }
    if (!c.offload)
        return LT_OK;
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        a->own_offload[b] = lt_is_decoder_layer(&e->model->blocks[b]) && e->policy[b] == LT_FULL;
    e->offload = a->own_offload;
    return LT_OK;
}

static bool any(const bool *flags, int32_t n)
{
    for (int32_t i = 0; flags && i < n; i++)
        if (flags[i])
            return true;
    return false;
}

static lt_status name_change(const adviser *a, change c, lt_buf *out)
{
    const char *comma = "";
    if (c.keep != AS_IS) {
        LT_TRY(lt_buf_text(out, "lathe.policy: "));
        LT_TRY(lt_trial_policy_text(a->e, out));
        comma = ", ";
    }
    if (a->e->offload != a->offload && any(a->e->offload, a->e->model->n_blocks))
        LT_TRY(lt_buf_printf(out, "%sfeatures.enable_activation_offload: true (of layers)", comma));
    return LT_OK;
}

/* ---- trying them ---- */

static bool same_text(const adviser *a, const lt_buf *text)
{
    for (int64_t i = 0; i < a->ways.n; i++)
        if (strcmp(LT_AT(&a->ways, way, i).text.data, text->data) == 0)
            return true;
    return false;
}

static lt_status try_change(adviser *a, change c)
{
    way w = {.c = c};
    lt_status st = apply(a, c);
    if (st == LT_OK)
        st = lt_trial_run(a->e, a->batch, a->rates, &w.t);
    if (st == LT_OK)
        st = name_change(a, c, &w.text);
    if (st == LT_OK && w.text.data && !same_text(a, &w.text) && w.t.device < a->now->device) {
        st = lt_vec_push(&a->ways, &w);
        if (st == LT_OK)
            return st;
    }
    lt_buf_deinit(&w.text);
    return st;
}

static lt_status try_all(adviser *a)
{
    for (int keep = AS_IS; keep < N_KEEPINGS; keep++)
        for (int offload = 0; offload < 2; offload++)
            LT_TRY(try_change(a, (change){(keeping)keep, offload}));
    return LT_OK;
}

/* ---- saying so ---- */

static bool is_better(const adviser *a, const way *x, const way *y)
{
    const bool fits = x->t.device <= a->limit, other = y->t.device <= a->limit;
    if (fits != other)
        return fits;
    return fits ? x->t.step_s < y->t.step_s : x->t.device < y->t.device;
}

static void sort(const adviser *a)
{
    way *w = a->ways.data;
    for (int64_t i = 1; i < a->ways.n; i++) {
        for (int64_t k = i; k > 0 && is_better(a, &w[k], &w[k - 1]); k--) {
            const way x = w[k];
            w[k] = w[k - 1];
            w[k - 1] = x;
        }
    }
}

static lt_status print_way(const adviser *a, const way *w, lt_buf *out)
{
    const double more = w->t.step_s - a->now->step_s;
    LT_TRY(lt_buf_printf(out, "  %s: %s, step %+.0f ms (%+.1f %%)", w->text.data,
                         lt_bytes_text(w->t.device).s, more * 1e3, more / a->now->step_s * 100.0));
    if (w->t.host > a->now->host)
        LT_TRY(lt_buf_printf(out, ", %s on the host", lt_bytes_text(w->t.host).s));
    return lt_buf_text(out, "\n");
}

// The fewest ranks, by doubling, under the change that needs least.
static lt_status print_ranks(adviser *a, change c, lt_buf *out)
{
    enum { MOST = 4096 };
    lt_engine *e = a->e;
    const lt_ranks *own = e->ranks;
    lt_ranks more = own ? *own : (lt_ranks){.size = 1, .dp_size = 1, .shard = {1, 0}};
    lt_trial t = {.device = INT64_MAX};
    lt_status st = apply(a, c);
    while (st == LT_OK && t.device > a->limit && more.size < MOST) {
        more.size *= 2;
        more.dp_size *= 2;
        more.shard.size = more.shard.size > 1 ? more.shard.size * 2 : more.size;
        e->ranks = &more;
        st = lt_trial_run(e, a->batch, a->rates, &t);
    }
    e->ranks = own;
    LT_TRY(st);
    if (t.device <= a->limit) {
        return lt_buf_printf(out,
                             "  with that, %d ranks (each with a micro-batch of its own) need "
                             "%s each\n",
                             more.size, lt_bytes_text(t.device).s);
    }
    return lt_buf_text(out, "  more ranks alone do not help: shorten cutoff_len or lower "
                            "micro_batch_size\n");
}

static lt_status print_ways(adviser *a, lt_buf *out)
{
    enum { MOST = 4 };
    const way *w = a->ways.data;
    int64_t n = 0;
    while (n < a->ways.n && n < MOST && w[n].t.device <= a->limit)
        n++;
    if (n > 0)
        LT_TRY(lt_buf_text(out, "changes that make it fit, cheapest first:\n"));
    for (int64_t i = 0; i < n; i++)
        LT_TRY(print_way(a, &w[i], out));
    if (n > 0)
        return LT_OK;
    LT_TRY(lt_buf_text(out, "no change of these settings makes it fit"));
    if (a->ways.n > 0) {
        LT_TRY(lt_buf_text(out, "; the nearest:\n"));
        LT_TRY(print_way(a, &w[0], out));
    } else {
        LT_TRY(lt_buf_text(out, "\n"));
    }
    return print_ranks(a, a->ways.n > 0 ? w[0].c : (change){AS_IS, false}, out);
}

static lt_status advise(adviser *a, lt_buf *out)
{
    const int32_t n = a->e->model->n_blocks;
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * (sizeof(lt_policy) + sizeof(bool)), "advice"));
    a->policy = memory;
    a->own_offload = (bool *)(a->policy + n);
    a->offload = a->e->offload;
    memcpy(a->policy, a->e->policy, (size_t)n * sizeof(lt_policy));
    lt_status st = try_all(a);
    sort(a);
    if (st == LT_OK)
        st = print_ways(a, out);
    restore(a);
    lt_mem_free(memory);
    return st;
}

lt_status lt_advise(lt_engine *e, const lt_extents *batch, int64_t limit, const lt_rates *rates,
                    const lt_trial *now, lt_buf *out)
{
    adviser a = {
        .e = e, .batch = batch, .rates = rates, .now = now, .limit = limit, .ways = LT_VEC_OF(way)};
    const lt_status st = advise(&a, out);
    for (int64_t i = 0; i < a.ways.n; i++)
        lt_buf_deinit(&LT_AT(&a.ways, way, i).text);
    lt_vec_deinit(&a.ways);
    return st;
}
