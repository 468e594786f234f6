// SPDX-License-Identifier: Apache-2.0
// Learning-rate factors by regular expression, through PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "optim/lr_scale.h"
#include "base/memory.h"
#include <pcre2.h>
#include <string.h>

enum { MATCH_STEPS = 100000 }; // of one expression on one name: beyond, the expression is at fault

typedef struct entry {
    pcre2_code *code;
    double scale;
} entry;

struct lt_lr_scale {
    lt_vec entries; // entry
};

static lt_status compile(const char *match, pcre2_code **out)
{
    const uint32_t options = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C;
    if (strlen(match) > LT_LR_SCALE_MAX_BYTES)
        return LT_FAIL(LT_ERR_CONFIG, "a regular expression has %d bytes at most",
                       LT_LR_SCALE_MAX_BYTES);
    int why = 0;
    PCRE2_SIZE at = 0;
    *out = pcre2_compile((PCRE2_SPTR)match, PCRE2_ZERO_TERMINATED, options, &why, &at, NULL);
    if (*out)
        return LT_OK;
    PCRE2_UCHAR text[128];
    if (pcre2_get_error_message(why, text, sizeof text) < 0)
        text[0] = '\0';
    return LT_FAIL(LT_ERR_CONFIG, "the regular expression \"%.100s\" is wrong at character %zu: %s",
                   match, (size_t)at + 1, (const char *)text);
}

lt_status lt_lr_scale_check(const char *match)
{
    pcre2_code *code = NULL;
    const lt_status st = compile(match, &code);
    pcre2_code_free(code);
    return st;
}

static lt_status add_entry(lt_lr_scale *plan, const char *match, double scale)
{
    entry e = {.scale = scale};
    LT_TRY(compile(match, &e.code));
    const lt_status st = lt_vec_push(&plan->entries, &e);
    if (st != LT_OK)
        pcre2_code_free(e.code);
    return st;
}

lt_status lt_lr_scale_create(const char *const *match, const double *scale, int64_t n,
                             lt_lr_scale **out)
{
    if (n > LT_LR_SCALE_MAX_ENTRIES)
        return LT_FAIL(LT_ERR_CONFIG, "training.lr_scaling_plan has %lld entries; %d are allowed",
                       (long long)n, LT_LR_SCALE_MAX_ENTRIES);
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_lr_scale), "learning-rate factors"));
    lt_lr_scale *plan = memory;
    plan->entries = LT_VEC_OF(entry);
    lt_status st = LT_OK;
    for (int64_t i = 0; i < n && st == LT_OK; i++)
        st = add_entry(plan, match[i], scale[i]);
    if (st == LT_OK)
        *out = plan;
    else
        lt_lr_scale_destroy(plan);
    return st;
}

void lt_lr_scale_destroy(lt_lr_scale *plan)
{
    if (!plan)
        return;
    for (int64_t i = 0; i < plan->entries.n; i++)
        pcre2_code_free(LT_AT(&plan->entries, entry, i).code);
    lt_vec_deinit(&plan->entries);
    lt_mem_free(plan);
}

static lt_status try_entry(const entry *e, pcre2_match_context *limits, const char *name,
                           bool *matches)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!data)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: matching training.lr_scaling_plan");
    const PCRE2_SIZE len = PCRE2_ZERO_TERMINATED;
    const int rc = pcre2_match(e->code, (PCRE2_SPTR)name, len, 0, 0, data, limits);
    pcre2_match_data_free(data);
    *matches = rc >= 0; // 0: more groups than places for them, which nobody asks for
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
        return LT_OK;
    return LT_FAIL(LT_ERR_CONFIG,
                   "training.lr_scaling_plan: an expression takes too many steps on the name %s: "
                   "make it simpler",
                   name);
}

lt_status lt_lr_scale_of(const lt_lr_scale *plan, const char *name, double *factor, int64_t *index)
{
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    if (!limits)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: matching training.lr_scaling_plan");
    pcre2_set_match_limit(limits, MATCH_STEPS);
    pcre2_set_depth_limit(limits, MATCH_STEPS);
    bool matches = false;
    int64_t i = 0;
    lt_status st = LT_OK;
    for (; i < plan->entries.n && st == LT_OK; i++) {
        st = try_entry(&LT_AT(&plan->entries, entry, i), limits, name, &matches);
        if (matches)
            break;
    }
    pcre2_match_context_free(limits);
    if (st != LT_OK)
        return st;
    *factor = matches ? LT_AT(&plan->entries, entry, i).scale : 1.0;
    if (index)
        *index = matches ? i : -1;
    return LT_OK;
}
