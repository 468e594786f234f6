// SPDX-License-Identifier: Apache-2.0
// Scenes of the demo: drawing them, and asking about them.
#include <stdio.h>
#include <string.h>

#include "data/shapes_parts.h"

const char *const lt_shape_names[LT_N_SHAPES] = {"circle", "square", "triangle"};
const char *const lt_shade_names[LT_N_SHADES] = {"red",    "green",  "blue",
                                                 "yellow", "purple", "black"};
const char *const lt_cell_names[LT_SHAPES_CELLS] = {"top left", "top right", "bottom left",
                                                    "bottom right"};

static const uint8_t shades[LT_N_SHADES][3] = {{215, 45, 45},  {45, 165, 70},  {55, 90, 220},
                                               {240, 205, 50}, {150, 65, 185}, {30, 30, 30}};

enum {
    JITTER = 12, // of a shape's colour
    SMALLEST = 9,
    LARGEST = 13,
    GROUND = 248,
    GROUND_SLOPE = 90,
    GROUND_JITTER = 6,
    FRAME = 2, // its width
    FRAME_GREY = 40,
};

// ---------------------------------------------------------------- drawing

static uint8_t shifted(int v, lt_mt19937 *g)
{
    v += lt_scene_pick(g, 2 * JITTER + 1) - JITTER;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/** Whether (x, y) from the center lies in the shape of radius r. */
static bool inside(lt_shape shape, int x, int y, int r)
{
    switch (shape) {
    case LT_SHAPE_CIRCLE:
        return x * x + y * y <= r * r;
    case LT_SHAPE_SQUARE:
        return 8 * (x < 0 ? -x : x) <= 7 * r && 8 * (y < 0 ? -y : y) <= 7 * r;
    case LT_SHAPE_TRIANGLE: // apex at the top, as wide as high at the bottom
        return y >= -r && y <= r && 2 * (x < 0 ? -x : x) <= y + r;
    case LT_N_SHAPES:
        break;
    }
    return false;
}

static void draw_shape(const lt_scene_cell *c, int left, int top, lt_mt19937 *g, uint8_t *px)
{
    const int r = SMALLEST + lt_scene_pick(g, LARGEST - SMALLEST + 1),
              room = LT_SHAPES_CELL_PX / 2 - 1 - r;
    const int cx = left + LT_SHAPES_CELL_PX / 2 + lt_scene_pick(g, 2 * room + 1) - room;
    const int cy = top + LT_SHAPES_CELL_PX / 2 + lt_scene_pick(g, 2 * room + 1) - room;
    uint8_t colour[3];
    for (int i = 0; i < 3; i++)
        colour[i] = shifted(shades[c->shade][i], g);
    for (int y = cy - r; y <= cy + r; y++) {
        for (int x = cx - r; x <= cx + r; x++)
            if (inside(c->shape, x - cx, y - cy, r))
                memcpy(px + ((ptrdiff_t)y * LT_SHAPES_SIDE + x) * 3, colour, 3);
    }
}

/**
 * The ground grows redder to the right and bluer downwards and has a frame, so that every patch
 * shows where it lies: a tower that starts from random weights hardly sees its small position
 * table.
 */
static void draw_ground(lt_mt19937 *g, uint8_t *px)
{
    int shift[3];
    for (int i = 0; i < 3; i++)
        shift[i] = lt_scene_pick(g, 2 * GROUND_JITTER + 1) - GROUND_JITTER;
    for (int i = 0; i < LT_SHAPES_SIDE * LT_SHAPES_SIDE; i++, px += 3) {
        const int x = i % LT_SHAPES_SIDE, y = i / LT_SHAPES_SIDE;
        if (x < FRAME || y < FRAME || x >= LT_SHAPES_SIDE - FRAME || y >= LT_SHAPES_SIDE - FRAME) {
            memset(px, FRAME_GREY, 3);
            continue;
        }
        px[0] =
            (uint8_t)(GROUND - GROUND_SLOPE + GROUND_SLOPE * x / (LT_SHAPES_SIDE - 1) + shift[0]);
        px[1] = (uint8_t)(GROUND - GROUND_JITTER + shift[1]);
        px[2] =
            (uint8_t)(GROUND - GROUND_SLOPE + GROUND_SLOPE * y / (LT_SHAPES_SIDE - 1) + shift[2]);
    }
}

void lt_scene_draw(const lt_scene *scene, lt_mt19937 *g, uint8_t *px)
{
    draw_ground(g, px);
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        const int left = i % 2 * LT_SHAPES_CELL_PX, top = i / 2 * LT_SHAPES_CELL_PX;
        if (scene->cell[i].full)
            draw_shape(&scene->cell[i], left, top, g, px);
    }
}

// ---------------------------------------------------------------- asking

