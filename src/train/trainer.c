// SPDX-License-Identifier: Apache-2.0
// The training loop.
#include "train/trainer.h"

#include "train/feeder.h"
#include "train/from_config.h"
#include "train/judge.h"
#include "train/log_line.h"
#include "train/metrics.h"
#include "train/profile.h"
#include "train/rate.h"
#include "train/save_dcp.h"
#include "train/source.h"
#include "train/start.h"
#include "train/team.h"
#include "train/watchdog.h"
#include "train/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double LOOK_AHEAD_S = 5.0, PATIENCE_S = 300.0;

// A step that the executor has begun, and what is known of it before its result.
typedef struct pending {
    double begin_s;    /* when its data was asked for */
    lt_step_metrics s; /* times and results are still to come */
    lt_exec_memory memory;
} pending;

// All that lives during a run.
typedef struct trainer {
    const lt_config *cfg;
    const lt_train_sinks *sinks;
    const lt_ranks *ranks; /* NULL: one */
    const lt_log *log;     /* NULL on all ranks but the first, which speaks for them */
    lt_rank_log own;       /* with this rank's name, where it is not the first */
    lt_engine *engine;
    lt_source *source, *validation; /* validation: NULL when there is none */
    lt_sampler *sampler;
    lt_loader *loader;
    lt_metrics *metrics; /* NULL on all ranks but the first */
    lt_profile *profile; /* NULL: nothing is recorded */
    lt_watchdog *watchdog;
    lt_schedule schedule;
    lt_progress progress;
    int64_t n_micro, global_batch;
    int64_t planned, planned_on_host; /* bytes, by the forecast */
    double matmul_rate; /* FLOP/s of all ranks measured at the start; NaN: not measured */
    lt_feeder feeder;
    pending begun[LT_EXEC_AHEAD]; /* by iteration */
    double comm_s;                /* communication since the last log line */
    double begin_s, elapsed_s;    /* start of the first step; step time since the last log line */
    double ended_s;               /* when the last step ended */
    int64_t unlogged;
    bool warned_silent, metrics_lost; /* each is warned of once */
    int64_t began_at, last_saved;     /* iterations: of this run's start, of its last checkpoint */
    lt_dcp_save *saving;              /* a checkpoint that is being written; NULL: none */
    bool data_failed; /* the step was not begun: weights are those of the step before */
    lt_train_summary *out;
} trainer;

static void say(const trainer *t, const lt_buf *text)
{
    if (lt_is_first(t->ranks) && t->sinks->line && text->data)
        t->sinks->line(t->sinks->ctx, text->data);
}

/* ---- opening ---- */

static lt_status open_data(trainer *t)
{
    lt_source_opts val;
    lt_texts files;
    const char *file = NULL;
    LT_TRY(lt_source_open(t->cfg, &t->cfg->data.dataset_param, NULL, t->engine->model,
                          t->engine->pool, t->log, &t->source));
    if (t->cfg->training.val_interval > 0 && lt_source_validation(t->cfg, &val, &file, &files))
        LT_TRY(lt_source_open_as(t->cfg, &val, t->engine->model, t->engine->pool, t->log,
                                 &t->validation));
    return LT_OK;
}

// Beside a GPU half of the CPUs prepare data; where they compute, two threads are enough.
static void set_threads(const trainer *t, lt_loader_opts *l)
{
    enum { FEWEST = 2, MOST = 8 };
    const int half = lt_pool_threads(t->engine->pool) / 2;
    if (t->cfg->lathe.data_threads == 0 && t->engine->device->backend == LT_CUDA)
        l->n_workers = half < FEWEST ? FEWEST : half > MOST ? MOST : half;
    if (t->cfg->lathe.data_ahead == 0)
        l->prefetch = lt_max_i64(l->n_workers, t->n_micro);
}

