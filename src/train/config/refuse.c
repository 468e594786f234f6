// SPDX-License-Identifier: Apache-2.0
// What this build cannot do, by name, before any work is done; and the one note about hints.
#include "train/config/state.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct refusals {
    const lt_config *cfg;
    lt_config_use use;
    lt_buf text;  // sentences, one a line
    lt_buf hints; // keys, blanks between
    bool missing; // something is missing rather than not built
} refusals;

LT_PRINTF(3, 4)
static lt_status sentence(refusals *r, const char *path, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    lt_config_spot spot = {0};
    (void)lt_config_spot_get(r->cfg->state, path, &spot); // a default stands at the file's name
    return lt_buf_printf(&r->text, "%s%s: %s: %s", r->text.len ? "\n" : "",
                         lt_config_spot_text(r->cfg->state, &spot).s, path, text);
}

// Is `word` one of the words of `list`?
static bool in_words(const char *word, const char *list)
{
    const size_t len = strlen(word);
    for (const char *p = list; p && *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n;
    }
    return false;
}

static const char *word_of(const lt_field *f, const void *member)
{
    if (f->kind == LT_FIELD_CHOICE)
        return *(const int *)member < 0 ? NULL : f->choices[*(const int *)member];
    return *(const char *const *)member;
}

static bool is_given_value(const lt_field *f, const void *member)
{
    if (f->kind == LT_FIELD_TEXT)
        return *(const char *const *)member != NULL;
    LT_ASSERT(f->kind == LT_FIELD_TEXTS);
    return ((const lt_texts *)member)->n > 0;
}

static lt_status refuse_word(refusals *r, const lt_field *f, const char *path, const char *word)
{
    const lt_refusal *why = &f->refuse;
    if (in_words(word, why->known))
        return sentence(r, path, "the %s %s does not exist in lathe yet; %s", why->feature, word,
                        why->instead);
    return sentence(r, path, "\"%s\" is not a %s that lathe knows; %s", lt_yaml_excerpt(word).s,
                    why->feature, why->instead);
}

static lt_status check_refusal(refusals *r, const lt_field *f, const char *path, const void *member)
{
    const lt_refusal *why = &f->refuse;
    bool refused = false;
    switch (why->when) {
    case LT_WHEN_NEVER:
        return LT_OK;
    case LT_WHEN_TRUE:
        refused = *(const bool *)member;
        break;
    case LT_WHEN_FALSE:
        refused = !*(const bool *)member;
        break;
    case LT_WHEN_GIVEN:
        refused = is_given_value(f, member);
        break;
    case LT_WHEN_ABOVE:
        refused = *(const int64_t *)member > why->limit;
        break;
    case LT_WHEN_NOT_IN: {
        const char *word = word_of(f, member);
        return word && !in_words(word, why->allowed) ? refuse_word(r, f, path, word) : LT_OK;
    }
    }
    if (!refused)
        return LT_OK;
    lt_buf value = {0};
    lt_status st = lt_config_value_text(f, member, &value);
    if (st == LT_OK)
        st = sentence(r, path, "%s asks for %s, which lathe does not have yet; %s",
                      value.data ? value.data : "", why->feature, why->instead);
    lt_buf_deinit(&value);
    return st;
}

// Evaluation and generation do not look at these.
static bool is_unused(const refusals *r, const char *path)
{
    static const char *const training_only[] = {"features.", "training.", "tools."};
    for (size_t i = 0; r->use == LT_USE_EVAL && i < sizeof training_only / sizeof *training_only;
         i++) {
        if (lt_text_starts(path, training_only[i]))
            return true;
    }
    return !r->cfg->data.val_dataset_param.given && lt_text_starts(path, "data.val_dataset_param");
}

// The last step of the path is enough to know a hint by; the same name in two sections stands once.
static lt_status add_hint(refusals *r, const char *key)
{
    if (r->hints.len > 0 && in_words(key, r->hints.data))
        return LT_OK;
    return lt_buf_printf(&r->hints, "%s%s", r->hints.len ? " " : "", key);
}

static lt_status visit(void *ctx, const lt_field *f, const char *path, const void *member)
{
    refusals *r = ctx;
    if (is_unused(r, path))
        return LT_OK;
    if (f->support == LT_SUPPORT_HINT && lt_config_given(r->cfg, path))
        LT_TRY(add_hint(r, f->key));
    return check_refusal(r, f, path, member);
}

// What every command that builds the model and reads data needs.
static lt_status check_needs(refusals *r)
{
    const lt_config *cfg = r->cfg;
    const struct {
        const char *value, *path, *words;
    } needs[] = {
        {cfg->model.model_id, "model.model_id",
         "is missing: name the model family, such as qwen3_vl"},
        {cfg->model.model_name_or_path, "model.model_name_or_path",
         "is missing: name the Hugging Face folder that holds config.json"},
        {cfg->data.dataset_param.basic_parameters.template_id,
         "data.dataset_param.basic_parameters.template",
         "is missing: name the chat template, such as qwen3_vl_nothink"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (needs[i].value)
            continue;
        r->missing = true;
        LT_TRY(sentence(r, needs[i].path, "%s", needs[i].words));
    }
    if (cfg->data.dataset_param.basic_parameters.dataset.n == 0 && r->use == LT_USE_TRAIN) {
        r->missing = true;
        LT_TRY(sentence(r, "data.dataset_param.basic_parameters.dataset",
                        "is missing: name the JSON or JSONL file to train on"));
    }
    return LT_OK;
}

static void log_notes(const refusals *r, const lt_log *log)
{
    const lt_config *cfg = r->cfg;
    if (r->hints.len > 0)
        LT_NOTE(log, "config", "hints that change no result here: %s", r->hints.data);
    if (r->use == LT_USE_EVAL)
        return;
    if (cfg->training.quantization_plan.recipe_name) {
        LT_WARN(
            log, "config",
            "training.quantization_plan is for one accelerator only: nothing is quantised here");
    }
    if (cfg->features.loss_cfg.router_aux_loss_coef > 0 && cfg->model.model_id &&
        strcmp(cfg->model.model_id, "qwen3_vl") == 0) {
        LT_NOTE(log, "config",
                "features.loss_cfg.router_aux_loss_coef has no effect: a %s model has no experts",
                cfg->model.model_id);
    }
    if (cfg->parallel.fsdp_plan.reduce_dtype != LT_CFG_FP32 &&
        cfg->parallel.fsdp_plan.reduce_dtype != LT_CFG_DTYPE_NONE)
        LT_NOTE(log, "config",
                "parallel.fsdp_plan.reduce_dtype: gradients are summed in fp32 all the same");
}

lt_status lt_config_refuse(const lt_config *cfg, lt_config_use use, const lt_log *log)
{
    refusals r = {.cfg = cfg, .use = use};
    lt_status st = lt_schema_walk(&lt_schema, cfg, visit, &r);
    if (st == LT_OK)
        st = check_needs(&r);
    if (st == LT_OK)
        log_notes(&r, log);
    if (st == LT_OK && r.text.len > 0)
        st = LT_FAIL(r.missing ? LT_ERR_CONFIG : LT_ERR_UNSUPPORTED, "%s", r.text.data);
    lt_buf_deinit(&r.text);
    lt_buf_deinit(&r.hints);
    return st;
}