void lt_scene_shuffle(lt_mt19937 *g, int cells[LT_SHAPES_CELLS])
{
    for (int i = 0; i < LT_SHAPES_CELLS; i++)
        cells[i] = i;
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        const int k = i + lt_scene_pick(g, LT_SHAPES_CELLS - i), cell = cells[k];
        cells[k] = cells[i];
        cells[i] = cell;
    }
}

static bool ask_colour(const lt_scene *s, int cell, lt_scene_question *q)
{
    const lt_scene_cell *c = &s->cell[cell];
    (void)snprintf(q->ask, sizeof q->ask, "What colour is the shape at the %s?",
                   lt_cell_names[cell]);
    (void)snprintf(q->answer, sizeof q->answer, "%s", lt_shade_names[c->shade]);
    return c->full;
}

static bool ask_shape(const lt_scene *s, int cell, lt_scene_question *q)
{
    const lt_scene_cell *c = &s->cell[cell];
    (void)snprintf(q->ask, sizeof q->ask, "What shape is %s?", lt_shade_names[c->shade]);
    (void)snprintf(q->answer, sizeof q->answer, "%s", lt_shape_names[c->shape]);
    return c->full;
}

static bool ask_place(const lt_scene *s, int cell, lt_scene_question *q)
{
    const lt_scene_cell *c = &s->cell[cell];
    (void)snprintf(q->ask, sizeof q->ask, "Where is the %s shape?", lt_shade_names[c->shade]);
    (void)snprintf(q->answer, sizeof q->answer, "%s", lt_cell_names[cell]);
    return c->full;
}

/** "red circle", or "nothing". */
static size_t put_cell(const lt_scene_cell *c, char *out, size_t room)
{
    const int n =
        c->full ? snprintf(out, room, "%s %s", lt_shade_names[c->shade], lt_shape_names[c->shape])
                : snprintf(out, room, "nothing");
    LT_ASSERT(n > 0 && (size_t)n < room);
    return (size_t)n;
}

static bool ask_cell(const lt_scene *s, int cell, lt_scene_question *q)
{
    (void)snprintf(q->ask, sizeof q->ask, "What is at the %s?", lt_cell_names[cell]);
    (void)put_cell(&s->cell[cell], q->answer, sizeof q->answer);
    return true;
}

static bool ask_count(const lt_scene *s, int cell, lt_scene_question *q)
{
    int n = 0;
    (void)cell;
    for (int i = 0; i < LT_SHAPES_CELLS; i++)
        n += s->cell[i].full;
    (void)snprintf(q->ask, sizeof q->ask, "How many shapes are there?");
    (void)snprintf(q->answer, sizeof q->answer, "%d", n);
    return true;
}

bool lt_scene_ask(const lt_scene *scene, lt_scene_kind kind, int cell, lt_scene_question *out)
{
    static bool (*const kinds[LT_N_ASKS])(const lt_scene *, int,
                                          lt_scene_question *) = {[LT_ASK_COLOUR] = ask_colour,
                                                                  [LT_ASK_SHAPE] = ask_shape,
                                                                  [LT_ASK_PLACE] = ask_place,
                                                                  [LT_ASK_CELL] = ask_cell,
                                                                  [LT_ASK_COUNT] = ask_count};
    return kinds[kind](scene, cell, out);
}

/** Row by row. */
static void describe_corners(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    size_t n = 0;
    (void)g;
    (void)snprintf(q->ask, sizeof q->ask, "What is in each corner?");
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        if (i > 0)
            n += (size_t)snprintf(q->answer + n, sizeof q->answer - n, ", ");
        n += put_cell(&s->cell[i], q->answer + n, sizeof q->answer - n);
    }
}

/**
 * Each shape with its place, in random order: after the colour all that follows has to be looked
 * up, by colour, as for the questions that name one.
 */
static void describe_shapes(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    int cells[LT_SHAPES_CELLS];
    size_t n = 0;
    lt_scene_shuffle(g, cells);
    (void)snprintf(q->ask, sizeof q->ask, "What do you see?");
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        const lt_scene_cell *c = &s->cell[cells[i]];
        if (!c->full)
            continue;
        if (n > 0)
            n += (size_t)snprintf(q->answer + n, sizeof q->answer - n, ", ");
        n += put_cell(c, q->answer + n, sizeof q->answer - n);
        n += (size_t)snprintf(q->answer + n, sizeof q->answer - n, " at the %s",
                              lt_cell_names[cells[i]]);
        LT_ASSERT(n < sizeof q->answer);
    }
}

void lt_scene_describe(const lt_scene *scene, bool corners, lt_mt19937 *g, lt_scene_question *out)
{
    (corners ? describe_corners : describe_shapes)(scene, g, out);
}
