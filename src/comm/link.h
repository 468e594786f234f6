// SPDX-License-Identifier: Apache-2.0
// Collectives over tensors that lie on a device: in place where the host reaches them, by NCCL
// between GPUs, through pinned host memory where several ranks share a GPU.
#ifndef LT_COMM_LINK_H
#define LT_COMM_LINK_H

#include "comm/comm.h"
#include "device/device.h"

/** A group's way of moving tensors. One link for each kind of traffic: two may be busy at once. */
typedef struct lt_link lt_link;

typedef enum lt_link_kind { LT_LINK_IN_PLACE, LT_LINK_THROUGH_HOST, LT_LINK_NCCL } lt_link_kind;

/**
 * All members call this together.
 * in       g: NULL (one rank) gives NULL, for which all calls below do nothing. through_host: for
 *          tests, whatever the device
 * keeps    d and g
 * errors   LT_ERR_DEVICE with NCCL's reason
 */
LT_NODISCARD lt_status lt_link_open(lt_device *d, lt_group *g, bool through_host, lt_link **out);
void lt_link_close(lt_link *l);
lt_link_kind lt_link_kind_of(const lt_link *l);

/**
 * As in comm.h, with `full` and `shard` on the device, queued on `s` (through the host: done when
 * they return). NCCL adds in an order of its own, the same one every time.
 */
LT_NODISCARD lt_status lt_link_all_gather(lt_link *l, lt_stream *s, const lt_pieces *parts,
                                          int64_t n, lt_dtype dtype);
LT_NODISCARD lt_status lt_link_reduce_scatter(lt_link *l, lt_stream *s, const lt_pieces *parts,
                                              int64_t n, lt_dtype dtype);
LT_NODISCARD lt_status lt_link_all_reduce(lt_link *l, lt_stream *s, const lt_pieces *parts,
                                          int64_t n, lt_dtype dtype);
#endif
