// SPDX-License-Identifier: Apache-2.0
// lathe data: make data sets.
#include "cli/cli.h"
#include "data/shapes.h"

#include <string.h>

extern const lt_command lt_command_data;

typedef struct options {
    int64_t train, held_out, turns, seed;
    const char *family;
} options;

static const lt_arg args[] = {
    {"--train", 0, LT_ARG_INT, offsetof(options, train), "N", "pictures to learn from", 1, 1 << 24},
    {"--held-out", 0, LT_ARG_INT, offsetof(options, held_out), "N",
     "pictures kept apart, one question each", 1, 1 << 20},
    {"--turns", 0, LT_ARG_INT, offsetof(options, turns), "N",
     "questions about a picture to learn from", 1, 8},
    {"--seed", 0, LT_ARG_INT, offsetof(options, seed), "N", "another seed, other pictures", 0,
     INT64_MAX},
    {"--family", 0, LT_ARG_TEXT, offsetof(options, family), "NAME",
     "of the model: qwen3_vl (default), qwen3_vl_moe, internvl3_5", 0, 0},
};

static lt_status make_shapes(const char *dir, const options *o, const lt_log *log)
{
    lt_shapes_opts s = lt_shapes_opts_default();
    s.dir = dir;
    s.n_train = o->train;
    s.n_held_out = o->held_out;
    s.turns = lt_int(o->turns);
    s.seed = (uint64_t)o->seed;
    if (o->family)
        s.family = o->family;
    lt_shapes_report r;
    LT_TRY(lt_shapes_write(&s, log, &r));
    (void)printf("%s: %lld pictures with %lld questions to learn from, %lld kept apart (the "
                 "commonest answer, %s, would get %.0f %%)\n",
                 dir, (long long)o->train, (long long)r.n_questions,
                 (long long)r.n_held_out_questions, r.commonest_answer, r.commonest * 100.0);
    return LT_OK;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    const lt_log log = lt_cli_log();
    const lt_shapes_opts s = lt_shapes_opts_default();
    options o = {
        .train = s.n_train, .held_out = s.n_held_out, .turns = s.turns, .seed = (int64_t)s.seed};
    lt_args rest = {0};
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, &o, &rest);
    if (st == LT_OK && strcmp(rest.positional.items[0], "shapes") != 0)
        st = LT_FAIL(LT_ERR_CONFIG, "there is no data set %s to be made; there is: shapes",
                     rest.positional.items[0]);
    if (st == LT_OK)
        st = make_shapes(rest.positional.items[1], &o, &log);
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_data = {
    .name = "data",
    .summary = "Make the demo's data: pictures of coloured shapes with questions",
    .positional = "shapes DIR",
    .min_positional = 2,
    .max_positional = 2,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "DIR gets train.json, held_out.json, images/, and model/: config, tokenizer and\n"
               "processor of a small model without weights (train it with lathe.init: random).\n",
    .run = run,
};
