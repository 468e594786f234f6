// SPDX-License-Identifier: Apache-2.0
// Writing files: buffered, checked to the last byte, published by rename.
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

struct lt_writer {
    int fd;
    size_t used;
    uint64_t written; // bytes that the system took
    char *path, *buffer;
};

static lt_status failed(const char *what, const char *path, int why)
{
    return LT_FAIL(why == ENOENT ? LT_ERR_NOT_FOUND : LT_ERR_IO, "cannot %s %s: %s", what, path,
                   lt_errno_text(why));
}

lt_status lt_writer_create(const char *path, lt_writer **out)
{
    const size_t len = strlen(path) + 1;
    void *ptr;
    LT_TRY(lt_mem_alloc(&ptr, sizeof(lt_writer) + len + BUFFER_BYTES, "a file being written"));
    lt_writer *w = ptr;
    w->path = (char *)(w + 1);
    w->buffer = w->path + len;
    memcpy(w->path, path, len);
    w->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        const int why = errno;
        lt_mem_free(w);
        return failed("create", path, why);
    }
    *out = w;
    return LT_OK;
}

static lt_status write_all(lt_writer *w, const char *bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t n = write(w->fd, bytes + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            const int why = n < 0 ? errno : EIO;
            return LT_FAIL(
                LT_ERR_IO,
                "cannot write %s: %zu of the %zu bytes wanted after byte %llu were written: %s",
                w->path, done, len, (unsigned long long)(w->written - done), lt_errno_text(why));
        }
        done += (size_t)n;
        w->written += (size_t)n;
    }
    return LT_OK;
}

static lt_status flush(lt_writer *w)
{
    const size_t len = w->used;
    w->used = 0;
    return write_all(w, w->buffer, len);
}

lt_status lt_writer_put(lt_writer *w, const void *bytes, size_t len)
{
    if (len > BUFFER_BYTES - w->used)
        LT_TRY(flush(w));
    if (len >= BUFFER_BYTES)
        return write_all(w, bytes, len);
    if (len > 0)
        memcpy(w->buffer + w->used, bytes, len);
    w->used += len;
    return LT_OK;
}

// Pipes and devices cannot be synced, and need not be.
static bool sync_fd(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

lt_status lt_writer_close(lt_writer **writer)
{
    lt_writer *w = *writer;
    *writer = NULL;
    lt_status st = flush(w);
    if (st == LT_OK && !sync_fd(w->fd))
        st = failed("bring to the disk", w->path, errno);
    if (close(w->fd) != 0 && st == LT_OK)
        st = failed("close", w->path, errno);
    lt_mem_free(w);
    return st;
}

void lt_writer_abandon(lt_writer *w)
{
    if (!w)
        return;
    close(w->fd);
    lt_mem_free(w);
}

static lt_status write_file(const char *path, const void *bytes, size_t len)
{
    lt_writer *w;
    LT_TRY(lt_writer_create(path, &w));
    const lt_status st = lt_writer_put(w, bytes, len);
    if (st != LT_OK) {
        lt_writer_abandon(w);
        return st;
    }
    return lt_writer_close(&w);
}

lt_status lt_file_replace(const char *path, const void *bytes, size_t len)
{
    lt_buf beside = {0};
    lt_status st = lt_buf_printf(&beside, "%s.tmp.%ld", path, (long)gettid());
    if (st == LT_OK)
        st = write_file(beside.data, bytes, len);
    if (st == LT_OK)
        st = lt_path_rename(beside.data, path);
    if (st != LT_OK && beside.data)
        unlink(beside.data);
    lt_buf_deinit(&beside);
    return st;
}

static lt_status copy_bytes(int from, const char *name, lt_writer *to)
{
    char piece[1 << 16];
    for (;;) {
        const ssize_t got = read(from, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed("read", name, errno);
        if (got == 0)
            return LT_OK;
        LT_TRY(lt_writer_put(to, piece, (size_t)got));
    }
}

lt_status lt_file_copy(const char *from, const char *to)
{
    const int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed("open", from, errno);
    lt_writer *w;
    lt_status st = lt_writer_create(to, &w);
    if (st == LT_OK) {
        st = copy_bytes(fd, from, w);
        if (st == LT_OK)
            st = lt_writer_close(&w);
        else
            lt_writer_abandon(w);
    }
    close(fd);
    return st;
}

lt_status lt_dir_sync(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed("open the folder", path, errno);
    const bool fine = sync_fd(fd);
    const int why = errno;
    close(fd);
    return fine ? LT_OK : failed("bring to the disk the folder", path, why);
}

lt_status lt_path_rename(const char *from, const char *to)
{
    if (rename(from, to) != 0) {
        const int why = errno;
        return LT_FAIL(why == ENOENT ? LT_ERR_NOT_FOUND : LT_ERR_IO, "cannot rename %s to %s: %s",
                       from, to, lt_errno_text(why));
    }
    size_t end = strlen(to);
    while (end > 1 && to[end - 1] == '/')
        end--;
    while (end > 0 && to[end - 1] != '/')
        end--;
    lt_buf parent = {0};
    lt_status st = end > 0 ? lt_buf_append(&parent, to, end) : lt_buf_text(&parent, ".");
    if (st == LT_OK)
        st = lt_dir_sync(parent.data);
    lt_buf_deinit(&parent);
    return st;
}
