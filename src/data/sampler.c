// SPDX-License-Identifier: Apache-2.0
// BaseRandomBatchSampler: a pass over the rows is a permutation, cut at the cursor and dealt out to
// the ranks.
#include "data/sampler.h"

#include "base/rng.h"

struct lt_sampler {
    lt_sampler_opts o;
    int64_t whole;    // A: rows of an epoch that fill global micro-batches
    int64_t consumed; // c
    int64_t *perm;    // [n_perm] of the epoch `perm_epoch`
    int64_t n_perm, perm_epoch;
    int64_t at, step, base; // this pass: next index into perm, stride, offset of the rank's share
    bool in_pass;
};

lt_sampler_opts lt_sampler_opts_default(void)
{
    return (lt_sampler_opts){.micro_batch = 1, .dp_size = 1, .shuffle = true};
}

static lt_status check(const lt_sampler_opts *o)
{
    int64_t global = 0;
    if (o->n_samples < 1 || o->micro_batch < 1 || o->dp_size < 1) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "sampler: %lld samples, micro-batch %lld and %lld ranks must all be at least 1",
            (long long)o->n_samples, (long long)o->micro_batch, (long long)o->dp_size);
    }
    if (o->dp_rank < 0 || o->dp_rank >= o->dp_size)
        return LT_FAIL(LT_ERR_CONFIG, "sampler: rank %lld is not among %lld ranks",
                       (long long)o->dp_rank, (long long)o->dp_size);
    if (!lt_mul_i64(o->micro_batch, o->dp_size, &global) || o->n_samples < global) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "the data set is smaller than one global micro-batch: %lld samples, "
                       "micro_batch_size %lld times %lld ranks",
                       (long long)o->n_samples, (long long)o->micro_batch, (long long)o->dp_size);
    }
    if (o->consumed < 0)
        return LT_FAIL(LT_ERR_CONFIG, "sampler: consumed samples must not be negative, got %lld",
                       (long long)o->consumed);
    return LT_OK;
}

lt_status lt_sampler_create(const lt_sampler_opts *opts, const lt_log *log, lt_sampler **out)
{
    void *memory = NULL;
    LT_TRY(check(opts));
    const int64_t global = opts->micro_batch * opts->dp_size, rest = opts->n_samples % global;
    if (rest != 0 && opts->dp_size > 1 && !opts->even && !opts->data_sharding) {
        LT_WARN(log, "data",
                "%lld samples are no multiple of micro_batch_size %lld times %lld ranks: some "
                "ranks get one batch more in an "
                "epoch and part from the others; lathe's even mode leaves the last %lld samples "
                "out instead",
                (long long)opts->n_samples, (long long)opts->micro_batch, (long long)opts->dp_size,
                (long long)rest);
    }
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_sampler), "sampler"));
    lt_sampler *s = memory;
    s->o = *opts;
    s->whole = opts->n_samples - rest;
    s->consumed = opts->consumed;
    s->perm_epoch = -1;
    const int64_t units =
        opts->data_sharding ? opts->n_samples / global : opts->n_samples / opts->micro_batch;
    s->n_perm = opts->even && !opts->data_sharding ? s->whole : units * opts->micro_batch;
    const lt_status st = lt_mem_alloc(&memory, (size_t)s->n_perm * sizeof(int64_t), "sample order");
    if (st != LT_OK) {
        lt_sampler_destroy(s);
        return st;
    }
    s->perm = memory;
    *out = s;
    return LT_OK;
}

void lt_sampler_destroy(lt_sampler *sampler)
{
    if (sampler == NULL)
        return;
    lt_mem_free(sampler->perm);
    lt_mem_free(sampler);
}

/** A pass begins at the cursor: its epoch seeds the permutation, its offset is skipped. */
static void begin_pass(lt_sampler *s)
{
    const int64_t epoch = s->consumed / s->whole, offset = s->consumed % s->whole;
    if (epoch != s->perm_epoch) {
        if (s->o.shuffle)
            lt_randperm(s->n_perm, (uint64_t)epoch, s->perm);
        for (int64_t i = 0; i < s->n_perm && !s->o.shuffle; i++)
            s->perm[i] = i;
        s->perm_epoch = epoch;
    }
    s->at = s->o.data_sharding ? offset / s->o.dp_size : offset + s->o.dp_rank;
    s->step = s->o.data_sharding ? 1 : s->o.dp_size;
    s->base = s->o.data_sharding ? s->o.dp_rank * s->n_perm : 0;
    s->in_pass = true;
}

/** Whether the pass still holds a full micro-batch. */
static bool holds_one(const lt_sampler *s)
{
    return s->at + (s->o.micro_batch - 1) * s->step < s->n_perm;
}

lt_status lt_sampler_next(lt_sampler *s, int64_t *rows)
{
    if (!s->in_pass || !holds_one(s))
        begin_pass(s);
    if (!holds_one(s)) { // the cursor hasn't moved, so no later pass would do better
        return LT_FAIL(
            LT_ERR_CONFIG,
            "no full micro-batch is left in the epoch after %lld consumed samples, and the epoch "
            "cannot end: with %lld "
            "samples, micro_batch_size %lld and %lld ranks a run stops at multiples of %lld",
            (long long)s->consumed, (long long)s->o.n_samples, (long long)s->o.micro_batch,
            (long long)s->o.dp_size, (long long)(s->o.micro_batch * s->o.dp_size));
    }
    for (int64_t i = 0; i < s->o.micro_batch; i++, s->at += s->step)
        rows[i] = s->base + s->perm[s->at];
    s->consumed += s->o.micro_batch * s->o.dp_size;
    return LT_OK;
}

int64_t lt_sampler_micro_batch(const lt_sampler *sampler)
{
    return sampler->o.micro_batch;
}

int64_t lt_sampler_consumed(const lt_sampler *sampler)
{
    return sampler->consumed;
}

int64_t lt_sampler_epoch(const lt_sampler *sampler)
{
    return sampler->consumed / sampler->whole;
}