static lt_status open_loader(trainer *t)
{
    lt_sampler_opts o = lt_config_sampler(t->cfg, lt_dataset_rows(lt_source_dataset(t->source)));
    o.dp_size = lt_streams(t->ranks);
    o.dp_rank = t->ranks ? t->ranks->dp_rank : 0;
    o.consumed = t->progress.cursor;
    LT_TRY(lt_sampler_create(&o, t->log, &t->sampler));
    lt_loader_opts l = lt_source_loader(t->source);
    l.max_held = t->n_micro;
    set_threads(t, &l);
    if (t->cfg->lathe.on_bad_record == LT_CFG_BAD_SKIP)
        l.n_rows = o.n_samples;
    l.log = &t->own.log; // what happens to a row is known to its rank alone
    LT_TRY(lt_loader_create(&l, t->sampler, &t->loader));
    t->feeder.loaders = &t->loader;
    t->feeder.n_loaders = 1;
    return LT_OK;
}

// What the steps will need, so that a run that cannot end does not begin.
static lt_status look_ahead(trainer *t, lt_forecast *out)
{
    lt_forecast_opts o = {
        .source = t->source, .validation = t->validation, .seconds = LOOK_AHEAD_S};
    const lt_checkpoint *run = t->engine->run;
    if (run && lt_run_resumes(run))
        LT_TRY(lt_progress_read(run, &o.from));
    o.n_steps = lt_max_i64(0, t->schedule.steps - o.from.iteration);
    LT_TRY(lt_forecast_run(t->engine, &o, out));
    if (out->n_cut > 0) {
        LT_NOTE(t->log, "data", "cutoff_len %lld shortens %lld of the %lld records looked at",
                (long long)t->cfg->data.dataset_param.basic_parameters.cutoff_len,
                (long long)out->n_cut, (long long)out->n_rows);
    }
    return lt_forecast_fits(t->engine, out);
}

static const char *exec_now(const void *exec)
{
    return lt_exec_now(exec);
}

static lt_status say_start(trainer *t, const lt_forecast *ahead)
{
    lt_buf text = {0};
    lt_status st = lt_start_text(t->engine, t->source, &t->schedule, &t->progress, ahead,
                                 t->matmul_rate, &text);
    if (st == LT_OK)
        LT_INFO(t->log, "start", "%s", text.data);
    lt_buf_clear(&text);
    if (st == LT_OK && t->engine->run && lt_run_resumes(t->engine->run)) {
        st = lt_loaded_line_text(t->engine->run->dir, &text);
        if (st == LT_OK)
            say(t, &text);
    }
    lt_buf_deinit(&text);
    return st;
}

static lt_status open_run(trainer *t, lt_forecast *ahead)
{
    lt_engine_opts o = {.training = true, .weights = true, .ranks = t->ranks};
    LT_TRY(lt_engine_open(t->cfg, &o, t->log, &t->engine));
    LT_TRY(lt_profile_open(t->cfg, t->ranks ? t->ranks->rank : 0, t->engine->device, t->log,
                           &t->profile));
    o.watch = lt_profile_watch(t->profile);
    t->n_micro = t->cfg->training.gradient_accumulation_steps;
    t->global_batch = lt_config_global_batch(t->cfg, lt_streams(t->ranks));
    t->feeder = lt_feeder_of(t->cfg, t->engine->model, t->ranks, t->log, t->n_micro);
    LT_TRY(lt_feeder_open(&t->feeder, t->engine->arena));
    LT_TRY(open_data(t));
    if (lt_is_first(t->ranks))
        LT_TRY(lt_make_save_folder(t->cfg));
    LT_TRY(lt_config_schedule(t->cfg, lt_dataset_rows(lt_source_dataset(t->source)),
                              lt_streams(t->ranks), &t->schedule));
    LT_TRY(look_ahead(t, ahead));
    t->planned = ahead->state + ahead->step + ahead->batch;
    t->planned_on_host = ahead->host_pool + ahead->host_state;
    LT_TRY(lt_engine_start(t->engine, &o));
    LT_TRY(lt_weights_resume(t->engine, !t->cfg->training.no_load_optim, &t->progress));
    t->began_at = t->progress.iteration;
    t->out->iterations = t->progress.iteration;
    t->last_saved = t->progress.iteration > 0 ? t->progress.iteration : -1;
    LT_TRY(open_loader(t));
    LT_TRY(lt_run_directory(t->cfg, t->out->run_dir, sizeof t->out->run_dir));
    if (lt_is_first(t->ranks))
        LT_TRY(lt_metrics_open(t->out->run_dir, t->progress.iteration, &t->metrics));
    LT_TRY(lt_matmul_rate(t->engine->device, t->engine->compute, &t->matmul_rate));
    LT_TRY(lt_team_add(t->ranks, &t->matmul_rate));
    LT_TRY(say_start(t, ahead));
    const lt_watchdog_opts w = {.patience_s = PATIENCE_S,
                                .who = t->ranks ? lt_group_name(t->ranks->world) : NULL,
                                .now = exec_now,
                                .ctx = t->engine->exec,
                                .log = t->sinks->log};
    return lt_watchdog_create(&w, &t->watchdog);
}

