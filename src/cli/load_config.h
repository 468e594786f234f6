// SPDX-License-Identifier: Apache-2.0
// What the commands that take CONFIG.yaml do first.
#ifndef LT_CLI_LOAD_CONFIG_H
#define LT_CLI_LOAD_CONFIG_H

#include "cli/cli.h"
#include "train/config/config.h"

/**
 * Read the command line into `options` (may be NULL when the command has none), load and check the
 * configuration, and refuse what
 * this build cannot do. *cfg is the caller's.
 */
LT_NODISCARD lt_status lt_cli_load(const lt_command *command, int argc, char **argv, void *options,
                                   lt_config_use use, const lt_log *log, lt_arena *arena,
                                   lt_config **cfg);
#endif
