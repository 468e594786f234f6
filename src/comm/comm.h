// SPDX-License-Identifier: Apache-2.0
// Collectives over ranks. Every member of a group issues the same calls in the same order. NULL is
// the group of one rank, for which all of them do nothing.
#ifndef LT_COMM_COMM_H
#define LT_COMM_COMM_H

#include "tensor/tensor.h"

/** One rank's hold on a group. threads: the rank's own */
typedef struct lt_group lt_group;
int32_t lt_group_size(const lt_group *g);
int32_t lt_group_rank(const lt_group *g);
/** Who this is, in the group of all ranks: "rank 2 of 4", and where, when that is elsewhere. */
const char *lt_group_name(const lt_group *g);
/** Of the group of all ranks: how many are on this rank's host, and on the CPUs that it has. */
typedef struct lt_sharing {
    int32_t host, cpus;
} lt_sharing;
lt_sharing lt_group_sharing(const lt_group *g);

/**
 * Members that give the same colour (>= 0) become a group of their own, in the order that they have
 * here.
 */
LT_NODISCARD lt_status lt_group_split(lt_group *g, int32_t colour, lt_group **out);
/** Accepts NULL. Waits for nobody. */
void lt_group_close(lt_group *g);

/**
 * A tensor of `total` elements cut in pieces of `chunk`: rank r has [r * chunk, (r + 1) * chunk),
 * as far as there are so many; late ranks may have none.
 */
typedef struct lt_pieces {
    void *full;        /* [total] */
    const void *shard; /* all-gather: this rank's piece, elsewhere */
    int64_t total, chunk;
} lt_pieces;

/** Elements [first, first + n) are rank's piece. */
typedef struct lt_piece_range {
    int64_t first, n;
} lt_piece_range;
lt_piece_range lt_piece_of(const lt_pieces *p, int64_t chunk, int32_t rank);

/**
 * All of these: the same n, dtype, totals and chunks on every member.
 * errors   LT_ERR_CANCELLED when another rank has failed (its message is part of this one);
 *          LT_ERR_INTERNAL when members issue different calls
 */

/** `full` of every rank becomes all shards. */
LT_NODISCARD lt_status lt_all_gather(lt_group *g, const lt_pieces *parts, int64_t n,
                                     lt_dtype dtype);
/**
 * This rank's piece of its own `full` becomes the sum of that piece over all ranks; the rest is
 * left undefined. f32 or f64.
 *
 * The order of summation is fixed: neighbours in pairs, ((0+1)+(2+3))+..., an odd last one passes
 * up. Groups that are aligned blocks of a power of two ranks nest: a sum over blocks of sums over
 * ranks has the bits of the sum over all.
 * source   spec/parallelism-memory.md 7.2
 */
LT_NODISCARD lt_status lt_reduce_scatter(lt_group *g, const lt_pieces *parts, int64_t n,
                                         lt_dtype dtype);
/** All of `full` becomes the sum over ranks, in the same order; equal bits everywhere. */
LT_NODISCARD lt_status lt_all_reduce(lt_group *g, const lt_pieces *parts, int64_t n,
                                     lt_dtype dtype);
/** The same for a few numbers on the host. */
LT_NODISCARD lt_status lt_all_reduce_f64(lt_group *g, double *values, int64_t n);
/** The bytes of rank `from` come to all. */
LT_NODISCARD lt_status lt_broadcast(lt_group *g, int32_t from, void *data, size_t bytes);
/** The bytes of rank `from` come to rank `to`. Others take part, but look at no data. */
LT_NODISCARD lt_status lt_hand(lt_group *g, int32_t from, int32_t to, void *data, size_t bytes);
LT_NODISCARD lt_status lt_barrier(lt_group *g);
/**
 * Nothing goes on where a rank has other text than the first one, such as another configuration.
 * errors   LT_ERR_CONFIG, on a rank that differs: `what`, and the first line that does
 */
LT_NODISCARD lt_status lt_same_text(lt_group *g, const char *what, const char *text);
#endif