// A full disk is no reason to stop training: only what is written about it is lost.
static lt_status lose_metrics(trainer *t)
{
    if (!t->metrics_lost)
        LT_WARN(t->log, "metrics", "%s; training goes on without", lt_error_message());
    t->metrics_lost = true;
    lt_error_clear();
    return LT_OK;
}

static lt_status close_run(trainer *t, lt_status st)
{
    char message[4096]; // of the first error, which no other replaces
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    lt_dcp_save_abandon(t->saving);
    lt_watchdog_destroy(t->watchdog);
    lt_loader_destroy(t->loader);
    lt_sampler_destroy(t->sampler);
    lt_source_close(t->source);
    lt_source_close(t->validation);
    lt_status closed = lt_metrics_close(t->metrics);
    if (closed == LT_ERR_IO)
        closed = lose_metrics(t);
    lt_feeder_close(&t->feeder);
    lt_profile_close(t->profile);
    lt_engine_close(t->engine);
    return st != LT_OK ? lt_error_adopt(st, message) : closed;
}

/* ---- one step ---- */

static lt_status check_finite(const lt_step_metrics *s)
{
    if (isfinite(s->loss) && isfinite(s->grad_norm))
        return LT_OK;
    return LT_FAIL(LT_ERR_NUMERIC,
                   "step %lld: loss is %g and the gradient norm %g: the run stops, and nothing is "
                   "saved over the last good checkpoint "
                   "(a lower training.lr, or training.clip_grad, usually helps)",
                   (long long)s->iteration, s->loss, s->grad_norm);
}

// How even each layer's use of its experts is: the pooled loss hides a layer that sends all to one.
static lt_status log_experts(const trainer *t, const lt_step_metrics *s)
{
    const lt_expert_use *u = &s->use;
    lt_experts_line line = {.n = u->layers};
    double layers[LT_LAYERS_SHOWN], most = -1.0, all = 0.0;
    line.layers = layers;
    line.n = lt_min_i64(u->layers, LT_LAYERS_SHOWN);
    for (int64_t l = 0; l < line.n; l++) {
        double of_layer = 0.0;
        layers[l] = lt_layer_balance(s, l);
        for (int64_t e = 0; e < u->experts; e++) {
            const double picks = lt_expert_picks(u, l, e);
            of_layer += picks;
            if (picks > most) {
                most = picks;
                line.layer = l;
                line.expert = e;
            }
        }
        all = fmax(all, of_layer);
    }
    line.share = all > 0.0 ? most * (double)u->experts / all : 0.0;
    lt_buf text = {0};
    const lt_status st = lt_experts_line_text(&line, &text);
    if (st == LT_OK)
        say(t, &text);
    lt_buf_deinit(&text);
    return st;
}

// What several ranks cost: on the CPU nothing is overlapped, and all of it is waited for.
static lt_status log_ranks(trainer *t, const lt_step_metrics *s)
{
    const lt_ranks_line line = {
        .steps = t->unlogged, .comm_s = t->comm_s, .step_s = t->elapsed_s, .memory = s->most_bytes};
    if (s->ranks == 1 || t->engine->device->queues)
        return LT_OK;
    lt_buf text = {0};
    const lt_status st = lt_ranks_line_text(&line, &text);
    if (st == LT_OK)
        say(t, &text);
    lt_buf_deinit(&text);
    return st;
}

