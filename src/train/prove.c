// SPDX-License-Identifier: Apache-2.0
// The serial and the parallel step side by side. The first rank runs both.
#include "train/prove.h"

#include "train/feeder.h"
#include "train/from_config.h"
#include "train/source.h"
#include "train/weights.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { STEPS = 2, PIECE = 1 << 18, NAMED = 8 };

// What sums in another order may be apart. floor: of what the average gradient has, for those that
// are sums of nearly nothing. moved: of what the steps can move a weight.
typedef struct limits {
    double loss, grad, floor, moved;
} limits;
static const limits limits_f32 = {1e-6, 5e-6, 0.4, 0.03}, limits_bf16 = {1e-3, 1e-2, 0.4, 0.5};
static const double SECOND_STEP = 100.0;

/* ---- distances ---- */

// How far apart two tensors are: 2-norms.
typedef struct distance {
    double apart, norm;          /* |a - b| and |b| */
    int64_t n, worst;            /* elements; the one that is furthest apart */
    double a, b;                 /* its values */
    bool same_bits, not_numbers; /* all equal; some are not finite */
} distance;

static void compare_piece(const double *a, const double *b, int64_t first, int64_t n, distance *d,
                          double *most)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = fabs(a[i] - b[i]);
        d->apart += x * x;
        d->norm += b[i] * b[i];
        d->same_bits = d->same_bits && a[i] == b[i];
        d->not_numbers = d->not_numbers || !isfinite(a[i]) || !isfinite(b[i]);
        if (!(x <= *most)) { // a NaN too
            *most = x;
            d->worst = first + i;
            d->a = a[i];
            d->b = b[i];
        }
    }
}

// A part of a parameter's state in two executors, a piece at a time. Where `a` has several ranks,
// only the first one calls this.
static lt_status compare_state(lt_exec *a, lt_exec *b, const lt_param *p, lt_state_part part,
                               distance *out)
{
    void *memory = NULL;
    double most = -1.0;
    *out = (distance){.n = p->n_elems, .same_bits = true};
    LT_TRY(lt_mem_alloc(&memory, (size_t)PIECE * 2 * sizeof(double), "two pieces of a parameter"));
    double *mine = memory, *theirs = mine + PIECE;
    lt_status st = LT_OK;
    for (int64_t at = 0; st == LT_OK && at < p->n_elems; at += PIECE) {
        const int64_t n = lt_min_i64(PIECE, p->n_elems - at);
        st = lt_exec_read(a, p->id, part, at, n, LT_F64, mine);
        if (st == LT_OK)
            st = lt_exec_read(b, p->id, part, at, n, LT_F64, theirs);
        if (st == LT_OK)
            compare_piece(mine, theirs, at, n, out, &most);
    }
    lt_mem_free(memory);
    out->apart = sqrt(out->apart);
    out->norm = sqrt(out->norm);
    return st;
}

/* ---- one side ---- */

// Either all ranks, or the first one alone with the work of all.
typedef struct side {
    lt_engine *engine;
    lt_feeder feeder;
    lt_sampler **samplers; /* [feeder.n_loaders] */
    lt_loader **loaders;
    lt_progress progress;
    lt_step_result result;
} side;

typedef struct prover {
    const lt_config *cfg;
    const lt_proof_sinks *sinks;
    const lt_ranks *ranks;
    const lt_log *log; /* NULL on all ranks but the first */
    lt_source *source; /* of this rank, for both sides */
    side all, alone;   /* alone: on the first rank */
    lt_schedule schedule;
    limits limit;
    lt_proof *out;
} prover;

