// SPDX-License-Identifier: Apache-2.0
// Micro-batches of a step, and what ranks agree on before it.
#include "train/feeder.h"

#include "train/from_config.h"

#include <stdio.h>

lt_feeder lt_feeder_of(const lt_config *cfg, const lt_model *model, const lt_ranks *ranks,
                       const lt_log *log, int64_t n)
{
    return (lt_feeder){.ranks = ranks,
                       .model = model,
                       .log = log,
                       .loss = lt_config_loss(cfg),
                       .next_scale = cfg->model.mtp_loss_scaling_factor,
                       .balance = lt_balance_weight(cfg->features.loss_cfg.router_aux_loss_coef,
                                                    &model->config.text.moe, n * lt_streams(ranks)),
                       .n = n};
}

lt_status lt_feeder_open(lt_feeder *f, lt_arena *arena)
{
    const size_t n = (size_t)f->n;
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, n * sizeof(lt_batch *), &memory));
    f->batch = memory;
    LT_TRY(lt_arena_take(arena, n * sizeof(lt_batch_view), &memory));
    f->view = memory;
    LT_TRY(lt_arena_take(arena, n * sizeof(float *), &memory));
    f->kappa = memory;
    LT_TRY(lt_arena_take(arena, n * sizeof(int64_t), &memory));
    f->room = memory;
    return LT_OK;
}

void lt_feeder_close(lt_feeder *f)
{
    for (int64_t i = 0; f->kappa && i < f->n; i++)
        lt_mem_free(f->kappa[i]);
}

static lt_status want_kappa(lt_feeder *f, int64_t i, int64_t n)
{
    if (n <= f->room[i] && f->kappa[i])
        return LT_OK;
    void *memory = f->kappa[i];
    const lt_status st =
        lt_mem_resize(&memory, (size_t)lt_max_i64(n, 1) * 2 * sizeof(float), "loss weights");
    f->kappa[i] = memory;
    f->room[i] = n;
    return st;
}

static lt_loader *loader_of(const lt_feeder *f, int64_t i)
{
    return f->loaders[i % f->n_loaders];
}

static lt_status acquire(lt_feeder *f)
{
    for (int64_t i = 0; i < f->n; i++) {
        LT_TRY(lt_loader_acquire(loader_of(f, i), &f->batch[i]));
        LT_TRY(want_kappa(f, i, f->batch[i]->n_targets));
        f->view[i] = lt_feed_view(f->batch[i], f->kappa[i]);
        f->view[i].value[LT_BATCH_BALANCE].data = &f->balance;
        f->view[i].value[LT_BATCH_NEXT_KAPPA].data = f->kappa[i] + f->batch[i]->n_targets;
    }
    return LT_OK;
}

static lt_team_counts count_batches(const lt_feeder *f)
{
    const lt_loss_counts losses = lt_count_losses(f->batch, f->n);
    lt_team_counts c = {.targets = (double)losses.targets, .labels = (double)losses.labels};
    lt_work work = {0};
    for (int64_t i = 0; i < f->n; i++) {
        c.tokens += (double)f->batch[i]->n_tokens;
        c.patches += (double)f->batch[i]->n_patches;
        lt_work_add(&work, &f->view[i]);
    }
    c.flops = lt_model_flops(f->model, &work).step;
    return c;
}

// The step's batches of this rank; what those of all ranks hold. A rank whose data are bad says so,
// so that all stop at the same step.
static lt_status agree(lt_feeder *f, lt_status acquired)
{
    char message[4096];
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    f->counts = acquired == LT_OK ? count_batches(f) : (lt_team_counts){.failed = 1.0};
    f->own_tokens = (int64_t)f->counts.tokens;
    LT_TRY(lt_team_sum(f->ranks, &f->counts));
    if (acquired != LT_OK)
        return lt_error_adopt(acquired, message);
    return f->counts.failed > 0.0
               ? LT_FAIL(LT_ERR_CANCELLED, "another rank has no batch for the step")
               : LT_OK;
}

lt_status lt_feeder_fetch(lt_feeder *f, int64_t number)
{
    LT_TRY(agree(f, acquire(f)));
    const lt_loss_counts counts = {.targets = (int64_t)f->counts.targets,
                                   .labels = (int64_t)f->counts.labels};
    if (counts.targets == 0 && !f->warned_silent) {
        f->warned_silent = true;
        LT_WARN(f->log, "data",
                "step %lld has no token that carries loss: its loss is 0 and it teaches nothing "
                "(template, mask_history, cutoff_len?)",
                (long long)number);
    }
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t n = f->n * lt_streams(f->ranks);
        lt_loss_weights(f->loss, f->batch, n, &counts, i, f->kappa[i]);
        lt_next_weights(f->loss, f->batch, n, &counts, i, f->next_scale,
                        f->kappa[i] + f->batch[i]->n_targets);
    }
    return LT_OK;
}

void lt_feeder_release(lt_feeder *f)
{
    if (!f->n_loaders || !f->batch)
        return;
    for (int64_t i = 0; i < f->n; i++)
        if (f->batch[i])
            lt_loader_release(loader_of(f, i), f->batch[i]);
    for (int64_t i = 0; i < f->n; i++)
        f->batch[i] = NULL;
}
