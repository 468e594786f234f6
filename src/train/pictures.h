// SPDX-License-Identifier: Apache-2.0
// How a model's pictures are read: its collate options, from the model, its folder, the template
// and the settings of a data section.
#ifndef LT_TRAIN_PICTURES_H
#define LT_TRAIN_PICTURES_H

#include "base/log.h"
#include "data/collate.h"
#include "data/dataset/encode.h"
#include "model/model.h"
#include "train/config/config.h"

/**
 * in       folder: the model's, with its processor's file; section: settings of the data, NULL: all
 *          defaults
 * errors   LT_ERR_CONFIG: a template of another family, a processor of another model; of
 *          lt_image_processor_open
 */
LT_NODISCARD lt_status lt_pictures_open(const lt_model *model, const lt_template *chat,
                                        const char *folder, const lt_cfg_dataset *section,
                                        const lt_log *log, lt_collate_opts *out);
/**
 * The template's tokens and the model's must be the same ones; a model that leaves a token to the
 * tokenizer gets it here.
 * errors   LT_ERR_CONFIG
 */
LT_NODISCARD lt_status lt_pictures_ids(const lt_model *model, const lt_template *chat,
                                       const lt_template_ids *ids, lt_collate_opts *out);
/** lt_picture_grid as an lt_grid_fn: ctx is an lt_collate_opts. */
lt_status lt_pictures_grid(void *collate_opts, const char *path, int64_t n_images, lt_grid *out);
/**
 * What a checkpoint's config.json has to say otherwise, so that its model is served with the tiles
 * that it was trained with: lt_hf_edit appended, texts are the arena's.
 */
LT_NODISCARD lt_status lt_pictures_edits(const lt_model *model, const lt_cfg_dataset *section,
                                         lt_arena *arena, lt_vec *edits);
/** "budget 1024 to 262144 pixels, ..." or "1 to 12 tiles of 448 x 448, ...". */
LT_NODISCARD lt_status lt_pictures_print(const lt_collate_opts *o, lt_buf *out);
/** The template that a model's own form of conversation is: "qwen3_vl_nothink", "internvl2_5". */
const char *lt_pictures_template(const lt_model *model);
#endif
