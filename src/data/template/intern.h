// SPDX-License-Identifier: Apache-2.0
// InternVL3.5's own conversation form (internvl2_5 in its repository): ids and labels.
#ifndef LT_DATA_TEMPLATE_INTERN_H
#define LT_DATA_TEMPLATE_INTERN_H

#include "data/template/template.h"

/** Who speaks in an entry of `conversations`. */
typedef enum lt_intern_role { LT_INTERN_SYSTEM, LT_INTERN_HUMAN, LT_INTERN_GPT } lt_intern_role;

typedef struct lt_intern_turn {
    lt_intern_role role;
    lt_span text;
} lt_intern_turn;

typedef struct lt_intern_opts {
    const lt_tokenizer *tokenizer;
    int32_t image_start, image_context, image_end; /* <img>, <IMG_CONTEXT>, </img> */
    int64_t max_length;                            /* what is longer loses its end */
    const char *tag;                               /* of an image; NULL: <image> */
} lt_intern_opts;

/** InternVL's own sentence about itself: the system text of a record that has none. */
extern const char lt_intern_system[];

/**
 * A leading system entry, else InternVL's own sentence; then each turn as a segment that is
 * tokenised by itself. Labels: the answers without their head (three ids of the real vocabulary)
 * and without the newline at their end.
 * source   InternVL's preprocess_internvl2_5; spec data-pipeline 9.4
 * in       n_tokens [n_images]: <IMG_CONTEXT> tokens of each image, 256 a tile
 * out      ids, labels: int32_t appended, not more than max_length; *full_len (may be NULL): how
 *          many there were before the cut
 * errors   LT_ERR_DATA: fewer <image> tags in what people say than images, a system entry that is
 *          not the first, a cut through the images of a record with several
 */
LT_NODISCARD lt_status lt_intern_encode(const lt_intern_opts *opts, const lt_intern_turn *turns,
                                        int64_t n_turns, const int64_t *n_tokens, int64_t n_images,
                                        lt_vec *ids, lt_vec *labels, int64_t *full_len);
#endif
