// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator. Without CUDA it cannot be opened.
#ifndef LT_COMM_NCCL_H
#define LT_COMM_NCCL_H

#include "comm/link.h"

typedef struct lt_nccl lt_nccl;

/** All members of the group together, each with a GPU of its own. errors: LT_ERR_DEVICE */
LT_NODISCARD lt_status lt_nccl_open(lt_device *d, lt_group *g, lt_nccl **out);
void lt_nccl_close(lt_nccl *c);
LT_NODISCARD lt_status lt_nccl_all_gather(lt_nccl *c, lt_stream *s, const lt_pieces *parts,
                                          int64_t n, lt_dtype dtype);
LT_NODISCARD lt_status lt_nccl_reduce_scatter(lt_nccl *c, lt_stream *s, const lt_pieces *parts,
                                              int64_t n, lt_dtype dtype);
LT_NODISCARD lt_status lt_nccl_all_reduce(lt_nccl *c, lt_stream *s, const lt_pieces *parts,
                                          int64_t n, lt_dtype dtype);
#endif
