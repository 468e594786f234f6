// SPDX-License-Identifier: Apache-2.0
// cuDNN's plans as files: making one takes from 40 ms to more than a second, reading one 3 ms.
#include "base/file.h"
#include "device/cuda/cudnn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PLAN_BYTES = 16 << 20,
    MAX_FILES = 2048, // a folder with as many gets no more
    HEAD_BYTES = 64
};

// The folder carries all that a plan depends on besides its shape: library, device. Where none can
// be made, plans are made anew in each run.
void lt_cudnn_keep_plans(lt_cudnn *c, const char *device)
{
    const char *cache = getenv("XDG_CACHE_HOME"); // NOLINT(concurrency-mt-unsafe)
    const char *home = getenv("HOME");            // NOLINT(concurrency-mt-unsafe)
    const bool has_cache = cache && cache[0] == '/';
    lt_buf path = {0};
    if (!has_cache && !(home && home[0] == '/'))
        return;
    lt_status st = lt_buf_printf(&path, "%s%s/lathe/cudnn-%zu-", has_cache ? cache : home,
                                 has_cache ? "" : "/.cache", c->version());
    for (const char *p = device; st == LT_OK && *p; p++) {
        const bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                           (*p >= '0' && *p <= '9') || *p == '.';
        st = lt_buf_append(&path, plain ? p : "_", 1);
    }
    if (st == LT_OK && lt_dir_make(path.data) == LT_OK)
        c->folder = path.data;
    else
        lt_buf_deinit(&path);
    lt_error_clear();
}

static lt_status path_of(const lt_cudnn *c, const char *name, lt_buf *path)
{
    return lt_buf_printf(path, "%s/%s.plan", c->folder, name);
}

// FNV-1a: against files that were cut or damaged.
static uint64_t checksum(const char *bytes, size_t n)
{
    uint64_t sum = 14695981039346656037U;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211U;
    return sum;
}

// First line of a file; the plan follows.
static void head_of(const char *plan, size_t bytes, char head[HEAD_BYTES])
{
    memset(head, ' ', HEAD_BYTES);
    const int n = snprintf(head, HEAD_BYTES, "lathe plan 1 %016llx %zu",
                           (unsigned long long)checksum(plan, bytes), bytes);
    head[n] = ' ';
    head[HEAD_BYTES - 1] = '\n';
}

static lt_status from_text(const lt_cudnn *c, const char *text, size_t bytes, lt_dnn *plan)
{
    lt_dnn p = NULL;
    LT_TRY(lt_cudnn_check(c, c->desc_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p),
                          "creating a plan"));
    cudnnStatus_t st = CUDNN_STATUS_SUCCESS;
    if (c->handle)
        st = c->desc_set(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle);
    if (st == CUDNN_STATUS_SUCCESS && c->describe)
        st = c->desc_set(p, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &c->describe);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->desc_set(p, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                         (int64_t)bytes, text);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->finalize(p);
    if (st == CUDNN_STATUS_SUCCESS)
        *plan = p;
    else
        (void)c->desc_destroy(p);
    return lt_cudnn_check(c, st, "reading a plan");
}

void lt_dnn_load_plan(const lt_cudnn *c, const char *name, lt_dnn *plan)
{
    *plan = NULL;
    if (!c->folder)
        return;
    lt_buf path = {0}, file = {0};
    char head[HEAD_BYTES];
    lt_status st = path_of(c, name, &path);
    if (st == LT_OK)
        st = lt_file_read(path.data, MAX_PLAN_BYTES, &file);
    if (st == LT_OK && file.len > HEAD_BYTES) {
        head_of(file.data + HEAD_BYTES, file.len - HEAD_BYTES, head);
        if (memcmp(head, file.data, HEAD_BYTES) == 0)
            (void)!from_text(c, file.data + HEAD_BYTES, file.len - HEAD_BYTES, plan);
    }
    lt_error_clear();
    lt_buf_deinit(&path);
    lt_buf_deinit(&file);
}

static bool folder_is_full(const lt_cudnn *c)
{
    lt_arena *arena = NULL;
    lt_vec names = LT_VEC_OF(char *);
    bool full = true;
    if (lt_arena_create(&arena, "names of plans") == LT_OK &&
        lt_dir_list(c->folder, arena, &names) == LT_OK)
        full = names.n >= MAX_FILES;
    lt_vec_deinit(&names);
    lt_arena_destroy(arena);
    return full;
}

static lt_status to_text(const lt_cudnn *c, lt_dnn plan, lt_buf *out)
{
    int64_t n = 0, got = 0;
    char head[HEAD_BYTES] = {0};
    void *text = NULL;
    LT_TRY(lt_cudnn_check(c,
                          c->desc_get(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                      CUDNN_TYPE_CHAR, 0, &n, NULL),
                          "measuring a plan"));
    if (n < 1 || n > MAX_PLAN_BYTES - HEAD_BYTES)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "a plan of %lld bytes is not kept", (long long)n);
    LT_TRY(lt_mem_alloc(&text, (size_t)n, "a plan"));
    lt_status st = lt_cudnn_check(c,
                                  c->desc_get(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, n, &got, text),
                                  "writing a plan");
    if (st == LT_OK && got >= 1 && got <= n) {
        head_of(text, (size_t)got, head);
        st = lt_buf_append(out, head, sizeof head);
        if (st == LT_OK)
            st = lt_buf_append(out, text, (size_t)got);
    }
    lt_mem_free(text);
    return st;
}

void lt_dnn_save_plan(const lt_cudnn *c, const char *name, lt_dnn plan)
{
    lt_buf path = {0}, file = {0};
    if (!c->folder || folder_is_full(c))
        return;
    if (path_of(c, name, &path) == LT_OK && to_text(c, plan, &file) == LT_OK && file.len > 0)
        (void)!lt_file_replace(path.data, file.data, file.len);
    lt_error_clear();
    lt_buf_deinit(&path);
    lt_buf_deinit(&file);
}
