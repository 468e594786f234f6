// SPDX-License-Identifier: Apache-2.0
// The keys of a run's checkpoint, and who writes which rows.
#include "train/dcp_items.h"

#include "ckpt/hf_experts.h"

#include <string.h>

// One expert's matrix, as it lies and turned.
struct lt_dcp_matrix {
    const lt_dcp_source *owner;
    int64_t expert, room;
    float *plain, *turned;
};

typedef struct builder {
    lt_engine *e;
    const lt_progress *progress;
    lt_dcp_items *items;
    lt_shard shard; // its size alone counts
    int32_t n_ranks, rank;
    int64_t *load; // [n_ranks] bytes that each writes
    int32_t *file; // [n_ranks]
} builder;

// ---- where elements come from

static lt_status read_source(const lt_dcp_source *s, int64_t first, int64_t n, float *dst)
{
    if (!s->copy)
        return lt_exec_read_own(s->exec, s->param, s->part, first, n, LT_F32, dst);
    memcpy(dst, s->copy + (first - s->first), (size_t)n * sizeof *dst);
    return LT_OK;
}

static lt_status fetch_source(void *ctx, int64_t first, int64_t n, void *dst)
{
    return read_source(ctx, first, n, dst);
}

static lt_status want_expert(const lt_dcp_source *s, int64_t expert)
{
    struct lt_dcp_matrix *m = s->matrix;
    const int64_t n = s->out * s->in;
    if (m->owner == s && m->expert == expert)
        return LT_OK;
    m->owner = NULL;
    LT_TRY(read_source(s, expert * n, n, m->plain));
    for (int64_t o = 0; o < s->out; o++)
        for (int64_t i = 0; i < s->in; i++)
            m->turned[i * s->out + o] = m->plain[o * s->in + i];
    m->owner = s;
    m->expert = expert;
    return LT_OK;
}

static lt_status fetch_turned(void *ctx, int64_t first, int64_t n, void *dst)
{
    const lt_dcp_source *s = ctx;
    const int64_t each = s->out * s->in;
    float *to = dst;
    while (n > 0) {
        const int64_t at = first % each, take = lt_min_i64(n, each - at);
        LT_TRY(want_expert(s, first / each));
        memcpy(to, s->matrix->turned + at, (size_t)take * sizeof *to);
        to += take;
        first += take;
        n -= take;
    }
    return LT_OK;
}

static lt_status fetch_weight(void *ctx, int64_t first, int64_t n, void *dst)
{
    return lt_hf_weight_read(ctx, first, n, LT_F32, dst);
}

static lt_status fetch_step(void *ctx, int64_t first, int64_t n, void *dst)
{
    (void)first, (void)n;
    memcpy(dst, ctx, sizeof(float));
    return LT_OK;
}

// ---- who writes

// Of the ranks that hold a piece the one with the least to write.
static int32_t choose_rank(builder *b, int32_t piece, int64_t bytes)
{
    int32_t best = piece;
    const int32_t step = lt_is_cut(b->shard) ? b->shard.size : 1;
    for (int32_t r = piece; r < b->n_ranks; r += step)
        if (b->load[r] < b->load[best])
            best = r;
    b->load[best] += bytes;
    return best;
}

typedef struct rows_of {
    const lt_param *param;
    lt_dtype from;
    size_t size; // bytes of an element in the file
    lt_st_fetch fetch;
    void *ctx; // NULL: a source of its own is made
    lt_state_part part;
    bool turned;
} rows_of;

static lt_status new_source(builder *b, const rows_of *r, lt_owned some, void **out)
{
    LT_TRY(lt_arena_take(b->items->arena, sizeof(lt_dcp_source), out));
    lt_dcp_source *s = *out;
    *s = (lt_dcp_source){.exec = b->e->exec,
                         .param = r->param->id,
                         .part = r->part,
                         .first = some.first,
                         .n = some.n,
                         .matrix = b->items->matrix};
    if (r->turned) {
        s->out = r->param->dim[1];
        s->in = r->param->dim[2];
        b->items->matrix->room = lt_max_i64(b->items->matrix->room, s->out * s->in);
    }
    return lt_vec_push(&b->items->sources, (const void *)&s);
}

