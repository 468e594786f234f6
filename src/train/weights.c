// SPDX-License-Identifier: Apache-2.0
// Reading and saving parameters, piece by piece, in bounded memory.
#include "train/weights.h"

#include "train/expert_items.h"
#include "train/pictures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Elements on the host at a time, and those of one thread.
enum { PIECE = 1 << 22, PART = 1 << 16, MAX_LISTED = 5 };

/* ---- reading ---- */

const char *lt_weight_name(const lt_hf *hf, const lt_param *p)
{
    for (int32_t i = -1; i < p->n_aliases; i++) {
        const char *name = i < 0 ? p->name : p->aliases[i];
        if (lt_hf_has_weight(hf, name))
            return name;
    }
    return p->name;
}

// The weight of a parameter: under its name, or under one of its other names.
static lt_status find_weight(lt_engine *e, lt_arena *arena, const lt_param *p, lt_hf_weight *out)
{
    lt_hf *hf = e->run->weights;
    const char *name = lt_weight_name(hf, p);
    for (int32_t i = 0; i < p->n_aliases; i++)
        lt_hf_mark_used(hf, p->aliases[i]);
    return lt_hf_find_weight(hf, arena, name, p->rank, p->dim,
                             lt_model_experts_transposed(&e->model->config), out);
}

// A piece of values on the host, made or looked at by all threads.
typedef struct piece {
    float *values;
    int64_t first, n;
    const lt_hf_weight *weight; // to be read; NULL: drawn
    const lt_param *param;
    uint64_t seed;
} piece;

static lt_status fill_part(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const piece *p = ctx;
    const int64_t from = i * PART, n = lt_min_i64(PART, p->n - from);
    if (p->weight)
        return lt_hf_weight_read(p->weight, p->first + from, n, LT_F32, p->values + from);
    lt_model_init_values(p->param, p->seed, p->first + from, n, p->values + from);
    return LT_OK;
}

// All that this rank has of a parameter's part, piece by piece. like: where its values come from.
static lt_status fill(lt_engine *e, lt_state_part part, piece like)
{
    const lt_owned mine = lt_exec_owned(e->exec, like.param->id);
    for (int64_t i = mine.first; i < mine.first + mine.n; i += PIECE) {
        like.first = i;
        like.n = lt_min_i64(PIECE, mine.first + mine.n - i);
        LT_TRY(lt_pool_run(e->pool, lt_ceil_div(like.n, PART), fill_part, &like));
        LT_TRY(lt_exec_write(e->exec, like.param->id, part, i, like.n, LT_F32, like.values));
    }
    return LT_OK;
}

static lt_status list_unused(lt_engine *e)
{
    lt_vec names = LT_VEC_OF(const char *);
    lt_buf text = {0};
    lt_status st = lt_hf_unused(e->run->weights, &names);
    for (int64_t i = 0; st == LT_OK && i < names.n && i < MAX_LISTED; i++)
        st = lt_buf_printf(&text, "%s%s", i ? ", " : "", LT_AT(&names, const char *, i));
    if (st == LT_OK && names.n > MAX_LISTED)
        st = lt_buf_printf(&text, " and %lld more", (long long)(names.n - MAX_LISTED));
    if (st == LT_OK && names.n > 0) {
        // Of a distributed checkpoint more keys than wanted are no error, as PyTorch has it.
        if (e->cfg && e->cfg->training.load_strict && e->run->kind != LT_RUN_DCP) {
            st = LT_FAIL(
                LT_ERR_FORMAT,
                "%s holds %lld tensors that the model has no use for (training.load_strict): %s",
                lt_hf_dir(e->run->weights), (long long)names.n, text.data);
        } else {
            LT_NOTE(e->log, "weights", "%lld tensors of %s are not used%s: %s", (long long)names.n,
                    lt_hf_dir(e->run->weights),
                    e->run->kind == LT_RUN_DCP ? "" : "; they are kept and saved as they are",
                    text.data);
        }
    }
    lt_vec_deinit(&names);
    lt_buf_deinit(&text);
    return st;
}

// Where a shape says nothing, who looks after the file should know what was taken.
static void note_orientation(const lt_engine *e, const lt_param *p, const lt_hf_weight *w)
{
    if (w->by_family) {
        LT_NOTE(e->log, "weights",
                "%s fits two layouts of expert matrices; it is read as %s, which is how %s models "
                "are published",
                p->name, w->form == LT_HF_TRANSPOSED ? "[experts, in, out]" : "[experts, out, in]",
                e->model->config.model_type);
    }
}

