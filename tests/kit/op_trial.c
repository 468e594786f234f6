// SPDX-License-Identifier: Apache-2.0
// Random inputs for every row of the op table.
#include "tests/kit/op_trial.h"

#include "base/rng.h"
#include "op/adamw.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/clip.h"
#include "op/gelu.h"
#include "op/layer_norm.h"
#include "op/linear_cross_entropy.h"
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "op/rope.h"

#include <math.h>
#include <string.h>

// ---- draws

static double draw(op_trial *t)
{
    return lt_uniform(t->seed, t->draws++);
}

bool trial_chance(op_trial *t, double p)
{
    return draw(t) < p;
}

static int64_t below(op_trial *t, int64_t n)
{
    return (int64_t)(draw(t) * (double)n);
}

// From 1 to most, with a liking for sizes around warps and tiles.
static int64_t size(op_trial *t, int64_t most)
{
    static const int64_t awkward[] = {1, 15, 16, 17, 31, 32, 33, 64, 128, 255, 257};
    if (trial_chance(t, 0.4))
        return lt_min_i64(awkward[below(t, sizeof awkward / sizeof awkward[0])], most);
    return 1 + below(t, most);
}

static int64_t rows(op_trial *t, int64_t most)
{
    return trial_chance(t, 0.08) ? 0 : size(t, most);
}

// Rows and width of a matrix: often a width that models have, or one close to that; at times so
// many rows that sums over them are taken in parts.
static void matrix(op_trial *t, int64_t most_rows, int64_t most_width, int64_t *n, int64_t *width)
{
    static const int64_t wide[] = {7,    100,  256,  1000, 1024, 1152, 2048,
                                   2052, 2560, 2568, 4096, 5120, 8192, 9728};
    *n = rows(t, most_rows);
    *width = size(t, most_width);
    if (trial_chance(t, 0.08)) {
        *n = 2000 + below(t, 2000);
        *width = 8 * size(t, 60);
    } else if (trial_chance(t, 0.5)) {
        *width = wide[below(t, sizeof wide / sizeof wide[0])];
        *n = lt_min_i64(*n, 1 + 60000 / *width);
    }
}

// ---- tensors

lt_status trial_random(op_trial *t, lt_dtype dtype, int rank, const int64_t *dim, lt_tensor *out)
{
    *out = lt_tensor_nd(dtype, rank, dim);
    LT_TRY(lt_arena_take(t->arena, lt_tensor_bytes(out), &out->data));
    const uint64_t key = lt_rng_key(t->seed, "numbers") + t->draws++;
    for (int64_t i = 0, n = lt_n_elems(out); i < n; i++)
        lt_store(out, i, lt_normal(key, (uint64_t)i));
    return LT_OK;
}

static lt_status give_1d(op_trial *t, int i, lt_dtype dtype, int64_t n)
{
    t->given[i] = true;
    return trial_random(t, dtype, 1, &n, &t->in[i]);
}

static lt_status give_2d(op_trial *t, int i, lt_dtype dtype, int64_t n, int64_t width)
{
    t->given[i] = true;
    return trial_random(t, dtype, 2, (const int64_t[]){n, width}, &t->in[i]);
}

// i32 [n] or [n, width], numbers in [0, bound)
static lt_status give_index(op_trial *t, int i, int rank, int64_t n, int64_t width, int64_t bound)
{
    const int64_t dim[] = {n, width};
    t->in[i] = lt_tensor_nd(LT_I32, rank, dim);
    t->given[i] = true;
    LT_TRY(lt_arena_take(t->arena, lt_tensor_bytes(&t->in[i]), &t->in[i].data));
    t->in[i].host = t->in[i].data;
    for (int64_t k = 0; k < lt_n_elems(&t->in[i]); k++)
        ((int32_t *)t->in[i].data)[k] = (int32_t)below(t, bound);
    return LT_OK;
}

