// SPDX-License-Identifier: Apache-2.0
// InternViT and the projector behind it: the tower of the InternVL families.
#ifndef LT_MODEL_INTERN_VIT_H
#define LT_MODEL_INTERN_VIT_H

#include "model/assemble.h"

/**
 * Where the parts of an InternVL model are in a checkpoint. Each has its place by name, and, unless
 * NULL, an older one by which saved folders may know it.
 */
typedef struct lt_intern_names {
    const char *tower, *old_tower; /* "model.vision_tower", "vision_tower" */
    const char *projector, *old_projector;
    const char *text, *old_text; /* "model.language_model", "language_model.model" */
    const char *head, *old_head;
} lt_intern_names;

/** The kind's parameters below `prefix`, each also known below old_prefix (NULL: not). */
void lt_intern_params(lt_assembly *a, const char *prefix, const char *old_prefix,
                      const lt_block_kind *kind, double std);

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
