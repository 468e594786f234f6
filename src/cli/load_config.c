// SPDX-License-Identifier: Apache-2.0
// From a command line to a checked configuration.
#include "cli/load_config.h"

lt_status lt_cli_load(const lt_command *command, int argc, char **argv, void *options,
                      lt_config_use use, const lt_log *log, lt_arena *arena, lt_config **cfg)
{
    lt_args rest = {0};
    lt_config *loaded = NULL;
    LT_TRY(lt_args_parse(command, arena, argc, argv, options, &rest));
    const lt_config_opts opts = {
        .overrides = rest.overrides.items, .n_overrides = rest.overrides.n, .world_size = 1};
    LT_TRY(lt_config_load(rest.positional.items[0], &opts, log, &loaded));
    const lt_status st = lt_config_refuse(loaded, use, log);
    if (st != LT_OK) {
        lt_config_destroy(loaded);
        return st;
    }
    *cfg = loaded;
    return LT_OK;
}