static lt_status log_step(trainer *t, const lt_step_metrics *s)
{
    if (s->iteration % t->cfg->training.log_interval != 0)
        return LT_OK;
    const lt_step_line line = {.unix_seconds = (int64_t)time(NULL),
                               .iteration = s->iteration,
                               .n_iterations = t->schedule.steps,
                               .consumed_samples = s->consumed_samples,
                               .elapsed_ms = t->elapsed_s * 1e3 / (double)t->unlogged,
                               .lr = s->lr,
                               .global_batch = t->global_batch,
                               .loss = s->loss,
                               .mtp_losses = &s->mtp_loss,
                               .n_mtp = s->predicts_next,
                               .aux_loss = t->feeder.balance > 0.0F ? s->aux_loss : 0.0,
                               .grad_norm = s->grad_norm};
    lt_buf text = {0};
    lt_status st = lt_step_line_text(&line, &text);
    if (st == LT_OK)
        say(t, &text);
    lt_buf_deinit(&text);
    if (st == LT_OK)
        st = log_ranks(t, s);
    t->elapsed_s = t->comm_s = 0.0;
    t->unlogged = 0;
    return st == LT_OK && line.aux_loss != 0.0 ? log_experts(t, s) : st;
}

// Pools grow to what later batches want: what is used by now may be less than what is planned.
static void compare_with_plan(const trainer *t, const lt_exec_memory *m)
{
    const int64_t used = m->state + m->step_used + m->batch, away = m->host_state + m->host_used;
    LT_INFO(t->log, "memory", "after step 2: planned for the run %s, used so far %s",
            lt_bytes_text(t->planned).s, lt_bytes_text(used).s);
    if (away > 0)
        LT_INFO(t->log, "memory", "on the host: planned %s, used %s",
                lt_bytes_text(t->planned_on_host).s, lt_bytes_text(away).s);
}

static lt_status log_memory(trainer *t, lt_exec_memory m)
{
    compare_with_plan(t, &m);
    const lt_memory_line line = {.iterations = 2,
                                 .allocated = m.state + m.batch,
                                 .max_allocated = m.state + m.step_used + m.batch,
                                 .reserved = m.state + m.step + m.batch,
                                 .max_reserved = m.state + m.step + m.batch};
    lt_buf text = {0};
    const lt_status st = lt_memory_line_text(&line, &text);
    if (st == LT_OK)
        say(t, &text);
    lt_buf_deinit(&text);
    return st;
}

static lt_status record(trainer *t, lt_step_metrics *s, lt_exec_memory m)
{
    s->memory_bytes = m.state + m.step + m.batch;
    s->host_bytes = m.host + m.host_state;
    s->tokens_per_s = (double)s->tokens / s->step_s;
    s->mfu = s->model_flops / s->step_s / t->matmul_rate;
    if (lt_is_first(t->ranks) && t->sinks->status) {
        const lt_train_status status = {.iteration = s->iteration,
                                        .n_iterations = t->schedule.steps,
                                        .first_iteration = s->iteration,
                                        .seconds = lt_clock_now() - t->begin_s,
                                        .loss = s->loss,
                                        .tokens_per_s = s->tokens_per_s,
                                        .mfu = s->mfu,
                                        .wait_share = s->wait_s / s->step_s};
        t->sinks->status(t->sinks->ctx, &status);
    }
    const lt_status st = t->metrics ? lt_metrics_step(t->metrics, s) : LT_OK;
    return st == LT_ERR_IO ? lose_metrics(t) : st;
}

