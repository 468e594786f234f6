// SPDX-License-Identifier: Apache-2.0
// The Qwen decoders with their kinds of layers and their head, and the models with a Qwen tower.
// Internal to src/model.
#ifndef LT_MODEL_QWEN_DECODER_H
#define LT_MODEL_QWEN_DECODER_H

#include "model/vision.h"

/**
 * Where a decoder is in a checkpoint, and, unless NULL, the older names by which saved folders may
 * know it.
 */
typedef struct lt_decoder_names {
    const char *text, *old_text; /* "model.language_model", "language_model.model" */
    const char *head, *old_head; /* "lm_head", "language_model.lm_head" */
} lt_decoder_names;

enum { LT_DECODER_LAYER_KINDS = 16 };

/** A decoder under construction: kinds of layers are made when they are first met. */
typedef struct lt_decoder {
    lt_assembly *a;
    const lt_text_config *c;
    const lt_decoder_names *names;
    const lt_block_kind *rope, *embed, *norm, *loss, *logits, *layer[LT_DECODER_LAYER_KINDS];
    lt_edge table, last; /* the rotary table, and what the last norm gives: set by its blocks */
} lt_decoder;

/** names must outlive the construction. */
lt_decoder lt_decoder_begin(lt_assembly *a, const lt_decoder_names *names);
/** Embedding, layers, norm and head, where the model is not tied. */
void lt_decoder_params(lt_decoder *d);
/**
 * Its blocks, after the tower's; sets loss_block, logits_block, balance_block, embed_param and
 * head_param. Which layers have routed experts follows from the config.
 */
void lt_decoder_blocks(lt_decoder *d, const lt_tower *tower);

/**
 * A layer with attention, and with experts where the model has them; it reads no table of theirs.
 */
const lt_block_kind *lt_decoder_full_layer(lt_decoder *d);

/** The kind's parameters below `prefix`, each also known below old_prefix (NULL: not). */
void lt_assemble_known_as(lt_assembly *a, const char *prefix, const char *old_prefix,
                          const lt_block_kind *kind, double std);

/**
 * All of a Qwen3-VL or Qwen3.5 model: a lt_family's `build`. Which layers have routed experts, or
 * linear attention, follows from the config.
 *
 * source   spec/models.md 3.1, 3.2, 5.3 to 5.6
 */
void lt_qwen_vl_build(lt_assembly *a);
#endif