// A checkpoint that has lost its prediction module: the module begins anew.
static lt_status draw(lt_engine *e, const lt_param *p, float *values)
{
    const piece drawn = {
        .values = values, .param = p, .seed = e->cfg ? (uint64_t)e->cfg->training.seed : 0};
    return lt_exec_has(e->exec, p->id, LT_STATE_VALUE) ? fill(e, LT_STATE_VALUE, drawn) : LT_OK;
}

static bool lacks_module(const lt_engine *e)
{
    if (e->model->next_block < 0 || lt_hf_find(e->run->weights, "mtp.fc.weight"))
        return false;
    LT_NOTE(e->log, "weights", "%s has no prediction module (mtp.*): it begins with random values",
            lt_hf_dir(e->run->weights));
    return true;
}

static lt_status load_all(lt_engine *e, lt_arena *arena, float *values)
{
    bool noted = false;
    const bool drawn = lacks_module(e);
    for (int32_t i = 0; i < e->model->n_params; i++) {
        lt_hf_weight w;
        const piece p = {.values = values, .param = &e->model->params[i], .weight = &w};
        if (drawn && lt_text_starts(p.param->name, "mtp.")) {
            LT_TRY(draw(e, p.param, values));
            continue;
        }
        LT_TRY(find_weight(e, arena, p.param, &w));
        if (!noted)
            note_orientation(e, p.param, &w);
        noted = noted || w.by_family;
        if (lt_exec_has(e->exec, i, LT_STATE_VALUE))
            LT_TRY(fill(e, LT_STATE_VALUE, p));
    }
    return LT_OK;
}

lt_status lt_weights_load(lt_engine *e)
{
    void *memory = NULL;
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "weights"));
    lt_status st = lt_mem_alloc(&memory, PIECE * sizeof(float), "a piece of a weight");
    if (st == LT_OK)
        st = load_all(e, arena, memory);
    lt_mem_free(memory);
    lt_arena_destroy(arena);
    return st == LT_OK ? list_unused(e) : st;
}

lt_status lt_weights_random(lt_engine *e, uint64_t seed)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, PIECE * sizeof(float), "random values"));
    lt_status st = LT_OK;
    for (int32_t i = 0; st == LT_OK && i < e->model->n_params; i++) {
        const piece p = {.values = memory, .param = &e->model->params[i], .seed = seed};
        if (lt_exec_has(e->exec, i, LT_STATE_VALUE))
            st = fill(e, LT_STATE_VALUE, p);
    }
    lt_mem_free(memory);
    return st;
}

/* ---- the state beside the weights ---- */

static const struct state_row {
    const char *name;
    lt_state_part part;
    bool optimizer;
} state_rows[] = {{"master", LT_STATE_VALUE, false},
                  {"exp_avg", LT_STATE_M, true},
                  {"exp_avg_sq", LT_STATE_V, true}};
enum { N_STATE_ROWS = (int)(sizeof state_rows / sizeof state_rows[0]) };

lt_status lt_progress_read(const lt_checkpoint *run, lt_progress *out)
{
    LT_TRY(lt_run_number(run, "iteration", &out->iteration));
    LT_TRY(lt_run_number(run, "consumed_train_samples", &out->consumed));
    LT_TRY(lt_run_number(run, "optimizer_updates", &out->updates));
    return lt_run_number(run, "sampler_cursor", &out->cursor);
}

// A part of the optimizer's state of a distributed checkpoint: it lies as its weight does.
static lt_status find_moment(lt_engine *e, lt_arena *arena, const lt_param *p, const char *part,
                             lt_hf_weight *out)
{
    const char *name = lt_weight_name(e->run->weights, p);
    void *memory = NULL;
    int64_t dim[LT_MAX_DIMS];
    LT_TRY(lt_hf_find_weight(e->run->weights, arena, name, p->rank, p->dim,
                             lt_model_experts_transposed(&e->model->config), out));
    memcpy(dim, p->dim, sizeof dim);
    if (out->form == LT_HF_TRANSPOSED) {
        dim[1] = p->dim[2];
        dim[2] = p->dim[1];
    }
    LT_TRY(lt_arena_take(arena, sizeof(lt_st_tensor *), &memory));
    const lt_st_tensor **parts = memory;
    out->parts = parts;
    out->n_parts = 1;
    return lt_run_state(e->run, part, name, p->rank, dim, &parts[0]);
}