static lt_status begin_step(trainer *t)
{
    const double begin = lt_clock_now(), waited = lt_loader_waited_s(t->loader);
    const double *seconds = lt_exec_seconds(t->engine->exec);
    const double lr = lt_schedule_lr(&t->schedule, t->progress.iteration),
                 updated = seconds[LT_ACT_UPDATE],
                 moved = seconds[LT_ACT_GATHER] + seconds[LT_ACT_REDUCE];
    lt_watchdog_stage(t->watchdog, t->progress.iteration + 1, "waiting for data");
    const lt_status fetched = lt_feeder_fetch(&t->feeder, t->progress.iteration + 1);
    t->data_failed = fetched != LT_OK;
    LT_TRY(fetched);
    const double wait_s = lt_loader_waited_s(t->loader) - waited;
    lt_watchdog_stage(t->watchdog, t->progress.iteration + 1, NULL);
    LT_TRY(lt_exec_begin(t->engine->exec, t->feeder.view, t->n_micro, t->progress.updates + 1, lr,
                         NULL));
    t->progress.iteration++;
    t->progress.updates++;
    t->progress.consumed += t->global_batch;
    t->progress.cursor = lt_loader_consumed(t->loader);
    pending *p = &t->begun[t->progress.iteration % LT_EXEC_AHEAD];
    *p = (pending){.begin_s = begin,
                   .memory = lt_exec_memory_of(t->engine->exec),
                   .s = {.iteration = t->progress.iteration,
                         .consumed_samples = t->progress.consumed,
                         .lr = lr,
                         .wait_s = wait_s,
                         .ranks = t->ranks ? t->ranks->size : 1,
                         .comm_s = seconds[LT_ACT_GATHER] + seconds[LT_ACT_REDUCE] - moved,
                         .update_s = seconds[LT_ACT_UPDATE] - updated}};
    p->s.tokens = (int64_t)t->feeder.counts.tokens;
    p->s.own_tokens = t->feeder.own_tokens;
    p->s.targets = (int64_t)t->feeder.counts.targets;
    p->s.patches = (int64_t)t->feeder.counts.patches;
    p->s.model_flops = t->feeder.counts.flops;
    lt_feeder_release(&t->feeder);
    return LT_OK;
}

// The oldest step begun: waits for its result, and says what there is to say.
static lt_status end_step(trainer *t)
{
    const int64_t number = t->progress.iteration - lt_exec_in_flight(t->engine->exec) + 1;
    const pending *p = &t->begun[number % LT_EXEC_AHEAD];
    lt_step_metrics s = p->s;
    lt_step_result r;
    LT_TRY(lt_exec_end(t->engine->exec, &r));
    const double now = lt_clock_now();
    s.loss = r.loss;
    s.grad_norm = r.grad_norm;
    s.aux_loss = r.balance;
    s.predicts_next = t->engine->model->next_block >= 0;
    if (s.predicts_next && t->feeder.next_scale > 0.0) // as it is before its weight
        s.mtp_loss = r.next_loss / t->feeder.next_scale;
    s.use = r.use;
    s.step_s = now - fmax(p->begin_s, t->ended_s);
    t->ended_s = now;
    t->elapsed_s += s.step_s;
    t->comm_s += s.comm_s;
    double most = (double)(p->memory.state + p->memory.step + p->memory.batch);
    LT_TRY(lt_team_most(t->ranks, &most));
    s.most_bytes = (int64_t)most;
    t->unlogged++;
    t->out->iterations = s.iteration;
    t->out->last_loss = s.loss;
    if (isnan(t->out->first_loss))
        t->out->first_loss = s.loss;
    LT_TRY(log_step(t, &s));
    LT_TRY(record(t, &s, p->memory));
    LT_TRY(check_finite(&s));
    return s.iteration == 2 ? log_memory(t, p->memory) : LT_OK;
}

static lt_status end_all_steps(trainer *t)
{
    while (lt_exec_in_flight(t->engine->exec) > 0)
        LT_TRY(end_step(t));
    return LT_OK;
}

/* ---- recording ---- */

