// SPDX-License-Identifier: Apache-2.0
// Recording a window of steps.
#include "train/profile.h"

#include "base/file.h"

struct lt_profile {
    const lt_cfg_profile *c;
    const lt_log *log;
    lt_trace *trace;
    lt_arena *arena;
    int rank;
    bool on, written;
};

static bool wanted(const lt_cfg_profile *c, int rank)
{
    bool here = false;
    for (int64_t i = 0; i < c->ranks.n; i++)
        here = here || c->ranks.items[i] == rank || c->ranks.items[i] == -1;
    return c->enable && here;
}

lt_status lt_profile_open(const lt_config *cfg, int rank, lt_device *device, const lt_log *log,
                          lt_profile **out)
{
    void *memory = NULL;
    *out = NULL;
    if (!wanted(&cfg->tools.profile, rank))
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_profile), "profile"));
    lt_profile *p = memory;
    p->c = &cfg->tools.profile;
    p->log = log;
    p->rank = rank;
    lt_status st = lt_arena_create(&p->arena, "paths of traces");
    if (st == LT_OK)
        st = lt_trace_create(device, &p->trace);
    if (st == LT_OK)
        st = lt_dir_make(p->c->static_param.save_path);
    if (st == LT_OK) {
        *out = p;
        return LT_OK;
    }
    lt_error_note("%s: tools.profile.static_param.save_path",
                  lt_config_where(cfg, "tools.profile.static_param.save_path").s);
    lt_profile_close(p);
    return st;
}

void lt_profile_close(lt_profile *p)
{
    if (!p)
        return;
    lt_trace_destroy(p->trace);
    lt_arena_destroy(p->arena);
    lt_mem_free(p);
}

lt_watch lt_profile_watch(const lt_profile *p)
{
    return p ? lt_trace_watch(p->trace) : (lt_watch){0};
}

bool lt_profile_begins(const lt_profile *p, int64_t index)
{
    return p && !p->on && !p->written && index == p->c->static_param.start_step;
}

bool lt_profile_ends(const lt_profile *p, int64_t index)
{
    return p && p->on && index + 1 >= p->c->static_param.end_step;
}

void lt_profile_start(lt_profile *p)
{
    lt_trace_start(p->trace);
    p->on = true;
}

bool lt_profile_is_on(const lt_profile *p)
{
    return p && p->on;
}

static lt_status path_of(lt_profile *p, int64_t first, int64_t last, const char *ending, char **out)
{
    lt_buf name = {0};
    lt_status st = lt_buf_printf(&name, "rank_%d_steps_%lld-%lld.%s", p->rank, (long long)first,
                                 (long long)last, ending);
    if (st == LT_OK)
        st = lt_path_join(p->arena, p->c->static_param.save_path, name.data, out);
    lt_buf_deinit(&name);
    return st;
}

static lt_status write_text(const char *path, const lt_buf *text)
{
    return lt_file_replace(path, text->data, text->len);
}

// One rank: nothing is exchanged, and what is not computing is free.
static lt_status tell(const lt_profile *p, int64_t first, int64_t last, const char *path)
{
    lt_trace_share s;
    LT_TRY(lt_trace_busy(p->trace, &s));
    const double share = s.all > 0.0 ? s.computing / s.all * 100.0 : 0.0;
    LT_INFO(p->log, "profile",
            "steps %lld to %lld took %.3f ms: computing %.1f %%, communication not overlapped "
            "%.1f %%, free %.1f %%; trace in %s%s",
            (long long)first, (long long)last, s.all * 1e3, share, 0.0, 100.0 - share, path,
            lt_trace_spans(p->trace)->n >= LT_TRACE_MOST ? " (its end is missing: too many events)"
                                                         : "");
    return LT_OK;
}

lt_status lt_profile_write(lt_profile *p, int64_t first, int64_t last)
{
    lt_buf text = {0};
    char *json = NULL, *table = NULL;
    lt_status st;
    p->on = false;
    p->written = true;
    LT_TRY_GOTO(st, lt_trace_stop(p->trace), done);
    LT_TRY_GOTO(st, path_of(p, first, last, "json", &json), done);
    LT_TRY_GOTO(st, path_of(p, first, last, "txt", &table), done);
    LT_TRY_GOTO(st, lt_trace_print(p->trace, p->rank, &text), done);
    LT_TRY_GOTO(st, write_text(json, &text), done);
    lt_buf_clear(&text);
    LT_TRY_GOTO(st, lt_trace_tables(p->trace, &text), done);
    LT_TRY_GOTO(st, write_text(table, &text), done);
    st = tell(p, first, last, json);
done:
    lt_buf_deinit(&text);
    return st;
}
