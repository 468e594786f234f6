// SPDX-License-Identifier: Apache-2.0
// lathe eval: loss and exact match of greedy answers on a data set.
#include "cli/with_config.h"
#include "train/engine.h"
#include "train/judge.h"

extern const lt_command lt_command_eval;

typedef struct options {
    const char *data, *model;
    int64_t limit, show, max_tokens, batch;
} options;

static const lt_arg args[] = {
    {"--data", 0, LT_ARG_TEXT, offsetof(options, data), "FILE",
     "a data file instead of the configuration's val_dataset", 0, 0},
    {"--model", 0, LT_ARG_TEXT, offsetof(options, model), "DIR",
     "the model folder or training root instead of training.load", 0, 0},
    {"--limit", 0, LT_ARG_INT, offsetof(options, limit), "N", "only the first N samples", 1,
     INT64_MAX},
    {"--show", 0, LT_ARG_INT, offsetof(options, show), "N",
     "print N questions with the answer expected and given (default 10)", 0, INT64_MAX},
    {"--max-tokens", 0, LT_ARG_INT, offsetof(options, max_tokens), "N",
     "the longest answer (default 64)", 1, 1 << 20},
    {"--batch", 0, LT_ARG_INT, offsetof(options, batch), "N",
     "questions answered at once (default 8)", 1, 4096},
};

static void print_answer(void *ctx, const lt_answer *a)
{
    options *o = ctx;
    if (o->show-- <= 0)
        return;
    (void)printf("%s ", a->match ? "ok  " : "MISS");
    for (const char *c = a->question; *c; c++) // on one line
        (void)putchar(*c == '\n' ? ' ' : *c);
    (void)printf("\n    expected %s\n    given    %s\n", a->expected, a->given);
    (void)fflush(stdout);
}

// val_dataset_param, else basic_parameters.val_dataset among the training data's settings, else
// --data.
static lt_status open_source(const lt_config *cfg, const lt_engine *e, const options *o,
                             const lt_log *log, lt_source **out)
{
    const lt_cfg_dataset *section =
        cfg->data.val_dataset_param.given ? &cfg->data.val_dataset_param : &cfg->data.dataset_param;
    const char *file = o->data ? o->data : section->basic_parameters.val_dataset;
    const lt_texts one = {&file, 1};
    if (!file && !cfg->data.val_dataset_param.given) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "nothing to evaluate on: give --data FILE, or data.val_dataset_param, or "
                       "val_dataset in data.dataset_param.basic_parameters");
    }
    return lt_source_open(cfg, section, file ? &one : NULL, e->model, e->pool, log, out);
}

static lt_status judge(const lt_engine *e, lt_source *s, options *o)
{
    double loss = 0.0;
    int64_t n_batches = 0;
    LT_TRY(lt_source_loss(s, e->exec, NULL, 1, &loss, &n_batches));
    const int64_t rows = lt_dataset_samples(lt_source_dataset(s));
    const lt_judge_opts j = {.n = o->limit > 0 ? lt_min_i64(o->limit, rows) : rows,
                             .batch = o->batch,
                             .max_tokens = o->max_tokens,
                             .answer = print_answer,
                             .ctx = o};
    lt_judge_result r;
    LT_TRY(lt_judge(s, e->exec, e->model, &j, &r));
    (void)printf("loss %.6f over %lld samples; exact match %lld of %lld (%.1f %%); always giving "
                 "the commonest answer: %lld (%.1f %%)\n",
                 loss, (long long)n_batches, (long long)r.matches, (long long)r.n,
                 100.0 * (double)r.matches / (double)r.n, (long long)r.commonest,
                 100.0 * (double)r.commonest / (double)r.n);
    return LT_OK;
}

static lt_status evaluate(const lt_config *cfg, void *opts_of_command, const lt_log *log)
{
    options *o = opts_of_command;
    lt_engine *e = NULL;
    lt_source *s = NULL;
    const lt_engine_opts opts = {.weights = true, .folder = o->model};
    lt_status st;
    LT_TRY_GOTO(st, lt_engine_open(cfg, &opts, log, &e), done);
    LT_TRY_GOTO(st, open_source(cfg, e, o, log, &s), done);
    LT_TRY_GOTO(st, lt_engine_start(e, &opts), done);
    st = judge(e, s, o);
done:
    lt_source_close(s);
    lt_engine_close(e);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {.show = 10, .max_tokens = 64, .batch = 8};
    return lt_cli_with_config(self, argc, argv, &o, LT_USE_EVAL, evaluate);
}

const lt_command lt_command_eval = {
    .name = "eval",
    .summary = "Loss and exact match of greedy answers on a data set",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "Answers are compared with the last answer of each sample, white space at the ends "
               "left out.\n",
    .run = run,
};
