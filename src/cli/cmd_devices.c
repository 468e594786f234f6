// SPDX-License-Identifier: Apache-2.0
// lathe devices: what this machine can compute on.
#include "base/memory.h"
#include "cli/cli.h"
#include "device/cpu/isa.h"
#include "device/device.h"

extern const lt_command lt_command_devices;

static double gib(int64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

static lt_status print_cpu(lt_buf *out)
{
    lt_pool *pool = NULL;
    lt_device *cpu = NULL;
    LT_TRY(lt_pool_create(0, &pool));
    lt_status st = lt_cpu_open(pool, &cpu);
    if (st == LT_OK)
        st =
            lt_buf_printf(out, "cpu      %s; %.1f GiB\n", cpu->description, gib(cpu->memory_bytes));
    lt_device_close(cpu);
    lt_pool_destroy(pool);
    return st;
}

static lt_status print_gpu(const lt_gpu *g, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out, "cuda:%-3d ", g->index));
    if (g->name[0])
        LT_TRY(lt_buf_printf(out, "%s, compute %d.%d, %d SMs; %.1f GiB", g->name, g->major,
                             g->minor, g->processors, gib(g->memory_bytes)));
    if (g->why_not[0])
        return lt_buf_printf(out, "%scannot be used: %s\n", g->name[0] ? "; " : "", g->why_not);
    return lt_buf_printf(out, ", %.1f GiB free\n", gib(g->left_bytes));
}

static lt_status print_devices(lt_buf *out)
{
    const lt_gpu_list gpus = lt_gpus();
    const lt_text512 attention = lt_gpu_attention();
    bool usable = false;
    LT_TRY(print_cpu(out));
    for (int i = 0; i < gpus.n; i++) {
        LT_TRY(print_gpu(&gpus.gpu[i], out));
        usable = usable || gpus.gpu[i].why_not[0] == 0;
    }
    if (gpus.n == 0)
        LT_TRY(lt_buf_printf(out, "cuda     %s\n", gpus.why_none));
    if (gpus.versions[0])
        LT_TRY(lt_buf_printf(out, "         %s\n", gpus.versions));
    if (attention.s[0])
        LT_TRY(lt_buf_printf(out, "         %s\n", attention.s));
    return lt_buf_printf(out, "lathe.device: auto is %s here\n", usable ? "cuda" : "cpu");
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    lt_args rest = {0};
    lt_arena *arena = NULL;
    lt_buf out = {0};
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, NULL, &rest);
    if (st == LT_OK)
        st = print_devices(&out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    lt_buf_deinit(&out);
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_devices = {
    .name = "devices",
    .summary = "List what this machine can compute on, and why not on a GPU",
    .details = "cpu with the instruction set that its kernels use, and threads; each GPU with its "
               "compute capability\n"
               "and memory. lathe.device in the YAML chooses: auto, cpu or cuda.\n",
    .run = run,
};