// Some of the numbers in [0, bound), ascending; *n of them.
static lt_status give_ascending(op_trial *t, int i, int64_t bound, int64_t *n)
{
    LT_TRY(give_index(t, i, 1, bound, 0, 1));
    const double share = trial_chance(t, 0.2) ? 0.0 : draw(t);
    *n = 0;
    for (int64_t k = 0; k < bound; k++)
        if (trial_chance(t, share))
            ((int32_t *)t->in[i].data)[(*n)++] = (int32_t)k;
    t->in[i].dim[0] = *n;
    return LT_OK;
}

// Segments of `tokens` rows; at times rows before the first, after the last, and empty ones.
static lt_status give_segments(op_trial *t, int i, int64_t tokens)
{
    const int64_t n = 1 + below(t, 6);
    LT_TRY(give_index(t, i, 1, n + 1, 0, tokens + 1));
    int32_t *s = t->in[i].data;
    for (int64_t k = 1; k <= n; k++) { // insertion sort
        for (int64_t j = k; j > 0 && s[j - 1] > s[j]; j--) {
            const int32_t swap = s[j];
            s[j] = s[j - 1];
            s[j - 1] = swap;
        }
    }
    if (trial_chance(t, 0.7))
        s[0] = 0, s[n] = (int32_t)tokens;
    return LT_OK;
}

static void *attr_of(op_trial *t)
{
    return t->attr;
}

// ---- makers

static lt_status make_linear(op_trial *t)
{
    const int64_t n = rows(t, 90), k = size(t, 150), o = size(t, 150);
    LT_TRY(give_2d(t, 0, t->dtype, n, k));
    if (k % 6 == 0)
        LT_TRY(trial_random(t, t->dtype, 4, (const int64_t[]){o, k / 6, 3, 2}, &t->in[1]));
    else
        LT_TRY(give_2d(t, 1, t->dtype, o, k));
    t->given[1] = true;
    t->weights = LT_IN(1) | LT_IN(2);
    return trial_chance(t, 0.5) ? give_1d(t, 2, t->dtype, o) : LT_OK;
}

static lt_status make_rms_norm(op_trial *t)
{
    int64_t n, width;
    matrix(t, 90, 600, &n, &width);
    *(lt_rms_norm_attr *)attr_of(t) = (lt_rms_norm_attr){.eps = 1e-6};
    t->weights = LT_IN(1);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    return give_1d(t, 1, t->dtype, width);
}

static lt_status make_add_rms_norm(op_trial *t)
{
    int64_t n, width;
    matrix(t, 90, 600, &n, &width);
    *(lt_rms_norm_attr *)attr_of(t) = (lt_rms_norm_attr){.eps = 1e-6};
    t->weights = LT_IN(2);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    LT_TRY(give_2d(t, 1, t->dtype, n, width));
    return give_1d(t, 2, t->dtype, width);
}

static lt_status make_layer_norm(op_trial *t)
{
    int64_t n, width;
    matrix(t, 90, 600, &n, &width);
    width = lt_max_i64(width, 2); // a single number has no variance
    *(lt_layer_norm_attr *)attr_of(t) = (lt_layer_norm_attr){.eps = 1e-6};
    t->weights = LT_IN(1) | LT_IN(2);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    LT_TRY(give_1d(t, 1, t->dtype, width));
    return give_1d(t, 2, t->dtype, width);
}

static lt_status make_qk_norm_rope(op_trial *t)
{
    const bool whole = trial_chance(t, 0.5); // heads of a usual width that are turned as a whole
    const int64_t n = trial_chance(t, 0.1) ? 700 : rows(t, 60), heads = size(t, 7),
                  d = whole ? 64 << below(t, 3) : 1 + size(t, 200),
                  half = whole ? d / 2 : below(t, d / 2 + 1);
    *(lt_qk_norm_rope_attr *)attr_of(t) =
        (lt_qk_norm_rope_attr){.eps = 1e-6, .heads = (int32_t)heads};
    t->weights = LT_IN(1);
    t->no_grad = LT_IN(2);
    LT_TRY(give_2d(t, 0, t->dtype, n, heads * d));
    LT_TRY(give_1d(t, 1, t->dtype, d));
    return give_2d(t, 2, LT_F32, n, 2 * half);
}

