// SPDX-License-Identifier: Apache-2.0
// A distributed checkpoint of a run, from the first file to the tracker.
#include "train/save_dcp.h"

#include "base/file.h"
#include "ckpt/json_text.h"
#include "ckpt/publish.h"
#include "train/dcp_items.h"
#include "train/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PATH_BYTES = 4096 };

struct lt_dcp_save {
    lt_engine *e;
    lt_progress progress;
    double lr;
    lt_arena *arena;
    lt_dcp_items items;
    lt_run_place place; // of all ranks; the first one's folder
    bool has_place;
    bool threaded; // the thread runs, or has ended and wasn't joined
    pthread_t thread;
    atomic_bool written;
    lt_status st; // of this rank's file, once it is written
    char message[MAX_PATH_BYTES];
};

bool lt_saves_dcp(const lt_engine *e)
{
    const int format = e->cfg->training.save_format;
    return format == LT_CFG_FORMAT_DCP ||
           (format == LT_CFG_FORMAT_AUTO && e->run && e->run->kind == LT_RUN_DCP);
}

static lt_group *world(const lt_dcp_save *s)
{
    return s->e->ranks ? s->e->ranks->world : NULL;
}

static bool is_first(const lt_dcp_save *s)
{
    return lt_is_first(s->e->ranks);
}

// ---- this rank's part

static lt_status write_own(const lt_dcp_save *s)
{
    LT_TRY(lt_dcp_write_file(&s->items.plan, s->place.tmp, s->items.own, NULL));
    return lt_dcp_write_extra(s->e, &s->progress, s->lr, s->place.tmp);
}

static void *write_in_thread(void *ctx)
{
    lt_dcp_save *s = ctx;
    s->st = write_own(s);
    if (s->st != LT_OK)
        (void)snprintf(s->message, sizeof s->message, "%s", lt_error_message());
    atomic_store(&s->written, true);
    return NULL;
}

static lt_status start_thread(lt_dcp_save *s)
{
    LT_TRY(lt_dcp_items_copy(&s->items));
    if (pthread_create(&s->thread, NULL, write_in_thread, s) != 0)
        return LT_FAIL(LT_ERR_MEMORY, "no thread can be started to write a checkpoint");
    s->threaded = true;
    return LT_OK;
}

// The first rank makes the folder and tells the others where.
static lt_status open_place(lt_dcp_save *s)
{
    char text[MAX_PATH_BYTES] = {0};
    const char *root = s->e->cfg->training.save;
    if (is_first(s)) {
        LT_TRY(lt_run_begin(root, s->progress.iteration, s->items.bytes, s->e->log, s->arena,
                            &s->place));
        s->has_place = true;
        (void)snprintf(text, sizeof text, "%s", s->place.tmp);
    }
    LT_TRY(lt_broadcast(world(s), 0, text, sizeof text));
    if (is_first(s))
        return LT_OK;
    s->place = (lt_run_place){.root = root, .iteration = s->progress.iteration};
    LT_TRY(lt_run_dir(s->arena, root, s->progress.iteration, &s->place.dir));
    return lt_arena_text(s->arena, text, strlen(text), &s->place.tmp);
}

static lt_status begin(lt_dcp_save *s)
{
    LT_TRY(lt_arena_create(&s->arena, "saving a checkpoint"));
    LT_TRY(lt_weights_check(s->e, true));
    LT_TRY(lt_dcp_items_init(s->e, &s->progress, s->lr, &s->items));
    LT_TRY(open_place(s));
    return s->e->cfg->training.save_async ? start_thread(s) : write_own(s);
}

lt_status lt_dcp_save_begin(lt_engine *e, const lt_progress *progress, double lr, lt_dcp_save **out)
{
    void *memory;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_dcp_save), "a checkpoint under way"));
    lt_dcp_save *s = memory;
    s->e = e;
    s->progress = *progress;
    s->lr = lr;
    const lt_status st = begin(s);
    if (st != LT_OK) {
        lt_error_note("saving iteration %lld to %s", (long long)progress->iteration,
                      e->cfg->training.save);
        lt_dcp_save_abandon(s);
        return st;
    }
    *out = s;
    return LT_OK;
}

// ---- the first rank's part

