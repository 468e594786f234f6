// SPDX-License-Identifier: Apache-2.0
// InternViT and the projector behind it: the tower of the InternVL families.
#ifndef LT_MODEL_INTERN_VIT_H
#define LT_MODEL_INTERN_VIT_H

#include "model/qwen_decoder.h"

/** Where tower and projector are in a checkpoint; `old` as in lt_decoder_names. */
typedef struct lt_intern_names {
    const char *tower, *old_tower; /* "model.vision_tower", "vision_tower" */
    const char *projector, *old_projector;
    lt_decoder_names decoder;
} lt_intern_names;

typedef struct lt_intern_tower {
    const lt_block_kind *patches, *rows, *block, *norm, *projector;
} lt_intern_tower;

/** source: spec/models.md 3.4, 3.5, 5.2. c lives in the model */
lt_intern_tower lt_intern_tower_kinds(lt_assembly *a, const lt_vision_config *c);
void lt_intern_tower_params(lt_assembly *a, const lt_vision_config *c, const lt_intern_names *names,
                            const lt_intern_tower *kinds);
/** The projector's, which the remote code keeps behind the decoder's. */
void lt_intern_projector_params(lt_assembly *a, const lt_vision_config *c,
                                const lt_intern_names *names, const lt_intern_tower *kinds);
/** [M, H]: what replaces the embedding rows. */
lt_edge lt_intern_tower_blocks(lt_assembly *a, const lt_vision_config *c,
                               const lt_intern_names *names, const lt_intern_tower *kinds);
#endif
