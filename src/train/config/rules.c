// SPDX-License-Identifier: Apache-2.0
// Rules between keys that do not depend on the number of ranks. Each is a row: what it looks at,
// and a function that adds issues.
#include "optim/lr_scale.h"
#include "train/config/state.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ERROR(cfg, key, ...) LT_CONFIG_ADD((cfg)->state, LT_CONFIG_ERROR, (key), __VA_ARGS__)
#define WARNING(cfg, key, ...) LT_CONFIG_ADD((cfg)->state, LT_CONFIG_WARNING, (key), __VA_ARGS__)
#define NOTE(cfg, key, ...) LT_CONFIG_ADD((cfg)->state, LT_CONFIG_NOTE, (key), __VA_ARGS__)

// ---- data ----

static lt_status pixel_limits(lt_config *cfg, const lt_cfg_dataset *d, const char *section)
{
    const lt_cfg_preprocess *p = &d->preprocess_parameters;
    const struct {
        int64_t low, high;
        const char *kind;
    } limits[] = {{p->image_min_pixels, p->image_max_pixels, "image"},
                  {p->video_min_pixels, p->video_max_pixels, "video"}};
    for (int i = 0; i < 2; i++) {
        char key[LT_KEY_PATH_MAX];
        snprintf(key, sizeof key, "data.%s.preprocess_parameters.%s_max_pixels", section,
                 limits[i].kind);
        if (limits[i].low > limits[i].high)
            LT_TRY(ERROR(cfg, key, "%lld is less than %s_min_pixels, which is %lld",
                         (long long)limits[i].high, limits[i].kind, (long long)limits[i].low));
    }
    return LT_OK;
}

static lt_status rule_pixel_limits(lt_config *cfg)
{
    LT_TRY(pixel_limits(cfg, &cfg->data.dataset_param, "dataset_param"));
    return cfg->data.val_dataset_param.given
               ? pixel_limits(cfg, &cfg->data.val_dataset_param, "val_dataset_param")
               : LT_OK;
}

// dataloader_mode base: one sample at a time, in the order of the files.
static lt_status file_order(lt_config *cfg, lt_cfg_dataloader *d)
{
    lt_cfg_basic *b = &cfg->data.dataset_param.basic_parameters;
    if (cfg->training.micro_batch_size != 1) {
        LT_TRY(ERROR(cfg, "training.micro_batch_size",
                     "data.dataloader_param.dataloader_mode: base reads one sample at a time: set "
                     "it to 1, got %lld",
                     (long long)cfg->training.micro_batch_size));
    }
    if (d->shuffle)
        LT_TRY(WARNING(cfg, "data.dataloader_param.shuffle",
                       "has no effect: dataloader_mode: base reads in the order of the files"));
    d->shuffle = d->data_sharding = false;
    if (b->streaming && b->max_samples != LT_CFG_NONE && b->max_samples > 0) {
        LT_TRY(WARNING(cfg, "data.dataset_param.basic_parameters.max_samples",
                       "has no effect with streaming: all records are read"));
        b->max_samples = LT_CFG_NONE;
    }
    return LT_OK;
}

// Words of InternVL's own data files, and what its plug-in takes for granted.
static lt_status intern_section(lt_config *cfg, lt_cfg_dataset *d, const char *section)
{
    lt_cfg_basic *b = &d->basic_parameters;
    char key[LT_KEY_PATH_MAX], other[LT_KEY_PATH_MAX];
    snprintf(key, sizeof key, "data.%s.basic_parameters.data_path", section);
    if (b->data_path.n > 0 && b->dataset.n > 0)
        LT_TRY(ERROR(cfg, key, "is another word for dataset, which is set too: remove one"));
    if (b->data_path.n > 0)
        b->dataset = b->data_path;
    snprintf(key, sizeof key, "data.%s.basic_parameters.data_folder", section);
    snprintf(other, sizeof other, "data.%s.basic_parameters.dataset_dir", section);
    if (b->data_folder && lt_config_given(cfg, other))
        LT_TRY(ERROR(cfg, key, "is another word for dataset_dir, which is set too: remove one"));
    if (b->data_folder)
        b->dataset_dir = b->data_folder;
    snprintf(key, sizeof key, "data.%s.min_dynamic_patch", section);
    if (d->min_dynamic_patch != LT_CFG_NONE && d->max_dynamic_patch != LT_CFG_NONE &&
        d->min_dynamic_patch > d->max_dynamic_patch)
        LT_TRY(ERROR(cfg, key, "%lld is above max_dynamic_patch, which is %lld",
                     (long long)d->min_dynamic_patch, (long long)d->max_dynamic_patch));
    if (!d->dataset_type || strcmp(d->dataset_type, "internvl3_5") != 0)
        return LT_OK;
    if (!b->template_id)
        b->template_id = "internvl2_5";
    snprintf(key, sizeof key, "data.%s.basic_parameters.template", section);
    if (strcmp(b->template_id, "internvl2_5") != 0)
        LT_TRY(ERROR(cfg, key, "dataset_type internvl3_5 has the template internvl2_5, not %s",
                     lt_yaml_excerpt(b->template_id).s));
    return LT_OK;
}