// The last tensor of the plan, cut as its parameter is.
static lt_status add_rows(builder *b, const rows_of *r)
{
    const lt_param *p = r->param;
    const int64_t n_rows = p->rank > 0 ? p->dim[0] : 1;
    const int64_t row = n_rows > 0 ? p->n_elems / n_rows : 0;
    const int32_t n = lt_is_cut(b->shard) ? b->shard.size : 1;
    for (int32_t piece = 0; piece < n; piece++) {
        const lt_owned some = lt_shard_owned(p, (lt_shard){b->shard.size, piece});
        if (some.n == 0 && !(p->n_elems == 0 && piece == 0))
            continue;
        const int32_t rank = choose_rank(b, piece, some.n * (int64_t)r->size);
        lt_dcp_rows rows = {.file = b->file[rank],
                            .first = row > 0 ? some.first / row : 0,
                            .n = row > 0 ? some.n / row : n_rows,
                            .from = r->from,
                            .fetch = r->fetch,
                            .ctx = r->ctx};
        if (rank == b->rank && !r->ctx)
            LT_TRY(new_source(b, r, some, &rows.ctx));
        LT_TRY(lt_dcp_plan_rows(&b->items->plan, &rows));
    }
    return LT_OK;
}

// ---- the model

// The name of a parameter in its checkpoint, and whether experts lie there as [E, in, out].
static lt_status find_names(builder *b, const lt_param *p, const char **name, bool *turned,
                            lt_hf_weight *weight)
{
    const lt_engine *e = b->e;
    const bool experts = p->rank == 3 && lt_hf_is_experts(p->name);
    *name = p->name;
    *turned = experts && lt_model_experts_transposed(&e->model->config);
    if (!e->run)
        return LT_OK;
    *name = lt_weight_name(e->run->weights, p);
    LT_TRY(lt_hf_find_weight(e->run->weights, b->items->arena, *name, p->rank, p->dim,
                             lt_model_experts_transposed(&e->model->config), weight));
    if (weight->form != LT_HF_PER_EXPERT)
        *turned = weight->form == LT_HF_TRANSPOSED;
    return LT_OK;
}

static lt_status add_tensor(builder *b, const lt_dcp_path *path, lt_dtype dtype, const rows_of *r)
{
    int64_t dim[LT_MAX_DIMS];
    memcpy(dim, r->param->dim, sizeof dim);
    if (r->turned) {
        dim[1] = r->param->dim[2];
        dim[2] = r->param->dim[1];
    }
    rows_of with_size = *r;
    with_size.size = lt_dtype_bytes(dtype);
    LT_TRY(lt_dcp_plan_tensor(&b->items->plan, path, lt_st_dtype_text(dtype), r->param->rank, dim));
    return add_rows(b, &with_size);
}

// A frozen parameter comes from the file that it was read from.
static lt_status frozen_rows(builder *b, const lt_hf_weight *w, rows_of *r)
{
    void *memory;
    if (!b->e->run)
        return LT_OK;
    LT_TRY(lt_arena_take(b->items->arena, sizeof *w, &memory));
    memcpy(memory, w, sizeof *w);
    r->fetch = fetch_weight;
    r->ctx = memory;
    r->turned = false;
    return LT_OK;
}

static lt_status add_model_key(builder *b, const char *name, lt_dtype dtype, const rows_of *r)
{
    const lt_dcp_path path = lt_dcp_path_of("model", name);
    return add_tensor(b, &path, dtype, r);
}

// The head of a tied model stands under both of its names.
static lt_status add_tied(builder *b, const char *name, lt_dtype dtype, const rows_of *r)
{
    const char *head = lt_model_head_name(&b->e->model->config);
    const lt_param *p = r->param;
    for (int32_t i = 0; b->e->model->tied && i < p->n_aliases; i++)
        if (strcmp(p->aliases[i], head) == 0 && strcmp(name, head) != 0)
            return add_model_key(b, head, dtype, r);
    return LT_OK;
}

static lt_status add_moments(builder *b, const char *name, rows_of r)
{
    static const struct {
        const char *name;
        lt_state_part part;
    } moments[] = {{"exp_avg", LT_STATE_M}, {"exp_avg_sq", LT_STATE_V}};
    lt_dcp_path path = {.step = {{"optimizer", 0}, {"state", 0}, {name, 0}}, .n = 4};
    void *step;
    for (int i = 0; i < 2; i++) {
        path.step[3].name = moments[i].name;
        r.part = moments[i].part;
        if (!lt_exec_has(b->e->exec, r.param->id, r.part))
            continue;
        LT_TRY(add_tensor(b, &path, LT_F32, &r));
    }
    LT_TRY(lt_arena_take(b->items->arena, sizeof(float), &step));
    *(float *)step = (float)b->progress->updates;
    path.step[3].name = "step";
    LT_TRY(lt_dcp_plan_tensor(&b->items->plan, &path, "F32", 0, NULL));
    return lt_dcp_plan_rows(&b->items->plan,
                            &(lt_dcp_rows){.file = b->file[choose_rank(b, 0, sizeof(float))],
                                           .n = 1,
                                           .from = LT_F32,
                                           .fetch = fetch_step,
                                           .ctx = step});
}

