// SPDX-License-Identifier: Apache-2.0
// lathe check: every record of a run's data, looked at as training would.
#include "cli/with_config.h"
#include "train/check.h"
#include "train/engine.h"

extern const lt_command lt_command_check;

typedef struct options {
    int64_t show;
    bool json, validation, all;
} options;

enum { FAULTS_OF_A_KIND = 5 };

static const lt_arg args[] = {
    {"--show", 0, LT_ARG_INT, offsetof(options, show), "N",
     "print record N: its tokens, which of them are trained, its images", 1, INT64_MAX},
    {"--json", 0, LT_ARG_FLAG, offsetof(options, json), NULL,
     "print one JSON object a data set instead of text", 0, 0},
    {"--all", 0, LT_ARG_FLAG, offsetof(options, all), NULL,
     "name every bad record; otherwise the first five of each kind are, the rest counted", 0, 0},
    {"--validation", 0, LT_ARG_FLAG, offsetof(options, validation), NULL,
     "look at the validation data only (--show: a record of them)", 0, 0},
};

/** What the functions below share. */
typedef struct checking {
    const lt_config *cfg;
    const options *o;
    const lt_engine *engine;
    const lt_log *log;
    int64_t n_stopping;
} checking;

// One line that is drawn over again.
static void draw(void *ctx, int64_t done, int64_t all, int64_t n_faults)
{
    enum { WIDTH = 30 };
    static const char full[] = "##############################";
    (void)ctx;
    const int filled = (int)(done * WIDTH / all);
    (void)fprintf(stderr, "\r[%.*s%*s] %3lld %% of %lld records, %lld bad ", filled, full,
                  WIDTH - filled, "", (long long)(100 * done / all), (long long)all,
                  (long long)n_faults);
    (void)fflush(stderr);
}

static void wipe(void)
{
    (void)fprintf(stderr, "\r%78s\r", "");
}

static lt_status look(checking *k, lt_source *s, const char *name)
{
    const bool live = lt_cli_is_terminal(stderr);
    const int on_bad = k->cfg->lathe.on_bad_record;
    const lt_check_opts opts = {.skip_bad = on_bad == LT_CFG_BAD_SKIP,
                                .stop_bad = on_bad == LT_CFG_BAD_STOP,
                                .progress = live ? draw : NULL};
    lt_check_report r;
    lt_buf out = {0};
    lt_status st = lt_check(s, k->engine->pool, &opts, &r);
    if (live)
        wipe();
    if (st == LT_OK && k->o->json)
        st = lt_check_json(&r, name, &out);
    if (st == LT_OK && !k->o->json) {
        st = lt_buf_printf(&out, "== %s: ", name);
        if (st == LT_OK)
            st = lt_source_print(s, &out);
        if (st == LT_OK)
            st = lt_buf_text(&out, "\n");
        if (st == LT_OK)
            st = lt_check_print(&r, k->o->all ? INT64_MAX : FAULTS_OF_A_KIND, &out);
    }
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    k->n_stopping += r.n_stopping + (r.columns != NULL) + (r.n_usable == 0);
    lt_check_deinit(&r);
    lt_buf_deinit(&out);
    return st;
}

static lt_status show(const checking *k, lt_source *s)
{
    lt_buf out = {0};
    lt_status st = lt_check_show(s, k->o->show - 1, lt_cli_is_terminal(stdout), &out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    return st;
}

static lt_status one_set(checking *k, lt_source_opts opts, const char *name)
{
    lt_source *s = NULL;
    opts.all_records = true;
    LT_TRY(lt_source_open_as(k->cfg, &opts, k->engine->model, k->engine->pool, k->log, &s));
    const lt_status st = k->o->show > 0 ? show(k, s) : look(k, s, name);
    lt_source_close(s);
    return st;
}

static lt_status all_sets(checking *k)
{
    lt_source_opts val;
    lt_texts files;
    const char *file = NULL;
    const bool has_val = lt_source_validation(k->cfg, &val, &file, &files);
    if (k->o->validation && !has_val)
        return LT_FAIL(LT_ERR_CONFIG, "the configuration names no validation data");
    if (!k->o->validation) {
        const lt_source_opts train = {.dataset = &k->cfg->data.dataset_param};
        LT_TRY(one_set(k, train, "training data"));
    }
    if (has_val && (k->o->validation || k->o->show == 0))
        LT_TRY(one_set(k, val, "validation data"));
    if (k->n_stopping == 0)
        return LT_OK;
    return LT_FAIL(LT_ERR_DATA, "training would stop at these data: mend what is marked so, or set "
                                "lathe.on_bad_record: skip to go on without");
}

static lt_status check(const lt_config *cfg, void *opts_of_command, const lt_log *log)
{
    checking k = {.cfg = cfg, .o = opts_of_command, .log = log};
    const lt_engine_opts opts = {0};
    lt_engine *e = NULL;
    lt_status st = lt_engine_open(cfg, &opts, log, &e);
    k.engine = e;
    if (st == LT_OK)
        st = all_sets(&k);
    lt_engine_close(e);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {0};
    return lt_cli_with_config(self, argc, argv, &o, LT_USE_EVAL, check);
}

const lt_command lt_command_check = {
    .name = "check",
    .summary = "Every record of a run's data, looked at as training would",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details =
        "Reads, tokenises and decodes all of it in parallel, names bad records with their\n"
        "file, line and number (five of each kind; --all: each of them), and sums up tokens,\n"
        "labels, images, cuts and lengths. Needs the model's config.json, tokenizer and\n"
        "processor, but not its weights. It fails when training would stop.\n",
    .run = run,
};
