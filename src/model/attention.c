// SPDX-License-Identifier: Apache-2.0
// Causal attention with grouped heads, a norm per head and rotary positions.
#include "model/attention.h"
#include "op/attention.h"
#include "op/gated_norm.h"
#include "op/linear.h"
#include "op/qk_norm_rope.h"
#include "op/split.h"

lt_rms_norm_attr lt_norm_of(const lt_text_config *c)
{
    return (lt_rms_norm_attr){.eps = c->eps, .plus_one = c->plus_one};
}

lt_val lt_decoder_attention(lt_builder *b, lt_val h, lt_val table, const lt_text_config *c)
{
    const int32_t heads = (int32_t)c->heads, kv_heads = (int32_t)c->kv_heads;
    lt_val q = lt_linear(b, h, "self_attn.q_proj"), parts[2] = {q, LT_NONE};
    if (c->output_gate)
        lt_split_heads(b, q, heads, parts);
    lt_val k = lt_linear(b, h, "self_attn.k_proj");
    lt_val v = lt_linear(b, h, "self_attn.v_proj");
    q = lt_qk_norm_rope(b, parts[0], lt_param_of(b, "self_attn.q_norm.weight"), table,
                        (lt_qk_norm_rope_attr){c->eps, heads, c->plus_one});
    k = lt_qk_norm_rope(b, k, lt_param_of(b, "self_attn.k_norm.weight"), table,
                        (lt_qk_norm_rope_attr){c->eps, kv_heads, c->plus_one});
    lt_val o = lt_attention(b, q, k, v,
                            (lt_attention_attr){.causal = true,
                                                .heads = heads,
                                                .kv_heads = kv_heads,
                                                .deterministic = c->deterministic});
    o = lt_name(b, o, "attn_out");
    if (c->output_gate)
        o = lt_sigmoid_gate(b, o, parts[1]);
    return lt_linear(b, o, "self_attn.o_proj");
}
