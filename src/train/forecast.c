// SPDX-License-Identifier: Apache-2.0
// Forecasting memory from counts.
#include "train/forecast.h"

#include "train/trial.h"

#include <string.h>

// Counts of one row of the data set.
typedef struct row_counts {
    int32_t samples, tokens, patches, merged, frames, targets;
    bool known;
} row_counts;

// Counts of a source's rows, taken when a step first wants them.
typedef struct counter {
    lt_source *source;
    row_counts *row; // [n]
    int64_t n, merge;
    int64_t n_counted;
} counter;

// Rows to be counted at once, each of them once.
typedef struct counting {
    const counter *k;
    const int64_t *rows; // [n]
    int64_t n;
    bool skip_bad; // lathe.on_bad_record: skip
} counting;

enum { ROWS_AT_ONCE = 16, CHUNK_ROWS = 2048 };

static void count_sample(const lt_sample *s, int64_t merge, row_counts *c)
{
    c->samples++;
    c->tokens += (int32_t)s->n;
    for (int64_t i = 0; i < s->n_media; i++) {
        c->patches += (int32_t)lt_grid_patches(s->media[i].grid);
        c->merged += (int32_t)lt_grid_tokens(s->media[i].grid, merge);
        c->frames += (int32_t)s->media[i].grid.t;
    }
    for (int64_t i = 1; i < s->n; i++)
        c->targets += s->labels[i] > -1;
}

static row_counts count_row(const lt_vec *samples, int64_t merge)
{
    row_counts c = {.known = true};
    for (int64_t i = 0; i < samples->n; i++)
        count_sample(&LT_AT(samples, lt_sample, i), merge, &c);
    return c;
}

static lt_status count_rows(void *ctx, int64_t piece, int thread)
{
    (void)thread;
    const counting *c = ctx;
    lt_arena *arena = NULL;
    lt_vec samples = LT_VEC_OF(lt_sample);
    LT_TRY(lt_arena_create(&arena, "counting"));
    lt_status st = LT_OK;
    const int64_t end = lt_min_i64(c->n, (piece + 1) * ROWS_AT_ONCE);
    for (int64_t i = piece * ROWS_AT_ONCE; st == LT_OK && i < end; i++) {
        lt_arena_reset(arena);
        lt_vec_clear(&samples);
        st = lt_dataset_encode_row(lt_source_dataset(c->k->source), c->rows[i], arena, &samples);
        if (lt_is_bad_record(st) && c->skip_bad) { // the loader will take another
            lt_error_clear();
            lt_vec_clear(&samples);
            st = LT_OK;
        }
        if (st == LT_OK)
            c->k->row[c->rows[i]] = count_row(&samples, c->k->merge);
    }
    lt_vec_deinit(&samples);
    lt_arena_destroy(arena);
    return st;
}

typedef struct walk {
    const lt_engine *e;
    lt_state_layout *state;
    const lt_forecast_opts *o;
    lt_forecast *out;
    lt_program_mode mode;
    lt_vec seen; /* lt_extents: buckets of that mode */
} walk;

static lt_status look_at(walk *w, const lt_extents *real)
{
    const lt_extents capacity = lt_extents_bucket(real);
    for (int64_t i = 0; i < w->seen.n; i++)
        if (lt_extents_equal(&LT_AT(&w->seen, lt_extents, i), &capacity))
            return LT_OK;
    LT_TRY(lt_vec_push(&w->seen, &capacity));
    lt_program *p = NULL;
    LT_TRY(lt_trial_program(w->e, w->state, w->mode, &capacity, &p));
    w->out->n_programs++;
    w->out->step = lt_max_i64(w->out->step, p->step_bytes);
    w->out->batch = lt_max_i64(w->out->batch, LT_BATCHES_APART * p->batch_bytes);
    w->out->host_pool = lt_max_i64(w->out->host_pool, p->host_bytes);
    if (w->mode == LT_MODE_LOSS)
        w->out->validation = lt_max_i64(w->out->validation, p->step_bytes);
    if (w->mode == LT_MODE_LOSS ||
        (w->out->program && p->step_bytes <= w->out->program->step_bytes)) {
        lt_program_destroy(p);
        return LT_OK;
    }
    lt_program_destroy(w->out->program);
    w->out->program = p;
    w->out->largest = *real;
    return LT_OK;
}

