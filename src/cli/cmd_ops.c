// SPDX-License-Identifier: Apache-2.0
// lathe ops: the op table of this build.
#include "cli/cli.h"
#include "op/ops.h"

extern const lt_command lt_command_ops;

static lt_status print_table(void)
{
    lt_buf out = {0};
    lt_status st = lt_ops_print(&out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    lt_args rest = {0};
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, NULL, &rest);
    if (st == LT_OK)
        st = print_table();
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_ops = {
    .name = "ops",
    .summary = "List the ops of this build: kernels by backend, gradients, flags",
    .details = "ref, cpu and cuda say which kernels an op has: f forward, b backward, - none. The "
               "reference computes in\n"
               "double and judges the others; the CPU runs it where it has no kernel of its own "
               "(\"ref\").\n"
               "gradient: kernel (a backward kernel), nodes (built from other ops), none.\n",
    .run = run,
};