// Loader i gives what rank `first` + i trains on.
static lt_status open_loaders(const prover *p, side *s, int32_t first, int32_t n)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->engine->arena, (size_t)n * sizeof(lt_sampler *), &memory));
    s->samplers = memory;
    LT_TRY(lt_arena_take(s->engine->arena, (size_t)n * sizeof(lt_loader *), &memory));
    s->loaders = memory;
    s->feeder.loaders = s->loaders;
    s->feeder.n_loaders = n;
    for (int32_t i = 0; i < n; i++) {
        lt_sampler_opts o =
            lt_config_sampler(p->cfg, lt_dataset_rows(lt_source_dataset(p->source)));
        o.dp_size = lt_streams(p->ranks);
        o.dp_rank = first + i;
        o.consumed = s->progress.cursor;
        LT_TRY(lt_sampler_create(&o, i == 0 ? p->log : NULL, &s->samplers[i]));
        lt_loader_opts l = lt_source_loader(p->source);
        l.n_workers = 0; // when asked
        l.max_held = p->cfg->training.gradient_accumulation_steps;
        if (p->cfg->lathe.on_bad_record == LT_CFG_BAD_SKIP)
            l.n_rows = o.n_samples;
        l.log = p->log;
        LT_TRY(lt_loader_create(&l, s->samplers[i], &s->loaders[i]));
    }
    return LT_OK;
}

static lt_engine_opts engine_opts(const lt_ranks *ranks)
{
    return (lt_engine_opts){
        .training = true, .weights = true, .whole_gradients = true, .ranks = ranks};
}

static lt_status open_side(prover *p, const lt_ranks *ranks, const lt_log *log, side *s)
{
    const lt_engine_opts o = engine_opts(ranks);
    const int64_t streams = ranks ? 1 : lt_streams(p->ranks);
    LT_TRY(lt_engine_open(p->cfg, &o, log, &s->engine));
    if (!p->source)
        LT_TRY(lt_source_open(p->cfg, &p->cfg->data.dataset_param, NULL, s->engine->model,
                              s->engine->pool, p->log, &p->source));
    s->feeder = lt_feeder_of(p->cfg, s->engine->model, ranks, log,
                             streams * p->cfg->training.gradient_accumulation_steps);
    LT_TRY(lt_feeder_open(&s->feeder, s->engine->arena));
    LT_TRY(lt_engine_start(s->engine, &o));
    LT_TRY(lt_weights_resume(s->engine, !p->cfg->training.no_load_optim, &s->progress));
    return open_loaders(p, s, ranks ? ranks->dp_rank : 0, (int32_t)streams);
}

static void close_side(side *s)
{
    if (!s->engine)
        return;
    lt_feeder_release(&s->feeder);
    lt_feeder_close(&s->feeder);
    for (int32_t i = 0; i < s->feeder.n_loaders; i++) {
        lt_loader_destroy(s->loaders[i]);
        lt_sampler_destroy(s->samplers[i]);
    }
    lt_engine_close(s->engine);
}

static lt_status fetch_and_differentiate(side *s, int64_t step)
{
    LT_TRY(lt_feeder_fetch(&s->feeder, step));
    return lt_exec_gradients(s->engine->exec, s->feeder.view, s->feeder.n, &s->result);
}

static lt_status update(side *s, double lr)
{
    LT_TRY(lt_exec_step(s->engine->exec, s->feeder.view, s->feeder.n, ++s->progress.updates, lr,
                        NULL, &s->result));
    s->progress.iteration++;
    lt_feeder_release(&s->feeder);
    return LT_OK;
}

/* ---- verdicts, by the first rank ---- */

static void say(const prover *p, const char *fmt, ...) LT_PRINTF(2, 3);
static void say(const prover *p, const char *fmt, ...)
{
    char text[1200];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (p->sinks->line)
        p->sinks->line(p->sinks->ctx, text);
}

static void differs(prover *p, const char *sentence)
{
    if (p->out->differ++ == 0)
        (void)snprintf(p->out->first, sizeof p->out->first, "%s", sentence);
    if (p->out->differ <= NAMED)
        say(p, "%s", sentence);
}

static void judge_number(prover *p, int64_t step, const char *what, double all, double alone,
                         double limit)
{
    char text[600];
    const double error = fabs(all - alone) / fmax(fabs(alone), 1e-30);
    p->out->compared++;
    p->out->same_bits += all == alone;
    say(p, "step %lld: %s %.9g on one rank, %.9g on %d (%s)", (long long)step, what, alone, all,
        p->ranks->size, all == alone ? "the same bits" : "not the same bits");
    if (error <= limit)
        return;
    (void)snprintf(text, sizeof text, "step %lld: %s differs by %.2g (up to %.2g is rounding)",
                   (long long)step, what, error, limit);
    differs(p, text);
}

