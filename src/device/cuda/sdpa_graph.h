// SPDX-License-Identifier: Apache-2.0
// Attention written as a cuDNN graph.
#ifndef LT_DEVICE_CUDA_SDPA_GRAPH_H
#define LT_DEVICE_CUDA_SDPA_GRAPH_H

#include "device/cuda/cudnn.h"
#include "device/cuda/sdpa.h"

/** Ids in the graph: of tensors 1 + lt_sdpa_tensor, then of numbers that are given by value. */
enum {
    LT_SDPA_ID_SCALE = 1 + LT_SDPA_N_TENSORS,
    LT_SDPA_ID_ONE,
    LT_SDPA_ID_HIDDEN, /* the score of what a mask hides */
    LT_SDPA_ID_END
};

/** Adds the operations of the shape's pass. The failure, if any, is in g->status. */
void lt_sdpa_write_graph(lt_dnn_graph *g, const lt_sdpa_shape *shape);
#endif
