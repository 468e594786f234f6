// SPDX-License-Identifier: Apache-2.0
// The CPU's kernels of the op table, for f32 and bf16; what else comes (f64) goes to the reference.
// Bits depend neither on the number of threads nor, for a row of an activation, on the number of
// rows.
#ifndef LT_OP_CPU_KERNELS_H
#define LT_OP_CPU_KERNELS_H

#include "graph/op_def.h"

lt_status lt_linear_fwd_cpu(const lt_op_args *a);
lt_status lt_linear_bwd_cpu(const lt_op_args *a);
lt_status lt_rms_norm_fwd_cpu(const lt_op_args *a);
lt_status lt_rms_norm_bwd_cpu(const lt_op_args *a);
lt_status lt_add_rms_norm_fwd_cpu(const lt_op_args *a);
lt_status lt_add_rms_norm_bwd_cpu(const lt_op_args *a);
lt_status lt_layer_norm_fwd_cpu(const lt_op_args *a);
lt_status lt_layer_norm_bwd_cpu(const lt_op_args *a);
lt_status lt_qk_norm_rope_fwd_cpu(const lt_op_args *a);
lt_status lt_qk_norm_rope_bwd_cpu(const lt_op_args *a);
lt_status lt_split_qkv_rope_fwd_cpu(const lt_op_args *a);
lt_status lt_split_qkv_rope_bwd_cpu(const lt_op_args *a);
lt_status lt_swiglu_fwd_cpu(const lt_op_args *a);
lt_status lt_swiglu_bwd_cpu(const lt_op_args *a);
lt_status lt_gelu_fwd_cpu(const lt_op_args *a);
lt_status lt_gelu_bwd_cpu(const lt_op_args *a);
lt_status lt_cast_fwd_cpu(const lt_op_args *a);
lt_status lt_cast_bwd_cpu(const lt_op_args *a);
lt_status lt_embedding_fwd_cpu(const lt_op_args *a);
lt_status lt_embedding_bwd_cpu(const lt_op_args *a);
lt_status lt_scatter_rows_fwd_cpu(const lt_op_args *a);
lt_status lt_scatter_rows_bwd_cpu(const lt_op_args *a);
lt_status lt_gather_rows_fwd_cpu(const lt_op_args *a);
lt_status lt_gather_rows_bwd_cpu(const lt_op_args *a);
lt_status lt_pos_embed_add_fwd_cpu(const lt_op_args *a);
lt_status lt_pos_embed_add_bwd_cpu(const lt_op_args *a);
lt_status lt_linear_cross_entropy_fwd_cpu(const lt_op_args *a);
lt_status lt_linear_cross_entropy_bwd_cpu(const lt_op_args *a);
/** Bytes that both want. */
size_t lt_linear_cross_entropy_scratch_cpu(const lt_op_args *a, lt_pass pass);
lt_status lt_attention_fwd_cpu(const lt_op_args *a);
lt_status lt_attention_bwd_cpu(const lt_op_args *a);
lt_status lt_add_fwd_cpu(const lt_op_args *a);
lt_status lt_copy_fwd_cpu(const lt_op_args *a);
lt_status lt_scatter_add_rows_fwd_cpu(const lt_op_args *a);
lt_status lt_adamw_fwd_cpu(const lt_op_args *a);
lt_status lt_muon_momentum_fwd_cpu(const lt_op_args *a);
lt_status lt_orthogonalize_fwd_cpu(const lt_op_args *a);
lt_status lt_muon_apply_fwd_cpu(const lt_op_args *a);
lt_status lt_sum_squares_fwd_cpu(const lt_op_args *a);
lt_status lt_tile_embed_fwd_cpu(const lt_op_args *a);
lt_status lt_tile_embed_bwd_cpu(const lt_op_args *a);
lt_status lt_tile_patches_fwd_cpu(const lt_op_args *a);
lt_status lt_tile_patches_bwd_cpu(const lt_op_args *a);
lt_status lt_scale_add_fwd_cpu(const lt_op_args *a);
lt_status lt_scale_add_bwd_cpu(const lt_op_args *a);
lt_status lt_split_fwd_cpu(const lt_op_args *a); /* split_thirds and split_heads */
lt_status lt_split_bwd_cpu(const lt_op_args *a);
lt_status lt_join_fwd_cpu(const lt_op_args *a);
lt_status lt_join_bwd_cpu(const lt_op_args *a);
lt_status lt_shift_rows_fwd_cpu(const lt_op_args *a);
lt_status lt_shift_rows_bwd_cpu(const lt_op_args *a);
lt_status lt_conv_silu_fwd_cpu(const lt_op_args *a);
lt_status lt_conv_silu_bwd_cpu(const lt_op_args *a);
lt_status lt_gdn_gates_fwd_cpu(const lt_op_args *a);
lt_status lt_gdn_gates_bwd_cpu(const lt_op_args *a);
lt_status lt_gated_rms_norm_fwd_cpu(const lt_op_args *a);
lt_status lt_gated_rms_norm_bwd_cpu(const lt_op_args *a);
lt_status lt_sigmoid_gate_fwd_cpu(const lt_op_args *a);
lt_status lt_sigmoid_gate_bwd_cpu(const lt_op_args *a);
/* In chunks, in f64 too: the reference of the rule is its recurrence. */
lt_status lt_gated_delta_fwd_cpu(const lt_op_args *a);
lt_status lt_gated_delta_bwd_cpu(const lt_op_args *a);
lt_status lt_moe_permute_fwd_cpu(const lt_op_args *a);
lt_status lt_moe_permute_bwd_cpu(const lt_op_args *a);
lt_status lt_moe_combine_fwd_cpu(const lt_op_args *a);
lt_status lt_moe_combine_bwd_cpu(const lt_op_args *a);
lt_status lt_grouped_linear_fwd_cpu(const lt_op_args *a);
lt_status lt_grouped_linear_bwd_cpu(const lt_op_args *a);
lt_status lt_swiglu_halves_fwd_cpu(const lt_op_args *a);
lt_status lt_swiglu_halves_bwd_cpu(const lt_op_args *a);
#endif
