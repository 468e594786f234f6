// SPDX-License-Identifier: Apache-2.0
// What the commands of the program share: the list of them, how messages are shown, exit codes.
#ifndef LT_CLI_CLI_H
#define LT_CLI_CLI_H

#include "base/log.h"
#include "cli/args.h"
#include <stdio.h>

/** All commands, in the order in which help lists them (commands.c). */
extern const lt_command *const lt_commands[];
extern const int64_t lt_n_commands;
/** NULL when there is none of that name. */
const lt_command *lt_command_find(const char *name);

/** The whole program: dispatch, the message of a failure to standard error, the exit code. */
int lt_cli_main(int argc, char **argv);

/** Exit codes, as `lathe help` documents them. */
typedef struct lt_exit_code {
    int code;
    const char *meaning;
} lt_exit_code;
extern const lt_exit_code lt_exit_codes[];
extern const int64_t lt_n_exit_codes;
int lt_exit_code_of(lt_status st);

/** Notes, warnings and messages to standard error, one a line. ctx is unused. */
lt_log lt_cli_log(void);
/** Print each line of a message with "error: " (or another word) in front. */
void lt_cli_complain(const char *word, const char *message);
/** May colours and moving lines go to this stream? A terminal, without NO_COLOR and TERM=dumb. */
bool lt_cli_is_terminal(FILE *stream);
/** Write to standard output. errors: LT_ERR_IO (a full disk, a closed pipe) */
LT_NODISCARD lt_status lt_cli_print(const char *text);
#endif
