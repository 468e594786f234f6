// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: every file of a corpus as it is, then cut and damaged in
// repeatable ways.
#include "base/file.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { DAMAGED_PER_FILE = 200, MAX_INPUT = 16 << 20 };

// An exact-sized copy for each run, so that the address sanitizer sees a read past the end.
static lt_status run(const char *data, size_t len)
{
    void *copy = malloc(len > 0 ? len : 1);
    if (!copy)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: a fuzz input wanted %zu bytes", len);
    if (len > 0)
        memcpy(copy, data, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
    return LT_OK;
}

// Variant i: cut somewhere, or a few bytes changed, or a piece of it repeated over another.
static size_t damage(char *data, size_t len, uint64_t key, uint64_t i)
{
    uint32_t r[4];
    if (len == 0)
        return 0;
    lt_philox(key, 0, i, r);
    if (i % 4 == 0)
        return r[0] % len;
    if (i % 4 == 1) {
        const size_t from = r[0] % len, to = r[1] % len, most = len - (from > to ? from : to);
        memmove(data + to, data + from, r[2] % (most + 1));
        return len;
    }
    for (uint64_t k = 0; k <= r[0] % 4; k++) {
        uint32_t at[4];
        lt_philox(key, k + 1, i, at);
        data[at[0] % len] = (char)(at[1] % 3 == 0 ? 0xff : at[2]);
    }
    return len;
}

static lt_status replay(const char *path)
{
    lt_buf whole = {0}, work = {0};
    lt_status st;
    LT_TRY_GOTO(st, lt_file_read(path, MAX_INPUT, &whole), done);
    LT_TRY_GOTO(st, run(whole.data, whole.len), done);
    for (uint64_t i = 0; i < DAMAGED_PER_FILE; i++) {
        lt_buf_clear(&work);
        LT_TRY_GOTO(st, lt_buf_append(&work, whole.data, whole.len), done);
        const size_t len = damage(work.data, work.len, lt_rng_key(whole.len, path), i);
        LT_TRY_GOTO(st, run(work.data, len), done);
    }
done:
    lt_buf_deinit(&whole);
    lt_buf_deinit(&work);
    return st;
}

static lt_status replay_all(const char *dir, lt_arena *arena, int64_t *n)
{
    lt_vec names = LT_VEC_OF(char *);
    lt_status st = lt_dir_list(dir, arena, &names);
    for (int64_t i = 0; i < names.n && st == LT_OK; i++) {
        char *path;
        st = lt_path_join(arena, dir, LT_AT(&names, char *, i), &path);
        if (st == LT_OK)
            st = replay(path);
    }
    *n += names.n;
    lt_vec_deinit(&names);
    return st;
}

int main(int argc, char **argv)
{
    lt_arena *arena;
    int64_t n = 0;
    lt_status st = lt_arena_create(&arena, "paths");
    if (st == LT_OK) {
        for (int i = 1; i < argc && st == LT_OK; i++) {
            if (lt_file_is_dir(argv[i])) {
                st = replay_all(argv[i], arena, &n);
            } else {
                st = replay(argv[i]);
                n++;
            }
        }
        lt_arena_destroy(arena);
    }
    if (st == LT_OK && n == 0)
        st = LT_FAIL(LT_ERR_NOT_FOUND, "no input: give files or folders of a corpus");
    if (st != LT_OK) {
        fprintf(stderr, "%s\n", lt_error_message());
        return 1;
    }
    printf("%lld files replayed, each with %d damaged copies\n", (long long)n, DAMAGED_PER_FILE);
    return 0;
}