static lt_status make_rope_table(op_trial *t)
{
    const int32_t half = (int32_t)size(t, 128);
    lt_rope_table_attr attr = {
        .theta = 5e6, .width = 2 * half, .interleaved = trial_chance(t, 0.5), .dtype = LT_F32};
    attr.section[1] = (int32_t)below(t, half / 3 + 1);
    attr.section[2] = (int32_t)below(t, half / 3 + 1);
    attr.section[0] = half - attr.section[1] - attr.section[2];
    *(lt_rope_table_attr *)attr_of(t) = attr;
    return give_index(t, 0, 2, 3, rows(t, 90), 200000);
}

static lt_status make_vision_rope_table(op_trial *t)
{
    *(lt_vision_rope_table_attr *)attr_of(t) = (lt_vision_rope_table_attr){
        .theta = 10000.0, .width = 4 * (int32_t)size(t, 40), .dtype = LT_F32};
    return give_index(t, 0, 2, 2, rows(t, 90), 300);
}

static lt_status make_split_qkv_rope(op_trial *t)
{
    const int64_t n = rows(t, 60), heads = size(t, 7), d = 2 * size(t, 60);
    *(lt_split_qkv_rope_attr *)attr_of(t) = (lt_split_qkv_rope_attr){.heads = (int32_t)heads};
    t->no_grad = LT_IN(1);
    LT_TRY(give_2d(t, 0, t->dtype, n, 3 * heads * d));
    return give_2d(t, 1, LT_F32, n, d);
}

static lt_status make_attention(op_trial *t)
{
    static const int64_t widths[] = {1, 8, 16, 32, 40, 64, 72, 80, 128, 256, 512};
    const int64_t n = rows(t, 100), kv_heads = 1 + below(t, 3), group = 1 + below(t, 3),
                  d = widths[below(t, n > 40 ? 9 : 11)];
    *(lt_attention_attr *)attr_of(t) =
        (lt_attention_attr){.scale = trial_chance(t, 0.3) ? 0.3 : 0.0,
                            .heads = (int32_t)(kv_heads * group),
                            .kv_heads = (int32_t)kv_heads,
                            .causal = trial_chance(t, 0.5),
                            .deterministic = true}; // two runs are compared
    t->no_upstream = LT_OUT(1);
    LT_TRY(give_2d(t, 0, t->dtype, n, kv_heads * group * d));
    LT_TRY(give_2d(t, 1, t->dtype, n, kv_heads * d));
    LT_TRY(give_2d(t, 2, t->dtype, n, kv_heads * d));
    return give_segments(t, 3, n);
}

static lt_status make_pair(op_trial *t)
{
    int64_t n, width;
    matrix(t, 90, 300, &n, &width);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    return give_2d(t, 1, t->dtype, n, width);
}

static lt_status make_one(op_trial *t)
{
    int64_t n, width;
    matrix(t, 90, 300, &n, &width);
    return give_2d(t, 0, t->dtype, n, width);
}

static lt_status make_gelu(op_trial *t)
{
    *(lt_gelu_attr *)attr_of(t) =
        (lt_gelu_attr){.kind = trial_chance(t, 0.5) ? LT_GELU_ERF : LT_GELU_TANH};
    return make_one(t);
}

static lt_status make_cast(op_trial *t)
{
    *(lt_cast_attr *)attr_of(t) = (lt_cast_attr){.dtype = trial_chance(t, 0.5) ? LT_F32 : LT_BF16};
    return make_one(t);
}

static lt_status make_embedding(op_trial *t)
{
    int64_t vocab = size(t, 90), n, width;
    matrix(t, 600, 600, &n, &width);
    t->weights = LT_IN(1);
    LT_TRY(give_index(t, 0, 1, n, 0, vocab));
    if (trial_chance(t, 0.3)) // most tokens are the placeholder of a picture
        for (int64_t i = n / 8; i < n; i++)
            ((int32_t *)t->in[0].data)[i] = (int32_t)(vocab / 2);
    return give_2d(t, 1, t->dtype, vocab, width);
}

