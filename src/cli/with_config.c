// SPDX-License-Identifier: Apache-2.0
// From a command line to a checked configuration, and on to the command's work.
#include "cli/with_config.h"

#include "cli/ranks.h"

static lt_status load(const lt_args *rest, int64_t ranks, lt_config_use use, const lt_log *log,
                      lt_config **cfg)
{
    const lt_config_opts opts = {
        .overrides = rest->overrides.items, .n_overrides = rest->overrides.n, .world_size = ranks};
    lt_config *loaded = NULL;
    LT_TRY(lt_config_load(rest->positional.items[0], &opts, log, &loaded));
    const lt_status st = lt_config_refuse(loaded, use, log);
    if (st != LT_OK) {
        lt_config_destroy(loaded);
        return st;
    }
    *cfg = loaded;
    return LT_OK;
}

// As many ranks as the command line asks for, or as the launcher has started.
static lt_status count_ranks(const lt_command *command, int64_t *ranks)
{
    const int32_t started = lt_group_size(lt_cli_world());
    if (*ranks == 0)
        *ranks = started;
    if (command->on_ranks && started > 1 && *ranks != started) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "-n %lld: a launcher has started %d ranks already; leave -n away",
                       (long long)*ranks, started);
    }
    return LT_OK;
}

lt_status lt_cli_with_ranks(const lt_command *command, int argc, char **argv, void *options,
                            int64_t *ranks, lt_config_use use, lt_cli_body body)
{
    const lt_log log = lt_cli_log(), silent = {0};
    lt_args rest = {0};
    lt_config *cfg = NULL;
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(command, arena, argc, argv, options, &rest);
    if (st == LT_OK && ranks)
        st = count_ranks(command, ranks);
    if (st == LT_OK) // the first rank's remarks are those of all
        st = load(&rest, ranks ? *ranks : 1, use, lt_cli_is_first() ? &log : &silent, &cfg);
    if (st == LT_OK)
        st = body(cfg, options, &log);
    lt_config_destroy(cfg);
    lt_arena_destroy(arena);
    return st;
}

lt_status lt_cli_with_config(const lt_command *command, int argc, char **argv, void *options,
                             lt_config_use use, lt_cli_body body)
{
    return lt_cli_with_ranks(command, argc, argv, options, NULL, use, body);
}