static lt_status rule_intern(lt_config *cfg)
{
    LT_TRY(intern_section(cfg, &cfg->data.dataset_param, "dataset_param"));
    return cfg->data.val_dataset_param.given
               ? intern_section(cfg, &cfg->data.val_dataset_param, "val_dataset_param")
               : LT_OK;
}

static lt_status rule_sampler(lt_config *cfg)
{
    lt_cfg_dataloader *d = &cfg->data.dataloader_param;
    if (d->dataloader_mode != LT_CFG_MODE_SAMPLER)
        return file_order(cfg, d);
    if (lt_config_given(cfg, "data.dataloader_param.drop_last") && !d->drop_last)
        LT_TRY(ERROR(cfg, "data.dataloader_param.drop_last",
                     "the sampler has whole batches only: set it to true"));
    if (cfg->data.dataset_param.basic_parameters.streaming)
        LT_TRY(ERROR(cfg, "data.dataset_param.basic_parameters.streaming",
                     "streaming needs data.dataloader_param.dataloader_mode: base"));
    return LT_OK;
}

static lt_status rule_collator(lt_config *cfg)
{
    const lt_cfg_collate *c = &cfg->data.dataloader_param.collate_param;
    if (c->collator_id && c->model_name && strcmp(c->collator_id, c->model_name) != 0) {
        return ERROR(cfg, "data.dataloader_param.collate_param.model_name",
                     "\"%s\" is not collator_id's \"%s\": remove model_name, the older spelling",
                     lt_yaml_excerpt(c->model_name).s, lt_yaml_excerpt(c->collator_id).s);
    }
    return LT_OK;
}

static lt_status rule_stage(lt_config *cfg)
{
    const lt_cfg_collate *c = &cfg->data.dataloader_param.collate_param;
    const char *id = c->collator_id ? c->collator_id : c->model_name;
    if (id && strcmp(id, "llm_pretrain") == 0 &&
        cfg->data.dataset_param.basic_parameters.stage != LT_CFG_PRETRAIN) {
        return ERROR(cfg, "data.dataloader_param.collate_param.collator_id",
                     "llm_pretrain needs data.dataset_param.basic_parameters.stage: pretrain");
    }
    return LT_OK;
}

static lt_status rule_validation(lt_config *cfg)
{
    if (cfg->training.val_interval > 0 && !cfg->data.val_dataset_param.given &&
        !cfg->data.dataset_param.basic_parameters.val_dataset)
        return ERROR(cfg, "training.val_interval",
                     "there is no validation set: add data.val_dataset_param, or set it to 0");
    return LT_OK;
}

static lt_status rule_tags(lt_config *cfg)
{
    const lt_cfg_lathe *l = &cfg->lathe;
    if (l->image_tag[0] == '\0' || l->video_tag[0] == '\0' ||
        strcmp(l->image_tag, l->video_tag) == 0)
        return ERROR(cfg, l->video_tag[0] ? "lathe.image_tag" : "lathe.video_tag",
                     "tags must be two texts of at least one character that differ");
    return LT_OK;
}

// ---- features ----

