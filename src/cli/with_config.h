// SPDX-License-Identifier: Apache-2.0
// What the commands that take CONFIG.yaml have in common.
#ifndef LT_CLI_WITH_CONFIG_H
#define LT_CLI_WITH_CONFIG_H

#include "cli/cli.h"
#include "train/config/config.h"

/** A command's work, once its command line is read and its configuration checked. */
typedef lt_status (*lt_cli_body)(const lt_config *cfg, void *options, const lt_log *log);

/**
 * Read the command line into `options` (NULL when the command has none), load and check the
 * configuration, refuse what this build cannot do, and do the work.
 */
LT_NODISCARD lt_status lt_cli_with_config(const lt_command *command, int argc, char **argv,
                                          void *options, lt_config_use use, lt_cli_body body);
/**
 * The same for *ranks ranks, which the command line may set; 0 becomes as many as a launcher has
 * started, or one. NULL: one.
 */
LT_NODISCARD lt_status lt_cli_with_ranks(const lt_command *command, int argc, char **argv,
                                         void *options, int64_t *ranks, lt_config_use use,
                                         lt_cli_body body);
#endif
