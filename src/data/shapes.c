// SPDX-License-Identifier: Apache-2.0
// The demo's data set: scenes, their files, their questions.
#include "data/shapes.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "data/image/encode.h"
#include "data/shapes_parts.h"

enum {
    MAX_PICTURES = 1000000,
    MAX_TURNS = 5,    // four cells and the count
    DESCRIBE_OF = 10, // of so many pictures to learn from,
    CORNERS = 2,      // so many are described corner by corner,
    SHAPES = 2,       // and so many shape by shape
    HELD_OUT_OF = 8,  // one layout in eight is kept apart
    JPEG_EVERY = 4,
    JPEG_QUALITY = 92,
    N_ANSWERS = 64, // different ones that are counted
};

/** How often an answer came. */
typedef struct tally {
    char answer[N_ANSWERS][160];
    int64_t n[N_ANSWERS];
    int used;
} tally;

/** One of the two sets while it is made. */
typedef struct part {
    const char *name; // "train", "held_out"
    bool held_out;
    int64_t n_pictures, n_questions;
    int turns;
    json_t *rows;
    tally answers;
} part;

lt_shapes_opts lt_shapes_opts_default(void)
{
    return (lt_shapes_opts){
        .n_train = 10000, .n_held_out = 200, .turns = 4, .seed = 1, .family = "qwen3_vl"};
}

// ---------------------------------------------------------------- scenes

static lt_scene random_scene(lt_mt19937 *g)
{
    lt_scene s = {0};
    int shades[LT_N_SHADES], places[LT_SHAPES_CELLS];
    for (int i = 0; i < LT_N_SHADES; i++)
        shades[i] = i;
    for (int i = 0; i < LT_SHAPES_CELLS; i++)
        places[i] = i;
    const int n = 1 + lt_scene_pick(g, LT_SHAPES_CELLS);
    for (int i = 0; i < n; i++) { // colours and places are dealt out, so neither comes twice
        const int k = i + lt_scene_pick(g, LT_N_SHADES - i),
                  p = i + lt_scene_pick(g, LT_SHAPES_CELLS - i);
        const int shade = shades[k], place = places[p];
        shades[k] = shades[i];
        places[p] = places[i];
        s.cell[place] =
            (lt_scene_cell){true, (lt_shape)lt_scene_pick(g, LT_N_SHAPES), (lt_shade)shade};
    }
    return s;
}

/** Which set a layout belongs to depends on the layout alone. */
static bool is_held_out(const lt_scene *s)
{
    uint64_t code = 0;
    for (int i = 0; i < LT_SHAPES_CELLS; i++) {
        code =
            code * 19 +
            (s->cell[i].full ? 1 + (uint64_t)s->cell[i].shape * LT_N_SHADES + s->cell[i].shade : 0);
    }
    uint32_t word[4];
    lt_philox(0x5348415045ULL, 0, code, word);
    return word[0] % HELD_OUT_OF == 0;
}

static lt_status write_file(const char *path, const lt_buf *bytes)
{
    FILE *f = fopen(
        path, "wb"); // without an fsync each: there are thousands, and they can be drawn again
    if (f == NULL)
        return LT_FAIL(LT_ERR_IO, "cannot create %s: %s", path, lt_errno_text(errno));
    const bool put = fwrite(bytes->data, 1, bytes->len, f) == bytes->len;
    if (fclose(f) != 0 || !put)
        return LT_FAIL(LT_ERR_IO, "cannot write %zu bytes to %s: %s", bytes->len, path,
                       lt_errno_text(errno));
    return LT_OK;
}

static lt_status draw(const lt_scene *scene, lt_mt19937 *g, const char *path, bool jpeg,
                      lt_buf *bytes)
{
    uint8_t px[LT_SHAPES_SIDE * LT_SHAPES_SIDE * 3];
    const lt_image image = {.px = px, .h = LT_SHAPES_SIDE, .w = LT_SHAPES_SIDE};
    lt_scene_draw(scene, g, px);
    lt_buf_clear(bytes);
    LT_TRY(jpeg ? lt_jpeg_encode(&image, JPEG_QUALITY, bytes) : lt_png_encode(&image, bytes));
    return write_file(path, bytes);
}

// ---------------------------------------------------------------- questions

