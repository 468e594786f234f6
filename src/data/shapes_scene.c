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

enum { JITTER = 12, SMALLEST = 9, LARGEST = 13 };

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

void lt_scene_draw(const lt_scene *scene, lt_mt19937 *g, uint8_t *px)
{
    const uint8_t ground = (uint8_t)(225 + lt_scene_pick(g, 31));
    memset(px, ground, sizeof(uint8_t[LT_SHAPES_SIDE * LT_SHAPES_SIDE * 3]));
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        if (scene->cell[i].full)
            draw_shape(&scene->cell[i], i % 2 * LT_SHAPES_CELL_PX, i / 2 * LT_SHAPES_CELL_PX, g,
                       px);
    }
}

// ---------------------------------------------------------------- asking

static int count_shape(const lt_scene *s, lt_shape shape)
{
    int n = 0;
    for (int i = 0; i < LT_SHAPES_CELLS; i++)
        n += s->cell[i].full && s->cell[i].shape == shape;
    return n;
}

/** A full cell, any of them. */
static int pick_full(const lt_scene *s, lt_mt19937 *g)
{
    int i;
    do
        i = lt_scene_pick(g, LT_SHAPES_CELLS);
    while (!s->cell[i].full);
    return i;
}

static bool ask_colour(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    const lt_scene_cell *c = &s->cell[pick_full(s, g)];
    (void)snprintf(q->ask, sizeof q->ask, "What colour is the %s?", lt_shape_names[c->shape]);
    (void)snprintf(q->answer, sizeof q->answer, "%s", lt_shade_names[c->shade]);
    return count_shape(s, c->shape) == 1;
}

static bool ask_shape(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    const lt_scene_cell *c = &s->cell[pick_full(s, g)];
    (void)snprintf(q->ask, sizeof q->ask, "What shape is %s?", lt_shade_names[c->shade]);
    (void)snprintf(q->answer, sizeof q->answer, "%s", lt_shape_names[c->shape]);
    return true;
}

static bool ask_place(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    const int i = pick_full(s, g);
    (void)snprintf(q->ask, sizeof q->ask, "Where is the %s %s?", lt_shade_names[s->cell[i].shade],
                   lt_shape_names[s->cell[i].shape]);
    (void)snprintf(q->answer, sizeof q->answer, "%s", lt_cell_names[i]);
    return true;
}

static bool ask_all(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    int n = 0;
    (void)g;
    for (int i = 0; i < LT_SHAPES_CELLS; i++)
        n += s->cell[i].full;
    (void)snprintf(q->ask, sizeof q->ask, "How many shapes are there?");
    (void)snprintf(q->answer, sizeof q->answer, "%d", n);
    return true;
}

static bool ask_count(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    const lt_shape shape = (lt_shape)lt_scene_pick(g, LT_N_SHAPES);
    (void)snprintf(q->ask, sizeof q->ask, "How many %ss are there?", lt_shape_names[shape]);
    (void)snprintf(q->answer, sizeof q->answer, "%d", count_shape(s, shape));
    return true;
}

static bool ask_cell(const lt_scene *s, lt_mt19937 *g, lt_scene_question *q)
{
    const int i = lt_scene_pick(g, LT_SHAPES_CELLS);
    const lt_scene_cell *c = &s->cell[i];
    (void)snprintf(q->ask, sizeof q->ask, "What is at the %s?", lt_cell_names[i]);
    if (c->full) {
        (void)snprintf(q->answer, sizeof q->answer, "%s %s", lt_shade_names[c->shade],
                       lt_shape_names[c->shape]);
    } else {
        (void)snprintf(q->answer, sizeof q->answer, "nothing");
    }
    return true;
}

bool lt_scene_ask(const lt_scene *scene, int kind, lt_mt19937 *g, lt_scene_question *out)
{
    static bool (*const kinds[LT_SCENE_KINDS])(const lt_scene *, lt_mt19937 *,
                                               lt_scene_question *) = {
        ask_colour, ask_shape, ask_place, ask_all, ask_count, ask_cell};
    return kinds[kind](scene, g, out);
}
