// SPDX-License-Identifier: Apache-2.0
// Loading: file, overrides, schema, rules, in this order; issues are collected on the way.
#include "base/file.h"
#include "train/config/state.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- places and issues ----

lt_status lt_config_spot_put(lt_config_state *s, const char *key_path, lt_config_spot spot)
{
    LT_TRY(lt_map_put_text(s->spot_index, key_path, s->spots.n));
    return lt_vec_push(&s->spots, &spot);
}

bool lt_config_spot_get(const lt_config_state *s, const char *key_path, lt_config_spot *spot)
{
    int64_t i = 0;
    if (!lt_map_get_text(s->spot_index, key_path, &i))
        return false;
    *spot = LT_AT(&s->spots, lt_config_spot, i);
    return true;
}

lt_config_place lt_config_spot_text(const lt_config_state *s, const lt_config_spot *spot)
{
    lt_config_place out;
    if (spot->source > 0)
        snprintf(out.s, sizeof out.s, "override %d", (int)spot->source);
    else if (spot->mark.line > 0)
        snprintf(out.s, sizeof out.s, "%s:%d", s->name, (int)spot->mark.line);
    else
        snprintf(out.s, sizeof out.s, "%s", s->name);
    return out;
}

lt_status lt_config_issue_add(lt_config_state *s, lt_config_level level, const lt_config_spot *spot,
                              const char *key_path, const char *fmt, ...)
{
    if (s->issues.n > LT_CONFIG_MAX_ISSUES)
        return LT_OK;
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    lt_config_spot known = {0};
    if (!spot) {
        (void)lt_config_spot_get(
            s, key_path, &known); // a default has no place of its own: the file's name stands
        spot = &known;
    }
    char *kept = NULL;
    if (s->issues.n == LT_CONFIG_MAX_ISSUES) {
        LT_TRY(lt_arena_printf(s->arena, &kept, "%s: there is more to say, mend these first",
                               s->name));
    } else {
        LT_TRY(lt_arena_printf(s->arena, &kept, "%s: %s: %s", lt_config_spot_text(s, spot).s,
                               key_path, text));
    }
    return lt_vec_push(&s->issues, &(lt_config_issue){.level = level, .text = kept});
}

int64_t lt_config_n_issues(const lt_config *cfg)
{
    return cfg->state->issues.n;
}

lt_config_issue lt_config_issue_at(const lt_config *cfg, int64_t i)
{
    LT_ASSERT(i >= 0 && i < cfg->state->issues.n);
    return LT_AT(&cfg->state->issues, lt_config_issue, i);
}

bool lt_config_given(const lt_config *cfg, const char *key_path)
{
    lt_config_spot spot;
    return lt_config_spot_get(cfg->state, key_path, &spot);
}

lt_config_place lt_config_where(const lt_config *cfg, const char *key_path)
{
    lt_config_spot spot;
    if (lt_config_spot_get(cfg->state, key_path, &spot))
        return lt_config_spot_text(cfg->state, &spot);
    return (lt_config_place){"default"};
}

// ---- life ----

static lt_status create(const char *name, lt_config **out)
{
    void *memory = NULL;
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "configuration"));
    lt_status st = lt_arena_take(arena, sizeof(lt_config), &memory);
    lt_config *cfg = memory;
    if (st == LT_OK)
        st = lt_arena_take(arena, sizeof(lt_config_state), &memory);
    if (st != LT_OK) {
        lt_arena_destroy(arena);
        return st;
    }
    lt_config_state *s = memory;
    *s = (lt_config_state){
        .arena = arena, .issues = LT_VEC_OF(lt_config_issue), .spots = LT_VEC_OF(lt_config_spot)};
    cfg->state = s;
    char *copy = NULL;
    st = lt_arena_text(arena, name, strlen(name), &copy);
    s->name = copy;
    if (st == LT_OK)
        st = lt_map_create(&s->spot_index);
    if (st == LT_OK)
        *out = cfg;
    else
        lt_config_destroy(cfg);
    return st;
}

void lt_config_destroy(lt_config *cfg)
{
    if (!cfg)
        return;
    lt_config_state *s = cfg->state;
    lt_map_destroy(s->spot_index);
    lt_vec_deinit(&s->issues);
    lt_vec_deinit(&s->spots);
    lt_arena_destroy(s->arena); // the configuration itself lies in it
}

