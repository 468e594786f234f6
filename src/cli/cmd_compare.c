// SPDX-License-Identifier: Apache-2.0
// lathe compare: where two runs part.
#include "base/memory.h"
#include "cli/cli.h"
#include "train/compare.h"
#include <stddef.h>

extern const lt_command lt_command_compare;

typedef struct options {
    double within;
} options;

static const lt_arg args[] = {
    {"--within", 0, LT_ARG_FLOAT, offsetof(options, within), "R",
     "figures and weights that differ by at most this, relatively, are the same (default 0)", 0, 0},
};

static lt_status compare(const options *o, const lt_args *rest, lt_buf *text)
{
    const lt_log log = lt_cli_log();
    lt_comparison c;
    LT_TRY(lt_compare_runs(rest->positional.items[0], rest->positional.items[1], o->within, &log,
                           &c, text));
    LT_TRY(lt_cli_print(text->data));
    if (c.n_apart > 0) {
        return LT_FAIL(LT_ERR_DATA, "the runs part at step %lld%s%s", (long long)c.first_apart,
                       c.n_differ > 0 ? "; the first weight that differs: " : "", c.first);
    }
    return c.n_differ == 0 ? LT_OK
                           : LT_FAIL(LT_ERR_DATA, "the weights differ, first of all %s", c.first);
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {0};
    lt_args rest = {0};
    lt_arena *arena = NULL;
    lt_buf text = {0};
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, &o, &rest);
    if (st == LT_OK && !(o.within >= 0))
        st = LT_FAIL(LT_ERR_CONFIG, "--within has to be 0 or more");
    if (st == LT_OK)
        st = compare(&o, &rest, &text);
    lt_buf_deinit(&text);
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_compare = {
    .name = "compare",
    .summary = "Find where two runs part: the first step, the first weight",
    .positional = "RUN RUN",
    .min_positional = 2,
    .max_positional = 2,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "RUN is the folder of a run or a checkpoint, or a metrics.jsonl. Steps are aligned "
               "by their number; of the\n"
               "last checkpoints, tensors are compared in the order of a forward pass. It fails "
               "when something differs.\n",
    .run = run,
};