static lt_status add_param(builder *b, const lt_param *p)
{
    const char *name;
    lt_hf_weight w = {0};
    rows_of r = {.param = p, .from = LT_F32, .part = LT_STATE_VALUE};
    lt_dtype dtype = lt_save_dtype(b->e->cfg);
    LT_TRY(find_names(b, p, &name, &r.turned, &w));
    r.fetch = r.turned ? fetch_turned : fetch_source;
    if (dtype == LT_N_DTYPES)
        dtype = p->trainable ? LT_F32 : b->e->run ? w.parts[0]->dtype : b->e->compute;
    rows_of model = r;
    if (!p->trainable)
        LT_TRY(frozen_rows(b, &w, &model));
    LT_TRY(add_model_key(b, name, dtype, &model));
    LT_TRY(add_tied(b, name, dtype, &model));
    return p->trainable && !b->e->cfg->training.no_save_optim ? add_moments(b, name, r) : LT_OK;
}

// ---- groups of the optimizer

lt_status lt_dcp_groups_of(const lt_engine *e, lt_arena *arena, lt_dcp_groups *out)
{
    void *scale, *of;
    const size_t n = (size_t)e->model->n_params;
    LT_TRY(lt_arena_take(arena, n * sizeof(double), &scale));
    LT_TRY(lt_arena_take(arena, n * sizeof(int32_t), &of));
    *out = (lt_dcp_groups){.scale = scale, .of = of};
    for (int32_t i = 0; i < e->model->n_params; i++) {
        const double own = e->lr_scale ? e->lr_scale[i] : 1.0;
        int64_t g = 0;
        while (g < out->n && out->scale[g] != own)
            g++;
        out->of[i] = e->model->params[i].trainable ? (int32_t)g : -1;
        if (out->of[i] >= 0 && g == out->n)
            out->scale[out->n++] = own;
    }
    return LT_OK;
}

typedef struct hyper {
    const char *name;
    enum { REAL, NONE, FALSE_, TRUE_, BETAS, PARAMS } kind;
    double value;
} hyper;

static void put_names(builder *b, lt_pkl *p, const lt_dcp_groups *groups, int64_t g)
{
    lt_pkl_op(p, LT_PKL_EMPTY_LIST);
    lt_pkl_op(p, LT_PKL_MARK);
    for (int32_t i = 0; i < b->e->model->n_params; i++) {
        const lt_param *param = &b->e->model->params[i];
        if (groups->of[i] == g)
            lt_pkl_text(p, b->e->run ? lt_weight_name(b->e->run->weights, param) : param->name);
    }
    lt_pkl_op(p, LT_PKL_APPENDS);
}

static void put_hyper(builder *b, lt_pkl *p, const hyper *h, const lt_dcp_groups *groups, int64_t g)
{
    static const int ops[] = {[NONE] = LT_PKL_NONE, [FALSE_] = LT_PKL_FALSE, [TRUE_] = LT_PKL_TRUE};
    lt_pkl_begin(p, false);
    if (h->kind == REAL) {
        lt_pkl_float(p, h->value);
    } else if (h->kind == BETAS) {
        lt_pkl_float(p, b->e->cfg->training.adam_beta1);
        lt_pkl_float(p, b->e->cfg->training.adam_beta2);
        lt_pkl_op(p, LT_PKL_TUPLE2);
    } else if (h->kind == PARAMS) {
        put_names(b, p, groups, g);
    } else {
        lt_pkl_op(p, ops[h->kind]);
    }
}