static lt_status rule_recompute(lt_config *cfg)
{
    if (cfg->features.recompute && cfg->features.recompute_plan.apply_modules.n == 0) {
        LT_TRY(ERROR(cfg, "features.recompute",
                     "features.recompute_plan.apply_modules names no block: list some, such as "
                     "model.language_model.layers.{*}"));
    }
    if (!cfg->features.recompute && !cfg->lathe.policy && cfg->model.skip_flash_attn_recompute)
        LT_TRY(NOTE(cfg, "model.skip_flash_attn_recompute",
                    "has no effect without features.recompute"));
    if (cfg->features.enable_chunk_mbs && cfg->features.chunkmbs_plan.apply_modules.n == 0)
        LT_TRY(ERROR(cfg, "features.enable_chunk_mbs",
                     "features.chunkmbs_plan.apply_modules names no block"));
    return LT_OK;
}

// ---- training ----

static lt_status rule_rates(lt_config *cfg)
{
    const lt_cfg_training *t = &cfg->training;
    if (t->lr < t->lr_min)
        LT_TRY(ERROR(cfg, "training.lr_min", "%g is above the peak rate, training.lr, which is %g",
                     t->lr_min, t->lr));
    if (t->lr < t->lr_start)
        LT_TRY(ERROR(cfg, "training.lr_start",
                     "%g is above the peak rate, training.lr, which is %g", t->lr_start, t->lr));
    if (t->lr_decay_style != LT_CFG_COSINE && lt_config_given(cfg, "training.lr_min") &&
        t->lr_min > 0)
        LT_TRY(WARNING(cfg, "training.lr_min",
                       "only the cosine schedule has a floor of its own; it has no effect here"));
    if (t->lr_decay_style != LT_CFG_COSINE && lt_config_given(cfg, "training.lr_decay_ratio") &&
        t->lr_decay_ratio < 1)
        LT_TRY(WARNING(cfg, "training.lr_decay_ratio",
                       "only the cosine schedule ends early; it has no effect here"));
    return LT_OK;
}

static lt_status rule_lr_scaling(lt_config *cfg)
{
    const lt_cfg_lr_scales *plan = &cfg->training.lr_scaling_plan;
    for (int64_t i = 0; i < plan->n; i++) {
        char key[LT_KEY_PATH_MAX];
        snprintf(key, sizeof key, "training.lr_scaling_plan[%lld].match", (long long)i);
        const lt_status st = plan->items[i].match ? lt_lr_scale_check(plan->items[i].match) : LT_OK;
        if (st != LT_OK && st != LT_ERR_CONFIG)
            return st;
        if (st == LT_ERR_CONFIG)
            LT_TRY(ERROR(cfg, key, "%s", lt_error_message()));
    }
    return LT_OK;
}

static lt_status rule_steps(lt_config *cfg)
{
    if (lt_config_given(cfg, "training.train_epochs") &&
        lt_config_given(cfg, "training.train_iters"))
        LT_TRY(NOTE(cfg, "training.train_epochs",
                    "decides how long to train; train_iters is not used"));
    if (cfg->training.save && !lt_config_given(cfg, "training.save_interval")) {
        LT_TRY(WARNING(cfg, "training.save",
                       "save_interval is not set, and its default saves a checkpoint after every "
                       "step: set it, to 0 for the end only"));
    }
    return LT_OK;
}

static bool is_lora_init(const char *name)
{
    static const char *const known[] = {"true",  "false", "gaussian", "eva",       "olora",
                                        "pissa", "corda", "loftq",    "orthogonal"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i]) == 0)
            return true;
    }
    const char *digits = "0123456789", *n = name + strlen("pissa_niter_");
    return lt_text_starts(name, "pissa_niter_") && *n && n[strspn(n, digits)] == '\0';
}

static lt_status rule_lora(lt_config *cfg)
{
    const lt_cfg_lora *l = &cfg->training.lora;
    if (!l->enable)
        return LT_OK;
    if (l->rank <= 0)
        LT_TRY(
            ERROR(cfg, "training.lora.rank", "has to be 1 or more, got %lld", (long long)l->rank));
    if (l->alpha <= 0)
        LT_TRY(ERROR(cfg, "training.lora.alpha", "has to be 1 or more, got %lld",
                     (long long)l->alpha));
    if (l->target_modules.n == 0)
        LT_TRY(ERROR(cfg, "training.lora.target_modules", "names no module"));
    if (!(l->dropout >= 0 && l->dropout < 1))
        LT_TRY(ERROR(cfg, "training.lora.dropout", "has to be from 0 to 1, 1 excluded, got %g",
                     l->dropout));
    if (!is_lora_init(l->init_lora_weights)) {
        LT_TRY(ERROR(cfg, "training.lora.init_lora_weights",
                     "\"%s\" is none of true, false, gaussian, eva, olora, pissa, pissa_niter_N, "
                     "corda, loftq, orthogonal",
                     lt_yaml_excerpt(l->init_lora_weights).s));
    }
    return LT_OK;
}

