// SPDX-License-Identifier: Apache-2.0
// Opening a data set: the section of the YAML, the model's tokenizer and processor, the files.
#include "train/source.h"

#include "base/file.h"
#include "train/pictures.h"
#include <string.h>

enum { FILES_SHOWN = 4 };

struct lt_source {
    const lt_config *cfg;
    const lt_cfg_dataset *section;
    const lt_log *log;
    lt_arena *arena;
    lt_tokenizer *tokenizer;
    const lt_template *chat;
    lt_dataset *dataset;
    const char **files; /* [n_files] */
    int64_t n_files;
    lt_collate_opts collate;
};

static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    lt_source *s = ctx;
    return lt_pictures_grid(&s->collate, path, n_images, out);
}

static lt_status clip_of(void *ctx, const lt_video_ref *video, lt_arena *arena, lt_media *out)
{
    const lt_source *s = ctx;
    return lt_video_describe(&s->collate.processor, &s->collate.video, video, arena, out);
}

// Is it InternVL's plug-in, with records of its own form?
static bool is_intern(const lt_cfg_dataset *d)
{
    return strcmp(d->dataset_type, "internvl3_5") == 0;
}

static lt_attr attr_of(const lt_source *s)
{
    const lt_cfg_attr *a = &s->section->attr;
    const bool intern = is_intern(s->section);
    return (lt_attr){.formatting = intern ? "internvl" : a->formatting,
                     .messages = a->messages,
                     .role_tag = a->role_tag,
                     .content_tag = a->content_tag,
                     .user_tag = a->user_tag,
                     .assistant_tag = a->assistant_tag,
                     .observation_tag = a->observation_tag,
                     .function_tag = a->function_tag,
                     .system_tag = a->system_tag,
                     .images = a->images || !intern ? a->images : "image",
                     .image_tag = s->cfg->lathe.image_tag,
                     .videos = a->videos,
                     .system = a->system,
                     .tools = a->tools,
                     .prompt = a->prompt,
                     .query = a->query,
                     .response = a->response,
                     .history = a->history};
}

// Does the checkpoint's own chat template know thoughts? *known is false when it has none.
static lt_status own_thoughts(lt_source *s, const char *dir, bool *known, bool *thinks)
{
    static const char *const files[] = {"chat_template.jinja", "chat_template.json",
                                        "tokenizer_config.json"};
    enum { MAX_TEMPLATE_BYTES = 1 << 24 };
    *known = *thinks = false;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !*known; i++) {
        char *path = NULL;
        lt_buf text = {0};
        LT_TRY(lt_path_join(s->arena, dir, files[i], &path));
        if (!lt_file_exists(path))
            continue;
        const lt_status st = lt_file_read(path, MAX_TEMPLATE_BYTES, &text);
        if (st == LT_OK && text.len > 0) {
            *known = lt_text_ends(path, "jinja") || strstr(text.data, "\"chat_template\"");
            *thinks = strstr(text.data, "think>") != NULL;
        }
        lt_buf_deinit(&text);
        LT_TRY(st);
    }
    return LT_OK;
}

static lt_status compare_templates(lt_source *s, const char *dir)
{
    bool known, thinks;
    if (!s->chat->reasoning || s->cfg->lathe.empty_thought != LT_THOUGHT_AUTO)
        return LT_OK;
    LT_TRY(own_thoughts(s, dir, &known, &thinks));
    if (known && !thinks) {
        LT_WARN(s->log, "data",
                "the template %s puts an empty thought before answers without one, but the chat "
                "template of %s knows no thoughts: the model would learn to print <think>. Use "
                "%s_nothink, or lathe.empty_thought: omit",
                s->chat->name, dir, s->chat->name);
    }
    return LT_OK;
}

// Limits of video frames.
static void set_videos(lt_source *s)
{
    const lt_cfg_preprocess *p = &s->section->preprocess_parameters;
    lt_video_opts *v = &s->collate.video;
    v->budget.max_pixels = p->video_max_pixels;
    v->budget.min_pixels = p->video_min_pixels;
    if (s->cfg->lathe.habits == LT_HABITS_FACTORY)
        v->budget.filter = LT_IMAGE_BICUBIC;
    v->fps = p->video_fps;
    v->max_frames = p->video_maxlen;
    v->reference_times = s->cfg->lathe.video_times == LT_CFG_TIMES_REFERENCE;
}

