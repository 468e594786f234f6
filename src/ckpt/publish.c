// SPDX-License-Identifier: Apache-2.0
// Folders swapped in: DIR.tmp-PID until complete, DIR.old-PID for the moment between two renames.
#include "ckpt/publish.h"
#include "base/file.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

lt_status lt_publish_split(const char *dir, lt_arena *arena, char **parent, char **name)
{
    size_t end = strlen(dir);
    while (end > 1 && dir[end - 1] == '/')
        end--;
    size_t slash = end;
    while (slash > 0 && dir[slash - 1] != '/')
        slash--;
    LT_TRY(lt_arena_text(arena, dir + slash, end - slash, name));
    if (slash == 0)
        return lt_arena_text(arena, ".", 1, parent);
    return lt_arena_text(arena, dir, slash > 1 ? slash - 1 : 1, parent);
}

// ---- room

// The nearest folder on the way to `path` that exists.
static lt_status existing_part(const char *path, lt_arena *arena, char **out)
{
    char *at, *name;
    LT_TRY(lt_arena_text(arena, path, strlen(path), &at));
    while (!lt_file_exists(at) && strcmp(at, "/") != 0 && strcmp(at, ".") != 0)
        LT_TRY(lt_publish_split(at, arena, &at, &name));
    *out = at;
    return LT_OK;
}

static lt_status check_room(const char *path, const char *at, int64_t bytes)
{
    struct statvfs info;
    // One that doesn't say (no blocks) is tried: a write that fails is reported all the same.
    if (statvfs(at, &info) != 0 || info.f_blocks == 0)
        return LT_OK;
    uint64_t room;
    if (!lt_mul_u64(geteuid() == 0 ? info.f_bfree : info.f_bavail, info.f_frsize, &room) ||
        (uint64_t)bytes <= room)
        return LT_OK;
    return LT_FAIL(LT_ERR_IO,
                   "no room for %s: it wants %lld bytes (%s), and %llu (%s) are free there", path,
                   (long long)bytes, lt_bytes_text(bytes).s, (unsigned long long)room,
                   lt_bytes_text((int64_t)room).s);
}

lt_status lt_publish_room(const char *path, int64_t bytes)
{
    lt_arena *arena;
    char *at = NULL;
    LT_TRY(lt_arena_create(&arena, "checking free space"));
    lt_status st = existing_part(path, arena, &at);
    if (st == LT_OK)
        st = check_room(path, at, bytes);
    lt_arena_destroy(arena);
    return st;
}

// ---- one folder

static lt_status is_empty(const char *dir, lt_arena *arena, bool *out)
{
    lt_vec names = LT_VEC_OF(char *);
    const lt_status st = lt_dir_list(dir, arena, &names);
    *out = names.n == 0;
    lt_vec_deinit(&names);
    return st;
}

static lt_status check_place(const char *dir, bool replace, lt_arena *arena)
{
    bool empty = false;
    if (!lt_file_exists(dir))
        return LT_OK;
    if (!lt_file_is_dir(dir))
        return LT_FAIL(LT_ERR_IO, "%s can't be written: a file of that name is in the way", dir);
    LT_TRY(is_empty(dir, arena, &empty));
    if (!empty && !replace) {
        return LT_FAIL(
            LT_ERR_IO,
            "%s can't be written: it exists and isn't empty; remove it or choose another folder",
            dir);
    }
    return LT_OK;
}

lt_status lt_publish_begin(const char *dir, bool replace, lt_arena *arena, char **tmp)
{
    char *parent, *name, *beside, *path;
    LT_TRY(check_place(dir, replace, arena));
    LT_TRY(lt_publish_split(dir, arena, &parent, &name));
    LT_TRY(lt_arena_printf(arena, &beside, "%s.tmp-%ld", name, (long)getpid()));
    LT_TRY(lt_path_join(arena, parent, beside, &path));
    LT_TRY(lt_dir_remove(path));
    LT_TRY(lt_dir_make(path));
    *tmp = path;
    return LT_OK;
}

// The new folder is in place: an old one that can't be removed is left to the next clean-up, and no
// reason to fail.
static void forget_old(const char *path)
{
    if (lt_dir_remove(path) != LT_OK)
        lt_error_clear();
}

// For file systems without an exchange: a kill between the two renames is mended by
// lt_publish_recover.
static lt_status move_aside_and_in(const char *tmp, const char *dir, lt_arena *arena)
{
    char *parent, *name, *aside, *path;
    LT_TRY(lt_publish_split(dir, arena, &parent, &name));
    LT_TRY(lt_arena_printf(arena, &aside, "%s.old-%ld", name, (long)getpid()));
    LT_TRY(lt_path_join(arena, parent, aside, &path));
    LT_TRY(lt_dir_remove(path));
    LT_TRY(lt_path_rename(dir, path));
    LT_TRY(lt_path_rename(tmp, dir));
    forget_old(path);
    return LT_OK;
}