static lt_status edit_asset(const lt_dcp_save *s, const char *name, lt_buf *text)
{
    lt_vec edits = LT_VEC_OF(lt_hf_edit);
    lt_status st = lt_config_edits(s->e, s->arena, &edits);
    for (int64_t i = 0; st == LT_OK && i < edits.n; i++) {
        const lt_hf_edit *e = &LT_AT(&edits, lt_hf_edit, i);
        if (strcmp(e->file, name) == 0)
            st = lt_json_set(text, e->path, e->value);
    }
    if (st == LT_OK && strcmp(name, "config.json") == 0)
        st = lt_json_set(text, "tie_word_embeddings", s->e->model->tied ? "true" : "false");
    lt_vec_deinit(&edits);
    return st;
}

// config.json, tokenizer and the like, so that the folder can be used by itself.
static lt_status write_assets(const lt_dcp_save *s)
{
    const lt_hf *hf =
        s->e->run && lt_hf_n_assets(s->e->run->weights) > 0 ? s->e->run->weights : s->e->assets;
    for (int64_t i = 0; hf && i < lt_hf_n_assets(hf); i++) {
        const lt_hf_asset *a = lt_hf_asset_at(hf, i);
        lt_buf text = {0};
        char *path = NULL;
        lt_status st = lt_buf_append(&text, a->data, a->bytes);
        if (st == LT_OK)
            st = edit_asset(s, a->name, &text);
        if (st == LT_OK)
            st = lt_path_join(s->arena, s->place.tmp, a->name, &path);
        if (st == LT_OK)
            st = lt_file_replace(path, text.data ? text.data : "", text.len);
        lt_buf_deinit(&text);
        LT_TRY(st);
    }
    return LT_OK;
}

static lt_status write_mark(const lt_dcp_save *s)
{
    char *path, *text;
    LT_TRY(lt_path_join(s->arena, s->place.tmp, LT_RUN_MARK, &path));
    LT_TRY(lt_arena_printf(s->arena, &text, "{\"lathe_checkpoint\": 1, \"iteration\": %lld}\n",
                           (long long)s->progress.iteration));
    return lt_file_replace(path, text, strlen(text));
}

static lt_status publish(const lt_dcp_save *s)
{
    LT_TRY(write_assets(s));
    LT_TRY(write_mark(s));
    LT_TRY(lt_dcp_write_metadata(&s->items.plan, s->place.tmp));
    return lt_run_commit(&s->place, s->e->cfg->lathe.keep_last, s->arena, s->e->log);
}

static lt_status join(lt_dcp_save *s)
{
    if (!s->threaded)
        return LT_OK;
    (void)pthread_join(s->thread, NULL);
    s->threaded = false;
    return s->st == LT_OK ? LT_OK : lt_error_adopt(s->st, s->message);
}

static lt_status end(lt_dcp_save *s)
{
    LT_TRY(join(s));
    LT_TRY(lt_barrier(world(s))); // every file is on the disk
    if (is_first(s)) {
        LT_TRY(publish(s));
        s->has_place = false;
    }
    return lt_barrier(world(s));
}

lt_status lt_dcp_save_end(lt_dcp_save **save, bool wait, bool *done)
{
    lt_dcp_save *s = *save;
    bool waiting = !wait && s->threaded && !atomic_load(&s->written);
    *done = false;
    if (!wait)
        LT_TRY(lt_team_any(s->e->ranks, &waiting));
    if (waiting)
        return LT_OK;
    *save = NULL;
    const lt_status st = end(s);
    if (st != LT_OK)
        lt_error_note("saving iteration %lld to %s", (long long)s->progress.iteration,
                      s->e->cfg->training.save);
    lt_dcp_save_abandon(s);
    *done = st == LT_OK;
    return st;
}

const char *lt_dcp_save_dir(const lt_dcp_save *save)
{
    return save->place.dir;
}

void lt_dcp_save_abandon(lt_dcp_save *s)
{
    if (!s)
        return;
    if (s->threaded)
        (void)pthread_join(s->thread, NULL);
    if (s->has_place)
        lt_publish_abort(s->place.tmp);
    lt_dcp_items_deinit(&s->items);
    lt_arena_destroy(s->arena);
    lt_mem_free(s);
}
