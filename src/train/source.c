// SPDX-License-Identifier: Apache-2.0
// Opening a data set: the section of the YAML, the model's tokenizer and processor, the files.
#include "train/source.h"

#include "base/file.h"

#include <stdatomic.h>
#include <string.h>

struct lt_source {
    const lt_config *cfg;
    const lt_cfg_dataset *section;
    const lt_log *log;
    lt_arena *arena;
    lt_tokenizer *tokenizer;
    const lt_template *chat;
    lt_encoder *encoder;
    lt_records *records;
    lt_attr attr;
    lt_image_processor processor;
    lt_collate_opts collate;
    int64_t *rows; /* used rows */
    int64_t n_rows;
    _Atomic int64_t n_cut;
};

static lt_status grid_of(void *ctx, const char *path, lt_grid *out)
{
    const lt_source *s = ctx;
    lt_image_info info;
    LT_TRY(lt_image_probe(path, &info));
    const lt_status st = lt_image_grid(&s->processor, &s->collate.budget, info.h, info.w, out);
    if (st != LT_OK)
        lt_error_note("%s", path);
    return st;
}

static lt_attr attr_of(const lt_cfg_attr *a)
{
    return (lt_attr){.formatting = a->formatting,
                     .messages = a->messages,
                     .role_tag = a->role_tag,
                     .content_tag = a->content_tag,
                     .user_tag = a->user_tag,
                     .assistant_tag = a->assistant_tag,
                     .observation_tag = a->observation_tag,
                     .function_tag = a->function_tag,
                     .system_tag = a->system_tag,
                     .images = a->images,
                     .videos = a->videos,
                     .system = a->system,
                     .tools = a->tools,
                     .prompt = a->prompt,
                     .query = a->query,
                     .response = a->response,
                     .history = a->history};
}

static lt_status open_processor(lt_source *s, const char *dir, const lt_model *model)
{
    const lt_vision_config *v = &model->config.vision;
    const lt_status st = lt_image_processor_open(dir, &s->processor);
    if (st == LT_ERR_NOT_FOUND) {
        lt_error_clear();
        s->processor = lt_image_processor_default();
        s->processor.patch = v->patch;
        s->processor.merge = v->merge;
        s->processor.temporal = v->temporal_patch;
        LT_NOTE(s->log, "data", "%s has no preprocessor_config.json: pictures are sized by Qwen3-VL's published limits", dir);
    } else {
        LT_TRY(st);
    }
    s->processor.resampler =
        s->section->preprocess_parameters.use_fast_tokenizer ? LT_RESAMPLE_TORCHVISION : LT_RESAMPLE_PILLOW;
    if (s->processor.patch != v->patch || s->processor.merge != v->merge || s->processor.temporal != v->temporal_patch)
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: the picture processor has patch %lld, merge %lld, temporal %lld, but the model has %lld, %lld, %lld", dir,
                       (long long)s->processor.patch, (long long)s->processor.merge, (long long)s->processor.temporal,
                       (long long)v->patch, (long long)v->merge, (long long)v->temporal_patch);
    return LT_OK;
}

static void set_collate(lt_source *s, const lt_model *model)
{
    const lt_cfg_preprocess *p = &s->section->preprocess_parameters;
    lt_collate_opts *c = &s->collate;
    *c = lt_collate_opts_default();
    c->mrope = true;
    c->vision = (lt_vision_ids){model->config.image_token, model->config.video_token, model->config.vision_start};
    c->vocab_size = model->vocab;
    c->table_side = model->config.vision.grid;
    c->budget.max_pixels = p->image_max_pixels;
    c->budget.min_pixels = p->image_min_pixels;
    c->pixel_dtype = LT_F32;
}

static lt_status open_encoder(lt_source *s, const lt_model *model)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    lt_encode_opts o = lt_encode_opts_default();
    o.render.tokenizer = s->tokenizer;
    o.render.chat = s->chat;
    o.render.merge = model->config.vision.merge;
    o.render.split_special_tokens = s->section->preprocess_parameters.split_special_tokens;
    o.render.literals = LT_LITERAL_REFUSE;
    o.cutoff_len = b->cutoff_len;
    o.train_on_prompt = b->train_on_prompt;
    o.mask_history = b->mask_history;
    o.refuse_cut_images = true;
    o.media_dir = b->dataset_dir;
    o.grid_of = grid_of;
    o.grid_ctx = s;
    return lt_encoder_create(&o, &s->encoder);
}