static void count_answer(tally *t, const char *answer)
{
    int i = 0;
    while (i < t->used && strcmp(t->answer[i], answer) != 0)
        i++;
    if (i == N_ANSWERS)
        return;
    if (i == t->used)
        (void)snprintf(t->answer[t->used++], sizeof t->answer[0], "%s", answer);
    t->n[i]++;
}

/**
 * Short questions, each about another cell, and the count at most once: so no answer can be copied
 * from an earlier one. Places are asked for most often, since they are the hardest to learn.
 */
static int ask_some(const lt_scene *scene, lt_mt19937 *g, int want, lt_scene_question *out)
{
    static const lt_scene_kind lots[] = {LT_ASK_COLOUR, LT_ASK_SHAPE, LT_ASK_SHAPE, LT_ASK_PLACE,
                                         LT_ASK_PLACE,  LT_ASK_PLACE, LT_ASK_PLACE, LT_ASK_PLACE,
                                         LT_ASK_CELL,   LT_ASK_COUNT};
    int cells[LT_SHAPES_CELLS], n = 0;
    bool counted = false;
    lt_scene_shuffle(g, cells);
    for (int i = 0; i < LT_SHAPES_CELLS && n < want;) {
        const lt_scene_kind kind = lots[lt_scene_pick(g, sizeof lots / sizeof lots[0])];
        if (kind == LT_ASK_COUNT) {
            n += !counted && lt_scene_ask(scene, kind, 0, &out[n]);
            counted = true;
        } else {
            n += lt_scene_ask(scene, scene->cell[cells[i]].full ? kind : LT_ASK_CELL, cells[i],
                              &out[n]);
            i++;
        }
    }
    return n;
}

/** One question of the kind whose turn it is: all kinds come equally often among those held out. */
static int ask_one(const lt_scene *scene, lt_mt19937 *g, int64_t index, lt_scene_question *out)
{
    while (!lt_scene_ask(scene, (lt_scene_kind)(index % LT_N_ASKS),
                         lt_scene_pick(g, LT_SHAPES_CELLS), out))
        ; // an empty cell
    return 1;
}

static json_t *turn(const char *role, const char *content)
{
    return json_pack("{s:s, s:s}", "role", role, "content", content);
}

/** What a picture is asked: held out, one short question; else a description or some questions. */
static int choose_questions(const part *p, const lt_scene *scene, lt_mt19937 *g, int64_t index,
                            lt_scene_question *out)
{
    if (p->held_out)
        return ask_one(scene, g, index, out);
    const int64_t k = index % DESCRIBE_OF;
    if (k >= CORNERS + SHAPES)
        return ask_some(scene, g, p->turns, out);
    lt_scene_describe(scene, k < CORNERS, g, out);
    return 1;
}

static lt_status add_row(part *p, const lt_scene *scene, lt_mt19937 *g, int64_t index,
                         const char *image)
{
    lt_scene_question asked[MAX_TURNS];
    json_t *messages = json_array();
    const int n = choose_questions(p, scene, g, index, asked);
    for (int i = 0; i < n; i++) {
        char text[16 + sizeof asked[0].ask];
        (void)snprintf(text, sizeof text, "%s%.*s", i == 0 ? "<image>\n" : "",
                       (int)sizeof asked[i].ask, asked[i].ask);
        json_array_append_new(messages, turn("user", text));
        json_array_append_new(messages, turn("assistant", asked[i].answer));
        count_answer(&p->answers, asked[i].answer);
        p->n_questions++;
    }
    json_t *row = json_pack("{s:o, s:[s]}", "messages", messages, "images", image);
    if (row == NULL || json_array_append_new(p->rows, row) != 0)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: questions of %s", image);
    return LT_OK;
}

// ---------------------------------------------------------------- files

static int put_text(const char *text, size_t n, void *ctx)
{
    return lt_buf_append(ctx, text, n) == LT_OK ? 0 : -1;
}

static lt_status write_json(const char *path, const json_t *value)
{
    lt_buf bytes = {0};
    lt_status st = LT_OK;
    if (json_dump_callback(value, put_text, &bytes, JSON_INDENT(1)) != 0)
        st = LT_FAIL(LT_ERR_MEMORY, "out of memory: writing %s", path);
    if (st == LT_OK)
        st = lt_buf_text(&bytes, "\n");
    if (st == LT_OK)
        st = write_file(path, &bytes);
    lt_buf_deinit(&bytes);
    return st;
}