static lt_status find_state(lt_engine *e, lt_arena *arena, const lt_param *p, const char *part,
                            lt_hf_weight *out)
{
    void *memory = NULL;
    if (e->run->kind == LT_RUN_DCP)
        return find_moment(e, arena, p, part, out);
    LT_TRY(lt_arena_take(arena, sizeof(lt_st_tensor *), &memory));
    const lt_st_tensor **parts = memory;
    *out = (lt_hf_weight){.form = LT_HF_AS_IS, .n_parts = 1, .parts = parts};
    return lt_run_state(e->run, part, p->name, p->rank, p->dim, &parts[0]);
}

// Masters of a distributed checkpoint are its weights, which are read already.
static bool is_wanted(const lt_engine *e, const struct state_row *row, bool optimizer)
{
    return row->optimizer ? optimizer : e->run->kind != LT_RUN_DCP;
}

static lt_status resume_param(lt_engine *e, lt_arena *arena, const lt_param *p, bool optimizer,
                              float *values)
{
    for (int k = 0; p->trainable && k < N_STATE_ROWS; k++) {
        lt_hf_weight w;
        if (!is_wanted(e, &state_rows[k], optimizer) ||
            !lt_exec_has(e->exec, p->id, state_rows[k].part))
            continue;
        const lt_status st = find_state(e, arena, p, state_rows[k].name, &w);
        if (st == LT_ERR_NOT_FOUND && state_rows[k].optimizer)
            lt_error_note("the checkpoint was saved without the optimizer's state; "
                          "training.no_load_optim=true goes on from it with fresh moments");
        LT_TRY(st);
        LT_TRY(fill(e, state_rows[k].part, (piece){.values = values, .param = p, .weight = &w}));
    }
    return LT_OK;
}

lt_status lt_weights_resume(lt_engine *e, bool optimizer, lt_progress *out)
{
    *out = (lt_progress){0};
    if (!e->run || !lt_run_resumes(e->run))
        return LT_OK;
    void *memory = NULL;
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "the optimizer's state"));
    lt_status st = lt_mem_alloc(&memory, PIECE * sizeof(float), "a piece of the optimizer's state");
    for (int32_t i = 0; st == LT_OK && i < e->model->n_params; i++)
        st = resume_param(e, arena, &e->model->params[i], optimizer, memory);
    lt_mem_free(memory);
    lt_arena_destroy(arena);
    LT_TRY(st);
    LT_TRY(lt_progress_read(e->run, out));
    if (!optimizer)
        out->updates = 0;
    return LT_OK;
}

/* ---- saving ---- */

// Where a tensor to be written comes from: a part of the executor's state.
typedef struct state_source {
    lt_exec *exec;
    int32_t param;
    lt_state_part part;
} state_source;

static lt_status fetch_state(void *ctx, int64_t first, int64_t n, void *dst)
{
    const state_source *s = ctx;
    return lt_exec_read(s->exec, s->param, s->part, first, n, LT_F32, dst);
}

static lt_status new_source(lt_engine *e, lt_arena *arena, int32_t param, lt_state_part part,
                            void **out)
{
    LT_TRY(lt_arena_take(arena, sizeof(state_source), out));
    *(state_source *)*out = (state_source){e->exec, param, part};
    return LT_OK;
}

// A frozen weight is written from the file that it came from: what graphs read may have been
// narrowed.
static lt_status weight_item(lt_engine *e, lt_arena *arena, int32_t param, lt_hf_item *item)
{
    const lt_param *p = &e->model->params[param];
    *item = (lt_hf_item){.name = p->name,
                         .aliases = p->aliases,
                         .n_aliases = p->n_aliases,
                         .rank = p->rank,
                         .from = LT_F32,
                         .file_dtype = e->compute == LT_BF16 ? LT_BF16 : LT_F32};
    memcpy(item->dim, p->dim, sizeof item->dim);
    union {
        const void *in;
        void *out;
    } view = {.in = e->run && !p->trainable
                        ? lt_hf_find(e->run->weights, lt_weight_name(e->run->weights, p))
                        : NULL};
    if (view.in) {
        item->from = ((const lt_st_tensor *)view.in)->dtype;
        item->fetch = lt_st_fetch_view;
        item->ctx = view.out;
        return LT_OK;
    }
    item->fetch = fetch_state;
    return new_source(e, arena, param, LT_STATE_VALUE, &item->ctx);
}

