// SPDX-License-Identifier: Apache-2.0
// The CUDA column of the op table: the kernels that rows name, and nothing of them in a build
// without CUDA.
#ifndef LT_OP_CUDA_KERNELS_H
#define LT_OP_CUDA_KERNELS_H

#include "graph/op_def.h"

/**
 * For a row: [LT_CUDA] = LT_CUDA_KERNEL(lt_swiglu_fwd_cuda), which is NULL in a build without CUDA.
 */
#ifdef LATHE_CUDA
#define LT_CUDA_KERNEL(name) (name)
#else
#define LT_CUDA_KERNEL(name) NULL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Each queues its work on a->run->stream and returns; none waits for the device. They compute in
 * fp32 on f32 or bf16 tensors;
 * sums have a fixed order, without atomics: two runs give the same bits.
 * errors   LT_ERR_UNSUPPORTED for f64; LT_ERR_DATA for bad indices, as the references;
 *          LT_ERR_DEVICE for a failed launch
 */
lt_status lt_linear_fwd_cuda(const lt_op_args *a);
lt_status lt_linear_bwd_cuda(const lt_op_args *a);
lt_status lt_rms_norm_fwd_cuda(const lt_op_args *a);
lt_status lt_rms_norm_bwd_cuda(const lt_op_args *a);
lt_status lt_add_rms_norm_fwd_cuda(const lt_op_args *a);
lt_status lt_add_rms_norm_bwd_cuda(const lt_op_args *a);
lt_status lt_layer_norm_fwd_cuda(const lt_op_args *a);
lt_status lt_layer_norm_bwd_cuda(const lt_op_args *a);
lt_status lt_qk_norm_rope_fwd_cuda(const lt_op_args *a);
lt_status lt_qk_norm_rope_bwd_cuda(const lt_op_args *a);
lt_status lt_rope_table_fwd_cuda(const lt_op_args *a);
lt_status lt_vision_rope_table_fwd_cuda(const lt_op_args *a);
lt_status lt_split_qkv_rope_fwd_cuda(const lt_op_args *a);
lt_status lt_split_qkv_rope_bwd_cuda(const lt_op_args *a);
lt_status lt_attention_fwd_cuda(const lt_op_args *a);
lt_status lt_attention_bwd_cuda(const lt_op_args *a);
size_t lt_attention_scratch_cuda(const lt_op_args *a, lt_pass pass);
lt_status lt_add_fwd_cuda(const lt_op_args *a);
lt_status lt_copy_fwd_cuda(const lt_op_args *a);
lt_status lt_swiglu_fwd_cuda(const lt_op_args *a);
lt_status lt_swiglu_bwd_cuda(const lt_op_args *a);
lt_status lt_gelu_fwd_cuda(const lt_op_args *a);
lt_status lt_gelu_bwd_cuda(const lt_op_args *a);
lt_status lt_cast_fwd_cuda(const lt_op_args *a);
lt_status lt_cast_bwd_cuda(const lt_op_args *a);
lt_status lt_moe_route_fwd_cuda(const lt_op_args *a);
lt_status lt_moe_route_bwd_cuda(const lt_op_args *a);
lt_status lt_moe_stats_fwd_cuda(const lt_op_args *a);
lt_status lt_moe_stats_bwd_cuda(const lt_op_args *a);
lt_status lt_moe_balance_fwd_cuda(const lt_op_args *a);
lt_status lt_moe_balance_bwd_cuda(const lt_op_args *a);
lt_status lt_moe_permute_fwd_cuda(const lt_op_args *a);
lt_status lt_moe_permute_bwd_cuda(const lt_op_args *a);
lt_status lt_moe_combine_fwd_cuda(const lt_op_args *a);
lt_status lt_moe_combine_bwd_cuda(const lt_op_args *a);
lt_status lt_grouped_linear_fwd_cuda(const lt_op_args *a);
lt_status lt_grouped_linear_bwd_cuda(const lt_op_args *a);
lt_status lt_swiglu_halves_fwd_cuda(const lt_op_args *a);
lt_status lt_swiglu_halves_bwd_cuda(const lt_op_args *a);
lt_status lt_tile_embed_fwd_cuda(const lt_op_args *a);
lt_status lt_tile_embed_bwd_cuda(const lt_op_args *a);
lt_status lt_tile_patches_fwd_cuda(const lt_op_args *a);
lt_status lt_tile_patches_bwd_cuda(const lt_op_args *a);
lt_status lt_scale_add_fwd_cuda(const lt_op_args *a);
lt_status lt_scale_add_bwd_cuda(const lt_op_args *a);
lt_status lt_split_fwd_cuda(const lt_op_args *a);
lt_status lt_split_bwd_cuda(const lt_op_args *a);
lt_status lt_join_fwd_cuda(const lt_op_args *a);
lt_status lt_join_bwd_cuda(const lt_op_args *a);
lt_status lt_embedding_fwd_cuda(const lt_op_args *a);
lt_status lt_embedding_bwd_cuda(const lt_op_args *a);
lt_status lt_scatter_rows_fwd_cuda(const lt_op_args *a);
lt_status lt_scatter_rows_bwd_cuda(const lt_op_args *a);
lt_status lt_scatter_add_rows_fwd_cuda(const lt_op_args *a);
lt_status lt_gather_rows_fwd_cuda(const lt_op_args *a);
lt_status lt_gather_rows_bwd_cuda(const lt_op_args *a);
lt_status lt_pos_embed_add_fwd_cuda(const lt_op_args *a);
lt_status lt_pos_embed_add_bwd_cuda(const lt_op_args *a);
lt_status lt_linear_cross_entropy_fwd_cuda(const lt_op_args *a);
lt_status lt_linear_cross_entropy_bwd_cuda(const lt_op_args *a);
size_t lt_linear_cross_entropy_scratch_cuda(const lt_op_args *a, lt_pass pass);
lt_status lt_top1_fwd_cuda(const lt_op_args *a);
lt_status lt_adamw_fwd_cuda(const lt_op_args *a);
lt_status lt_sum_squares_fwd_cuda(const lt_op_args *a);
lt_status lt_clip_fwd_cuda(const lt_op_args *a);

#ifdef __cplusplus
}
#endif
#endif
