// SPDX-License-Identifier: Apache-2.0
// Open MPI's library, opened when a launcher has started this process as one of several: the
// program needs it neither to be built nor to run without.
#ifndef LT_COMM_MPI_LIBRARY_H
#define LT_COMM_MPI_LIBRARY_H

#include "base/status.h"

/**
 * What Open MPI's mpi.h declares, as far as it is used here; its binary interface is the same from
 * version 3 to 5 (libmpi.so.40). Communicators, datatypes and requests are pointers.
 */
typedef void *lt_mpi_handle;
enum {
    LT_MPI_FUNNELED = 1, /* MPI_THREAD_FUNNELED: one thread calls MPI */
    LT_MPI_ANY_SOURCE = -1
};
/* MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE are null pointers. */

typedef struct lt_mpi_library {
    lt_mpi_handle world, byte, no_request, errors_return;
    int (*init_thread)(int *argc, char ***argv, int required, int *provided);
    int (*set_errhandler)(lt_mpi_handle comm, lt_mpi_handle errhandler);
    int (*comm_rank)(lt_mpi_handle comm, int *rank);
    int (*comm_size)(lt_mpi_handle comm, int *size);
    int (*isend)(const void *data, int n, lt_mpi_handle type, int to, int tag, lt_mpi_handle comm,
                 lt_mpi_handle *request);
    int (*irecv)(void *data, int n, lt_mpi_handle type, int from, int tag, lt_mpi_handle comm,
                 lt_mpi_handle *request);
    int (*testall)(int n, lt_mpi_handle *requests, int *all, void *statuses);
    int (*cancel)(lt_mpi_handle *request);
    int (*request_free)(lt_mpi_handle *request);
    int (*error_string)(int code, char *text, int *length);
    int (*abort)(lt_mpi_handle comm, int code);
    int (*finalize)(void);
} lt_mpi_library;

/** errors   LT_ERR_NOT_FOUND: no such library, with what the system says */
LT_NODISCARD lt_status lt_mpi_library_open(lt_mpi_library *out);
#endif
