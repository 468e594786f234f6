// SPDX-License-Identifier: Apache-2.0
// InternVL3.5, dense and with experts: InternViT, projector and a Qwen3 decoder, under the names of
// the remote code (internvl_chat) or of transformers (internvl), older and newer.
#include "model/family.h"
#include "model/intern_config.h"
#include "model/intern_vit.h"

static const lt_intern_names library_names = {.tower = "model.vision_tower",
                                              .old_tower = "vision_tower",
                                              .projector = "model.multi_modal_projector",
                                              .old_projector = "multi_modal_projector",
                                              .decoder = {.text = "model.language_model",
                                                          .old_text = "language_model.model",
                                                          .head = "lm_head",
                                                          .old_head = "language_model.lm_head"}};
static const lt_intern_names remote_names = {
    .tower = "vision_model",
    .projector = "mlp1",
    .decoder = {.text = "language_model.model", .head = "language_model.lm_head"}};

static void build(lt_assembly *a)
{
    const lt_vision_config *v = &a->model->config.vision;
    const bool remote = v->intern.remote_names;
    const lt_intern_names *n = remote ? &remote_names : &library_names;
    const lt_intern_tower kinds = lt_intern_tower_kinds(a, v);
    lt_decoder d = lt_decoder_begin(a, &n->decoder);
    lt_intern_tower_params(a, v, n, &kinds);
    if (!remote)
        lt_intern_projector_params(a, v, n, &kinds);
    lt_decoder_params(&d);
    if (remote)
        lt_intern_projector_params(a, v, n, &kinds);
    const lt_tower tower = {.merged = lt_intern_tower_blocks(a, v, n, &kinds)};
    lt_decoder_blocks(&d, &tower);
}

static lt_status read_library(const lt_json_scope *root, lt_model_config *out)
{
    return lt_intern_read_config(root, false, out);
}

static lt_status read_remote(const lt_json_scope *root, lt_model_config *out)
{
    return lt_intern_read_config(root, true, out);
}

const lt_family lt_family_internvl = {.model_type = "internvl",
                                      .read = read_library,
                                      .build = build,
                                      .head_name = "lm_head.weight",
                                      .old_head_name = "language_model.lm_head.weight"};
const lt_family lt_family_internvl_chat = {.model_type = "internvl_chat",
                                           .read = read_remote,
                                           .build = build,
                                           .head_name = "language_model.lm_head.weight"};
