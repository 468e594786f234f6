// SPDX-License-Identifier: Apache-2.0
// Command lines: a table of options a command, one way to read them, one kind of message.
#ifndef LT_CLI_ARGS_H
#define LT_CLI_ARGS_H

#include "base/text.h"

typedef enum lt_arg_kind {
    LT_ARG_FLAG,  /* bool: set to true */
    LT_ARG_INT,   /* int64_t */
    LT_ARG_FLOAT, /* double */
    LT_ARG_TEXT,  /* const char *: one of argv */
    LT_ARG_BYTES, /* int64_t: "64GiB" */
    LT_ARG_TEXTS, /* lt_arg_texts: may be given several times */
    LT_N_ARG_KINDS
} lt_arg_kind;

typedef struct lt_arg_texts {
    const char *const *items;
    int64_t n;
} lt_arg_texts;

/** One option. Its value goes to a member of the command's options, which hold defaults before. */
typedef struct lt_arg {
    const char *name; /* "--max-tokens" */
    char letter;      /* 'n' for -n, 0 for none */
    lt_arg_kind kind;
    size_t at;         /* offsetof(options, member) */
    const char *value; /* what stands for the value in help: "N"; NULL for a flag */
    const char *help;
    int64_t low, high; /* LT_ARG_INT: bounds, when low < high */
} lt_arg;

typedef struct lt_command lt_command;
struct lt_command {
    const char *name;
    const char *summary;    /* one line, for the list */
    const char *positional; /* "CONFIG.yaml", "[COMMAND]"; NULL: takes none */
    int32_t min_positional, max_positional;
    bool overrides; /* takes section.key=value */
    bool on_ranks;  /* all ranks of a launcher run it; else the first does alone */
    const lt_arg *options;
    int64_t n_options;
    const char *details; /* more for `lathe help NAME`, ends in a line feed; may be NULL */
    /** argv[0] is the command's name. Its status becomes the exit code, its message is printed. */
    lt_status (*run)(const lt_command *self, int argc, char **argv);
};

/** What is left beside options. The texts are argv's. */
typedef struct lt_args {
    lt_arg_texts positional, overrides;
} lt_args;

/**
 * Read argv[1..argc): --name VALUE, --name=VALUE, -n VALUE, -nVALUE; "--" ends the options;
 * section.key=value, where the command takes such, is an override; everything else is positional.
 *
 * out      members of *options; lists in `arena`
 * errors   LT_ERR_CONFIG: an unknown option (with the nearest known one), a missing or wrong value,
 *          too few or too many positional arguments
 */
LT_NODISCARD lt_status lt_args_parse(const lt_command *command, lt_arena *arena, int argc,
                                     char **argv, void *options, lt_args *rest);

/** "usage: lathe NAME [options] CONFIG.yaml [section.key=value ...]" and the table of options. */
LT_NODISCARD lt_status lt_args_usage(const lt_command *command, lt_buf *out);
#endif
