// SPDX-License-Identifier: Apache-2.0
// The vision tower of the Qwen families: patches, blocks, the merger, and deepstack mergers on the
// way.
#ifndef LT_MODEL_VISION_H
#define LT_MODEL_VISION_H

#include "model/assemble.h"

typedef struct lt_tower {
    lt_edge merged; /* [M, out_hidden]: what replaces the embedding rows */
    lt_edge deepstack
        [LT_MAX_DEEPSTACK]; /* [M, out_hidden] each, for the output of decoder layer 0, 1, ... */
    int32_t n_deepstack;
} lt_tower;

/**
 * Parameters and blocks of a whole tower.
 *
 * source   spec/models.md 3.1, 5.1
 * in       c lives in the model; prefix "model.visual"; n_read: how many deepstack features
 *          somebody reads. Mergers beyond that have their parameters (a checkpoint stores them) and
 *          no block
 */
lt_tower lt_assemble_tower(lt_assembly *a, const lt_vision_config *c, const char *prefix,
                           int32_t n_read);
#endif