static lt_encode_opts encode_opts(lt_source *s, const lt_model *model)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    lt_encode_opts o = lt_encode_opts_default();
    o.render.tokenizer = s->tokenizer;
    o.render.chat = s->chat;
    o.render.merge = model->config.vision.merge;
    o.render.split_special_tokens = s->section->preprocess_parameters.split_special_tokens;
    o.render.literals = LT_LITERAL_REFUSE;
    o.render.image_tag = s->cfg->lathe.image_tag;
    o.render.video_tag = s->cfg->lathe.video_tag;
    o.render.no_thinking = b->enable_thinking == 0;
    o.render.empty_thought = (lt_empty_thought)s->cfg->lathe.empty_thought;
    if (b->enable_thinking == LT_CFG_UNSET && s->chat->thinking_setting &&
        o.render.empty_thought == LT_THOUGHT_AUTO)
        o.render.empty_thought = LT_THOUGHT_MASK;
    o.cutoff_len = b->cutoff_len;
    o.train_on_prompt = b->train_on_prompt;
    o.mask_history = b->mask_history;
    o.refuse_cut_images = true;
    o.media_dir = b->dataset_dir;
    o.grid_of = grid_of;
    o.clip_of = clip_of;
    o.grid_ctx = s;
    return o;
}

// Settings that do not do what their names promise, as in the reference.
static void warn_of_settings(const lt_source *s)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    if (b->enable_thinking != 1 && s->chat->reasoning && !s->chat->thinking_setting &&
        s->cfg->lathe.empty_thought == LT_THOUGHT_AUTO) {
        LT_WARN(s->log, "data",
                "enable_thinking: false has no effect with the template %s, as in the reference: "
                "answers without a thought are trained with an empty one; lathe.empty_thought: "
                "mask takes its labels away",
                s->chat->name);
    }
    if (s->section->preprocess_parameters.split_special_tokens) {
        LT_WARN(s->log, "data",
                "split_special_tokens takes the template's own tokens apart too: no turn ends in "
                "%s as a token",
                s->chat->stop);
    }
    const int64_t pad = s->cfg->data.dataloader_param.collate_param.pad_id;
    if (pad != LT_CFG_NONE && pad < lt_tokenizer_size(s->tokenizer) &&
        !lt_tokenizer_is_special(s->tokenizer, (int32_t)pad)) {
        LT_WARN(s->log, "data",
                "collate_param.pad_id %lld is an ordinary token, \"%s\": the reference masks it "
                "out wherever it stands; lathe has no padding, and masks nothing",
                (long long)pad, lt_tokenizer_name(s->tokenizer, (int32_t)pad));
    }
}

// Tokens that the template writes and the model looks for must be the same ones.
static lt_status check_ids(lt_source *s, const lt_model *model)
{
    const lt_template_ids *ids = lt_encoder_ids(lt_dataset_encoder(s->dataset));
    LT_TRY(lt_pictures_ids(model, s->chat, ids, &s->collate));
    if (lt_tokenizer_size(s->tokenizer) > model->vocab) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "the tokenizer has %lld tokens, the model's vocabulary %lld: they are not of one model",
            (long long)lt_tokenizer_size(s->tokenizer), (long long)model->vocab);
    }
    return LT_OK;
}

// A file of the list: as it is, or inside dataset_dir.
static lt_status find_files(lt_source *s, const lt_texts *list, const char ***out)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)list->n * sizeof(char *), &memory));
    *out = memory;
    for (int64_t i = 0; i < list->n; i++) {
        char *inside = NULL;
        (*out)[i] = list->items[i];
        if (lt_file_exists(list->items[i]) || !b->dataset_dir)
            continue;
        LT_TRY(lt_path_join(s->arena, b->dataset_dir, list->items[i], &inside));
        if (!lt_file_exists(inside)) {
            return LT_FAIL(LT_ERR_NOT_FOUND,
                           "there is no data set %s, neither there nor in dataset_dir (%s)",
                           list->items[i], inside);
        }
        (*out)[i] = inside;
    }
    if (list->n == 0)
        return LT_FAIL(LT_ERR_CONFIG,
                       "no data set is named: data.dataset_param.basic_parameters.dataset");
    return LT_OK;
}

static lt_status open_dataset(lt_source *s, const lt_source_opts *opts, const lt_model *model,
                              lt_pool *pool)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    const lt_texts *list = opts->files ? opts->files : &b->dataset;
    const int64_t most = opts->validation ? b->val_max_samples : b->max_samples;
    LT_TRY(find_files(s, list, &s->files));
    s->n_files = list->n;
    lt_dataset_opts o = lt_dataset_opts_default();
    o.files = s->files;
    o.n_files = s->n_files;
    o.max_samples = most == LT_CFG_NONE ? 0 : most;
    o.attr = attr_of(s);
    o.encode = encode_opts(s, model);
    o.packing = lt_config_packs(b);
    o.pretrain = b->stage == LT_CFG_PRETRAIN;
    o.habits = (lt_habits)s->cfg->lathe.habits;
    o.pack_batch = b->preprocessing_batch_size;
    o.pack_shares = b->preprocessing_num_workers == LT_CFG_NONE || b->streaming
                        ? 1
                        : lt_max_i64(1, b->preprocessing_num_workers);
    if (s->cfg->lathe.on_bad_record != LT_CFG_BAD_NONE)
        o.on_bad = s->cfg->lathe.on_bad_record == LT_CFG_BAD_SKIP ? LT_BAD_SKIP : LT_BAD_STOP;
    if (opts->all_records)
        o.on_bad = LT_BAD_KEEP;
    return lt_dataset_open(&o, pool, s->log, &s->dataset);
}