// What is found over all parameters.
typedef struct sweep {
    const char *of; /* "gradient", "weight" */
    int64_t step, n, same;
    const char *furthest;
    double most; /* of its limit */
    double error;
} sweep;

static void judge_tensor(prover *p, sweep *s, const lt_param *param, const distance *d,
                         double allowed)
{
    char text[600];
    const double share = d->apart == 0.0 ? 0.0 : d->apart / fmax(allowed, 1e-300),
                 error = d->apart == 0.0 ? 0.0 : d->apart / fmax(d->norm, 1e-300);
    s->n++;
    s->same += d->same_bits;
    p->out->compared++;
    p->out->same_bits += d->same_bits;
    if (!(share <= s->most)) {
        s->most = share;
        s->error = error;
        s->furthest = param->name;
    }
    if (share <= 1.0 && !d->not_numbers)
        return;
    (void)snprintf(text, sizeof text,
                   "step %lld: the %s of %s differs by %.2g of its norm, %.2g times what rounding "
                   "does; element %lld is %.9g on one rank and %.9g on %d",
                   (long long)s->step, s->of, param->name, error, share, (long long)d->worst, d->b,
                   d->a, p->ranks->size);
    differs(p, text);
}

static void say_sweep(const prover *p, const sweep *s)
{
    if (s->same == s->n) {
        say(p, "step %lld: %lld %ss, all with the same bits", (long long)s->step, (long long)s->n,
            s->of);
    } else {
        say(p,
            "step %lld: %lld %ss, %lld with the same bits; furthest apart is %s, by %.2g of its "
            "norm",
            (long long)s->step, (long long)s->n, s->of, (long long)s->same, s->furthest, s->error);
    }
}

// In the order of the backward, so that the first to differ is where it begins.
static lt_status judge_gradients(prover *p, int64_t step)
{
    const lt_model *m = p->all.engine->model;
    sweep s = {.of = "gradient", .step = step, .most = -1.0};
    const double scale = step == 1 ? 1.0 : SECOND_STEP,
                 average =
                     p->alone.result.grad_norm / sqrt(fmax(1.0, (double)lt_model_total(m, true)));
    for (int32_t i = m->n_params - 1; i >= 0; i--) {
        const lt_param *param = &m->params[i];
        distance d;
        if (!lt_exec_has(p->alone.engine->exec, i, LT_STATE_GRAD))
            continue;
        LT_TRY(compare_state(p->all.engine->exec, p->alone.engine->exec, param, LT_STATE_GRAD, &d));
        judge_tensor(p, &s, param, &d,
                     scale * p->limit.grad *
                         (d.norm + p->limit.floor * average * sqrt((double)d.n)));
    }
    say_sweep(p, &s);
    return LT_OK;
}

// moved: the sum of the steps' learning rates, which bounds what AdamW can move a weight by.
static lt_status judge_weights(prover *p, double moved)
{
    static const double ROUNDING = 2e-7;
    const lt_model *m = p->all.engine->model;
    sweep s = {.of = "weight", .step = STEPS, .most = -1.0};
    for (int32_t i = 0; i < m->n_params; i++) {
        const lt_param *param = &m->params[i];
        distance d;
        LT_TRY(
            compare_state(p->all.engine->exec, p->alone.engine->exec, param, LT_STATE_VALUE, &d));
        const double reach = moved * p->all.engine->lr_scale[i] * sqrt((double)d.n);
        judge_tensor(p, &s, param, &d,
                     (param->trainable ? p->limit.moved * reach : 0.0) + ROUNDING * d.norm);
    }
    say_sweep(p, &s);
    return LT_OK;
}

/* ---- all ranks ---- */

