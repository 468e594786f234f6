// SPDX-License-Identifier: Apache-2.0
// Models and batches like the peer's.
#include "bench/parts/made_model.h"

#include "base/rng.h"
#include "base/text.h"
#include "train/feed.h"

#include <string.h>

enum { HEAD = 128, MERGE = 2 };
/*
 * Ids of special tokens, counted from the end of the vocabulary, so that a small one has them too.
 */
enum {
    FIRST_SPECIAL = 293,
    VISION_START = 284,
    VISION_END = 283,
    IMAGE = 281,
    VIDEO = 280,
    PLAIN = 1936
};
enum { SEED = 1 };

static const bench_size sizes[] = {
    {"tiny", 64, 2, 2, 1, 96, 2048, true, 3, 32, 64, 4, {0, 1, 2}}, // for the test of this program
    {"small", 1024, 8, 8, 4, 3072, 151936, true, 6, 384, 1536, 16, {1, 3, 5}},
    {"2b", 2048, 28, 16, 8, 6144, 151936, true, 24, 1024, 4096, 16, {5, 11, 17}},
    {"4b", 2560, 36, 32, 8, 9728, 151936, true, 24, 1024, 4096, 16, {5, 11, 17}},
    {"8b", 4096, 36, 32, 8, 12288, 151936, false, 27, 1152, 4304, 16, {8, 16, 24}},
    {"32b", 5120, 64, 64, 8, 25600, 151936, false, 27, 1152, 4304, 16, {8, 16, 24}},
};
enum { N_SIZES = (int)(sizeof sizes / sizeof sizes[0]) };

const bench_size *bench_size_of(const char *name)
{
    static const char family[] = "qwen3vl-"; // "qwen3vl-4b" is "4b"
    if (strncmp(name, family, sizeof family - 1) == 0)
        name += sizeof family - 1;
    for (int i = 0; i < N_SIZES; i++)
        if (strcmp(sizes[i].name, name) == 0)
            return &sizes[i];
    return NULL;
}

const char *bench_size_names(void)
{
    return "tiny, small, 2b, 4b, 8b, 32b";
}

static const char config_text[] =
    "{\"model_type\": \"qwen3_vl\", \"tie_word_embeddings\": %s, \"image_token_id\": %d, "
    "\"video_token_id\": %d,"
    " \"vision_start_token_id\": %d, \"vision_end_token_id\": %d,"
    " \"text_config\": {\"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": "
    "%d,"
    " \"num_key_value_heads\": %d, \"head_dim\": 128, \"intermediate_size\": %d, \"vocab_size\": "
    "%d, \"rope_theta\": 5000000.0,"
    " \"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [24, 20, 20], "
    "\"mrope_interleaved\": true}},"
    " \"vision_config\": {\"depth\": %d, \"hidden_size\": %d, \"intermediate_size\": %d, "
    "\"num_heads\": %d,"
    " \"out_hidden_size\": %d, \"deepstack_visual_indexes\": [%d, %d, %d]}}";

static lt_status print_config(const bench_size *s, lt_buf *out)
{
    const int *d = s->deepstack;
    return lt_buf_printf(out, config_text, s->tied ? "true" : "false", s->vocab - IMAGE,
                         s->vocab - VIDEO, s->vocab - VISION_START, s->vocab - VISION_END,
                         s->hidden, s->layers, s->heads, s->kv_heads, s->intermediate, s->vocab,
                         s->depth, s->vision_hidden, s->vision_intermediate, s->vision_heads,
                         s->hidden, d[0], d[1], d[2]);
}

lt_status bench_model_create(const bench_size *size, int64_t layers, int64_t depth, lt_model **out)
{
    static const char *const frozen[] = {"model.visual"};
    const lt_model_cut cut = {.text_layers = layers, .vision_depth = depth};
    lt_model_config config;
    lt_buf text = {0};
    lt_status st = print_config(size, &text);
    if (st == LT_OK)
        st = lt_model_config_parse(text.data, text.len, size->name, &cut, &config);
    lt_buf_deinit(&text);
    LT_TRY(st);
    LT_TRY(lt_model_create(&config, LT_HEAD_AS_CONFIG, out));
    st = lt_model_freeze(*out, frozen, 1, NULL);
    if (st != LT_OK)
        lt_model_destroy(*out);
    return st;
}

