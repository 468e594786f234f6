// SPDX-License-Identifier: Apache-2.0
// What the demo's files share: a scene, its drawing, the words of its questions. Internal to
// shapes*.c.
#ifndef LT_DATA_SHAPES_PARTS_H
#define LT_DATA_SHAPES_PARTS_H

#include "base/rng.h"
#include "base/text.h"
#include "data/image/image.h"

enum { LT_SHAPES_CELLS = 4, LT_SHAPES_CELL_PX = 32, LT_SHAPES_SIDE = 64 };

typedef enum lt_shape { LT_SHAPE_CIRCLE, LT_SHAPE_SQUARE, LT_SHAPE_TRIANGLE, LT_N_SHAPES } lt_shape;
typedef enum lt_shade {
    LT_SHADE_RED,
    LT_SHADE_GREEN,
    LT_SHADE_BLUE,
    LT_SHADE_YELLOW,
    LT_SHADE_PURPLE,
    LT_SHADE_BLACK,
    LT_N_SHADES
} lt_shade;
extern const char *const lt_shape_names[LT_N_SHAPES];
extern const char *const lt_shade_names[LT_N_SHADES];
extern const char *const lt_cell_names[LT_SHAPES_CELLS]; // row by row

typedef struct lt_scene_cell {
    bool full;
    lt_shape shape;
    lt_shade shade;
} lt_scene_cell;

/** Two by two cells, each empty or with a shape; no two shapes of one colour. */
typedef struct lt_scene {
    lt_scene_cell cell[LT_SHAPES_CELLS];
} lt_scene;

/** 0 .. n-1 */
static inline int lt_scene_pick(lt_mt19937 *g, int n)
{
    return (int)(lt_mt19937_next(g) % (uint32_t)n);
}

/** px [64, 64, 3] */
void lt_scene_draw(const lt_scene *scene, lt_mt19937 *g, uint8_t *px);

typedef struct lt_scene_question {
    char ask[64], answer[160];
} lt_scene_question;

/** Kinds of short questions, each about one cell (the count: about all). */
typedef enum lt_scene_kind {
    LT_ASK_COLOUR,
    LT_ASK_SHAPE,
    LT_ASK_PLACE,
    LT_ASK_CELL,
    LT_ASK_COUNT,
    LT_N_ASKS
} lt_scene_kind;
/** False when this kind of question has no answer for the cell. */
bool lt_scene_ask(const lt_scene *scene, lt_scene_kind kind, int cell, lt_scene_question *out);
/** All of a scene in one answer: corner by corner, or shape by shape in random order. */
void lt_scene_describe(const lt_scene *scene, bool corners, lt_mt19937 *g, lt_scene_question *out);
/** Cells in random order. */
void lt_scene_shuffle(lt_mt19937 *g, int cells[LT_SHAPES_CELLS]);

/**
 * tokenizer.json for texts made of `words` (with their leading blank), and the id of each added
 * token.
 */
typedef struct lt_shapes_ids {
    int64_t vocab, end_of_text, im_start, im_end, vision_start, vision_end, image_pad, video_pad,
        tile_token; // InternVL's <IMG_CONTEXT>
} lt_shapes_ids;
LT_NODISCARD lt_status lt_shapes_tokenizer(lt_buf *tokenizer_json, lt_buf *config_json,
                                           lt_shapes_ids *ids);
#endif