static void add_row(lt_extents *e, const row_counts *c)
{
    e->n[LT_EXT_TOKENS] += c->tokens;
    e->n[LT_EXT_SAMPLES] += c->samples;
    e->n[LT_EXT_PATCHES] += c->patches;
    e->n[LT_EXT_MERGED] += c->merged;
    e->n[LT_EXT_FRAMES] += c->frames;
    e->n[LT_EXT_TARGETS] += c->targets;
}

// See to it that these rows are counted.
static lt_status count(const walk *w, counter *k, const int64_t *rows, int64_t n)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)n * sizeof(int64_t), "rows to be counted"));
    int64_t *wanted = memory;
    counting c = {
        .k = k, .rows = wanted, .skip_bad = w->e->cfg->lathe.on_bad_record == LT_CFG_BAD_SKIP};
    for (int64_t i = 0; i < n; i++) {
        if (k->row[rows[i]].known)
            continue;
        k->row[rows[i]].known = true; // a row may come twice
        wanted[c.n++] = rows[i];
    }
    k->n_counted += c.n;
    const lt_status st = lt_pool_run(w->e->pool, lt_ceil_div(c.n, ROWS_AT_ONCE), count_rows, &c);
    lt_mem_free(memory);
    return st;
}

// A step's program holds all its micro-batches.
static lt_status walk_step(walk *w, const counter *k, const int64_t *rows)
{
    const lt_cfg_training *t = &w->e->cfg->training;
    lt_extents all = {0};
    for (int64_t m = 0; m < t->gradient_accumulation_steps; m++) {
        lt_extents one = {0};
        for (int64_t i = 0; i < t->micro_batch_size; i++)
            add_row(&one, &k->row[*rows++]);
        all = lt_extents_max(&all, &one);
    }
    w->out->n_steps++;
    return look_at(w, &all);
}

// Some steps: their rows in the sampler's order, then their counts.
static lt_status walk_chunk(walk *w, counter *k, lt_sampler *sampler, int64_t n_steps,
                            int64_t *rows)
{
    const lt_cfg_training *t = &w->e->cfg->training;
    const int64_t each = t->gradient_accumulation_steps * t->micro_batch_size;
    for (int64_t at = 0; at < n_steps * each; at += t->micro_batch_size)
        LT_TRY(lt_sampler_next(sampler, rows + at));
    LT_TRY(count(w, k, rows, n_steps * each));
    for (int64_t s = 0; s < n_steps; s++)
        LT_TRY(walk_step(w, k, rows + s * each));
    return LT_OK;
}

// The steps in the order in which the run will take them, until the time is up.
static lt_status walk_steps(walk *w, counter *k, lt_sampler *sampler)
{
    const lt_cfg_training *t = &w->e->cfg->training;
    const int64_t each = t->gradient_accumulation_steps * t->micro_batch_size;
    const int64_t chunk = lt_max_i64(1, CHUNK_ROWS / each);
    const double begin = lt_clock_now();
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)(chunk * each) * sizeof(int64_t), "rows of steps"));
    lt_status st = LT_OK;
    for (int64_t at = 0; st == LT_OK && at < w->o->n_steps; at += chunk) {
        if (w->o->seconds > 0 && at > 0 && lt_clock_now() - begin > w->o->seconds)
            break;
        st = walk_chunk(w, k, sampler, lt_min_i64(chunk, w->o->n_steps - at), memory);
    }
    lt_mem_free(memory);
    return st;
}

static lt_status open_counter(const walk *w, lt_source *source, counter *k)
{
    void *memory = NULL;
    *k = (counter){.source = source,
                   .n = lt_dataset_rows(lt_source_dataset(source)),
                   .merge = w->e->model->config.vision.merge};
    LT_TRY(lt_mem_alloc(&memory, (size_t)k->n * sizeof(row_counts), "counts of samples"));
    k->row = memory;
    return LT_OK;
}