static lt_status rule_profile(lt_config *cfg)
{
    const lt_cfg_profile *p = &cfg->tools.profile;
    if (!p->enable)
        return LT_OK;
    if (strcmp(p->profile_type, "static") != 0) {
        LT_TRY(ERROR(cfg, "tools.profile.profile_type",
                     "\"%s\" is not known: only static, a window of steps, is",
                     lt_yaml_excerpt(p->profile_type).s));
    }
    if (p->static_param.end_step <= p->static_param.start_step) {
        LT_TRY(ERROR(cfg, "tools.profile.static_param.end_step",
                     "%lld is not behind start_step, which is %lld: nothing would be recorded",
                     (long long)p->static_param.end_step, (long long)p->static_param.start_step));
    }
    return LT_OK;
}

// ---- keys that do nothing, here as in the reference ----

typedef struct inert {
    lt_config *cfg;
} inert;

static lt_status warn_inert(void *ctx, const lt_field *f, const char *path, const void *member)
{
    lt_config *cfg = ((inert *)ctx)->cfg;
    bool same = false;
    if (f->support != LT_SUPPORT_INERT || !lt_config_given(cfg, path))
        return LT_OK;
    if (f->kind != LT_FIELD_RECORD && f->kind != LT_FIELD_ANY)
        LT_TRY(lt_config_is_default(f, member, &same));
    return same ? LT_OK : WARNING(cfg, path, "is set, and %s", f->help);
}

static lt_status rule_inert(lt_config *cfg)
{
    inert ctx = {.cfg = cfg};
    return lt_schema_walk(&lt_schema, cfg, warn_inert, &ctx);
}

// ---- what null stands for ----

static lt_status rule_standards(lt_config *cfg)
{
    cfg->data.dataset_param.given = true;
    if (cfg->training.val_micro_batch_size == LT_CFG_NONE)
        cfg->training.val_micro_batch_size = cfg->training.micro_batch_size;
    return LT_OK;
}

lt_status lt_config_check_rules(lt_config *cfg)
{
    static lt_status (*const rules[])(lt_config *) = {
        rule_intern,     rule_pixel_limits, rule_sampler,   rule_collator, rule_stage,
        rule_validation, rule_tags,         rule_recompute, rule_rates,    rule_lr_scaling,
        rule_steps,      rule_lora,         rule_profile,   rule_inert,    rule_standards};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        LT_TRY(rules[i](cfg));
    return LT_OK;
}

// ---- what follows from several keys ----

lt_cfg_compute lt_config_compute_dtype(const lt_config *cfg)
{
    if (cfg->lathe.dtype != LT_CFG_COMPUTE_NONE)
        return cfg->lathe.dtype == LT_CFG_COMPUTE_BF16 ? LT_CFG_COMPUTE_BF16 : LT_CFG_COMPUTE_F32;
    return cfg->parallel.fsdp_plan.param_dtype == LT_CFG_BF16 ? LT_CFG_COMPUTE_BF16
                                                              : LT_CFG_COMPUTE_F32;
}

bool lt_config_packs(const lt_cfg_basic *b)
{
    return b->neat_packing ||
           (b->packing == LT_CFG_UNSET ? b->stage == LT_CFG_PRETRAIN : b->packing != 0);
}

const char *lt_config_processor_dir(const lt_config *cfg, const lt_cfg_dataset *dataset)
{
    const char *own = dataset ? dataset->preprocess_parameters.model_name_or_path : NULL;
    return own ? own : cfg->model.model_name_or_path;
}

int64_t lt_config_loss_rows(const lt_config *cfg)
{
    const lt_cfg_chunkloss *plan = &cfg->features.chunkloss_plan;
    const int64_t batch = cfg->training.micro_batch_size;
    int64_t chunk = plan->chunk_size, rows = 0;
    if (cfg->features.enable_dynamic_chunk_loss) {
        chunk = 1;
        while (chunk <= plan->total_chunk_size / batch / 2)
            chunk *= 2;
    }
    return lt_mul_i64(chunk, batch, &rows) ? rows : INT64_MAX;
}