static lt_status state_items(lt_engine *e, lt_arena *arena, lt_vec *items)
{
    for (int32_t i = 0; i < e->model->n_params; i++) {
        for (int k = 0; e->model->params[i].trainable && k < N_STATE_ROWS; k++) {
            const lt_param *p = &e->model->params[i];
            if ((state_rows[k].optimizer && e->cfg->training.no_save_optim) ||
                !lt_exec_has(e->exec, i, state_rows[k].part))
                continue;
            lt_st_item item;
            void *ctx = NULL;
            LT_TRY(new_source(e, arena, i, state_rows[k].part, &ctx));
            LT_TRY(lt_run_state_item(arena, state_rows[k].name, p->name, p->rank, p->dim,
                                     fetch_state, ctx, &item));
            LT_TRY(lt_vec_push(items, &item));
        }
    }
    return LT_OK;
}

static lt_status check_part(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const piece *p = ctx;
    const int64_t from = i * PART, to = lt_min_i64(p->n, from + PART);
    for (int64_t k = from; k < to; k++) {
        if (!isfinite(p->values[k])) {
            return LT_FAIL(LT_ERR_NUMERIC,
                           "weight %s[%lld] is %g: nothing is saved over the last good checkpoint",
                           p->param->name, (long long)(p->first + k), (double)p->values[k]);
        }
    }
    return LT_OK;
}

// own: what this rank has, without asking others.
static lt_status check_values(lt_engine *e, piece p, bool own)
{
    const lt_owned all =
        own ? lt_exec_owned(e->exec, p.param->id) : (lt_owned){0, p.param->n_elems};
    for (int64_t i = 0; i < all.n; i += PIECE) {
        p.first = all.first + i;
        p.n = lt_min_i64(PIECE, all.n - i);
        LT_TRY((own ? lt_exec_read_own : lt_exec_read)(e->exec, p.param->id, LT_STATE_VALUE,
                                                       p.first, p.n, LT_F32, p.values));
        LT_TRY(lt_pool_run(e->pool, lt_ceil_div(p.n, PART), check_part, &p));
    }
    return LT_OK;
}

lt_status lt_weights_check(lt_engine *e, bool own)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, PIECE * sizeof(float), "a piece of a weight"));
    lt_status st = LT_OK;
    for (int32_t i = 0; st == LT_OK && i < e->model->n_params; i++)
        if (e->model->params[i].trainable)
            st = check_values(e, (piece){.values = memory, .param = &e->model->params[i]}, own);
    lt_mem_free(memory);
    return st;
}

lt_dtype lt_save_dtype(const lt_config *cfg)
{
    switch ((lt_cfg_dtype)cfg->training.save_ckpt_dtype) {
    case LT_CFG_FP16:
        return LT_F16;
    case LT_CFG_BF16:
        return LT_BF16;
    case LT_CFG_FP32:
        return LT_F32;
    case LT_CFG_FP64:
    case LT_CFG_INT8:
    case LT_CFG_INT16:
    case LT_CFG_INT32:
    case LT_CFG_INT64:
    case LT_CFG_DTYPE_NONE:
        break;
    }
    return LT_N_DTYPES;
}

static lt_status number_text(lt_arena *arena, const char *key, int64_t value, lt_vec *meta)
{
    char *text = NULL;
    LT_TRY(lt_arena_printf(arena, &text, "%lld", (long long)value));
    const lt_st_pair pair = {key, text};
    return lt_vec_push(meta, &pair);
}