static lt_status make_scatter_rows(op_trial *t)
{
    int64_t n, width, m;
    matrix(t, 90, 300, &n, &width);
    n = lt_max_i64(n, 1);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    LT_TRY(give_ascending(t, 2, n, &m));
    const bool other = strcmp(t->def->name, "scatter_rows") == 0 && trial_chance(t, 0.3);
    return give_2d(t, 1, other ? LT_F32 : t->dtype, m, width);
}

static lt_status make_gather_rows(op_trial *t)
{
    int64_t n, width, m;
    matrix(t, 90, 300, &n, &width);
    n = lt_max_i64(n, 1);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    return give_ascending(t, 1, n, &m);
}

static lt_status make_pos_embed_add(op_trial *t)
{
    const int64_t table = size(t, 50);
    int64_t n, width;
    matrix(t, 300, 300, &n, &width);
    t->weights = LT_IN(1);
    t->no_grad = LT_IN(3);
    LT_TRY(give_2d(t, 0, t->dtype, n, width));
    LT_TRY(give_2d(t, 1, t->dtype, table, width));
    LT_TRY(give_index(t, 2, 2, n, 4, table));
    return give_2d(t, 3, LT_F32, n, 4);
}

static lt_status make_linear_cross_entropy(op_trial *t)
{
    const bool large = trial_chance(t, 0.15); // a row of logits is more than a block takes at once
    const int64_t n = rows(t, large ? 4 : 60), k = size(t, large ? 16 : 100),
                  vocab = large                  ? 30000 + 8 * below(t, 2000)
                          : trial_chance(t, 0.5) ? 8 * size(t, 90)
                                                 : size(t, 700);
    *(lt_linear_cross_entropy_attr *)attr_of(t) =
        (lt_linear_cross_entropy_attr){.chunk = trial_chance(t, 0.5) ? 0 : 1 + below(t, 20)};
    t->weights = LT_IN(1);
    t->no_grad = LT_IN(3);
    t->no_upstream = LT_OUT(0);
    LT_TRY(give_2d(t, 0, t->dtype, n, k));
    LT_TRY(give_2d(t, 1, t->dtype, vocab, k));
    LT_TRY(give_index(t, 2, 1, n, 0, vocab));
    LT_TRY(give_1d(t, 3, LT_F32, n));
    for (int64_t i = 0; i < n;
         i++) // weights of a loss are positive: a sum that cancels would say nothing
        ((float *)t->in[3].data)[i] = fabsf(((float *)t->in[3].data)[i]) / (float)n;
    return LT_OK;
}

// ---- state ops: their outputs are read too

static lt_status give_out(op_trial *t, int i, lt_dtype dtype, int64_t n)
{
    return trial_random(t, dtype, 1, &n, &t->out[i]);
}

static lt_status make_adamw(op_trial *t)
{
    const int64_t n = rows(t, 5000);
    *(lt_adamw_attr *)attr_of(t) = (lt_adamw_attr){
        .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .lr_scale = 0.5};
    t->in_out = true;
    LT_TRY(give_1d(t, 0, LT_F32, n));
    LT_TRY(give_1d(t, 1, LT_F64, LT_N_SCALARS));
    const double scalars[LT_N_SCALARS] = {[LT_SCALAR_LR] = 1e-2,
                                          [LT_SCALAR_M_CORRECTION] = 1.0 / (1.0 - pow(0.9, 3.0)),
                                          [LT_SCALAR_V_CORRECTION] = 1.0 / (1.0 - pow(0.999, 3.0)),
                                          [LT_SCALAR_CLIP] = draw(t)};
    memcpy(t->in[1].data, scalars, sizeof scalars);
    LT_TRY(give_out(t, 0, t->dtype, n));
    LT_TRY(give_out(t, 1, LT_F32, n));
    LT_TRY(give_out(t, 2, LT_F32, n));
    LT_TRY(give_out(t, 3, LT_I16, n));
    for (int64_t i = 0; i < n; i++) {
        const float v = ((float *)t->out[2].data)[i];
        ((float *)t->out[2].data)[i] = v * v;
        ((int16_t *)t->out[3].data)[i] = (int16_t)(below(t, 65536) - 32768);
    }
    if (t->dtype != LT_BF16)
        t->absent_out = 3;
    return LT_OK;
}

