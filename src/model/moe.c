// SPDX-License-Identifier: Apache-2.0
// Routed experts.
#include "model/moe.h"
#include "model/mlp.h"
#include "op/add.h"
#include "op/gated_norm.h"
#include "op/grouped_linear.h"
#include "op/linear.h"
#include "op/moe_route.h"
#include "op/moe_rows.h"

bool lt_moe_is_sparse(const lt_text_config *c, int64_t i)
{
    const lt_moe_config *m = &c->moe;
    if (m->experts == 0 || (i + 1) % m->sparse_step != 0)
        return false;
    for (int32_t k = 0; k < m->n_dense; k++)
        if (m->dense[k] == i)
            return false;
    return true;
}

int64_t lt_moe_layers(const lt_text_config *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->layers; i++)
        n += lt_moe_is_sparse(c, i);
    return n;
}

// sigmoid(h w_s^T), one number a token, times the MLP that every token meets
static lt_val shared(lt_builder *b, lt_val h, const char *path)
{
    lt_val x = lt_swiglu_mlp(b, h, lt_path_of("%s.shared_expert", path).s);
    return lt_sigmoid_gate(b, x, lt_linear(b, h, lt_path_of("%s.shared_expert_gate", path).s));
}

lt_val lt_moe_mlp(lt_builder *b, lt_val h, const char *path, const lt_text_config *c, lt_val *stats)
{
    const lt_moe_route_attr how = {.k = c->moe.experts_per_token,
                                   .renormalise = c->moe.renormalise};
    lt_val logits = lt_linear(b, h, lt_path_of("%s.gate", path).s);
    const lt_routing r = lt_moe_route(b, lt_name(b, logits, "router_logits"), how);
    *stats = lt_moe_stats(b, logits, r.experts, *stats, lt_moe_layers(c));
    lt_val gate_up = lt_param_of(b, lt_path_of("%s.experts.gate_up_proj", path).s);
    lt_val down = lt_param_of(b, lt_path_of("%s.experts.down_proj", path).s);
    lt_val x = lt_moe_permute(b, h, r.place);
    x = lt_swiglu_halves(b, lt_grouped_linear(b, x, gate_up, r.offsets));
    x = lt_grouped_linear(b, x, down, r.offsets);
    x = lt_moe_combine(b, x, r.weights, r.place);
    return c->moe.shared > 0 ? lt_add(b, x, shared(b, h, path)) : x;
}

static lt_status build_balance(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    (void)lt_moe_balance(b, in[0], lt_batch_of(b, LT_BATCH_BALANCE), c->moe.experts_per_token, out);
    return lt_builder_status(b);
}

const lt_block_kind *lt_moe_balance_kind(lt_assembly *a, const lt_text_config *c)
{
    const lt_block_kind kind = {"router_balance", 0, 1, 3, NULL, c, build_balance};
    return lt_assemble_kind(a, &kind, &(lt_kind_cost){.part = LT_PART_NONE});
}
