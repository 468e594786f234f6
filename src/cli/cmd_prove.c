// SPDX-License-Identifier: Apache-2.0
// lathe prove: that several ranks compute what one rank does.
#include "cli/with_config.h"
#include "comm/local.h"
#include "train/prove.h"

extern const lt_command lt_command_prove;

static void put_line(void *ctx, const char *text)
{
    (void)ctx;
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

static lt_status prove(const lt_config *cfg, void *options, const lt_log *log)
{
    (void)options;
    const lt_proof_sinks sinks = {.line = put_line, .log = log};
    lt_proof proof;
    LT_TRY(lt_prove(cfg, &sinks, &proof));
    if (proof.differ > 0) {
        return LT_FAIL(LT_ERR_NUMERIC,
                       "%lld of %lld figures differ by more than rounding; first %s",
                       (long long)proof.differ, (long long)proof.compared, proof.first);
    }
    (void)printf("proved: %lld figures, %lld with the same bits, the others within rounding\n",
                 (long long)proof.compared, (long long)proof.same_bits);
    return LT_OK;
}

typedef struct options {
    int64_t ranks;
} options;

static const lt_arg args[] = {
    {"--ranks", 'n', LT_ARG_INT, offsetof(options, ranks), "N",
     "ranks to be compared with one (default 2)", 2, LT_MAX_LOCAL_RANKS},
};

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {.ranks = 2};
    return lt_cli_with_ranks(self, argc, argv, &o, &o.ranks, LT_USE_TRAIN, prove);
}

const lt_command lt_command_prove = {
    .name = "prove",
    .summary = "Compare the step of several ranks with the step of one",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "Runs two steps of your model on your data both ways, and compares loss, gradient "
               "norm, every gradient,\n"
               "and the weights at the end. The first parameter that differs, in the order of the "
               "backward, is named.\n"
               "model.num_hidden_layers=4 model.vision_depth=2 prove a large model's layout on a "
               "few of its layers;\n"
               "lathe.dtype=f32 shows smaller faults than bf16. Nothing is saved.\n",
    .run = run,
};
