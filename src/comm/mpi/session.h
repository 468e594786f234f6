// SPDX-License-Identifier: Apache-2.0
// What this process knows of all ranks: reports that come to the first, transfers on their way.
#ifndef LT_COMM_MPI_SESSION_H
#define LT_COMM_MPI_SESSION_H

#include "base/memory.h"
#include "comm/group.h"
#include "comm/mpi/launch.h"
#include "comm/mpi/library.h"
#include "comm/mpi/mpi.h"

/** How a rank has ended. */
typedef struct lt_report {
    int32_t rank, status;
    char text[4096];
} lt_report;

/** A group whose members are processes. */
typedef struct lt_mpi_group {
    lt_group base;
    lt_mpi *m;
    int32_t id;     /* of its tags */
    int32_t *world; /* [size] members' ranks in the world */
} lt_mpi_group;

struct lt_mpi {
    lt_mpi_library lib;
    lt_launch launch;
    bool joined;
    char host[64];
    lt_group *world;
    int32_t next_id;     /* of a group; the same on all members of a split */
    lt_vec requests;     /* lt_mpi_handle: transfers posted and not waited for */
    void *scratch;       /* what comes to be summed */
    const void **source; /* [ranks] where it lies */
    size_t scratch_bytes;
    /* The first rank: the next report to come. Others: the one that they sent. */
    lt_report mail;
    lt_mpi_handle mail_request;
    int32_t n_reports;
    bool failed;     /* a report of a failure has come: */
    lt_report cause; /* the first one */
};

/* Tags: reports, and two for each group. */
enum { LT_MPI_TAG_REPORT = 1, LT_MPI_TAG_FIRST_GROUP = 2 };

/** The failure of a call of MPI's. */
LT_NODISCARD lt_status lt_mpi_check(const lt_mpi *m, int code, const char *call);
/** Post a transfer; lt_mpi_wait waits for all that were posted. peer: in the group. */
LT_NODISCARD lt_status lt_mpi_send(lt_mpi_group *g, int32_t peer, bool header, const void *data,
                                   size_t bytes);
LT_NODISCARD lt_status lt_mpi_receive(lt_mpi_group *g, int32_t peer, bool header, void *data,
                                      size_t bytes);
/**
 * errors   LT_ERR_CANCELLED on the first rank when another has reported a failure: transfers are
 *          still under way then, and no call on any group does anything more
 */
LT_NODISCARD lt_status lt_mpi_wait(lt_mpi *m);
/** Fills in what lt_group_sharing says of the group of all ranks; all of them call it. */
LT_NODISCARD lt_status lt_mpi_compare_hosts(lt_group *world);
/** A group of the world's ranks `world`, which it keeps (lt_mem_alloc). */
LT_NODISCARD lt_status lt_mpi_group_create(lt_mpi *m, int32_t *world, int32_t size, int32_t rank,
                                           int32_t id, lt_group **out);
#endif
