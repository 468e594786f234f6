// SPDX-License-Identifier: Apache-2.0
// attention_graphs: cuDNN takes every form of attention that the op asks it for, without a GPU: the
// device is described to it as an H200, and the driver is no_driver.c. Says how much scratch each
// wants, which must fit into what the op plans; then each plan comes back from its file, and a
// damaged file does no harm. Exit code 77 where cuDNN is not installed.
#include "base/file.h"
#include "device/cuda/sdpa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":"
    "65536,\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":6,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":150109880320,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
    "\"deviceName\":\"NVIDIA H200\"}";

typedef struct form {
    const char *name;
    int64_t batch, length, heads, kv_heads, head_dim;
    bool causal, packed, deterministic;
} form;
// heads: of the tensors; the deterministic forms take a half of them in a call
static const form forms[] = {
    {"text", 1, 4096, 32, 8, 128, true, false, false},
    {"text, equal samples", 4, 1024, 32, 8, 128, true, false, false},
    {"text, packed", 6, 1088, 32, 8, 128, true, true, false},
    {"text, deterministic", 1, 1024, 32, 8, 128, true, false, true},
    {"text of 129 tokens, deterministic", 1, 129, 8, 2, 128, true, false, true},
    {"text of 1001 tokens, deterministic", 1, 1001, 8, 2, 128, true, false, true},
    {"one key head", 1, 1024, 8, 1, 128, true, false, false},
    {"wide heads", 1, 512, 8, 2, 256, true, false, false},
    {"narrow heads", 2, 128, 4, 2, 8, true, true, false},
    {"vision", 10, 4096, 16, 16, 64, false, false, false},
    {"vision, packed", 12, 1024, 16, 16, 64, false, true, false},
    {"vision 72", 4, 1024, 16, 16, 72, false, false, false},
    {"vision 72, packed", 4, 1024, 16, 16, 72, false, true, false},
    {"vision 72, deterministic", 1, 252, 16, 16, 72, false, false, true},
    {"many frames", 96, 128, 16, 16, 64, false, true, false},
};

static lt_sdpa_shape shape_of(const form *f, bool backward)
{
    lt_sdpa_shape s;
    const int64_t share = f->deterministic && backward ? 2 : 1;
    memset(&s, 0, sizeof s);
    s.batch = f->batch;
    s.length = f->length;
    s.heads = f->heads / share;
    s.kv_heads = f->kv_heads / share;
    s.head_dim = f->head_dim;
    s.row_q = f->heads * f->head_dim;
    s.row_kv = f->kv_heads * f->head_dim;
    s.lse_heads = f->packed ? f->heads : 0;
    s.lse_head_stride = f->packed ? 0 : f->batch * f->length;
    s.backward = backward;
    s.causal = f->causal;
    s.packed = f->packed;
    s.deterministic = f->deterministic && backward;
    s.padded_sums = f->packed && backward && f->head_dim % 16 != 0;
    return s;
}

// What src/op/cuda/attention_fused.cu plans for the library.
static int64_t planned(const lt_sdpa_shape *s)
{
    int64_t bytes = (64 << 10) + (1 << 10) * s->batch;
    if (s->backward && s->heads != s->kv_heads && (!s->packed || s->padded_sums))
        bytes += 4 * s->batch * s->length * s->heads * s->head_dim;
    const int64_t side = (s->length + 127) / 128 * 128;
    if (s->deterministic)
        bytes += 2 * s->batch * s->heads * side * side;
    return bytes;
}

static bool check(const form *f, bool backward, bool keep)
{
    const lt_sdpa_shape s = shape_of(f, backward);
    int64_t bytes = 0;
    const double from = lt_clock_now();
    const lt_status st = lt_sdpa_try(h200, &s, keep, &bytes);
    const bool ok = st == LT_OK && bytes <= planned(&s);
    printf("%s %s, %s%s: ", ok ? "ok  " : "FAIL", f->name, backward ? "backward" : "forward",
           keep ? ", kept" : "");
    if (st == LT_OK) {
        printf("%lld bytes of scratch (planned %lld), %.0f ms\n", (long long)bytes,
               (long long)planned(&s), (lt_clock_now() - from) * 1e3);
    } else {
        printf("%s\n", lt_error_message());
    }
    (void)fflush(stdout);
    return ok;
}

// Cuts the file in half, or turns a bit of it.
static lt_status damage(const char *path, bool cut)
{
    lt_buf file = {0};
    lt_status st = lt_file_read(path, 0, &file);
    if (st == LT_OK && !cut)
        file.data[file.len / 2] ^= 1;
    if (st == LT_OK)
        st = lt_file_replace(path, file.data, cut ? file.len / 2 : file.len);
    lt_buf_deinit(&file);
    return st;
}

// In a cache folder of its own: made, read again, made again where the file is damaged.
static bool check_files(lt_arena *arena)
{
    lt_vec folders = LT_VEC_OF(char *), files = LT_VEC_OF(char *);
    char place[] = "/tmp/lathe-plans-XXXXXX", *at = NULL, *path = NULL;
    if (!mkdtemp(place) || setenv("XDG_CACHE_HOME", place, 1) != 0) // NOLINT(concurrency-mt-unsafe)
        return false;
    bool ok = check(&forms[2], true, true);
    ok = ok && lt_path_join(arena, place, "lathe", &at) == LT_OK &&
         lt_dir_list(at, arena, &folders) == LT_OK && folders.n == 1;
    ok = ok && lt_path_join(arena, at, LT_AT(&folders, char *, 0), &at) == LT_OK &&
         lt_dir_list(at, arena, &files) == LT_OK && files.n == 1;
    ok = ok && lt_path_join(arena, at, LT_AT(&files, char *, 0), &path) == LT_OK;
    ok = ok && check(&forms[2], true, true);
    for (int cut = 0; ok && cut < 2; cut++)
        ok = damage(path, cut) == LT_OK && check(&forms[2], true, true);
    if (!ok)
        printf("FAIL plans as files: %s\n", lt_error_message());
    lt_vec_deinit(&folders);
    lt_vec_deinit(&files);
    return lt_dir_remove(place) == LT_OK && ok;
}

int main(void)
{
    int failed = 0;
    lt_arena *arena = NULL;
    if (!lt_sdpa_can_try()) {
        printf("skipped: %s\n", lt_error_message());
        return 77;
    }
    for (size_t i = 0; i < 2 * sizeof forms / sizeof forms[0]; i++)
        failed += !check(&forms[i / 2], i % 2, false);
    if (lt_arena_create(&arena, "test") != LT_OK || !check_files(arena))
        failed++;
    lt_arena_destroy(arena);
    printf("%d failed\n", failed);
    return failed > 0;
}
