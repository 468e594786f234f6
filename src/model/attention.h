// SPDX-License-Identifier: Apache-2.0
// The attention half of a decoder layer, shared by the families of Qwen3 form.
#ifndef LT_MODEL_ATTENTION_H
#define LT_MODEL_ATTENTION_H

#include "model/config.h"
#include "op/rms_norm.h"

/** A norm's scale: 1 at first, as w or as 1 + w. */
#define LT_NORM(n, c, width)                                                                       \
    {                                                                                              \
        .name = (n), .rank = 1, .dim = {(width)},                                                  \
        .init = (c)->plus_one ? LT_INIT_ZERO : LT_INIT_ONE                                         \
    }

/**
 * Its rows of a decoder layer's parameter list (with model/assemble.h). c: const lt_text_config *
 */
#define LT_ATTENTION_PARAMS(c)                                                                     \
    LT_MATRIX("self_attn.q_proj.weight", (c)->heads *(c)->head_dim *((c)->output_gate ? 2 : 1),    \
              (c)->hidden),                                                                        \
        LT_MATRIX("self_attn.k_proj.weight", (c)->kv_heads *(c)->head_dim, (c)->hidden),           \
        LT_MATRIX("self_attn.v_proj.weight", (c)->kv_heads *(c)->head_dim, (c)->hidden),           \
        LT_MATRIX("self_attn.o_proj.weight", (c)->hidden, (c)->heads *(c)->head_dim),              \
        LT_NORM("self_attn.q_norm.weight", c, (c)->head_dim),                                      \
        LT_NORM("self_attn.k_norm.weight", c, (c)->head_dim)

/** How the decoder's norms work. */
lt_rms_norm_attr lt_norm_of(const lt_text_config *c);

/**
 * O W_o^T for h, the normed input: projections, the norm and rotation of each head of q and k,
 * causal attention inside samples; where the config has an output gate, O sigmoid(gate) W_o^T.
 *
 * source   spec/models.md 5.5
 * in       h [T, H]; table: the rotary table [T, rotary]
 * out      [T, H], without the residual
 */
lt_val lt_decoder_attention(lt_builder *b, lt_val h, lt_val table, const lt_text_config *c);
#endif
