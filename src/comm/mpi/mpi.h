// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, on one host or many: started by mpirun or srun, joined through Open MPI.
#ifndef LT_COMM_MPI_MPI_H
#define LT_COMM_MPI_MPI_H

#include "comm/comm.h"

/**
 * This process as one of several. One of it in a process, used by the thread that opened it: all
 * calls on its groups come from that thread.
 */
typedef struct lt_mpi lt_mpi;

/**
 * Join the other ranks. *out is NULL where no launcher has started this process as one of several:
 * there is no look at MPI's library then. Otherwise *out is set whatever is returned, and
 * lt_mpi_settle and lt_mpi_close are called at the end.
 * errors   LT_ERR_NOT_FOUND: no Open MPI here; LT_ERR_CONFIG: the launcher has not told MPI of the
 *          others
 */
LT_NODISCARD lt_status lt_mpi_open(lt_mpi **out);
/** The group of all ranks ("rank 2 of 4 on node7"); NULL for NULL, and where joining has failed. Closed with *m. */
lt_group *lt_mpi_world(lt_mpi *m);
bool lt_mpi_is_first(const lt_mpi *m);

/**
 * This rank's work has ended with *st, and, if that is a failure, with the thread's message. True:
 * this process tells the user. That is the first rank, after it has heard from all others or of a
 * failure, which then becomes *st with the message of the rank that it happened to. It is another
 * rank when the first is too busy to listen for seconds: a failure ends all ranks without waiting
 * for one. NULL: true.
 */
bool lt_mpi_settle(lt_mpi *m, lt_status *st);
/**
 * Leave. After a failure all ranks end at once, with that exit code: this does not return then.
 * st: as lt_mpi_settle left it. Accepts NULL.
 */
void lt_mpi_close(lt_mpi *m, lt_status st, int exit_code);
#endif