// The first rank has looked at the state; the others gave it what they have meanwhile.
static lt_status looked_at(const prover *p, lt_status looked)
{
    LT_TRY(looked);
    LT_TRY(lt_is_first(p->ranks) ? lt_exec_release(p->all.engine->exec)
                                 : lt_exec_serve(p->all.engine->exec));
    return lt_barrier(p->ranks->world);
}

static lt_status judge_step(prover *p, int64_t step)
{
    const double scale = step == 1 ? 1.0 : SECOND_STEP;
    judge_number(p, step, "loss", p->all.result.loss, p->alone.result.loss, scale * p->limit.loss);
    judge_number(p, step, "gradient norm", p->all.result.grad_norm, p->alone.result.grad_norm,
                 scale * fmax(p->limit.grad, p->limit.loss));
    return judge_gradients(p, step);
}

static lt_status prove_step(prover *p, int64_t step, double *moved)
{
    const bool first = lt_is_first(p->ranks);
    const double lr = lt_schedule_lr(&p->schedule, p->all.progress.iteration);
    *moved += lr;
    if (step == p->sinks->spoil_step)
        LT_TRY(lt_exec_write(p->all.engine->exec, p->sinks->spoil_param, LT_STATE_VALUE, 0, 1,
                             LT_F32, &p->sinks->spoil_value));
    if (first)
        LT_TRY(fetch_and_differentiate(&p->alone, step));
    LT_TRY(fetch_and_differentiate(&p->all, step));
    LT_TRY(looked_at(p, first ? judge_step(p, step) : LT_OK));
    if (first)
        LT_TRY(update(&p->alone, lr));
    return update(&p->all, lr);
}

static lt_status open_both(prover *p)
{
    LT_TRY(open_side(p, p->ranks, p->log, &p->all));
    if (lt_is_first(p->ranks)) {
        LT_TRY(open_side(p, NULL, NULL, &p->alone));
        if (p->alone.engine->device->backend != p->all.engine->device->backend)
            return LT_FAIL(LT_ERR_CONFIG, "lathe.device: one rank would use another device than "
                                          "several; set lathe.device: cpu");
        say(p,
            "one rank with %lld micro-batches a step beside %d ranks with %lld each; "
            "parameters in %d pieces, %d copies of the model; compute %s",
            (long long)p->alone.feeder.n, p->ranks->size, (long long)p->all.feeder.n,
            p->ranks->shard.size, p->ranks->size / p->ranks->shard.size,
            lt_dtype_name(p->all.engine->compute));
    }
    p->limit = p->all.engine->compute == LT_BF16 ? limits_bf16 : limits_f32;
    return lt_config_schedule(p->cfg, lt_dataset_rows(lt_source_dataset(p->source)),
                              lt_streams(p->ranks), &p->schedule);
}

static lt_status prove(prover *p)
{
    double moved = 0.0;
    LT_TRY(open_both(p));
    for (int64_t step = 1; step <= STEPS; step++)
        LT_TRY(prove_step(p, step, &moved));
    return looked_at(p, lt_is_first(p->ranks) ? judge_weights(p, moved) : LT_OK);
}

typedef struct job {
    const lt_config *cfg;
    const lt_proof_sinks *sinks;
    lt_proof *out;
} job;

static lt_status prove_rank(void *ctx, const lt_ranks *ranks)
{
    const job *j = ctx;
    prover p = {.cfg = j->cfg,
                .sinks = j->sinks,
                .ranks = ranks,
                .log = lt_is_first(ranks) ? j->sinks->log : NULL,
                .out = j->out};
    const lt_status st = prove(&p);
    char message[4096];
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    close_side(&p.all);
    close_side(&p.alone);
    lt_source_close(p.source);
    return st == LT_OK ? st : lt_error_adopt(st, message);
}

lt_status lt_prove(const lt_config *cfg, const lt_proof_sinks *sinks, lt_proof *out)
{
    job j = {cfg, sinks, out};
    *out = (lt_proof){0};
    if (cfg->sizes.world <= 1)
        return LT_FAIL(LT_ERR_CONFIG,
                       "one rank has nothing to be compared with: give the number of ranks (-n 4)");
    return lt_team_run(cfg, NULL, prove_rank, &j);
}