static lt_status walk_data(walk *w)
{
    counter k;
    const int64_t cut = lt_dataset_counted(lt_source_dataset(w->o->source)).cut;
    lt_sampler *sampler = NULL;
    lt_sampler_opts o = lt_sampler_opts_default();
    lt_status st = open_counter(w, w->o->source, &k);
    o.n_samples = k.n;
    o.micro_batch = w->e->cfg->training.micro_batch_size;
    o.shuffle = w->e->cfg->data.dataloader_param.shuffle;
    o.data_sharding = w->e->cfg->data.dataloader_param.data_sharding;
    o.dp_size = w->e->ranks ? w->e->ranks->dp_size : 1;
    o.dp_rank = w->e->ranks ? w->e->ranks->dp_rank : 0;
    o.consumed = w->o->from.cursor;
    if (st == LT_OK)
        st = lt_sampler_create(&o, w->e->log, &sampler);
    if (st == LT_OK)
        st = walk_steps(w, &k, sampler);
    w->out->n_rows = k.n_counted;
    w->out->n_cut = lt_dataset_counted(lt_source_dataset(k.source)).cut - cut;
    lt_sampler_destroy(sampler);
    lt_mem_free(k.row);
    return st;
}

static lt_status count_all(const walk *w, counter *k)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)k->n * sizeof(int64_t), "rows of a validation"));
    int64_t *rows = memory;
    for (int64_t i = 0; i < k->n; i++)
        rows[i] = i;
    const lt_status st = count(w, k, rows, k->n);
    lt_mem_free(memory);
    return st;
}

// All rows in their order, if the steps come to a validation at all.
static lt_status walk_validation(walk *w)
{
    const lt_cfg_training *t = &w->e->cfg->training;
    const int64_t begin = w->o->from.iteration, end = begin + w->o->n_steps;
    const int64_t each = t->val_micro_batch_size;
    counter k;
    if (!w->o->validation || t->val_interval < 1 ||
        end / t->val_interval == begin / t->val_interval)
        return LT_OK;
    w->mode = LT_MODE_LOSS;
    lt_vec_clear(&w->seen);
    lt_status st = open_counter(w, w->o->validation, &k);
    if (st == LT_OK)
        st = count_all(w, &k);
    for (int64_t i = 0; st == LT_OK && i < k.n; i += each) {
        lt_extents all = {0};
        for (int64_t r = i; r < lt_min_i64(i + each, k.n); r++)
            add_row(&all, &k.row[r]);
        st = look_at(w, &all);
    }
    lt_mem_free(k.row);
    return st;
}

// Every sample at cutoff_len, all of it pictures but a quarter, each of the largest size that the
// limits allow.
static lt_extents worst_case(const lt_engine *e)
{
    const lt_vision_config *v = &e->model->config.vision;
    const lt_cfg_dataset *d = &e->cfg->data.dataset_param;
    const int64_t samples = e->cfg->training.micro_batch_size, merge = v->merge * v->merge;
    const int64_t tokens = samples * d->basic_parameters.cutoff_len;
    const int64_t most =
        v->intern.class_token // a tile
            ? v->grid * v->grid / merge
            : d->preprocess_parameters.image_max_pixels / (v->patch * v->patch * merge);
    const int64_t per_image = lt_max_i64(1, most);
    const int64_t images = tokens * 3 / 4 / (per_image + 2);
    return (lt_extents){{[LT_EXT_TOKENS] = tokens,
                         [LT_EXT_SAMPLES] = samples,
                         [LT_EXT_PATCHES] = images * per_image * merge,
                         [LT_EXT_MERGED] = images * per_image,
                         [LT_EXT_FRAMES] = images,
                         [LT_EXT_TARGETS] = tokens}};
}

