// SPDX-License-Identifier: Apache-2.0
// The mesh of ranks, and this rank's place and groups in it.
#ifndef LT_PARALLEL_MESH_H
#define LT_PARALLEL_MESH_H

#include "comm/comm.h"

/**
 * Sizes of the mesh's axes, outermost first:
 *   rank = ((((replicate * dp_shard + shard) * ulysses + u) * ring + r) * tp + t
 * source   spec/parallelism-memory.md 1.1
 */
typedef struct lt_mesh_sizes {
    int64_t dp_replicate, dp_shard, ulysses, ring, tp;
} lt_mesh_sizes;

/** A cut of every parameter along its first dimension. {0}: none. */
typedef struct lt_shard {
    int32_t size, index;
} lt_shard;

/** What a rank knows of the others. */
typedef struct lt_ranks {
    int32_t size, rank;
    int32_t dp_size, dp_rank; /* streams of data, and this rank's */
    lt_shard shard;
    lt_sharing sharing; /* how many of them have the same memory and CPUs as this one */
    lt_group *world;    /* borrowed; NULL: one rank */
    lt_group *sharers;  /* who hold the pieces of one copy of the parameters; NULL: one */
    lt_group *replicas; /* who hold the same piece of other copies; NULL: one */
} lt_ranks;

/**
 * in       world: NULL for one rank; all its members call this with the same sizes
 * errors   LT_ERR_UNSUPPORTED: an axis that is not built, by name; LT_ERR_CONFIG: the sizes do not
 *          multiply to the number of ranks
 */
LT_NODISCARD lt_status lt_ranks_open(lt_group *world, const lt_mesh_sizes *sizes, lt_ranks *out);
void lt_ranks_close(lt_ranks *r);
#endif
