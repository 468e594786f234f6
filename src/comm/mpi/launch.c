// SPDX-License-Identifier: Apache-2.0
// The variables that launchers set.
#include "comm/mpi/launch.h"

#include <stdlib.h>

// Nearest first: mpirun in a Slurm job starts its own helpers through srun.
static const struct {
    const char *size, *rank, *by;
} launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun"},
                 {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"},
                 {"PMI_SIZE", "PMI_RANK", "a PMI launcher"}};

enum { MOST_RANKS = 1 << 15 };

static int32_t number(const char *text)
{
    char *end = NULL;
    const long n = text ? strtol(text, &end, 10) : -1;
    return text && end != text && !*end && n >= 0 && n <= MOST_RANKS ? (int32_t)n : -1;
}

lt_launch lt_launch_read(char *(*get)(const char *name))
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const lt_launch l = {launchers[i].by, number(get(launchers[i].rank)),
                             number(get(launchers[i].size))};
        if (l.size > 1 && l.rank >= 0 && l.rank < l.size)
            return l;
        if (l.size >= 0)
            break;
    }
    return (lt_launch){.size = 1};
}
