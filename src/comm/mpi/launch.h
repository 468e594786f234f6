// SPDX-License-Identifier: Apache-2.0
// Whether a launcher started this process as one of several, as its environment says.
#ifndef LT_COMM_MPI_LAUNCH_H
#define LT_COMM_MPI_LAUNCH_H

#include "base/status.h"

typedef struct lt_launch {
    const char *by; /* "mpirun"; NULL: a process of its own */
    int32_t rank, size;
} lt_launch;

/** get: reads a variable (getenv). Those of the launcher nearest to the process count. */
lt_launch lt_launch_read(char *(*get)(const char *name));
#endif