static int64_t host_bytes(const lt_engine *e, const lt_extents *x)
{
    int64_t bytes = 0;
    for (int v = 0; v < LT_N_BATCH_VALUES; v++) {
        const lt_tensor t = lt_batch_tensor((lt_batch_value)v, x, e->model->pixel_width);
        bytes += (int64_t)lt_tensor_bytes(&t);
    }
    const int64_t micro = e->cfg->training.gradient_accumulation_steps;
    return bytes * (micro + lt_max_i64(2, micro) + 2);
}

static int64_t limit_of(const lt_engine *e)
{
    const int64_t own = e->cfg->lathe.memory_budget;
    return own == LT_CFG_NONE ? e->device->memory_bytes : own;
}

lt_status lt_forecast_fits(const lt_engine *e, const lt_forecast *f)
{
    const int64_t limit = limit_of(e);
    const int64_t want = f->state + f->step + f->batch;
    const lt_extents *x = &f->largest;
    if (limit <= 0 || want <= limit)
        return LT_OK;
    return LT_FAIL(LT_ERR_MEMORY,
                   "the run needs %s on %s (%s of parameters, gradients and moments, %s for its "
                   "largest batch: %lld tokens and %lld patches in %lld samples), but may use %s: "
                   "recompute more (features.recompute), shorten "
                   "data.dataset_param.basic_parameters.cutoff_len, or raise lathe.memory_budget",
                   lt_bytes_text(want).s, e->device->name, lt_bytes_text(f->state).s,
                   lt_bytes_text(f->step).s, (long long)x->n[LT_EXT_TOKENS],
                   (long long)x->n[LT_EXT_PATCHES], (long long)x->n[LT_EXT_SAMPLES],
                   lt_bytes_text(limit).s);
}

static lt_status forecast(const lt_engine *e, const lt_forecast_opts *opts, lt_forecast *out)
{
    *out = (lt_forecast){.worst_case = opts->source == NULL};
    walk w = {.e = e, .o = opts, .out = out, .mode = LT_MODE_TRAIN, .seen = LT_VEC_OF(lt_extents)};
    lt_status st = lt_trial_state(e, &w.state);
    if (st == LT_OK && opts->source) {
        st = walk_data(&w);
    } else if (st == LT_OK) {
        const lt_extents most = worst_case(e);
        st = look_at(&w, &most);
    }
    if (st == LT_OK)
        st = walk_validation(&w);
    if (st == LT_OK) {
        out->state = w.state->bytes;
        out->host_state = w.state->host_bytes;
        memcpy(out->state_part, w.state->part_bytes, sizeof out->state_part);
        out->host = host_bytes(e, &out->largest);
        if (out->program)
            out->peak = lt_program_peak(out->program);
    }
    if (out->program)
        out->program->opts.state = NULL; // it ends here
    lt_state_layout_destroy(w.state);
    lt_vec_deinit(&w.seen);
    return st;
}

/* ---- lathe.policy: auto ---- */

// What comes later than was looked at may be as large as the configuration allows.
static lt_extents largest_of(const lt_engine *e, const lt_forecast_opts *opts, const lt_forecast *f)
{
    const lt_extents worst = worst_case(e);
    return f->n_steps < opts->n_steps ? lt_extents_max(&f->largest, &worst) : f->largest;
}

// With lathe.policy auto the largest batch decides; under what was chosen for it another one may be
// the largest.
lt_status lt_forecast_run(lt_engine *e, const lt_forecast_opts *opts, lt_forecast *out)
{
    const int64_t limit = opts->memory > 0 ? opts->memory : limit_of(e);
    lt_extents largest = {0};
    for (;;) {
        LT_TRY(forecast(e, opts, out));
        if (!e->auto_policy || !out->program || limit <= 0 ||
            out->state + out->step + out->batch <= limit)
            return LT_OK;
        const lt_extents here = largest_of(e, opts, out);
        if (lt_extents_fit(&here, &largest))
            return LT_OK;
        largest = lt_extents_max(&largest, &here);
        LT_TRY(lt_trial_choose(e, &largest, limit, lt_trial_rates(e)));
        lt_forecast_deinit(out);
    }
}

void lt_forecast_deinit(lt_forecast *f)
{
    lt_program_destroy(f->program);
    f->program = NULL;
}
