// SPDX-License-Identifier: Apache-2.0
// The print at the start of a run.
#include "train/start.h"

#include "base/file.h"
#include "device/gemm.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static lt_status print_parameters(const lt_engine *e, lt_buf *out)
{
    lt_vec rows = LT_VEC_OF(lt_param_count);
    lt_status st = lt_model_count(e->model, &rows);
    for (int64_t i = 0; st == LT_OK && i < rows.n; i++) {
        const lt_param_count *r = &LT_AT(&rows, lt_param_count, i);
        st = lt_buf_printf(out, "\n  %-28s %10s trained %10s frozen", r->module,
                           lt_count_text(r->trainable).s, lt_count_text(r->frozen).s);
    }
    lt_vec_deinit(&rows);
    return st;
}

static lt_status print_optimizer(const lt_engine *e, const lt_schedule *s, lt_buf *out)
{
    static const char *const decays[] = {"constant", "linear", "cosine"};
    static const char *const losses[] = {"raw", "default", "per_sample_loss", "per_token_loss"};
    const lt_cfg_training *t = &e->cfg->training;
    if (t->optimizer == LT_CFG_MUON) {
        LT_TRY(lt_buf_printf(out,
                             "\nMuon for matrices: momentum %g, %lld iterations, updates of size "
                             "%g; the rest by AdamW",
                             t->muon_momentum, (long long)t->ns_steps, t->matched_adamw_rms));
    }
    LT_TRY(lt_buf_printf(out,
                         "\nAdamW: lr %g (%s, %lld steps, warm-up %g), weight decay %g on every "
                         "parameter, betas %g %g, eps %g, clip %g",
                         s->lr, decays[s->decay], (long long)s->steps, s->warmup_ratio,
                         t->weight_decay, t->adam_beta1, t->adam_beta2, t->adam_eps, t->clip_grad));
    return lt_buf_printf(out, "\nloss %s; micro-batch %lld x %lld accumulated",
                         losses[e->cfg->features.loss_cfg.loss_type],
                         (long long)t->micro_batch_size, (long long)t->gradient_accumulation_steps);
}

static lt_status print_memory(const lt_forecast *f, int64_t n_steps, lt_buf *out)
{
    const lt_extents *x = &f->largest;
    if (!f->n_steps)
        return LT_OK;
    LT_TRY(lt_buf_printf(out,
                         "\nmemory: %s, of them %s for parameters, gradients and moments; the "
                         "largest batch has %lld tokens and %lld patches",
                         lt_bytes_text(f->state + f->step + f->batch).s, lt_bytes_text(f->state).s,
                         (long long)x->n[LT_EXT_TOKENS], (long long)x->n[LT_EXT_PATCHES]));
    return f->n_steps < n_steps ? lt_buf_printf(out, " (of the first %lld steps of %lld)",
                                                (long long)f->n_steps, (long long)n_steps)
                                : LT_OK;
}

lt_status lt_start_text(const lt_engine *e, const lt_source *source, const lt_schedule *schedule,
                        const lt_progress *progress, const lt_forecast *ahead, double matmul_rate,
                        lt_buf *out)
{
    static const char *const policies[] = {"keep", "lean", "full"};
    LT_TRY(lt_buf_printf(out, "%s: %s, compute %s", e->device->name, e->device->description,
                         lt_dtype_name(e->compute)));
    if (isfinite(matmul_rate))
        LT_TRY(lt_buf_printf(out, ", matrix products at %.1f GFLOP/s (%s)", matmul_rate * 1e-9,
                             e->device->queues ? e->device->name : lt_cpu_gemm_name()));
    LT_TRY(lt_buf_printf(out, "\nmodel %s from %s: %s parameters, %s trained",
                         e->model->config.model_type, e->run ? e->run->dir : "random weights",
                         lt_count_text(lt_model_total(e->model, false)).s,
                         lt_count_text(lt_model_total(e->model, true)).s));
    if (e->ranks) {
        LT_TRY(lt_buf_printf(out,
                             "\n%d ranks with %d threads each: parameters in %d pieces, %d copies "
                             "of the model; figures are of the first rank",
                             e->ranks->size, lt_pool_threads(e->pool), e->ranks->shard.size,
                             e->ranks->size / e->ranks->shard.size));
    }
    LT_TRY(print_parameters(e, out));
    LT_TRY(print_optimizer(e, schedule, out));
    LT_TRY(lt_buf_text(out, "\ndata: "));
    LT_TRY(lt_source_print(source, out));
    int64_t blocks[LT_N_POLICIES] = {0};
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        blocks[e->policy[b]]++;
    LT_TRY(lt_buf_text(out, "\nsaved values:"));
    for (int p = 0; p < LT_N_POLICIES; p++)
        if (blocks[p] > 0)
            LT_TRY(lt_buf_printf(out, " %s in %lld blocks", policies[p], (long long)blocks[p]));
    LT_TRY(print_memory(ahead, schedule->steps - progress->iteration, out));
    if (progress->iteration > 0)
        LT_TRY(lt_buf_printf(out, "\nresuming after step %lld (%lld samples)",
                             (long long)progress->iteration, (long long)progress->consumed));
    return LT_OK;
}

lt_status lt_make_save_folder(const lt_config *cfg)
{
    const char *dir = cfg->training.save;
    if (!dir)
        return LT_OK;
    lt_status st = lt_dir_make(dir);
    if (st == LT_OK && access(dir, W_OK | X_OK) != 0)
        st = LT_FAIL(LT_ERR_IO, "the folder cannot be written to: %s", lt_errno_text(errno));
    if (st != LT_OK)
        lt_error_note("%s: training.save: %s", lt_config_where(cfg, "training.save").s, dir);
    return st;
}

lt_status lt_run_directory(const lt_config *cfg, char *out, size_t bytes)
{
    const char *dir = cfg->lathe.run_dir   ? cfg->lathe.run_dir
                      : cfg->training.save ? cfg->training.save
                                           : "runs";
    const int n = snprintf(out, bytes, "%s", dir);
    if (n < 0 || (size_t)n >= bytes)
        return LT_FAIL(LT_ERR_CONFIG, "lathe.run_dir: the path is longer than %zu bytes",
                       bytes - 1);
    return LT_OK;
}