/* ---- weights ---- */

enum { PART = 1 << 16, TABLE = 1 << 22, AT_ONCE = 1 << 22 };

// Normal numbers are dear: a table of them serves all parameters, each part of one from another
// place. A step takes the same time on these.
typedef struct drawing {
    const lt_param *param;
    const float *table; // [TABLE + PART] of deviation 1
    int64_t first, n;
    float *values;
} drawing;

static lt_status fill_table(void *ctx, int64_t i, int thread)
{
    (void)thread;
    float *table = ctx;
    for (int64_t k = i * PART; k < (i + 1) * PART; k++)
        table[k] = (float)lt_normal(SEED, (uint64_t)k);
    return LT_OK;
}

static lt_status draw(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const drawing *d = ctx;
    const int64_t from = i * PART, n = lt_min_i64(PART, d->n - from);
    const uint64_t key = lt_rng_key(SEED, d->param->name);
    const float std = (float)d->param->std,
                *table = d->table + (int64_t)(lt_uniform(key, (uint64_t)(d->first + from)) * TABLE);
    if (d->param->init != LT_INIT_NORMAL) {
        lt_model_init_values(d->param, SEED, d->first + from, n, d->values + from);
        return LT_OK;
    }
    for (int64_t k = 0; k < n; k++)
        d->values[from + k] = std * table[k];
    return LT_OK;
}

static lt_status fill_param(const lt_param *param, lt_exec *exec, lt_pool *pool, const float *table,
                            float *values)
{
    for (int64_t first = 0; first < param->n_elems; first += AT_ONCE) {
        drawing d = {param, table, first, lt_min_i64(AT_ONCE, param->n_elems - first), values};
        LT_TRY(lt_pool_run(pool, lt_ceil_div(d.n, PART), draw, &d));
        LT_TRY(lt_exec_write(exec, param->id, LT_STATE_VALUE, first, d.n, LT_F32, values));
    }
    return LT_OK;
}

lt_status bench_weights(const lt_model *model, lt_exec *exec, lt_pool *pool)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(float) * (TABLE + PART + AT_ONCE), "random weights"));
    float *table = memory, *values = table + TABLE + PART;
    lt_status st = lt_pool_run(pool, TABLE / PART + 1, fill_table, table);
    for (int32_t p = 0; st == LT_OK && p < model->n_params; p++)
        if (lt_exec_has(exec, p, LT_STATE_VALUE))
            st = fill_param(&model->params[p], exec, pool, table, values);
    lt_mem_free(memory);
    return st;
}

/* ---- the batch ---- */

static lt_status give_pixels(void *ctx, const lt_media *media, void *rows)
{
    enum { FEW = 1 << 20 }; // then the same numbers again
    const int64_t *width = ctx;
    float *x = rows;
    for (int64_t i = 0, n = lt_grid_patches(media->grid) * *width; i < n; i++)
        x[i] = i < FEW ? (float)lt_normal(SEED + 1, (uint64_t)i) : x[i - FEW];
    return LT_OK;
}

