// SPDX-License-Identifier: Apache-2.0
// The command line of the benchmark `step`.
#include "bench/parts/step_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct option_row {
    const char *name;
    size_t offset;
    enum { TEXT, NUMBER, FLAG } kind;
    const char *help;
} option_row;

static const option_row option_rows[] = {
    {"--preset", offsetof(bench_options, preset), TEXT,
     "size of the model: tiny, small (the default), 2b, 4b, 8b, 32b"},
    {"--dtype", offsetof(bench_options, dtype), TEXT, "f32, bf16, or both: f32,bf16 (the default)"},
    {"--device", offsetof(bench_options, device), TEXT, "cpu (the default) or cuda"},
    {"--policy", offsetof(bench_options, policy), TEXT,
     "what is kept for the backward: keep (the default), lean, full; or by layers: full:12,lean"},
    {"--products", offsetof(bench_options, products), TEXT,
     "matrix products on the CPU: own (the default) or onednn"},
    {"--threads", offsetof(bench_options, threads), NUMBER, "threads; all by default"},
    {"--iters", offsetof(bench_options, iters), NUMBER,
     "measured steps, 5 by default (a GPU 20), after a few to warm up"},
    {"--seq", offsetof(bench_options, seq), NUMBER, "tokens, those of pictures included"},
    {"--images", offsetof(bench_options, images), NUMBER, "pictures"},
    {"--grid", offsetof(bench_options, grid), NUMBER,
     "patches a side of every picture: 16 is 256 pixels"},
    {"--layers", offsetof(bench_options, layers), NUMBER, "keep so many decoder layers"},
    {"--vdepth", offsetof(bench_options, vdepth), NUMBER, "keep so many vision blocks"},
    {"--ranks", offsetof(bench_options, ranks), NUMBER,
     "ranks, each with a batch of its own and with a GPU of its own, as far as there are so many"},
    {"--layout", offsetof(bench_options, layout), TEXT,
     "of several ranks: fsdp (the default), hsdp (two copies of the model), ddp"},
    {"--forward-prefetch", offsetof(bench_options, forward_prefetch), NUMBER,
     "units gathered ahead in the forward, 1 by default"},
    {"--backward-prefetch", offsetof(bench_options, backward_prefetch), NUMBER,
     "the same in the backward"},
    {"--keep-gathered", offsetof(bench_options, keep_gathered), FLAG,
     "gathered parameters stay from the forward to the backward"},
    {"--keep-attention", offsetof(bench_options, keep_attention), FLAG,
     "attention's output is kept where a layer is recomputed in full"},
    {"--ops", offsetof(bench_options, ops), FLAG,
     "print the time of every op on stderr; with --plan, what every kind of block needs"},
    {"--profile", offsetof(bench_options, profile), TEXT,
     "write a trace of one more step to this file, for chrome://tracing or ui.perfetto.dev"},
    {"--plan", offsetof(bench_options, plan), FLAG,
     "print the memory that the step will need, and stop: needs no device"},
};
enum { N_OPTIONS = (int)(sizeof option_rows / sizeof option_rows[0]) };

int bench_step_usage(const char *wrong)
{
    if (wrong)
        (void)fprintf(stderr, "step: %s is not an option, or lacks its value\n", wrong);
    (void)fprintf(stderr, "usage: step [OPTION VALUE]...\n");
    for (int i = 0; i < N_OPTIONS; i++)
        (void)fprintf(stderr, "  %-19s %s\n", option_rows[i].name, option_rows[i].help);
    return 2;
}

static bool set_option(bench_options *o, const option_row *row, const char *value)
{
    char *at = (char *)o + row->offset, *end = NULL;
    if (row->kind == FLAG) {
        memcpy(at, &(bool){true}, sizeof(bool));
        return true;
    }
    if (row->kind == TEXT) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    const int64_t n = strtoll(value, &end, 10);
    memcpy(at, &n, sizeof n);
    return *value && !*end && n >= 0 && n <= 1 << 24;
}

// What is not given follows from the size: the peer's usual batch for published ones.
static void fill_defaults(bench_options *o)
{
    static const struct {
        const char *preset;
        int64_t seq, images, grid;
    } usual[] = {{"tiny", 48, 1, 4}, {"small", 1024, 2, 16}, {"", 16384, 10, 64}};
    int k = 0;
    if (strncmp(o->preset, "qwen3vl-", 8) == 0)
        o->preset += 8;
    while (usual[k].preset[0] && strcmp(usual[k].preset, o->preset) != 0)
        k++;
    o->seq = o->seq < 0 ? usual[k].seq : o->seq;
    o->images = o->images < 0 ? usual[k].images : o->images;
    o->grid = o->grid < 0 ? usual[k].grid : o->grid;
    o->iters = o->iters < 0 ? (strcmp(o->device, "cuda") == 0 ? 20 : 5) : o->iters;
    o->iters = lt_max_i64(1, lt_min_i64(o->iters, BENCH_MAX_ITERS));
}

bool bench_step_parse(int argc, char **argv, bench_options *o, const char **wrong)
{
    *o = (bench_options){.preset = "small",
                         .dtype = "f32,bf16",
                         .device = "cpu",
                         .policy = "keep",
                         .products = "own",
                         .layout = "fsdp",
                         .ranks = 1,
                         .forward_prefetch = 1,
                         .backward_prefetch = 1,
                         .iters = -1,
                         .seq = -1,
                         .images = -1,
                         .grid = -1};
    for (int i = 1; i < argc; i++) {
        int k = 0;
        while (k < N_OPTIONS && strcmp(option_rows[k].name, argv[i]) != 0)
            k++;
        *wrong = argv[i];
        const bool lacks = k == N_OPTIONS || (option_rows[k].kind != FLAG && i + 1 == argc);
        if (lacks || !set_option(o, &option_rows[k], argv[i + 1]))
            return false;
        i += option_rows[k].kind != FLAG;
    }
    fill_defaults(o);
    return true;
}
