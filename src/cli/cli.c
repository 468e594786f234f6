// SPDX-License-Identifier: Apache-2.0
// Dispatch, messages, exit codes.
#include "cli/cli.h"

#include "cli/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONVERTER_ARGS = 100 };

const lt_exit_code lt_exit_codes[] = {
    {0, "done"},
    {1, "a fault of lathe itself, or out of memory"},
    {2, "the command line or the configuration is wrong, or asks for what does not exist yet"},
    {3, "a file that it reads is missing or wrong: data, checkpoint, tokenizer"},
    {4, "reading or writing failed: a full disk, no permission"},
    {5, "the device failed"},
    {6, "a number that is not finite turned up"},
    {130, "interrupted (Ctrl-C), after saving"},
};
const int64_t lt_n_exit_codes = sizeof lt_exit_codes / sizeof *lt_exit_codes;

int lt_exit_code_of(lt_status st)
{
    switch (st) {
    case LT_OK:
        return 0;
    case LT_ERR_MEMORY:
    case LT_ERR_INTERNAL:
        return 1;
    case LT_ERR_CONFIG:
    case LT_ERR_UNSUPPORTED:
        return 2;
    case LT_ERR_NOT_FOUND:
    case LT_ERR_FORMAT:
    case LT_ERR_SHAPE:
    case LT_ERR_DTYPE:
    case LT_ERR_DATA:
        return 3;
    case LT_ERR_IO:
        return 4;
    case LT_ERR_DEVICE:
        return 5;
    case LT_ERR_NUMERIC:
        return 6;
    case LT_ERR_CANCELLED:
        return 130;
    }
    return 1;
}

bool lt_cli_is_terminal(FILE *stream)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    return isatty(fileno(stream)) && (!plain || !*plain) && term && strcmp(term, "dumb") != 0;
}

static const char *colour_of(const char *word)
{
    return strcmp(word, "error") == 0     ? "\033[1;31m"
           : strcmp(word, "warning") == 0 ? "\033[1;33m"
                                          : "\033[1;36m";
}

void lt_cli_complain(const char *word, const char *message)
{
    const bool colour = lt_cli_is_terminal(stderr);
    const char *on = colour ? colour_of(word) : "", *off = colour ? "\033[0m" : "";
    for (const char *line = message; *line;) {
        const size_t len = strcspn(line, "\n");
        fprintf(stderr, "%s%s:%s %.*s\n", on, word, off, (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static void log_line(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)ctx;
    (void)area;
    switch (level) {
    case LT_LOG_DEBUG:
        return;
    case LT_LOG_INFO:
        fprintf(stderr, "%s\n", text);
        return;
    case LT_LOG_NOTE:
        lt_cli_complain("note", text);
        return;
    case LT_LOG_WARN:
        lt_cli_complain("warning", text);
        return;
    }
}

lt_log lt_cli_log(void)
{
    return (lt_log){.fn = log_line};
}

lt_status lt_cli_print(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0)
        return LT_FAIL(LT_ERR_IO, "cannot write to standard output: %s", lt_errno_text(errno));
    return LT_OK;
}

const lt_command *lt_command_find(const char *name)
{
    for (int64_t i = 0; i < lt_n_commands; i++) {
        if (strcmp(lt_commands[i]->name, name) == 0)
            return lt_commands[i];
    }
    return NULL;
}

static lt_status unknown_command(const char *name)
{
    enum { MOST = 64 };
    const char *names[MOST];
    int64_t n = 0;
    for (; n < lt_n_commands && n < MOST; n++)
        names[n] = lt_commands[n]->name;
    const char *near = strlen(name) < 64 ? lt_text_nearest(name, names, n) : NULL;
    if (near)
        return LT_FAIL(LT_ERR_CONFIG, "there is no command %s; did you mean %s?", name, near);
    return LT_FAIL(LT_ERR_CONFIG, "there is no command %.60s; `lathe help` lists them", name);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

// The words that other programs answer to, as commands of ours.
static const char *command_name(int argc, char **argv)
{
    static const char *const others[][2] = {
        {"--help", "help"}, {"-h", "help"}, {"--version", "version"}, {"-V", "version"}};
    for (size_t i = 0; argc > 1 && i < sizeof others / sizeof *others; i++) {
        if (strcmp(argv[1], others[i][0]) == 0)
            return others[i][1];
    }
    return argc > 1 ? argv[1] : "help";
}

static lt_status dispatch(int argc, char **argv)
{
    const char *name = command_name(argc, argv);
    const lt_command *command = lt_command_find(name);
    if (!command)
        return unknown_command(name);
    if (!command->on_ranks && !lt_cli_is_first())
        return LT_OK;
    if (asks_for_help(argc - 1, argv + 1)) {
        char help[] = "help", *about[] = {help, argv[1], NULL};
        return lt_command_find("help")->run(lt_command_find("help"), 2, about);
    }
    return argc > 1 ? command->run(command, argc - 1, argv + 1) : command->run(command, argc, argv);
}

// Called by the name mm-convert, all arguments are those of the command convert.
static lt_status dispatch_converter(int argc, char **argv)
{
    char name[] = "convert", *all[MAX_CONVERTER_ARGS + 2] = {argv[0], name};
    if (argc > MAX_CONVERTER_ARGS)
        return LT_FAIL(LT_ERR_CONFIG, "mm-convert takes at most %d arguments", MAX_CONVERTER_ARGS);
    for (int i = 1; i < argc; i++)
        all[i + 1] = argv[i];
    return dispatch(argc + 1, all);
}

int lt_cli_main(int argc, char **argv)
{
    const bool converter = argc > 0 && lt_text_ends(argv[0], "mm-convert");
    lt_status st = lt_cli_join();
    if (st == LT_OK)
        st = converter ? dispatch_converter(argc, argv) : dispatch(argc, argv);
    return lt_cli_leave(st);
}