static lt_status make_sample(const lt_model *m, bench_shape shape, lt_arena *arena, lt_sample *out)
{
    const int64_t per = shape.grid * shape.grid / MERGE / MERGE, n = shape.n_tokens;
    void *ids_memory = NULL, *labels_memory = NULL, *media_memory = NULL;
    if (shape.images * (per + 2) >= n) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%lld pictures of %lld tokens leave no text in a sequence of %lld",
                       (long long)shape.images, (long long)(per + 2), (long long)n);
    }
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int32_t), &ids_memory));
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int32_t), &labels_memory));
    LT_TRY(lt_arena_take(arena, (size_t)shape.images * sizeof(lt_media), &media_memory));
    int32_t *ids = ids_memory, *labels = labels_memory;
    lt_media *media = media_memory;
    int64_t t = 0;
    for (int64_t i = 0; i < shape.images; i++) {
        media[i] = (lt_media){
            .kind = LT_MEDIA_IMAGE, .path = "made up", .grid = {1, shape.grid, shape.grid}};
        ids[t++] = m->config.vision_start;
        for (int64_t k = 0; k < per; k++)
            ids[t++] = m->config.image_token;
        ids[t++] = m->config.vision_end;
    }
    for (; t < n; t++)
        ids[t] = (int32_t)(lt_uniform(SEED, (uint64_t)t) * (double)(m->vocab - PLAIN));
    for (t = 0; t < n; t++)
        labels[t] = ids[t] >= m->vocab - FIRST_SPECIAL ? LT_IGNORE_LABEL : ids[t];
    *out = (lt_sample){.ids = ids,
                       .labels = labels,
                       .n = n,
                       .media = media,
                       .n_media = shape.images,
                       .file = "made up"};
    return LT_OK;
}

static lt_status collate(const lt_model *m, bench_shape shape, bench_batch *out)
{
    int64_t width = m->pixel_width;
    const lt_model_config *c = &m->config;
    lt_sample sample;
    LT_TRY(make_sample(m, shape, out->arena, &sample));
    lt_collate_opts o = lt_collate_opts_default();
    o.mrope = true;
    o.vision = (lt_vision_ids){c->image_token, c->video_token, c->vision_start};
    o.vocab_size = m->vocab;
    o.table_side = c->vision.grid;
    o.processor.patch = c->vision.patch;
    o.processor.merge = c->vision.merge;
    o.processor.temporal = c->vision.temporal_patch;
    o.pixel_dtype = LT_F32;
    o.pixels = give_pixels;
    o.pixels_ctx = &width;
    LT_TRY(lt_batch_collate(out->batch, &sample, 1, &o));
    void *kappa = NULL;
    LT_TRY(lt_arena_take(out->arena, (size_t)out->batch->n_targets * sizeof(float), &kappa));
    const lt_batch *const batches[] = {out->batch};
    const lt_loss_counts counts = lt_count_losses(batches, 1);
    lt_loss_weights(LT_LOSS_RAW, batches, 1, &counts, 0, kappa);
    out->view = lt_feed_view(out->batch, kappa);
    return LT_OK;
}

lt_status bench_batch_create(const lt_model *model, bench_shape shape, bench_batch *out)
{
    *out = (bench_batch){0};
    lt_status st = lt_arena_create(&out->arena, "a made-up sample");
    if (st == LT_OK)
        st = lt_batch_create(&out->batch);
    if (st == LT_OK)
        st = collate(model, shape, out);
    if (st != LT_OK)
        bench_batch_destroy(out);
    return st;
}

void bench_batch_destroy(bench_batch *b)
{
    lt_batch_destroy(b->batch);
    lt_arena_destroy(b->arena);
    *b = (bench_batch){0};
}

double bench_flops(const lt_model *model, bench_shape shape)
{
    const lt_text_config *t = &model->config.text;
    const lt_vision_config *v = &model->config.vision;
    const double h = (double)t->hidden, seq = (double)shape.n_tokens;
    const double q = (double)(t->heads * HEAD), kv = (double)(t->kv_heads * HEAD),
                 c = (double)v->hidden;
    const double linear = h * (q + 2 * kv) + q * h + 3 * h * (double)t->intermediate;
    const double text =
        (double)t->layers * (2 * linear * seq + 2 * seq * seq * q); // causal: half of 4 S S d
    const double head = 2 * seq * h * (double)t->vocab;
    const double area = (double)(shape.grid * shape.grid), patches = (double)shape.images * area;
    const double vision =
        (double)v->depth *
        (2 * (4 * c * c + 2 * c * (double)v->intermediate) * patches + 4 * patches * area * c);
    return 3 * (text + head) + vision;
}