static lt_status write_pictures(part *p, const char *dir, lt_mt19937 *g, lt_arena *arena,
                                lt_buf *bytes)
{
    for (int64_t i = 0; i < p->n_pictures; i++) {
        char *image = NULL, *path = NULL;
        const bool jpeg = i % JPEG_EVERY == JPEG_EVERY - 1;
        lt_scene scene;
        do
            scene = random_scene(g);
        while (is_held_out(&scene) != p->held_out);
        lt_arena_reset(arena);
        LT_TRY(lt_arena_printf(arena, &image, "images/%s_%05lld.%s", p->name, (long long)i,
                               jpeg ? "jpg" : "png"));
        LT_TRY(lt_path_join(arena, dir, image, &path));
        LT_TRY(draw(&scene, g, path, jpeg, bytes));
        LT_TRY(add_row(p, &scene, g, i, image));
    }
    return LT_OK;
}

/** One set: its pictures, then its list. */
static lt_status write_part(part *p, const lt_shapes_opts *o, lt_arena *arena, lt_buf *bytes)
{
    lt_mt19937 g;
    char *name = NULL, *path = NULL;
    lt_mt19937_seed(&g, lt_rng_key(o->seed, p->name));
    p->rows = json_array();
    if (p->rows == NULL)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: questions");
    LT_TRY(write_pictures(p, o->dir, &g, arena, bytes));
    lt_arena_reset(arena);
    LT_TRY(lt_arena_printf(arena, &name, "%s.json", p->name));
    LT_TRY(lt_path_join(arena, o->dir, name, &path));
    return write_json(path, p->rows);
}

static void report(const part *train, const part *held_out, lt_shapes_report *out)
{
    const tally *t = &held_out->answers;
    *out = (lt_shapes_report){.n_questions = train->n_questions,
                              .n_held_out_questions = held_out->n_questions};
    for (int i = 0; i < t->used; i++) {
        const double share = (double)t->n[i] / (double)held_out->n_questions;
        if (share <= out->commonest)
            continue;
        out->commonest = share;
        (void)snprintf(out->commonest_answer, sizeof out->commonest_answer, "%.31s", t->answer[i]);
    }
}

static lt_status write_all(const lt_shapes_opts *o, const lt_log *log, part *train, part *held_out,
                           lt_arena *arena, lt_buf *bytes, lt_shapes_report *out)
{
    char *images = NULL, *model = NULL;
    LT_TRY(lt_path_join(arena, o->dir, "images", &images));
    LT_TRY(lt_path_join(arena, o->dir, "model", &model));
    LT_TRY(lt_dir_make(images));
    LT_TRY(lt_dir_make(model));
    LT_TRY(lt_shapes_write_model(model, o->family));
    LT_TRY(write_part(train, o, arena, bytes));
    LT_TRY(write_part(held_out, o, arena, bytes));
    report(train, held_out, out);
    LT_INFO(log, "data",
            "%s: %lld pictures with %lld questions, %lld held out with %lld; commonest held-out "
            "answer \"%s\", %.1f %%",
            o->dir, (long long)o->n_train, (long long)out->n_questions, (long long)o->n_held_out,
            (long long)out->n_held_out_questions, out->commonest_answer, out->commonest * 100.0);
    return LT_OK;
}

lt_status lt_shapes_write(const lt_shapes_opts *opts, const lt_log *log, lt_shapes_report *out)
{
    lt_arena *arena = NULL;
    lt_buf bytes = {0};
    lt_shapes_report unused;
    part train = {.name = "train", .n_pictures = opts->n_train, .turns = opts->turns};
    part held_out = {
        .name = "held_out", .held_out = true, .n_pictures = opts->n_held_out, .turns = 1};
    if (opts->n_train < 1 || opts->n_held_out < 1 || opts->n_train > MAX_PICTURES ||
        opts->n_held_out > MAX_PICTURES || opts->turns < 1 || opts->turns > MAX_TURNS) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "shapes: pictures must be 1 to %d, questions a picture 1 to %d",
                       MAX_PICTURES, MAX_TURNS);
    }
    LT_TRY(lt_arena_create(&arena, "shapes"));
    const lt_status st =
        write_all(opts, log, &train, &held_out, arena, &bytes, out != NULL ? out : &unused);
    json_decref(train.rows);
    json_decref(held_out.rows);
    lt_buf_deinit(&bytes);
    lt_arena_destroy(arena);
    return st;
}
