// SPDX-License-Identifier: Apache-2.0
// Linear attention.
#include "model/gdn.h"
#include "op/conv_silu.h"
#include "op/gated_delta.h"
#include "op/gated_norm.h"
#include "op/gdn_gates.h"
#include "op/linear.h"

static lt_gated_delta_attr attr_of(const lt_text_config *c)
{
    return (lt_gated_delta_attr){.key_heads = (int32_t)c->gdn.key_heads,
                                 .value_heads = (int32_t)c->gdn.value_heads,
                                 .key_dim = (int32_t)c->gdn.key_dim,
                                 .value_dim = (int32_t)c->gdn.value_dim,
                                 .chunk = c->gdn.chunk};
}

lt_val lt_gdn(lt_builder *b, lt_val h, const lt_text_config *c)
{
    lt_val gates[2];
    lt_val mixed = lt_linear(b, h, "linear_attn.in_proj_qkv");
    lt_val z = lt_linear(b, h, "linear_attn.in_proj_z");
    lt_val write = lt_linear(b, h, "linear_attn.in_proj_b");
    lt_val forget = lt_linear(b, h, "linear_attn.in_proj_a");
    lt_val qkv = lt_conv_silu(b, mixed, lt_param_of(b, LT_GDN_CONV));
    lt_gdn_gates(b, forget, write, lt_param_of(b, "linear_attn.A_log"),
                 lt_param_of(b, "linear_attn.dt_bias"), gates);
    lt_val o = lt_gated_delta(b, qkv, gates[0], gates[1], attr_of(c));
    o = lt_gated_rms_norm(b, lt_name(b, o, "delta_out"), z,
                          lt_param_of(b, "linear_attn.norm.weight"), c->eps);
    return lt_linear(b, o, "linear_attn.out_proj");
}

int64_t lt_gdn_flops(const lt_text_config *c)
{
    const lt_gated_delta_attr attr = attr_of(c);
    return lt_gated_delta_flops(&attr);
}