static lt_status swap_in(const char *tmp, const char *dir, lt_arena *arena)
{
    char *parent, *name;
    if (renameat2(AT_FDCWD, tmp, AT_FDCWD, dir, RENAME_EXCHANGE) != 0) {
        if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)
            return move_aside_and_in(tmp, dir, arena);
        return LT_FAIL(LT_ERR_IO, "cannot exchange %s and %s: %s", tmp, dir, lt_errno_text(errno));
    }
    LT_TRY(lt_publish_split(dir, arena, &parent, &name));
    LT_TRY(lt_dir_sync(parent));
    forget_old(tmp);
    return LT_OK;
}

lt_status lt_publish_commit(const char *tmp, const char *dir, bool replace)
{
    lt_arena *arena;
    bool empty = true;
    LT_TRY(lt_arena_create(&arena, "publishing a folder"));
    lt_status st = lt_dir_sync(tmp);
    if (st == LT_OK)
        st = check_place(dir, replace, arena);
    if (st == LT_OK && lt_file_exists(dir))
        st = is_empty(dir, arena, &empty);
    if (st == LT_OK)
        st = empty ? lt_path_rename(tmp, dir) : swap_in(tmp, dir, arena);
    lt_arena_destroy(arena);
    return st;
}

void lt_publish_abort(const char *tmp)
{
    char message[4096];
    snprintf(message, sizeof message, "%s", lt_error_message());
    if (lt_dir_remove(tmp) != LT_OK)
        (void)lt_error_adopt(LT_ERR_IO, message);
}

// ---- what killed processes left

// The number at the end of NAME + mark + NUMBER, with the length of NAME; 0 for any other name.
static long owner_of(const char *name, const char *mark, size_t *base_len)
{
    const char *at = strstr(name, mark);
    if (at == NULL || at == name)
        return 0;
    const char *digits = at + strlen(mark);
    if (*digits == '\0' || strlen(digits) > 10 || strspn(digits, "0123456789") != strlen(digits))
        return 0;
    *base_len = (size_t)(at - name);
    return strtol(digits, NULL, 10);
}

// Our own number counts as dead: a container's process often has the number of the one before, and
// we are not saving now.
static bool is_gone(long pid)
{
    return pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

static lt_status move_back(const char *path, const char *parent, const char *name, size_t base_len,
                           lt_arena *arena, const lt_log *log, bool *moved)
{
    char *base, *place;
    LT_TRY(lt_arena_text(arena, name, base_len, &base));
    LT_TRY(lt_path_join(arena, parent, base, &place));
    if (lt_file_exists(place))
        return LT_OK;
    LT_NOTE(log, "ckpt", "%s is moved back to %s: the save that was to replace it was killed", path,
            place);
    *moved = true;
    return lt_path_rename(path, place);
}

static lt_status clean_one(const char *parent, const char *name, lt_arena *arena, const lt_log *log)
{
    static const char *const marks[] = {".old-", ".tmp-",
                                        ".tmp."}; // the last are lt_file_replace's
    size_t base_len = 0;
    long pid = 0;
    int mark = -1;
    char *path;
    while (pid <= 0 && ++mark < 3)
        pid = owner_of(name, marks[mark], &base_len);
    if (pid <= 0 || !is_gone(pid))
        return LT_OK;
    LT_TRY(lt_path_join(arena, parent, name, &path));
    bool moved = false;
    if (mark == 0)
        LT_TRY(move_back(path, parent, name, base_len, arena, log, &moved));
    if (moved)
        return LT_OK;
    LT_NOTE(log, "ckpt", "%s is removed: process %ld was killed before it was done with it", path,
            pid);
    if (lt_dir_remove(path) != LT_OK)
        LT_WARN(log, "ckpt", "%s stays: %s", path, lt_error_message());
    return LT_OK;
}

lt_status lt_publish_clean(const char *parent, const char *prefix, const lt_log *log)
{
    lt_arena *arena;
    lt_vec names = LT_VEC_OF(char *);
    if (!lt_file_is_dir(parent))
        return LT_OK;
    LT_TRY(lt_arena_create(&arena, "cleaning up"));
    lt_status st = lt_dir_list(parent, arena, &names);
    for (int64_t i = 0; i < names.n && st == LT_OK; i++)
        if (lt_text_starts(LT_AT(&names, char *, i), prefix))
            st = clean_one(parent, LT_AT(&names, char *, i), arena, log);
    lt_vec_deinit(&names);
    lt_arena_destroy(arena);
    return st;
}

lt_status lt_publish_recover(const char *dir, const lt_log *log)
{
    lt_arena *arena;
    char *parent = NULL, *name = NULL, *prefix = NULL;
    if (lt_file_exists(dir))
        return LT_OK;
    LT_TRY(lt_arena_create(&arena, "recovering a folder"));
    lt_status st = lt_publish_split(dir, arena, &parent, &name);
    if (st == LT_OK)
        st = lt_arena_printf(arena, &prefix, "%s.old-", name);
    if (st == LT_OK)
        st = lt_publish_clean(parent, prefix, log);
    lt_arena_destroy(arena);
    return st;
}
