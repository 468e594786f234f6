// SPDX-License-Identifier: Apache-2.0
// lathe help [COMMAND], lathe version.
#include "cli/cli.h"

extern const lt_command lt_command_help, lt_command_version;

static lt_status overview(lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "lathe " LATHE_VERSION
                            ": fine-tunes vision-language models from one YAML file\n\n"
                            "usage: lathe COMMAND [arguments]\n\ncommands:\n"));
    for (int64_t i = 0; i < lt_n_commands; i++)
        LT_TRY(lt_buf_printf(out, "  %-10s %s\n", lt_commands[i]->name, lt_commands[i]->summary));
    LT_TRY(lt_buf_text(out, "\n`lathe help COMMAND` says more about one.\n\nexit codes:\n"));
    for (int64_t i = 0; i < lt_n_exit_codes; i++)
        LT_TRY(lt_buf_printf(out, "  %-10d %s\n", lt_exit_codes[i].code, lt_exit_codes[i].meaning));
    return LT_OK;
}

static lt_status about(const char *name, lt_buf *out)
{
    const lt_command *command = lt_command_find(name);
    if (!command)
        return LT_FAIL(LT_ERR_CONFIG, "there is no command %.60s; `lathe help` lists them", name);
    return lt_args_usage(command, out);
}

static lt_status run_help(const lt_command *self, int argc, char **argv)
{
    lt_arena *arena = NULL;
    lt_buf out = {0};
    lt_args rest = {0};
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, NULL, &rest);
    if (st == LT_OK)
        st = rest.positional.n > 0 ? about(rest.positional.items[0], &out) : overview(&out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    lt_arena_destroy(arena);
    return st;
}

static lt_status run_version(const lt_command *self, int argc, char **argv)
{
    (void)self, (void)argc, (void)argv;
    return lt_cli_print("lathe " LATHE_VERSION "\n");
}

const lt_command lt_command_help = {
    .name = "help",
    .summary = "What lathe can do, or what one command does",
    .positional = "[COMMAND]",
    .max_positional = 1,
    .run = run_help,
};

const lt_command lt_command_version = {
    .name = "version",
    .summary = "Which lathe this is",
    .run = run_version,
};
