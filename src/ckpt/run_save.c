// SPDX-License-Identifier: Apache-2.0
// Saving an iteration of a run: the folder first, the tracker after it, old iterations last.
#include "base/file.h"
#include "base/text.h"
#include "ckpt/publish.h"
#include "ckpt/run_folder.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ITERATION_DIGITS = 15 };

static const char iteration_prefix[] = "iter_";

lt_status lt_run_state_item(lt_arena *arena, const char *part, const char *name, int32_t rank,
                            const int64_t *dim, lt_st_fetch fetch, void *ctx, lt_st_item *out)
{
    char *full;
    lt_st_item item = {.from = LT_F32, .fetch = fetch, .ctx = ctx};
    LT_TRY(lt_arena_printf(arena, &full, "%s.%s", part, name));
    LT_TRY(lt_st_plan(full, LT_F32, rank, dim, &item.tensor));
    *out = item;
    return LT_OK;
}

// ---- one iteration

static lt_status join_exists(lt_arena *arena, const char *dir, const char *name, bool *out)
{
    char *path;
    LT_TRY(lt_path_join(arena, dir, name, &path));
    *out = lt_file_exists(path);
    return LT_OK;
}

// Whether lathe wrote this folder: only then may it be replaced or removed.
static lt_status is_ours(lt_arena *arena, const char *dir, bool *out)
{
    bool dcp = false, marked = false;
    LT_TRY(join_exists(arena, dir, LT_DCP_METADATA, &dcp));
    LT_TRY(join_exists(arena, dir, LT_RUN_MARK, &marked));
    *out = dcp ? marked : lt_hf_has_weights(dir);
    return LT_OK;
}

static lt_status check_target(lt_arena *arena, const char *dir, const lt_log *log)
{
    bool ours = false;
    if (!lt_file_exists(dir))
        return LT_OK;
    LT_TRY(is_ours(arena, dir, &ours));
    if (!ours)
        return LT_FAIL(LT_ERR_IO, "%s exists and is no checkpoint of lathe: it isn't replaced",
                       dir);
    LT_NOTE(log, "ckpt", "%s exists and is replaced", dir);
    return LT_OK;
}

static lt_status write_state(const lt_run_plan *plan, lt_arena *arena, const char *dir)
{
    lt_vec meta = LT_VEC_OF(lt_st_pair);
    char *iteration = NULL, *path = NULL;
    lt_status st;
    LT_TRY_GOTO(st, lt_arena_printf(arena, &iteration, "%lld", (long long)plan->iteration), done);
    LT_TRY_GOTO(st, lt_path_join(arena, dir, LT_RUN_STATE, &path), done);
    const lt_st_pair own[] = {{"format", "pt"}, {"lathe_state", "1"}, {"iteration", iteration}};
    LT_TRY_GOTO(st, lt_vec_append(&meta, own, 3), done);
    LT_TRY_GOTO(st, lt_vec_append(&meta, plan->meta, plan->n_meta), done);
    st = lt_st_write(path, plan->state, plan->n_state, meta.data, meta.n);
done:
    lt_vec_deinit(&meta);
    return st;
}

static lt_status measure(const lt_run_plan *plan, int64_t *bytes)
{
    LT_TRY(lt_hf_measure(&plan->weights, bytes));
    for (int64_t i = 0; i < plan->n_state && !plan->no_state; i++)
        if (!lt_add_i64(*bytes, (int64_t)plan->state[i].tensor.bytes, bytes))
            return LT_FAIL(LT_ERR_SHAPE, "the training state's size overflows 63 bits");
    return LT_OK;
}

lt_status lt_run_begin(const char *root, int64_t iteration, int64_t bytes, const lt_log *log,
                       lt_arena *arena, lt_run_place *out)
{
    *out = (lt_run_place){.root = root, .iteration = iteration};
    LT_TRY(lt_run_dir(arena, root, iteration, &out->dir));
    LT_TRY(lt_publish_clean(root, iteration_prefix, log));
    LT_TRY(lt_publish_clean(root, LT_RUN_TRACKER, log));
    LT_TRY(lt_publish_recover(out->dir, log));
    LT_TRY(check_target(arena, out->dir, log));
    LT_TRY(lt_publish_room(out->dir, bytes));
    return lt_publish_begin(out->dir, true, arena, &out->tmp);
}

lt_status lt_run_commit(const lt_run_place *place, int64_t keep_last, lt_arena *arena,
                        const lt_log *log)
{
    char *tracker, *number;
    LT_TRY(lt_publish_commit(place->tmp, place->dir, true));
    LT_INFO(log, "ckpt", "%s is in place", place->dir);
    LT_TRY(lt_path_join(arena, place->root, LT_RUN_TRACKER, &tracker));
    LT_TRY(lt_arena_printf(arena, &number, "%lld", (long long)place->iteration));
    LT_TRY(lt_file_replace(tracker, number, strlen(number)));
    LT_INFO(log, "ckpt", "iteration %s is saved in %s", number, place->dir);
    return keep_last > 0 ? lt_run_prune(place->root, keep_last, place->iteration, log) : LT_OK;
}

