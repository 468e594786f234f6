// SPDX-License-Identifier: Apache-2.0
// Picture settings of each family.
#include "train/pictures.h"
#include "ckpt/hf_save.h"
#include "data/picture.h"
#include <string.h>

static const double imagenet_mean[3] = {0.485, 0.456, 0.406},
                    imagenet_std[3] = {0.229, 0.224, 0.225};
enum { PORT_TILES = 12 }; // max_patches of the port's crop_to_patches

static bool is_intern(const lt_model *model)
{
    return model->config.vision.intern.class_token;
}

const char *lt_pictures_template(const lt_model *model)
{
    return is_intern(model) ? "internvl2_5" : "qwen3_vl_nothink";
}

static void set_patches(const lt_vision_config *v, lt_image_processor *p)
{
    p->patch = v->patch;
    p->merge = v->merge;
    p->temporal = v->temporal_patch;
}

// ---------------------------------------------------------------- Qwen

static lt_status open_qwen(const lt_model *model, const char *folder, const lt_log *log,
                           lt_image_processor *p)
{
    const lt_vision_config *v = &model->config.vision;
    const lt_status st = lt_image_processor_open(folder, p);
    if (st == LT_ERR_NOT_FOUND) {
        lt_error_clear();
        set_patches(v, p);
        LT_NOTE(
            log, "data",
            "%s has no preprocessor_config.json: pictures are sized by Qwen3-VL's published limits",
            folder);
        return LT_OK;
    }
    LT_TRY(st);
    if (p->patch != v->patch || p->merge != v->merge || p->temporal != v->temporal_patch) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: the picture processor has patch %lld, merge %lld, temporal %lld, but "
                       "the model has %lld, %lld, %lld",
                       folder, (long long)p->patch, (long long)p->merge, (long long)p->temporal,
                       (long long)v->patch, (long long)v->merge, (long long)v->temporal_patch);
    }
    return LT_OK;
}

// ---------------------------------------------------------------- InternVL

static int64_t set_or(int64_t value, int64_t otherwise)
{
    return value == LT_CFG_NONE ? otherwise : value;
}

static bool switch_or(int value, bool otherwise)
{
    return value == LT_CFG_UNSET ? otherwise : value != 0;
}

// The section's word, else config.json's.
static lt_intern_config settings_of(const lt_intern_config *own, const lt_cfg_dataset *d)
{
    lt_intern_config c = *own;
    if (!d)
        return c;
    c.min_tiles = set_or(d->min_dynamic_patch, own->min_tiles);
    c.max_tiles = set_or(d->max_dynamic_patch, own->max_tiles);
    c.thumbnail = switch_or(d->use_thumbnail, own->thumbnail);
    c.pad_square = switch_or(d->pad2square, own->pad_square);
    c.dynamic_tiles =
        switch_or(d->dynamic_image_size, own->dynamic_tiles || d->max_dynamic_patch != LT_CFG_NONE);
    return c;
}

// Where nothing is cut there is one tile; where something is, tiles are square already.
static void set_tiles(const lt_intern_config *c, lt_tiling_opts *o)
{
    *o = (lt_tiling_opts){.tile = o->tile,
                          .min = c->dynamic_tiles ? c->min_tiles : 1,
                          .max = c->dynamic_tiles ? c->max_tiles : 1,
                          .use_thumbnail = c->thumbnail,
                          .share = true,
                          .pad_square = c->pad_square && !c->dynamic_tiles};
}