// ---- loading ----

static lt_status report_twice(lt_config_state *s, const lt_vec *twice)
{
    for (int64_t i = 0; i < twice->n; i++) {
        const lt_yaml_twice *t = &LT_AT(twice, lt_yaml_twice, i);
        const lt_config_spot spot = {.mark = t->second};
        LT_TRY(lt_config_issue_add(
            s, s->strict ? LT_CONFIG_ERROR : LT_CONFIG_WARNING, &spot, lt_yaml_excerpt(t->key).s,
            "stands here and on line %d; this one counts", (int)t->first.line));
    }
    return LT_OK;
}

static lt_status check_root(const lt_config_state *s)
{
    if (s->root->kind == LT_YAML_MAP)
        return lt_config_check_family(s);
    return LT_FAIL(LT_ERR_CONFIG,
                   "%s: a configuration is a mapping with the sections parallel, data, model, "
                   "features, training, tools; this file is %s",
                   s->name, s->root->kind == LT_YAML_NULL ? "empty" : lt_yaml_describe(s->root).s);
}

static lt_status build(lt_config *cfg, const char *text, size_t len, const lt_config_opts *opts,
                       lt_vec *twice)
{
    lt_config_state *s = cfg->state;
    LT_TRY(lt_yaml_parse(s->arena, s->name, text, len, 0, twice, &s->root));
    LT_TRY(check_root(s));
    for (int64_t i = 0; i < opts->n_overrides; i++)
        LT_TRY(lt_config_override(s, lt_int(i + 1), opts->overrides[i]));
    LT_TRY(lt_config_fill(cfg));
    LT_TRY(report_twice(s, twice));
    LT_TRY(lt_config_check_rules(cfg));
    return lt_config_check_sizes(cfg, opts->world_size);
}

lt_status lt_config_read_text(const char *name, const char *text, size_t len,
                              const lt_config_opts *opts, lt_config **out)
{
    static const lt_config_opts none = {0};
    lt_config *cfg = NULL;
    lt_vec twice = LT_VEC_OF(lt_yaml_twice);
    LT_TRY(create(name, &cfg));
    const lt_status st = build(cfg, text, len, opts ? opts : &none, &twice);
    lt_vec_deinit(&twice);
    if (st == LT_OK)
        *out = cfg;
    else
        lt_config_destroy(cfg);
    return st;
}

lt_status lt_config_read(const char *path, const lt_config_opts *opts, lt_config **out)
{
    lt_buf text = {0};
    lt_status st = lt_file_read(path, LT_YAML_MAX_BYTES, &text);
    if (st == LT_OK)
        st = lt_config_read_text(path, text.data ? text.data : "", text.len, opts, out);
    lt_buf_deinit(&text);
    return st;
}

lt_status lt_config_verdict(const lt_config *cfg)
{
    lt_buf all = {0};
    lt_status st = LT_OK;
    for (int64_t i = 0; i < cfg->state->issues.n && st == LT_OK; i++) {
        const lt_config_issue *issue = &LT_AT(&cfg->state->issues, lt_config_issue, i);
        if (issue->level == LT_CONFIG_ERROR)
            st = lt_buf_printf(&all, "%s%s", all.len ? "\n" : "", issue->text);
    }
    if (st == LT_OK && all.len > 0)
        st = LT_FAIL(LT_ERR_CONFIG, "%s", all.data);
    lt_buf_deinit(&all);
    return st;
}

static void log_issues(const lt_config *cfg, const lt_log *log)
{
    for (int64_t i = 0; i < cfg->state->issues.n; i++) {
        const lt_config_issue *issue = &LT_AT(&cfg->state->issues, lt_config_issue, i);
        if (issue->level != LT_CONFIG_ERROR)
            lt_log_write(log, issue->level == LT_CONFIG_NOTE ? LT_LOG_NOTE : LT_LOG_WARN, "config",
                         "%s", issue->text);
    }
}

lt_status lt_config_load(const char *path, const lt_config_opts *opts, const lt_log *log,
                         lt_config **out)
{
    lt_config *cfg = NULL;
    LT_TRY(lt_config_read(path, opts, &cfg));
    log_issues(cfg, log);
    const lt_status st = lt_config_verdict(cfg);
    if (st == LT_OK)
        *out = cfg;
    else
        lt_config_destroy(cfg);
    return st;
}