// All hyper-parameters of torch's AdamW: a strict load asks for each.
static lt_status add_group(builder *b, const lt_dcp_groups *groups, int64_t g, double lr)
{
    const lt_cfg_training *t = &b->e->cfg->training;
    const hyper all[] = {{"lr", REAL, lr * groups->scale[g]},
                         {"betas", BETAS, 0},
                         {"eps", REAL, t->adam_eps},
                         {"weight_decay", REAL, t->weight_decay},
                         {"amsgrad", FALSE_, 0},
                         {"maximize", FALSE_, 0},
                         {"foreach", NONE, 0},
                         {"capturable", FALSE_, 0},
                         {"differentiable", FALSE_, 0},
                         {"fused", NONE, 0},
                         {"decoupled_weight_decay", TRUE_, 0},
                         {"initial_lr", REAL, t->lr * groups->scale[g]},
                         {"params", PARAMS, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const lt_dcp_path path = {
            .step = {{"optimizer", 0}, {"param_groups", 0}, {NULL, g}, {all[i].name, 0}}, .n = 4};
        lt_pkl p = {0};
        put_hyper(b, &p, &all[i], groups, g);
        lt_status st = lt_pkl_end(&p);
        if (st == LT_OK)
            st = lt_dcp_plan_value(&b->items->plan, &path, b->file[0], &p.out);
        lt_pkl_deinit(&p);
        LT_TRY(st);
    }
    return LT_OK;
}

// ---- all

static lt_status add_all(builder *b, double lr)
{
    lt_dcp_groups groups;
    LT_TRY(lt_dcp_groups_of(b->e, b->items->arena, &groups));
    for (int64_t g = 0; g < groups.n && !b->e->cfg->training.no_save_optim; g++)
        LT_TRY(add_group(b, &groups, g, lr));
    for (int32_t i = 0; i < b->e->model->n_params; i++)
        LT_TRY(add_param(b, &b->e->model->params[i]));
    return lt_dcp_plan_place(&b->items->plan, &b->items->bytes);
}

static lt_status name_files(builder *b)
{
    void *load, *file;
    LT_TRY(lt_arena_take(b->items->arena, (size_t)b->n_ranks * sizeof *b->load, &load));
    LT_TRY(lt_arena_take(b->items->arena, (size_t)b->n_ranks * sizeof *b->file, &file));
    b->load = load;
    b->file = file;
    for (int32_t r = 0; r < b->n_ranks; r++) {
        char *name;
        LT_TRY(lt_arena_printf(b->items->arena, &name, "__%d_0.distcp", r));
        LT_TRY(lt_dcp_plan_file(&b->items->plan, name, &b->file[r]));
    }
    b->items->own = b->file[b->rank];
    return LT_OK;
}

static lt_status take_matrix(lt_dcp_items *items)
{
    struct lt_dcp_matrix *m = items->matrix;
    void *plain, *turned;
    if (m->room == 0)
        return LT_OK;
    LT_TRY(lt_arena_take(items->arena, (size_t)m->room * sizeof(float), &plain));
    LT_TRY(lt_arena_take(items->arena, (size_t)m->room * sizeof(float), &turned));
    m->plain = plain;
    m->turned = turned;
    return LT_OK;
}

static lt_status build(builder *b, double lr)
{
    void *matrix;
    LT_TRY(lt_arena_create(&b->items->arena, "parts of a checkpoint"));
    LT_TRY(lt_dcp_plan_init(&b->items->plan));
    LT_TRY(lt_arena_take(b->items->arena, sizeof(struct lt_dcp_matrix), &matrix));
    b->items->matrix = matrix;
    LT_TRY(name_files(b));
    LT_TRY(add_all(b, lr));
    return take_matrix(b->items);
}

lt_status lt_dcp_items_init(lt_engine *e, const lt_progress *progress, double lr, lt_dcp_items *out)
{
    builder b = {.e = e,
                 .progress = progress,
                 .items = out,
                 .shard = lt_engine_shard(e),
                 .n_ranks = e->ranks ? e->ranks->size : 1,
                 .rank = e->ranks ? e->ranks->rank : 0};
    *out = (lt_dcp_items){.sources = LT_VEC_OF(lt_dcp_source *)};
    const lt_status st = build(&b, lr);
    if (st != LT_OK)
        lt_dcp_items_deinit(out);
    return st;
}

void lt_dcp_items_deinit(lt_dcp_items *items)
{
    for (int64_t i = 0; i < items->sources.n; i++)
        lt_mem_free(LT_AT(&items->sources, lt_dcp_source *, i)->copy);
    lt_vec_deinit(&items->sources);
    lt_dcp_plan_deinit(&items->plan);
    lt_arena_destroy(items->arena);
    *items = (lt_dcp_items){0};
}

lt_status lt_dcp_items_copy(lt_dcp_items *items)
{
    for (int64_t i = 0; i < items->sources.n; i++) {
        lt_dcp_source *s = LT_AT(&items->sources, lt_dcp_source *, i);
        void *memory = NULL;
        LT_TRY(lt_mem_alloc(&memory, (size_t)s->n * sizeof(float), "a checkpoint's copy of state"));
        const lt_status st =
            lt_exec_read_own(s->exec, s->param, s->part, s->first, s->n, LT_F32, memory);
        s->copy = memory;
        LT_TRY(st);
    }
    return LT_OK;
}