static lt_status open_parts(lt_source *s, const lt_source_opts *opts, const lt_model *model,
                            lt_pool *pool)
{
    const char *dir = lt_config_processor_dir(s->cfg, s->section);
    if (!dir) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "no folder for the tokenizer: set "
                       "data.dataset_param.preprocess_parameters.model_name_or_path");
    }
    LT_TRY(lt_tokenizer_open(dir, &s->tokenizer));
    LT_TRY(lt_template_find(s->section->basic_parameters.template_id, &s->chat));
    s->chat = lt_template_as(s->chat, (lt_habits)s->cfg->lathe.habits);
    warn_of_settings(s);
    LT_TRY(compare_templates(s, dir));
    LT_TRY(lt_pictures_open(model, s->chat, dir, s->section, s->log, &s->collate));
    set_videos(s);
    LT_TRY(lt_video_limits_open(dir, &s->collate.video));
    LT_TRY(open_dataset(s, opts, model, pool));
    return check_ids(s, model);
}

lt_status lt_source_open_as(const lt_config *cfg, const lt_source_opts *opts, const lt_model *model,
                            lt_pool *pool, const lt_log *log, lt_source **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_source), "data source"));
    lt_source *s = memory;
    s->cfg = cfg;
    s->section = opts->dataset;
    s->log = log;
    lt_status st = lt_arena_create(&s->arena, "data source");
    if (st == LT_OK)
        st = open_parts(s, opts, model, pool);
    if (st != LT_OK)
        lt_source_close(s);
    else
        *out = s;
    return st;
}

lt_status lt_source_open(const lt_config *cfg, const lt_cfg_dataset *dataset, const lt_texts *files,
                         const lt_model *model, lt_pool *pool, const lt_log *log, lt_source **out)
{
    const lt_source_opts opts = {.dataset = dataset, .files = files};
    return lt_source_open_as(cfg, &opts, model, pool, log, out);
}

bool lt_source_validation(const lt_config *cfg, lt_source_opts *out, const char **file,
                          lt_texts *files)
{
    const lt_cfg_data *d = &cfg->data;
    *out = (lt_source_opts){.dataset = &d->val_dataset_param};
    if (d->val_dataset_param.given)
        return true;
    *file = d->dataset_param.basic_parameters.val_dataset;
    *files = (lt_texts){file, 1};
    *out = (lt_source_opts){.dataset = &d->dataset_param, .files = files, .validation = true};
    return *file != NULL;
}

void lt_source_close(lt_source *s)
{
    if (!s)
        return;
    lt_dataset_close(s->dataset);
    lt_tokenizer_close(s->tokenizer);
    lt_arena_destroy(s->arena);
    lt_mem_free(s);
}

lt_dataset *lt_source_dataset(const lt_source *s)
{
    return s->dataset;
}

const lt_collate_opts *lt_source_collate(const lt_source *s)
{
    return &s->collate;
}

lt_loader_opts lt_source_loader(lt_source *s)
{
    lt_loader_opts o = lt_loader_opts_default();
    o.encode = lt_dataset_encode_row;
    o.encode_ctx = s->dataset;
    o.collate = s->collate;
    if (s->cfg->lathe.data_threads > 0)
        o.n_workers = (int)s->cfg->lathe.data_threads;
    if (s->cfg->lathe.data_ahead > 0)
        o.prefetch = s->cfg->lathe.data_ahead;
    return o;
}

const lt_tokenizer *lt_source_tokenizer(const lt_source *s)
{
    return s->tokenizer;
}

static lt_status print_files(const lt_source *s, lt_buf *out)
{
    const int64_t shown = lt_min_i64(s->n_files, FILES_SHOWN);
    for (int64_t i = 0; i < shown; i++)
        LT_TRY(lt_buf_printf(out, "%s%s", i > 0 ? ", " : "", s->files[i]));
    return s->n_files > shown
               ? lt_buf_printf(out, " and %lld more", (long long)(s->n_files - shown))
               : LT_OK;
}

lt_status lt_source_print(const lt_source *s, lt_buf *out)
{
    const lt_cfg_basic *b = &s->section->basic_parameters;
    LT_TRY(lt_buf_printf(out, "%lld samples ", (long long)lt_dataset_samples(s->dataset)));
    if (lt_config_packs(b) && lt_dataset_rows(s->dataset) > 0) // lathe check makes them at its end
        LT_TRY(lt_buf_printf(out, "in %lld packed rows ", (long long)lt_dataset_rows(s->dataset)));
    LT_TRY(lt_buf_text(out, "("));
    LT_TRY(print_files(s, out));
    LT_TRY(lt_buf_printf(out, "), template %s, cutoff_len %lld; pictures: ", s->chat->name,
                         (long long)b->cutoff_len));
    return lt_pictures_print(&s->collate, out);
}
