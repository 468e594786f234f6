// SPDX-License-Identifier: Apache-2.0
// Which policy each block has, from a short text.
#ifndef LT_PLAN_POLICY_H
#define LT_PLAN_POLICY_H

#include "graph/compile.h"
#include "model/model.h"

/** A repeated layer of the text model: what lists of policies count. */
bool lt_is_decoder_layer(const lt_block *b);
/**
 * "lean", or a list from the first decoder layer on, each for so many layers: "full:12,lean". The
 * last one has no number: it holds for the layers that are left, and for all other blocks.
 * out      policy [model->n_blocks]
 * errors   LT_ERR_CONFIG: the text, and what is wrong with it
 */
LT_NODISCARD lt_status lt_policies_parse(const char *text, const lt_model *model,
                                         lt_policy *policy);
#endif
