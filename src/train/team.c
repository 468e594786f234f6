// SPDX-License-Identifier: Apache-2.0
// Ranks as threads or processes, each with its place in the mesh.
#include "train/team.h"

#include "base/memory.h"
#include "comm/local.h"

#include <math.h>

typedef struct job {
    const lt_config *cfg;
    lt_team_fn fn;
    void *ctx;
} job;

static lt_status run_rank(void *ctx, lt_group *world)
{
    const job *j = ctx;
    const lt_cfg_parallel *p = &j->cfg->parallel;
    const lt_mesh_sizes sizes = {.dp_replicate = j->cfg->sizes.dp_replicate,
                                 .dp_shard = j->cfg->sizes.dp_shard,
                                 .ulysses = p->ulysses_parallel_size,
                                 .ring = p->ring_attention_size,
                                 .tp = p->tensor_parallel_size};
    lt_ranks ranks;
    LT_TRY(lt_ranks_open(world, &sizes, &ranks));
    const lt_status st = j->fn(j->ctx, &ranks);
    lt_ranks_close(&ranks);
    return st;
}

// All ranks have been given the same configuration.
static lt_status compare(const lt_config *cfg, lt_group *world)
{
    lt_buf text = {0};
    lt_status st = lt_config_print(cfg, &text);
    if (st == LT_OK)
        st = lt_same_text(world, "the configuration", text.data);
    lt_buf_deinit(&text);
    return st;
}

lt_status lt_team_run(const lt_config *cfg, lt_group *world, lt_team_fn fn, void *ctx)
{
    job j = {cfg, fn, ctx};
    if (cfg->sizes.world <= 1)
        return fn(ctx, NULL);
    if (world) {
        LT_TRY(compare(cfg, world));
        return run_rank(&j, world);
    }
    return lt_local_run(lt_int(cfg->sizes.world), run_rank, &j);
}

lt_ranks lt_team_first(const lt_config *cfg)
{
    return (lt_ranks){.size = lt_int(cfg->sizes.world),
                      .dp_size = lt_int(cfg->sizes.dp),
                      .sharing = {lt_int(cfg->sizes.world), lt_int(cfg->sizes.world)},
                      .shard = {lt_int(cfg->sizes.dp_shard), 0}};
}

lt_status lt_team_sum(const lt_ranks *r, lt_team_counts *c)
{
    double v[] = {c->failed, c->targets, c->labels, c->tokens, c->patches, c->flops};
    LT_TRY(lt_all_reduce_f64(r ? r->world : NULL, v, sizeof v / sizeof v[0]));
    *c = (lt_team_counts){v[0], v[1], v[2], v[3], v[4], v[5]};
    return LT_OK;
}

// Each rank has a place of its own in a sum.
lt_status lt_team_most(const lt_ranks *r, double *value)
{
    void *memory = NULL;
    const int32_t n = r ? r->size : 1;
    if (n == 1)
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * sizeof(double), "figures of ranks"));
    double *all = memory;
    for (int32_t i = 0; i < n; i++)
        all[i] = i == r->rank ? *value : 0.0;
    const lt_status st = lt_all_reduce_f64(r->world, all, n);
    for (int32_t i = 0; i < n && st == LT_OK; i++)
        *value = fmax(*value, all[i]);
    lt_mem_free(memory);
    return st;
}

static void put_named(void *ctx, lt_log_level level, const char *area, const char *text)
{
    const lt_rank_log *l = ctx;
    if (l->name)
        lt_log_write(l->to, level, area, "%s: %s", l->name, text);
    else
        lt_log_write(l->to, level, area, "%s", text);
}

void lt_rank_log_init(lt_rank_log *out, const lt_ranks *r, const lt_log *to)
{
    *out = (lt_rank_log){
        .log = {put_named, out}, .to = to, .name = lt_is_first(r) ? NULL : lt_group_name(r->world)};
}

lt_status lt_team_add(const lt_ranks *r, double *value)
{
    return lt_all_reduce_f64(r ? r->world : NULL, value, 1);
}

lt_status lt_team_any(const lt_ranks *r, bool *yes)
{
    double n = *yes ? 1.0 : 0.0;
    LT_TRY(lt_team_add(r, &n));
    *yes = n > 0.0;
    return LT_OK;
}