// Tokens that the template writes and the model looks for must be the same ones.
static lt_status check_ids(const lt_source *s, const lt_model *model)
{
    const lt_template_ids *ids = lt_encoder_ids(s->encoder);
    const struct {
        const char *name;
        int32_t ours, models;
    } pairs[] = {{s->chat->image_pad, ids->vision.image_pad, model->config.image_token},
                 {s->chat->video_pad, ids->vision.video_pad, model->config.video_token}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].ours >= 0 && pairs[i].models >= 0 && pairs[i].ours != pairs[i].models)
            return LT_FAIL(LT_ERR_CONFIG, "token %s has id %d in the tokenizer, but the model's config.json says %d: they are not of one model",
                           pairs[i].name, pairs[i].ours, pairs[i].models);
    if (lt_tokenizer_size(s->tokenizer) > model->vocab)
        return LT_FAIL(LT_ERR_CONFIG, "the tokenizer has %lld tokens, the model's vocabulary %lld: they are not of one model",
                       (long long)lt_tokenizer_size(s->tokenizer), (long long)model->vocab);
    return LT_OK;
}

/* ---- rows ---- */

typedef struct scan {
    lt_source *s;
    bool *use; /* [rows] */
} scan;

enum { ROWS_AT_ONCE = 256 };

static lt_status convert_row(const lt_source *s, int64_t row, lt_arena *arena, lt_conversation *out)
{
    json_t *record = NULL;
    LT_TRY(lt_records_parse(s->records, row, &record));
    const lt_status st = lt_convert(&s->attr, record, arena, out);
    json_decref(record);
    if (st != LT_OK)
        lt_place_note(lt_records_place(s->records, row));
    return st;
}

static lt_status scan_rows(void *ctx, int64_t piece, int thread)
{
    (void)thread;
    const scan *k = ctx;
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "reading records"));
    const int64_t end = lt_min_i64(lt_records_count(k->s->records), (piece + 1) * ROWS_AT_ONCE);
    lt_status st = LT_OK;
    for (int64_t i = piece * ROWS_AT_ONCE; st == LT_OK && i < end; i++) {
        lt_conversation c = {0};
        lt_arena_reset(arena);
        st = convert_row(k->s, i, arena, &c);
        k->use[i] = st == LT_OK && !c.dropped;
    }
    lt_arena_destroy(arena);
    return st;
}

static lt_status find_rows(lt_source *s, lt_pool *pool)
{
    const int64_t n = lt_records_count(s->records);
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(bool), &memory));
    scan k = {s, memory};
    LT_TRY(lt_pool_run(pool, lt_ceil_div(n, ROWS_AT_ONCE), scan_rows, &k));
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(int64_t), &memory));
    s->rows = memory;
    for (int64_t i = 0; i < n; i++)
        if (k.use[i])
            s->rows[s->n_rows++] = i;
    if (s->n_rows == 0)
        return LT_FAIL(LT_ERR_DATA, "%s: none of the %lld records can be used: each needs an odd number of turns before its last answer, roles as in data.dataset_param.attr",
                       n > 0 ? lt_records_place(s->records, 0).file : "the data set", (long long)n);
    if (s->n_rows < n)
        LT_WARN(s->log, "data", "%lld of %lld records are left out: their turns do not make questions and answers", (long long)(n - s->n_rows), (long long)n);
    return LT_OK;
}

// A file of the list: as it is, or inside dataset_dir.
static lt_status open_records(lt_source *s, const lt_texts *files)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    const lt_texts *list = files ? files : &b->dataset;
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)list->n * sizeof(char *), &memory));
    const char **paths = memory;
    for (int64_t i = 0; i < list->n; i++) {
        paths[i] = list->items[i];
        char *inside = NULL;
        if (!lt_file_exists(paths[i]) && b->dataset_dir) {
            LT_TRY(lt_path_join(s->arena, b->dataset_dir, list->items[i], &inside));
            paths[i] = lt_file_exists(inside) ? inside : paths[i];
        }
    }
    if (list->n == 0)
        return LT_FAIL(LT_ERR_CONFIG, "no data set is named: data.dataset_param.basic_parameters.dataset");
    const int64_t most = b->max_samples == LT_CFG_NONE ? 0 : b->max_samples;
    return lt_records_open(paths, list->n, most, &s->records);
}

