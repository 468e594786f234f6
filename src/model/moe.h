// SPDX-License-Identifier: Apache-2.0
// Routed experts in place of a decoder layer's MLP, and the loss that keeps them in even use.
#ifndef LT_MODEL_MOE_H
#define LT_MODEL_MOE_H

#include "model/assemble.h"
#include "op/op.h"

/** Whether decoder layer i has routed experts. source: spec/models.md 2.1 */
bool lt_moe_is_sparse(const lt_text_config *c, int64_t i);
/** Layers with routed experts. */
int64_t lt_moe_layers(const lt_text_config *c);

/** Its rows of a decoder layer's parameter list. c: const lt_text_config * */
#define LT_MOE_PARAMS(c)                                                                           \
    LT_EXPERTS("mlp.experts.gate_up_proj", (c)->moe.experts, 2 * (c)->moe.intermediate,            \
               (c)->hidden),                                                                       \
        LT_EXPERTS("mlp.experts.down_proj", (c)->moe.experts, (c)->hidden, (c)->moe.intermediate), \
        LT_MATRIX("mlp.gate.weight", (c)->moe.experts, (c)->hidden)

/** The same for a layer with a shared expert, in its published order. */
#define LT_SHARED_MOE_PARAMS(c)                                                                    \
    LT_MATRIX("mlp.gate.weight", (c)->moe.experts, (c)->hidden),                                   \
        LT_EXPERTS("mlp.experts.gate_up_proj", (c)->moe.experts, 2 * (c)->moe.intermediate,        \
                   (c)->hidden),                                                                   \
        LT_EXPERTS("mlp.experts.down_proj", (c)->moe.experts, (c)->hidden, (c)->moe.intermediate), \
        LT_MATRIX("mlp.shared_expert.gate_proj.weight", (c)->moe.shared, (c)->hidden),             \
        LT_MATRIX("mlp.shared_expert.up_proj.weight", (c)->moe.shared, (c)->hidden),               \
        LT_MATRIX("mlp.shared_expert.down_proj.weight", (c)->hidden, (c)->moe.shared),             \
        LT_MATRIX("mlp.shared_expert_gate.weight", 1, (c)->hidden)

/**
 * sum over the k picked experts of w_e (silu(h Wg_e^T) * (h Wu_e^T)) Wd_e^T, with PATH.gate and
 * PATH.experts. Dropless: every token reaches all of its experts. Where there is a shared expert,
 * its MLP times the sigmoid of its gate is added.
 *
 * source   spec/models.md 5.6
 * in       h [T, H]; stats: the table of the sparse layers before, or LT_NONE in the first
 * out      [T, H], without the residual; stats becomes the table with this layer in front
 */
lt_val lt_moe_mlp(lt_builder *b, lt_val h, const char *path, const lt_text_config *c,
                  lt_val *stats);

/**
 * The block that makes the balance loss of the last layer's table: out 0 its part of the loss, out
 * 1 its value, out 2 the table [layers, 2, E], the last layer first.
 */
const lt_block_kind *lt_moe_balance_kind(lt_assembly *a, const lt_text_config *c);
#endif
