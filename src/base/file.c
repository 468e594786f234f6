// SPDX-License-Identifier: Apache-2.0
// Reading whole files, mapping them, and folders.
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static lt_status io_failed(const char *what, const char *path)
{
    const int why = errno;
    return LT_FAIL(why == ENOENT || why == ENOTDIR ? LT_ERR_NOT_FOUND : LT_ERR_IO,
                   "cannot %s %s: %s", what, path, lt_errno_text(why));
}

static lt_status open_to_read(const char *path, int *fd, struct stat *info)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return io_failed("open", path);
    lt_status st = LT_OK;
    if (fstat(*fd, info) != 0)
        st = io_failed("look at", path);
    else if (S_ISDIR(info->st_mode))
        st = LT_FAIL(LT_ERR_IO, "cannot read %s: it is a folder", path);
    if (st != LT_OK)
        close(*fd);
    return st;
}

static lt_status too_long(const char *path, size_t limit)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s is longer than the %zu bytes that are accepted here", path,
                   limit);
}

// Reads to the end, whatever the size said: the file may be a pipe, or grow.
static lt_status read_all(int fd, const char *path, size_t limit, lt_buf *out)
{
    char piece[1 << 14];
    for (;;) {
        const ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_failed("read", path);
        if (got == 0)
            return lt_buf_append(out, "", 0);
        if (limit > 0 && (size_t)got > limit - out->len)
            return too_long(path, limit);
        LT_TRY(lt_buf_append(out, piece, (size_t)got));
    }
}

lt_status lt_file_read(const char *path, size_t limit, lt_buf *out)
{
    int fd;
    struct stat info;
    LT_TRY(open_to_read(path, &fd, &info));
    lt_buf all = {0};
    lt_status st = LT_OK;
    if (limit > 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size > limit)
        st = too_long(path, limit);
    if (st == LT_OK)
        st = read_all(fd, path, limit, &all);
    close(fd);
    if (st != LT_OK) {
        lt_buf_deinit(&all);
        return st;
    }
    lt_buf_deinit(out);
    *out = all;
    return LT_OK;
}

bool lt_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool lt_file_is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

lt_status lt_file_size(const char *path, int64_t *bytes)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return io_failed("look at", path);
    *bytes = info.st_size;
    return LT_OK;
}

static lt_status make_one(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return LT_OK;
    const int why = errno;
    if (why == EEXIST && lt_file_is_dir(path))
        return LT_OK;
    return LT_FAIL(LT_ERR_IO, "cannot make the folder %s: %s", path, lt_errno_text(why));
}

lt_status lt_dir_make(const char *path)
{
    if (lt_file_is_dir(path))
        return LT_OK;
    lt_buf so_far = {0};
    lt_status st = LT_OK;
    for (const char *at = path; *at && st == LT_OK;) {
        const size_t slashes = strspn(at, "/"), name = strcspn(at + slashes, "/");
        st = lt_buf_append(&so_far, at, slashes + name);
        if (st == LT_OK && name > 0)
            st = make_one(so_far.data);
        at += slashes + name;
    }
    lt_buf_deinit(&so_far);
    return st;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

lt_status lt_dir_list(const char *path, lt_arena *arena, lt_vec *names)
{
    LT_ASSERT(names->elem == sizeof(char *));
    DIR *dir = opendir(path);
    if (!dir)
        return io_failed("list the folder", path);
    const int64_t first = names->n;
    lt_status st = LT_OK;
    while (st == LT_OK) {
        errno = 0;
        // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread reads a stream of its own
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno != 0)
                st = io_failed("list the folder", path);
            break;
        }
        char *name;
        if (is_dot(entry->d_name))
            continue;
        st = lt_arena_text(arena, entry->d_name, strlen(entry->d_name), &name);
        if (st == LT_OK)
            st = lt_vec_push(names, &name);
    }
    closedir(dir);
    if (st == LT_OK && names->n > first)
        qsort((char **)names->data + first, (size_t)(names->n - first), sizeof(char *), by_bytes);
    return st;
}

static lt_status remove_inside(const char *path, lt_arena *arena);

static lt_status remove_entry(const char *path, lt_arena *arena)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? LT_OK : io_failed("remove", path);
    if (S_ISDIR(info.st_mode)) {
        LT_TRY(remove_inside(path, arena));
        return rmdir(path) == 0 ? LT_OK : io_failed("remove", path);
    }
    return unlink(path) == 0 ? LT_OK : io_failed("remove", path);
}

static lt_status remove_inside(const char *path, lt_arena *arena)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(path, arena, &names);
    for (int64_t i = 0; i < names.n && st == LT_OK; i++) {
        char *child;
        st = lt_path_join(arena, path, LT_AT(&names, char *, i), &child);
        if (st == LT_OK)
            st = remove_entry(child, arena);
    }
    lt_vec_deinit(&names);
    return st;
}

lt_status lt_dir_remove(const char *path)
{
    lt_arena *arena;
    LT_TRY(lt_arena_create(&arena, "removing a folder"));
    const lt_status st = remove_entry(path, arena);
    lt_arena_destroy(arena);
    return st;
}

lt_status lt_path_join(lt_arena *arena, const char *dir, const char *name, char **out)
{
    if (name[0] == '/' || dir[0] == 0)
        return lt_arena_printf(arena, out, "%s", name);
    return lt_arena_printf(arena, out, "%s%s%s", dir, lt_text_ends(dir, "/") ? "" : "/", name);
}

lt_status lt_file_map(const char *path, lt_mapped *out)
{
    static const uint8_t nothing[1] = {0};
    int fd;
    struct stat info;
    LT_TRY(open_to_read(path, &fd, &info));
    if (info.st_size == 0) {
        close(fd);
        *out = (lt_mapped){nothing, 0};
        return LT_OK;
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int why = errno;
    close(fd);
    if (data == MAP_FAILED)
        return LT_FAIL(LT_ERR_IO, "cannot map %s: %s", path, lt_errno_text(why));
    *out = (lt_mapped){data, (size_t)info.st_size};
    return LT_OK;
}

void lt_file_uncache(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

void lt_file_forget(const lt_mapped *map, size_t from, size_t to)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = (from + page - 1) / page * page, end = to / page * page;
    if (first >= end || end > map->bytes)
        return;
    const union { // what is lent out as const is ours
        const uint8_t *lent;
        void *own;
    } address = {.lent = map->data + first};
    (void)madvise(address.own, end - first, MADV_DONTNEED);
}

void lt_file_unmap(lt_mapped *map)
{
    const union {
        const uint8_t *lent;
        void *own;
    } address = {.lent = map->data};
    if (map->bytes > 0)
        munmap(address.own, map->bytes);
    *map = (lt_mapped){0};
}