static lt_status open_parts(lt_source *s, const lt_texts *files, const lt_model *model, lt_pool *pool)
{
    const char *dir = lt_config_processor_dir(s->cfg, s->section);
    if (!dir)
        return LT_FAIL(LT_ERR_CONFIG, "no folder for the tokenizer: set data.dataset_param.preprocess_parameters.model_name_or_path");
    LT_TRY(lt_tokenizer_open(dir, &s->tokenizer));
    LT_TRY(lt_template_find(s->section->basic_parameters.template_id, &s->chat));
    set_collate(s, model);
    LT_TRY(open_processor(s, dir, model));
    s->collate.processor = s->processor;
    LT_TRY(open_encoder(s, model));
    LT_TRY(check_ids(s, model));
    s->attr = attr_of(&s->section->attr);
    LT_TRY(lt_attr_check(&s->attr));
    LT_TRY(open_records(s, files));
    return find_rows(s, pool);
}

lt_status lt_source_open(const lt_config *cfg, const lt_cfg_dataset *dataset, const lt_texts *files, const lt_model *model, lt_pool *pool,
                         const lt_log *log, lt_source **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_source), "data source"));
    lt_source *s = memory;
    s->cfg = cfg;
    s->section = dataset;
    s->log = log;
    lt_status st = lt_arena_create(&s->arena, "data source");
    if (st == LT_OK)
        st = open_parts(s, files, model, pool);
    if (st != LT_OK)
        lt_source_close(s);
    else
        *out = s;
    return st;
}

void lt_source_close(lt_source *s)
{
    if (!s)
        return;
    lt_encoder_destroy(s->encoder);
    lt_records_close(s->records);
    lt_tokenizer_close(s->tokenizer);
    lt_arena_destroy(s->arena);
    lt_mem_free(s);
}

int64_t lt_source_count(const lt_source *s)
{
    return s->n_rows;
}

int64_t lt_source_total(const lt_source *s)
{
    return lt_records_total(s->records);
}

lt_status lt_source_conversation(lt_source *s, int64_t i, lt_arena *arena, lt_conversation *out)
{
    return convert_row(s, s->rows[i], arena, out);
}

lt_status lt_source_encode(lt_source *s, int64_t i, lt_arena *arena, lt_sample *out)
{
    lt_conversation c = {0};
    lt_cut cut = {0};
    LT_TRY(lt_source_conversation(s, i, arena, &c));
    LT_TRY(lt_encode(s->encoder, &c, lt_records_place(s->records, s->rows[i]), arena, out, &cut));
    if (cut.full_len > out->n)
        atomic_fetch_add(&s->n_cut, 1);
    return LT_OK;
}

static lt_status encode_row(void *ctx, int64_t row, lt_arena *arena, lt_sample *out)
{
    return lt_source_encode(ctx, row, arena, out);
}

const lt_collate_opts *lt_source_collate(const lt_source *s)
{
    return &s->collate;
}

lt_loader_opts lt_source_loader(lt_source *s)
{
    lt_loader_opts o = lt_loader_opts_default();
    o.encode = encode_row;
    o.encode_ctx = s;
    o.collate = s->collate;
    return o;
}

const lt_tokenizer *lt_source_tokenizer(const lt_source *s)
{
    return s->tokenizer;
}

const lt_encoder *lt_source_encoder(const lt_source *s)
{
    return s->encoder;
}

int64_t lt_source_n_cut(const lt_source *s)
{
    return atomic_load(&s->n_cut);
}

lt_status lt_source_print(const lt_source *s, lt_buf *out)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    return lt_buf_printf(out,
                         "%lld samples (%s), template %s, cutoff_len %lld; pictures: budget %lld to %lld pixels, processor %lld to %lld",
                         (long long)s->n_rows, lt_records_place(s->records, 0).file, s->chat->name, (long long)b->cutoff_len,
                         (long long)s->collate.budget.min_pixels, (long long)s->collate.budget.max_pixels,
                         (long long)s->processor.min_pixels, (long long)s->processor.max_pixels);
}
