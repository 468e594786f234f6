// SPDX-License-Identifier: Apache-2.0
// lathe config CONFIG.yaml: read, check and show a configuration; what a run would say about it
// before it starts.
#include "cli/cli.h"
#include "train/config/config.h"

extern const lt_command lt_command_config;

typedef struct options {
    bool keys, quiet;
    int64_t ranks;
} options;

static const lt_arg args[] = {
    {"--ranks", 'n', LT_ARG_INT, offsetof(options, ranks), "N",
     "check the sizes of `parallel` for N ranks, and show what follows", 1, 1 << 20},
    {"--quiet", 'q', LT_ARG_FLAG, offsetof(options, quiet), NULL,
     "only what is wrong, not the configuration", 0, 0},
    {"--keys", 0, LT_ARG_FLAG, offsetof(options, keys), NULL,
     "print the table of all keys as Markdown; no file is read", 0, 0},
};

static lt_status print_keys(void)
{
    lt_buf out = {0};
    lt_status st = lt_config_keys(&out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    return st;
}

static lt_status print_sizes(const lt_cfg_sizes *s, lt_buf *out)
{
    if (s->world == 0)
        return LT_OK;
    return lt_buf_printf(out,
                         "# %lld ranks: data parallel %lld (sharded %lld, replicated %lld), units "
                         "over %lld, experts %lld x %lld x %lld, global batch %lld\n",
                         (long long)s->world, (long long)s->dp, (long long)s->dp_shard,
                         (long long)s->dp_replicate, (long long)s->fully_shard, (long long)s->edp,
                         (long long)s->efsdp, (long long)s->ep, (long long)s->global_batch);
}

static lt_status show(const lt_config *cfg)
{
    lt_buf out = {0};
    lt_status st = lt_config_print(cfg, &out);
    if (st == LT_OK)
        st = print_sizes(&cfg->sizes, &out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    return st;
}

static void show_issues(const lt_config *cfg)
{
    static const char *const words[] = {
        [LT_CONFIG_ERROR] = "error", [LT_CONFIG_WARNING] = "warning", [LT_CONFIG_NOTE] = "note"};
    for (int64_t i = 0; i < lt_config_n_issues(cfg); i++) {
        const lt_config_issue issue = lt_config_issue_at(cfg, i);
        lt_cli_complain(words[issue.level], issue.text);
    }
}

// What `lathe train` would refuse is no fault of the file: shown, but not in the exit code.
static lt_status show_refusals(const lt_config *cfg)
{
    const lt_log log = lt_cli_log();
    const lt_status st = lt_config_refuse(cfg, LT_USE_TRAIN, &log);
    if (st != LT_ERR_UNSUPPORTED && st != LT_ERR_CONFIG)
        return st;
    lt_cli_complain("note", "`lathe train` does not take this file as it is:");
    lt_cli_complain("refused", lt_error_message());
    lt_error_clear();
    return LT_OK;
}

static lt_status check_file(const char *path, const lt_arg_texts *overrides, const options *o)
{
    const lt_config_opts opts = {
        .overrides = overrides->items, .n_overrides = overrides->n, .world_size = o->ranks};
    lt_config *cfg = NULL;
    LT_TRY(lt_config_read(path, &opts, &cfg));
    lt_status st = o->quiet ? LT_OK : show(cfg);
    show_issues(cfg);
    if (st == LT_OK)
        st = show_refusals(cfg);
    if (st == LT_OK && (st = lt_config_verdict(cfg)) != LT_OK)
        lt_error_clear(); // its errors are shown already
    lt_config_destroy(cfg);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {0};
    lt_args rest = {0};
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, &o, &rest);
    if (st == LT_OK && o.keys)
        st = print_keys();
    else if (st == LT_OK && rest.positional.n == 0) {
        st =
            LT_FAIL(LT_ERR_CONFIG, "lathe config needs CONFIG.yaml; `lathe help config` says more");
    } else if (st == LT_OK) {
        st = check_file(rest.positional.items[0], &rest.overrides, &o);
    }
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_config = {
    .name = "config",
    .summary = "Check a configuration file and show every value that a run would use",
    .positional = "CONFIG.yaml",
    .max_positional = 1,
    .overrides = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "The configuration goes to standard output, as YAML that loads to the same values; "
               "warnings, errors\n"
               "and what this build refuses go to standard error. The exit code is 2 when the file "
               "has errors.\n",
    .run = run,
};
