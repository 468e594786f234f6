// SPDX-License-Identifier: Apache-2.0
// The list of commands: a new one is a file cmd_NAME.c and a line here.
#include "cli/cli.h"

extern const lt_command lt_command_data, lt_command_check, lt_command_train, lt_command_eval,
    lt_command_generate, lt_command_plan, lt_command_prove, lt_command_compare, lt_command_config,
    lt_command_ops, lt_command_devices, lt_command_convert, lt_command_help, lt_command_version;

const lt_command *const lt_commands[] = {
    &lt_command_data,     &lt_command_check,   &lt_command_train,   &lt_command_eval,
    &lt_command_generate, &lt_command_plan,    &lt_command_prove,   &lt_command_compare,
    &lt_command_config,   &lt_command_ops,     &lt_command_devices, &lt_command_convert,
    &lt_command_help,     &lt_command_version,
};
const int64_t lt_n_commands = sizeof lt_commands / sizeof(const lt_command *);