// Behind the window's last step, or where the run ends before it.
static lt_status write_profile(trainer *t)
{
    const int64_t first = t->began_at + t->cfg->tools.profile.static_param.start_step + 1;
    if (!lt_profile_is_on(t->profile))
        return LT_OK;
    LT_TRY(end_all_steps(t));
    LT_TRY(lt_exec_sync(t->engine->exec));
    return lt_profile_write(t->profile, first, t->progress.iteration);
}

static lt_status start_profile(trainer *t)
{
    if (!lt_profile_begins(t->profile, t->progress.iteration - t->began_at))
        return LT_OK;
    LT_TRY(end_all_steps(t));
    LT_TRY(lt_exec_sync(t->engine->exec));
    lt_profile_start(t->profile);
    return LT_OK;
}

// A device with queues works on a step while the host prepares the next one: its result is read a
// step late.
static lt_status one_step(trainer *t)
{
    t->data_failed = false;
    LT_TRY(start_profile(t));
    LT_TRY(begin_step(t));
    if (lt_profile_ends(t->profile, t->progress.iteration - t->began_at - 1))
        return write_profile(t);
    if (!t->engine->device->queues)
        return end_all_steps(t);
    return lt_exec_in_flight(t->engine->exec) == LT_EXEC_AHEAD ? end_step(t) : LT_OK;
}

/* ---- between steps ---- */

// The first rank writes; the others give it what they have, and wait until the folder is there.
static lt_status save_weights(trainer *t)
{
    lt_exec *exec = t->engine->exec;
    if (!lt_is_first(t->ranks)) {
        LT_TRY(lt_exec_serve(exec));
    } else {
        LT_TRY(lt_weights_save(t->engine, &t->progress));
        LT_TRY(lt_exec_release(exec));
    }
    return lt_barrier(t->ranks ? t->ranks->world : NULL);
}

static lt_status say_saved(trainer *t, const char *dir)
{
    (void)snprintf(t->out->saved, sizeof t->out->saved, "%s", dir);
    lt_buf text = {0};
    const lt_status st = lt_saved_line_text(dir, &text);
    if (st == LT_OK)
        say(t, &text);
    lt_buf_deinit(&text);
    return st;
}

// A save that was begun: all ranks look whether it is complete, or wait until it is.
static lt_status end_save(trainer *t, bool wait)
{
    bool done = false;
    char dir[sizeof t->out->saved];
    if (!t->saving)
        return LT_OK;
    (void)snprintf(dir, sizeof dir, "%s", lt_dcp_save_dir(t->saving));
    LT_TRY(lt_dcp_save_end(&t->saving, wait, &done));
    return done ? say_saved(t, dir) : LT_OK;
}

static lt_status save_dcp(trainer *t)
{
    LT_TRY(end_save(t, true));
    LT_TRY(lt_dcp_save_begin(t->engine, &t->progress,
                             lt_schedule_lr(&t->schedule, t->progress.iteration), &t->saving));
    t->last_saved = t->progress.iteration;
    return t->cfg->training.save_async ? LT_OK : end_save(t, true);
}

static lt_status save(trainer *t)
{
    if (!t->cfg->training.save || t->last_saved == t->progress.iteration)
        return LT_OK;
    char *dir = NULL;
    lt_watchdog_stage(t->watchdog, t->progress.iteration, "saving");
    if (lt_saves_dcp(t->engine))
        return save_dcp(t);
    LT_TRY(save_weights(t));
    t->last_saved = t->progress.iteration;
    LT_TRY(lt_run_dir(t->engine->arena, t->cfg->training.save, t->progress.iteration, &dir));
    return say_saved(t, dir);
}

// The mean over micro-batches of their mean losses.
static lt_status validate(trainer *t)
{
    double loss = 0.0;
    int64_t steps = 0;
    lt_watchdog_stage(t->watchdog, t->progress.iteration, "validation");
    LT_TRY(lt_source_loss(t->validation, t->engine->exec, t->ranks,
                          t->cfg->training.val_micro_batch_size, &loss, &steps));
    lt_buf text = {0};
    lt_status st =
        lt_validation_line_text((int64_t)time(NULL), t->progress.iteration, steps, loss, &text);
    if (st == LT_OK)
        say(t, &text);
    lt_buf_deinit(&text);
    LT_TRY(st);
    const lt_status put =
        t->metrics ? lt_metrics_validation(t->metrics, t->progress.iteration, loss) : LT_OK;
    return put == LT_ERR_IO ? lose_metrics(t) : put;
}