lt_status lt_pictures_edits(const lt_model *model, const lt_cfg_dataset *section, lt_arena *arena,
                            lt_vec *edits)
{
    const lt_intern_config *own = &model->config.vision.intern;
    const char *chat = section->basic_parameters.template_id;
    if (!is_intern(model) || !chat || strcmp(chat, "internvl2_5") != 0)
        return LT_OK;
    const lt_intern_config used = settings_of(own, section);
    const struct {
        const char *key;
        int64_t before, now;
        bool is_switch;
    } rows[] = {{"dynamic_image_size", own->dynamic_tiles, used.dynamic_tiles, true},
                {"use_thumbnail", own->thumbnail, used.thumbnail, true},
                {"pad2square", own->pad_square, used.pad_square, true},
                {"min_dynamic_patch", own->min_tiles, used.min_tiles, false},
                {"max_dynamic_patch", own->max_tiles, used.max_tiles, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *value = NULL;
        if (rows[i].before == rows[i].now)
            continue;
        LT_TRY(lt_arena_printf(arena, &value, "%lld", (long long)rows[i].now));
        const lt_hf_edit edit = {"config.json", rows[i].key,
                                 !rows[i].is_switch ? value
                                 : rows[i].now      ? "true"
                                                    : "false"};
        LT_TRY(lt_vec_push(edits, &edit));
    }
    return LT_OK;
}

// As InternVL's own code: no budget, Pillow's resize, constants that no file changes.
static void open_own(const lt_model *model, const lt_cfg_dataset *d, lt_collate_opts *o)
{
    for (int c = 0; c < 3; c++) {
        o->processor.mean[c] = imagenet_mean[c];
        o->processor.std[c] = imagenet_std[c];
    }
    o->processor.resampler = LT_RESAMPLE_PILLOW;
    o->budget = lt_image_budget_none();
    const lt_intern_config c = settings_of(&model->config.vision.intern, d);
    set_tiles(&c, &o->tiling);
}

// As transformers' port, which LLaMA-Factory uses: the budget without Qwen's rules, torchvision.
static lt_status open_port(const char *folder, const lt_cfg_dataset *d, lt_collate_opts *o)
{
    const bool cut = d && d->preprocess_parameters.crop_to_patches;
    const lt_status st = lt_image_processor_open(folder, &o->processor);
    if (st == LT_ERR_NOT_FOUND) {
        lt_error_clear();
        for (int c = 0; c < 3; c++) {
            o->processor.mean[c] = imagenet_mean[c];
            o->processor.std[c] = imagenet_std[c];
        }
    } else {
        LT_TRY(st);
    }
    o->budget.plain = true;
    o->tiling.min = 1;
    o->tiling.max = cut ? PORT_TILES : 1;
    o->tiling.use_thumbnail = cut;
    return LT_OK;
}

static lt_status open_intern(const lt_model *model, const lt_template *chat, const char *folder,
                             const lt_cfg_dataset *d, lt_collate_opts *o)
{
    const lt_vision_config *v = &model->config.vision;
    o->tiles = chat->pictures != LT_PICTURES_QWEN;
    o->tiling.tile = v->grid * v->patch;
    if (chat->pictures == LT_PICTURES_INTERN)
        open_own(model, d, o);
    else if (o->tiles)
        LT_TRY(open_port(folder, d, o));
    set_patches(v, &o->processor);
    return LT_OK;
}

// ---------------------------------------------------------------- both

static lt_status check_template(const lt_model *model, const lt_template *chat)
{
    if (chat->pictures == LT_PICTURES_QWEN || is_intern(model))
        return LT_OK;
    return LT_FAIL(LT_ERR_CONFIG,
                   "the template %s belongs to InternVL models, and this is a %s: use "
                   "qwen3_vl_nothink",
                   chat->name, model->config.model_type);
}

lt_status lt_pictures_open(const lt_model *model, const lt_template *chat, const char *folder,
                           const lt_cfg_dataset *section, const lt_log *log, lt_collate_opts *out)
{
    const lt_model_config *m = &model->config;
    LT_TRY(check_template(model, chat));
    *out = lt_collate_opts_default();
    out->mrope = !is_intern(model);
    out->vision = (lt_vision_ids){m->image_token, m->video_token, m->vision_start};
    out->vocab_size = model->vocab;
    out->table_side = m->vision.grid;
    out->tiling = lt_tiling_opts_default();
    out->budget.filter = chat->nearest_budget ? LT_IMAGE_NEAREST : LT_IMAGE_BICUBIC;
    if (section) {
        out->budget.max_pixels = section->preprocess_parameters.image_max_pixels;
        out->budget.min_pixels = section->preprocess_parameters.image_min_pixels;
    }
    if (is_intern(model))
        return open_intern(model, chat, folder, section, out);
    LT_TRY(open_qwen(model, folder, log, &out->processor));
    if (section && !section->preprocess_parameters.use_fast_tokenizer)
        out->processor.resampler = LT_RESAMPLE_PILLOW;
    return LT_OK;
}

lt_status lt_pictures_ids(const lt_model *model, const lt_template *chat,
                          const lt_template_ids *ids, lt_collate_opts *out)
{
    const lt_model_config *m = &model->config;
    const struct {
        const char *name;
        int32_t ours, models;
    } pairs[] = {{chat->image_pad, ids->vision.image_pad, m->image_token},
                 {chat->video_pad, ids->vision.video_pad, m->video_token}};
    if (is_intern(model) && chat->pictures == LT_PICTURES_QWEN)
        return LT_OK; // text alone: lt_pictures_grid refuses pictures
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i].ours >= 0 && pairs[i].models >= 0 && pairs[i].ours != pairs[i].models) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "token %s has id %d in the tokenizer, but the model's config.json says "
                           "%d: they are not of one model",
                           pairs[i].name, pairs[i].ours, pairs[i].models);
        }
    }
    if (out->vision.image_pad < 0)
        out->vision.image_pad = ids->vision.image_pad;
    return LT_OK;
}

lt_status lt_pictures_grid(void *collate_opts, const char *path, int64_t n_images, lt_grid *out)
{
    const lt_collate_opts *o = collate_opts;
    if (!o->mrope && !o->tiles) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: the template belongs to Qwen models, with which an InternVL model "
                       "takes text alone: use the template internvl2_5 (dataset_type internvl3_5) "
                       "or intern_vl",
                       path);
    }
    return lt_picture_grid(o, path, n_images, out);
}

lt_status lt_pictures_print(const lt_collate_opts *o, lt_buf *out)
{
    const lt_tiling_opts *t = &o->tiling;
    if (o->mrope) {
        return lt_buf_printf(out, "budget %lld to %lld pixels, processor %lld to %lld",
                             (long long)o->budget.min_pixels, (long long)o->budget.max_pixels,
                             (long long)o->processor.min_pixels,
                             (long long)o->processor.max_pixels);
    }
    if (!o->tiles)
        return lt_buf_text(out, "none with this template");
    if (o->budget.max_pixels < INT64_MAX)
        LT_TRY(lt_buf_printf(out, "budget %lld to %lld pixels, ", (long long)o->budget.min_pixels,
                             (long long)o->budget.max_pixels));
    LT_TRY(t->max > 1
               ? lt_buf_printf(out, "%lld to %lld tiles", (long long)t->min, (long long)t->max)
               : lt_buf_text(out, "1 tile"));
    return lt_buf_printf(out, " of %lld x %lld%s%s%s", (long long)t->tile, (long long)t->tile,
                         t->max > 1 && t->use_thumbnail ? " and a thumbnail" : "",
                         t->max > 1 && t->share ? ", shared by the pictures of a record" : "",
                         t->pad_square ? ", padded to a square" : "");
}
