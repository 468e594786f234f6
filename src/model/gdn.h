// SPDX-License-Identifier: Apache-2.0
// Linear attention, gated DeltaNet, in place of a decoder layer's attention.
#ifndef LT_MODEL_GDN_H
#define LT_MODEL_GDN_H

#include "model/assemble.h"
#include "op/op.h"

/** The layer's convolution, which is no matrix that rows are multiplied with. */
#define LT_GDN_CONV "linear_attn.conv1d.weight"

/** Widths of all keys, all values, and of what the convolution sees. c: const lt_text_config * */
#define LT_GDN_KEYS(c) ((c)->gdn.key_heads * (c)->gdn.key_dim)
#define LT_GDN_VALUES(c) ((c)->gdn.value_heads * (c)->gdn.value_dim)
#define LT_GDN_MIXED(c) (2 * LT_GDN_KEYS(c) + LT_GDN_VALUES(c))

/** Its rows of a decoder layer's parameter list, in published order. */
#define LT_GDN_PARAMS(c)                                                                           \
    {.name = "linear_attn.dt_bias",                                                                \
     .rank = 1,                                                                                    \
     .dim = {(c)->gdn.value_heads},                                                                \
     .init = LT_INIT_ONE},                                                                         \
        {.name = "linear_attn.A_log",                                                              \
         .rank = 1,                                                                                \
         .dim = {(c)->gdn.value_heads},                                                            \
         .init = LT_INIT_LOG_UNIFORM,                                                              \
         .value = 16.0},                                                                           \
        LT_EXPERTS(LT_GDN_CONV, LT_GDN_MIXED(c), 1, (c)->gdn.taps),                                \
        LT_SCALE("linear_attn.norm.weight", (c)->gdn.value_dim),                                   \
        LT_MATRIX("linear_attn.out_proj.weight", (c)->hidden, LT_GDN_VALUES(c)),                   \
        LT_MATRIX("linear_attn.in_proj_qkv.weight", LT_GDN_MIXED(c), (c)->hidden),                 \
        LT_MATRIX("linear_attn.in_proj_z.weight", LT_GDN_VALUES(c), (c)->hidden),                  \
        LT_MATRIX("linear_attn.in_proj_b.weight", (c)->gdn.value_heads, (c)->hidden),              \
        LT_MATRIX("linear_attn.in_proj_a.weight", (c)->gdn.value_heads, (c)->hidden)

/**
 * y W_out^T for h, the normed input: q, k and v of a convolution, the gated delta rule inside
 * samples, its output normed head by head and gated.
 *
 * source   spec/models.md 6.1
 * in       h [T, H]
 * out      [T, H], without the residual
 */
lt_val lt_gdn(lt_builder *b, lt_val h, const lt_text_config *c);
/** FLOPs of its recurrence, for each token. */
int64_t lt_gdn_flops(const lt_text_config *c);
#endif