// A random model that was cut says so in its config.json; a cut checkpoint keeps the layers that
// were left out.
static lt_status cut_edits(const lt_engine *e, lt_arena *arena, lt_vec *edits)
{
    char *layers = NULL, *depth = NULL;
    LT_TRY(lt_arena_printf(arena, &layers, "%lld", (long long)e->model->config.text.layers));
    LT_TRY(lt_arena_printf(arena, &depth, "%lld", (long long)e->model->config.vision.depth));
    lt_buf deepstack = {0};
    lt_status st = lt_buf_text(&deepstack, "[");
    for (int32_t i = 0; st == LT_OK && i < e->model->config.vision.n_deepstack; i++)
        st = lt_buf_printf(&deepstack, "%s%d", i ? ", " : "", e->model->config.vision.deepstack[i]);
    if (st == LT_OK)
        st = lt_buf_text(&deepstack, "]");
    char *list = NULL;
    if (st == LT_OK)
        st = lt_arena_text(arena, deepstack.data, deepstack.len, &list);
    lt_buf_deinit(&deepstack);
    LT_TRY(st);
    const lt_intern_config *intern = &e->model->config.vision.intern;
    const lt_hf_edit all[] = {
        {"config.json",
         intern->remote_names ? "llm_config.num_hidden_layers" : "text_config.num_hidden_layers",
         layers},
        {"config.json",
         intern->class_token ? "vision_config.num_hidden_layers" : "vision_config.depth", depth},
        {"config.json", "vision_config.deepstack_visual_indexes", list}};
    return lt_vec_append(edits, all, intern->class_token ? 2 : 3);
}

lt_status lt_config_edits(const lt_engine *e, lt_arena *arena, lt_vec *edits)
{
    LT_TRY(lt_pictures_edits(e->model, &e->cfg->data.dataset_param, arena, edits));
    return e->cut && !e->run ? cut_edits(e, arena, edits) : LT_OK;
}

typedef struct save_lists {
    lt_vec items, state, meta, edits;
    lt_expert_matrix matrix;
} save_lists;

static lt_status fill_lists(lt_engine *e, const lt_progress *progress, lt_arena *arena,
                            save_lists *l)
{
    for (int32_t i = 0; i < e->model->n_params; i++) {
        lt_hf_item item;
        LT_TRY(weight_item(e, arena, i, &item));
        if (e->model->params[i].rank == 3 && lt_hf_is_experts(item.name))
            LT_TRY(lt_expert_items(e, arena, i, &item, &l->matrix, &l->items));
        else
            LT_TRY(lt_vec_push(&l->items, &item));
    }
    LT_TRY(state_items(e, arena, &l->state));
    LT_TRY(number_text(arena, "consumed_train_samples", progress->consumed, &l->meta));
    LT_TRY(number_text(arena, "sampler_cursor", progress->cursor, &l->meta));
    LT_TRY(number_text(arena, "optimizer_updates", progress->updates, &l->meta));
    LT_TRY(number_text(arena, "seed", e->cfg->training.seed, &l->meta));
    return lt_config_edits(e, arena, &l->edits);
}

static lt_status save(lt_engine *e, const lt_progress *progress, lt_arena *arena, save_lists *l)
{
    LT_TRY(lt_weights_check(e, false));
    LT_TRY(fill_lists(e, progress, arena, l));
    lt_run_plan plan = {.root = e->cfg->training.save,
                        .iteration = progress->iteration,
                        .weights = lt_hf_plan_default(),
                        .state = l->state.data,
                        .n_state = l->state.n,
                        .meta = l->meta.data,
                        .n_meta = l->meta.n,
                        .keep_last = e->cfg->lathe.keep_last};
    plan.weights.items = l->items.data;
    plan.weights.n_items = l->items.n;
    plan.weights.source = e->run && e->run->kind != LT_RUN_DCP ? e->run->weights : e->assets;
    plan.weights.save_dtype = lt_save_dtype(e->cfg);
    plan.weights.edits = l->edits.data;
    plan.weights.n_edits = l->edits.n;
    plan.weights.tie = e->model->tied ? LT_HF_TIED : LT_HF_UNTIED;
    return lt_run_save(&plan, e->log);
}

lt_status lt_weights_save(lt_engine *e, const lt_progress *progress)
{
    lt_arena *arena = NULL;
    save_lists l = {LT_VEC_OF(lt_hf_item),
                    LT_VEC_OF(lt_st_item),
                    LT_VEC_OF(lt_st_pair),
                    LT_VEC_OF(lt_hf_edit),
                    {0}};
    lt_status st = lt_arena_create(&arena, "lists of a save");
    if (st == LT_OK)
        st = save(e, progress, arena, &l);
    lt_vec_deinit(&l.items);
    lt_vec_deinit(&l.state);
    lt_vec_deinit(&l.meta);
    lt_vec_deinit(&l.edits);
    lt_arena_destroy(arena);
    return st;
}