static lt_status make_sum_squares(op_trial *t)
{
    t->in_out = true;
    const int64_t n = trial_chance(t, 0.05)  ? 4400000 + below(t, 100)
                      : trial_chance(t, 0.3) ? 4096 * (1 + below(t, 20))
                                             : rows(t, 100000);
    LT_TRY(give_1d(t, 0, t->dtype, n));
    return give_out(t, 0, LT_F64, 1);
}

static lt_status make_clip(op_trial *t)
{
    *(lt_clip_attr *)attr_of(t) = (lt_clip_attr){.clip = trial_chance(t, 0.3) ? 0.0 : draw(t)};
    t->in_out = true;
    LT_TRY(give_out(t, 0, LT_F64, 1));
    *(double *)t->out[0].data = draw(t);
    return give_out(t, 1, LT_F64, LT_N_SCALARS);
}

static const op_maker makers[] = {
    {"linear", make_linear},
    {"rms_norm", make_rms_norm},
    {"add_rms_norm", make_add_rms_norm},
    {"layer_norm", make_layer_norm},
    {"qk_norm_rope", make_qk_norm_rope},
    {"rope_table", make_rope_table},
    {"vision_rope_table", make_vision_rope_table},
    {"split_qkv_rope", make_split_qkv_rope},
    {"attention", make_attention},
    {"add", make_pair},
    {"copy", make_one},
    {"swiglu", make_pair},
    {"gelu", make_gelu},
    {"embedding", make_embedding},
    {"scatter_rows", make_scatter_rows},
    {"scatter_add_rows", make_scatter_rows},
    {"gather_rows", make_gather_rows},
    {"pos_embed_add", make_pos_embed_add},
    {"cast", make_cast},
    {"linear_cross_entropy", make_linear_cross_entropy},
    {"adamw", make_adamw},
    {"clip", make_clip},
    {"sum_squares", make_sum_squares},
    {"top1", make_one},
};

const op_maker *trial_makers(int *n)
{
    *n = (int)(sizeof makers / sizeof makers[0]);
    return makers;
}

// What the shape rule says of the outputs.
static lt_status plan_outputs(op_trial *t)
{
    lt_op_args a = {.def = t->def, .attr = t->attr};
    for (int i = 0; i < t->def->n_in; i++)
        a.in[i] = t->given[i] ? &t->in[i] : NULL;
    for (int i = 0; i < t->def->n_out; i++)
        a.out[i] = i == t->absent_out ? NULL : &t->out[i];
    if (t->in_out)
        return LT_OK;
    return t->def->infer(&a);
}

lt_status trial_create(const op_maker *maker, lt_dtype dtype, uint64_t seed, op_trial *out)
{
    memset(out, 0, sizeof *out);
    out->def = lt_op_find(maker->op);
    out->seed = seed;
    out->dtype = dtype;
    out->absent_out = -1;
    if (!out->def)
        return LT_FAIL(LT_ERR_NOT_FOUND, "there is no op %s", maker->op);
    LT_TRY(lt_arena_create(&out->arena, "a trial"));
    LT_TRY(maker->make(out));
    for (int i = 0; i < out->def->n_in; i++)
        out->add |= trial_chance(out, 0.5) ? LT_IN(i) : 0;
    return plan_outputs(out);
}

void trial_destroy(op_trial *t)
{
    lt_arena_destroy(t->arena);
}