static lt_status write_folder(const lt_run_plan *plan, lt_arena *arena, const char *tmp)
{
    LT_TRY(lt_hf_write(tmp, &plan->weights));
    return plan->no_state ? LT_OK : write_state(plan, arena, tmp);
}

static lt_status save(const lt_run_plan *plan, lt_arena *arena, const lt_log *log)
{
    lt_run_place place = {0};
    int64_t bytes = 0;
    LT_TRY(measure(plan, &bytes));
    LT_TRY(lt_run_begin(plan->root, plan->iteration, bytes, log, arena, &place));
    const lt_status st = write_folder(plan, arena, place.tmp);
    if (st != LT_OK) {
        lt_publish_abort(place.tmp);
        return st;
    }
    LT_INFO(log, "ckpt", "%s is written and read back: %s", place.tmp, lt_bytes_text(bytes).s);
    return lt_run_commit(&place, plan->keep_last, arena, log);
}

lt_status lt_run_save(const lt_run_plan *plan, const lt_log *log)
{
    lt_arena *arena;
    LT_ASSERT(plan->iteration >= 0);
    LT_TRY(lt_arena_create(&arena, "saving a checkpoint"));
    const lt_status st = save(plan, arena, log);
    if (st != LT_OK)
        lt_error_note("saving iteration %lld to %s", (long long)plan->iteration, plan->root);
    lt_arena_destroy(arena);
    return st;
}

// ---- old iterations

// The number of "iter_0000042"; -1 for any other name.
static int64_t iteration_of(const char *name)
{
    const size_t prefix = sizeof iteration_prefix - 1;
    if (!lt_text_starts(name, iteration_prefix))
        return -1;
    const char *digits = name + prefix;
    const size_t n = strlen(digits);
    if (n < 7 || n > MAX_ITERATION_DIGITS || (n > 7 && digits[0] == '0') ||
        strspn(digits, "0123456789") != n)
        return -1;
    return strtoll(digits, NULL, 10);
}

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

// Iterations up to `current` that lathe wrote, the newest first.
static lt_status list_iterations(const char *root, int64_t current, lt_arena *arena, lt_vec *out)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(root, arena, &names);
    for (int64_t i = 0; i < names.n && st == LT_OK; i++) {
        const int64_t iteration = iteration_of(LT_AT(&names, char *, i));
        char *dir;
        bool ours = false;
        if (iteration < 0 || iteration > current)
            continue;
        st = lt_path_join(arena, root, LT_AT(&names, char *, i), &dir);
        if (st == LT_OK)
            st = is_ours(arena, dir, &ours);
        if (st == LT_OK && ours)
            st = lt_vec_push(out, &iteration);
    }
    lt_vec_deinit(&names);
    if (out->n > 0)
        qsort(out->data, (size_t)out->n, sizeof(int64_t), newest_first);
    return st;
}

// Renamed first: what a kill leaves half removed is then a temporary and not a broken checkpoint.
static lt_status remove_iteration(const char *root, int64_t iteration, lt_arena *arena,
                                  const lt_log *log)
{
    char *dir, *tmp;
    LT_TRY(lt_run_dir(arena, root, iteration, &dir));
    lt_status st = lt_publish_begin(dir, true, arena, &tmp);
    if (st == LT_OK)
        st = lt_path_rename(dir, tmp);
    if (st == LT_OK)
        st = lt_dir_remove(tmp);
    if (st != LT_OK) {
        LT_WARN(log, "ckpt", "%s could not be removed: %s", dir, lt_error_message());
        lt_error_clear();
        return LT_OK;
    }
    LT_INFO(log, "ckpt", "%s is removed: newer ones are kept", dir);
    return LT_OK;
}

lt_status lt_run_prune(const char *root, int64_t keep, int64_t current, const lt_log *log)
{
    lt_arena *arena;
    lt_vec iterations = LT_VEC_OF(int64_t);
    LT_TRY(lt_arena_create(&arena, "removing old checkpoints"));
    lt_status st = list_iterations(root, current, arena, &iterations);
    for (int64_t i = lt_max_i64(keep, 1); i < iterations.n && st == LT_OK; i++)
        st = remove_iteration(root, LT_AT(&iterations, int64_t, i), arena, log);
    lt_vec_deinit(&iterations);
    lt_arena_destroy(arena);
    return st;
}