static bool is_due(int64_t iteration, int64_t interval)
{
    return interval > 0 && iteration % interval == 0;
}

// A record that cannot be used ends the run; what was trained until then is kept.
static lt_status keep_progress(trainer *t, lt_status why)
{
    char message[4096];
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    LT_TRY(end_all_steps(t));
    if (t->progress.iteration > t->began_at && (save(t) != LT_OK || end_save(t, true) != LT_OK))
        LT_WARN(t->log, "train", "the %lld steps done are lost: %s",
                (long long)t->progress.iteration, lt_error_message());
    return lt_error_adopt(why, message);
}

// All ranks stop after the same step.
static lt_status look_for_stop(const trainer *t, bool *stop)
{
    *stop = t->sinks->stop && atomic_load(t->sinks->stop);
    return lt_team_any(t->ranks, stop);
}

static lt_status after_step(trainer *t)
{
    const bool due = is_due(t->progress.iteration, t->cfg->training.save_interval),
               judge =
                   t->validation && is_due(t->progress.iteration, t->cfg->training.val_interval);
    LT_TRY(end_save(t, false));
    if (due || judge)
        LT_TRY(end_all_steps(t));
    if (due)
        LT_TRY(save(t));
    if (!judge)
        return LT_OK;
    const lt_status st = validate(t);
    return st == LT_OK ? st : keep_progress(t, st);
}

// A step that could not be begun: those before it are still logged.
static lt_status give_up(trainer *t, lt_status why)
{
    char message[4096];
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    return end_all_steps(t) == LT_OK ? lt_error_adopt(why, message) : why;
}

static lt_status loop(trainer *t)
{
    t->begin_s = lt_clock_now();
    while (t->progress.iteration < t->schedule.steps) {
        bool stop = false;
        LT_TRY(look_for_stop(t, &stop));
        if (stop)
            break;
        const lt_status st = one_step(t);
        if (st != LT_OK)
            return t->data_failed ? keep_progress(t, st) : give_up(t, st);
        LT_TRY(after_step(t));
    }
    LT_TRY(end_all_steps(t));
    LT_TRY(write_profile(t));
    t->out->stopped = t->progress.iteration < t->schedule.steps;
    if (t->progress.iteration > t->began_at)
        LT_TRY(save(t));
    return end_save(t, true);
}

static lt_status train(const lt_config *cfg, const lt_ranks *ranks, const lt_train_sinks *sinks,
                       lt_train_summary *out)
{
    *out = (lt_train_summary){.first_loss = (double)NAN, .last_loss = (double)NAN};
    trainer t = {.cfg = cfg,
                 .ranks = ranks,
                 .sinks = sinks,
                 .log = lt_is_first(ranks) ? sinks->log : NULL,
                 .out = out};
    lt_forecast ahead = {0};
    lt_rank_log_init(&t.own, ranks, sinks->log);
    lt_status st = open_run(&t, &ahead);
    lt_forecast_deinit(&ahead);
    if (st == LT_OK)
        st = loop(&t);
    lt_feeder_release(&t.feeder);
    return close_run(&t, st);
}

typedef struct job {
    const lt_config *cfg;
    const lt_train_sinks *sinks;
    lt_train_summary *out; /* of this process's first rank */
} job;

static lt_status train_rank(void *ctx, const lt_ranks *ranks)
{
    const job *j = ctx;
    lt_train_summary own;
    return train(j->cfg, ranks, j->sinks, lt_is_first(ranks) || j->sinks->world ? j->out : &own);
}

lt_status lt_train(const lt_config *cfg, const lt_train_sinks *sinks, lt_train_summary *out)
{
    job j = {cfg, sinks, out};
    return lt_team_run(cfg, sinks->world, train_rank, &j);
}
