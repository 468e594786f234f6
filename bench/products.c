// SPDX-License-Identifier: Apache-2.0
// products: the matrix products of a training step on a GPU, through the op `linear`: forward, the
// gradient of the input, and the gradient of the weight added in f32. One JSON line per product
// and pass, hot. bench/README.md says how to read and repeat it.
#include "base/log.h"
#include "op/linear.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    const char *model, *name;
    int64_t out, in;
    int64_t rows; // 0: tokens
} product;
enum { PATCHES = 40960, HEAD_ROWS = 4096 };
static const product products[] = {
    {"4b", "q", 4096, 2560, 0},
    {"4b", "k", 1024, 2560, 0},
    {"4b", "o", 2560, 4096, 0},
    {"4b", "gate", 9728, 2560, 0},
    {"4b", "down", 2560, 9728, 0},
    {"4b", "head", 151936, 2560, HEAD_ROWS},
    {"4b", "vision qkv", 3072, 1024, PATCHES},
    {"4b", "vision proj", 1024, 1024, PATCHES},
    {"4b", "vision fc1", 4096, 1024, PATCHES},
    {"4b", "vision fc2", 1024, 4096, PATCHES},
    {"8b", "q", 4096, 4096, 0},
    {"8b", "k", 1024, 4096, 0},
    {"8b", "gate", 12288, 4096, 0},
    {"8b", "down", 4096, 12288, 0},
    {"2b", "q", 2048, 2048, 0},
    {"2b", "k", 1024, 2048, 0},
    {"2b", "gate", 6144, 2048, 0},
    {"2b", "down", 2048, 6144, 0},
};

typedef struct world {
    lt_device *d;
    lt_stream *stream;
    double seconds;
} world;

// Numbers of about one, no two rows alike: a chip draws less power on zeros.
static lt_status numbers(const world *w, lt_tensor *t)
{
    enum { BLOCK = 1 << 20 };
    static uint16_t block[BLOCK];
    const size_t bytes = lt_tensor_bytes(t);
    uint64_t state = 88172645463325252U;
    LT_TRY(w->d->alloc(w->d, bytes, "a matrix of the benchmark", &t->data));
    for (size_t at = 0; at < bytes; at += sizeof block) {
        for (int i = 0; i < BLOCK; i++) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            block[i] = lt_f32_to_bf16((float)(int32_t)(state >> 32) * 0x1p-31F);
        }
        const size_t left = bytes - at;
        LT_TRY(w->d->copy(w->d, w->stream, (char *)t->data + at, block,
                          left < sizeof block ? left : sizeof block, LT_COPY_HOST_TO_DEVICE));
        LT_TRY(w->d->stream_sync(w->d, w->stream));
    }
    return LT_OK;
}

static lt_status measure(const world *w, lt_kernel kernel, const lt_op_args *a, double *ms,
                         double *host_us)
{
    for (int round = 0; round < 2; round++) { // the first one warms
        const double from = lt_clock_now();
        int n = 0;
        while (n < 10 || lt_clock_now() - from < w->seconds) {
            const double call = lt_clock_now();
            LT_TRY(kernel(a));
            *host_us = (lt_clock_now() - call) * 1e6;
            if (++n % 10 == 0)
                LT_TRY(w->d->stream_sync(w->d, w->stream));
        }
        LT_TRY(w->d->stream_sync(w->d, w->stream));
        *ms = (lt_clock_now() - from) * 1e3 / n;
    }
    return LT_OK;
}

static lt_status run(const world *w, const product *p, int64_t tokens)
{
    const int64_t rows = p->rows ? p->rows : tokens;
    lt_tensor x = lt_tensor_2d(LT_BF16, rows, p->in), weight = lt_tensor_2d(LT_BF16, p->out, p->in),
              y = lt_tensor_2d(LT_BF16, rows, p->out), dw = lt_tensor_as(&weight, LT_F32),
              *all[] = {&x, &weight, &y, &dw};
    lt_status st = LT_OK;
    for (int i = 0; i < 4 && st == LT_OK; i++)
        st = numbers(w, all[i]);
    const lt_run how = {.device = w->d, .stream = w->stream};
    static const char *const names[] = {"forward", "input gradient", "weight gradient"};
    for (int pass = 0; pass < 3 && st == LT_OK; pass++) {
        double ms = 0.0, host_us = 0.0;
        lt_op_args a = {.def = &lt_op_linear, .run = &how, .add = LT_IN(1)};
        a.in[0] = &x, a.in[1] = &weight;
        a.out[0] = pass == 0 ? &y : NULL;
        a.dout[0] = pass > 0 ? &y : NULL;
        a.din[0] = pass == 1 ? &x : NULL;
        a.din[1] = pass == 2 ? &dw : NULL;
        st = measure(w, lt_op_kernel(&lt_op_linear, w->d->backend, pass ? LT_BACKWARD : LT_FORWARD),
                     &a, &ms, &host_us);
        if (st == LT_OK) {
            printf("{\"case\": \"%s %s\", \"pass\": \"%s\", \"rows\": %lld, \"out\": %lld, "
                   "\"in\": %lld, \"ms\": %.4f, \"tflops\": %.0f, \"host_us\": %.1f}\n",
                   p->model, p->name, names[pass], (long long)rows, (long long)p->out,
                   (long long)p->in, ms, 2e-9 * (double)rows * (double)p->out * (double)p->in / ms,
                   host_us);
        }
        (void)fflush(stdout);
    }
    for (int i = 0; i < 4; i++)
        w->d->free(w->d, all[i]->data);
    return st;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : NULL;
    const int64_t tokens = argc > 2 ? strtoll(argv[2], NULL, 10) : 16384;
    world w = {.seconds = 0.15};
    if (argc > 3 || tokens < 1) {
        (void)fputs("usage: products [2b|4b|8b [TOKENS]]\n", stderr);
        return 2;
    }
    if (lt_cuda_open(0, NULL, &w.d) != LT_OK) {
        printf("skipped: %s\n", lt_error_message());
        return 77;
    }
    lt_status st = w.d->stream_create(w.d, &w.stream);
    for (size_t i = 0; i < sizeof products / sizeof products[0] && st == LT_OK; i++)
        if (!model || strcmp(model, products[i].model) == 0)
            st = run(&w, &products[i], tokens);
    if (st != LT_OK)
        printf("%s\n", lt_error_message());
    if (w.stream)
        w.d->stream_destroy(w.d, w.stream);
    lt_device_close(w.d);
    return st != LT_OK;
}
