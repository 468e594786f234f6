// SPDX-License-Identifier: Apache-2.0
// The two ways attention is computed on a GPU.
#ifndef LT_OP_CUDA_ATTENTION_CUH
#define LT_OP_CUDA_ATTENTION_CUH

#include "op/cuda/common.cuh"
extern "C" {
#include "op/attention.h"
}

/** Kernels of ours for every shape and dtype. The segment table has been checked. */
lt_status lt_attention_fwd_plain(const lt_op_args *a);
lt_status lt_attention_bwd_plain(const lt_op_args *a);

/**
 * By the library's fused kernels. *why is NULL when the work was queued; else nothing was, and it
 * says why: a sentence's end, valid until the next failure on this thread.
 */
lt_status lt_attention_fused(const lt_op_args *a, lt_pass pass, const char **why);
/** Bytes of scratch that suffice for any table of as many segments. */
size_t lt_attention_fused_scratch(const lt_op_args *a, lt_pass pass);
#endif
