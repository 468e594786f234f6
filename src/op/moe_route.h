// SPDX-License-Identifier: Apache-2.0
// moe_route, moe_stats and moe_balance: which experts a token goes to, how evenly they are used,
// and what uneven use costs.
#ifndef LT_OP_MOE_ROUTE_H
#define LT_OP_MOE_ROUTE_H

#include "op/op.h"

typedef struct lt_moe_route_attr {
    int64_t k;        /* experts of a token: 1 to E */
    bool renormalise; /* weights of a token add up to 1 (norm_topk_prob) */
} lt_moe_route_attr;

/**
 * The k experts of each token, and the order in which rows lie expert by expert.
 *
 * p = softmax(logits) over all experts; the k largest are picked, of equal ones the lower number;
 * w_j = p_j, or p_j over the sum of those picked. Copy t k + j of token t goes to row place[t, j]:
 * rows are sorted by expert, those of one expert in order of their copies.
 *
 * source   models.md 5.6, 8.8; in fp32 or better, w narrowed once (9.2)
 * in       logits float[T, E]
 * out      weights like logits [T, k], by falling probability; experts i32[T, k];
 *          place i32[T, k]; offsets i32[E + 1]: expert e has rows offsets[e] to offsets[e + 1]
 * grads    dlogits through the weights alone. Kept, never computed again: backward meets the
 *          experts that forward met
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_moe_route;

/** All four outputs of lt_op_moe_route. */
typedef struct lt_routing {
    lt_val weights, experts, place, offsets;
} lt_routing;
lt_routing lt_moe_route(lt_builder *b, lt_val logits, lt_moe_route_attr attr);

typedef struct lt_moe_stats_attr {
    int64_t layers; /* L: layers with experts in the whole model */
} lt_moe_stats_attr;

/**
 * A layer's use of its experts joins those of the layers before it: row 0 of the table is this
 * layer's, the others move on by one (the last one, which is empty, falls out).
 *
 * source   models.md 5.6: the sums behind F and P, before any division
 * in       logits float[T, E]; experts i32[T, k] of moe_route; before wide [L, 2, E], or none in
 *          the first layer
 * out      table wide [L, 2, E]: [0, 0, e] how often expert e was picked, [0, 1, e] the sum over
 *          tokens of softmax(logits)_e
 * grads    dlogits through the sums of probabilities; dbefore
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_moe_stats;
lt_val lt_moe_stats(lt_builder *b, lt_val logits, lt_val experts, lt_val before, int64_t layers);

typedef struct lt_moe_balance_attr {
    int64_t k;
} lt_moe_balance_attr;

/**
 * The auxiliary loss of all layers together, times its weight:
 *   aux = E sum_e F_e P_e,   F_e = sum over layers of picks / N', P_e = sum of probabilities / N'
 * where N' = L T is the number of rows of router logits (all picks over k).
 *
 * source   models.md 5.6, 8.8
 * in       table wide [L, 2, E] of moe_stats; weight f32[1]
 * out      loss wide [1] = weight aux; value wide [1] = aux; picks wide [L, 2, E]: the table, for
 *          the host
 * grads    dtable (what it says of picks, moe_stats ignores: they are counts). As a loss it yields:
 *          backward writes the outputs, and the upstream gradient of `loss` is taken to be 1
 * notes    no tokens: 0
 * errors   LT_ERR_DTYPE, LT_ERR_SHAPE
 */
extern const lt_op_def lt_op_moe_balance;
/** outs [3] */
lt_val lt_moe_balance(lt_builder *b, lt_val table, lt_val weight, int64_t k, lt_val *outs);
#endif
