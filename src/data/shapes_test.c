// SPDX-License-Identifier: Apache-2.0
// The demo's files: the same bytes for the same seed, sets apart, true answers, a tokenizer that
// works.
#include "data/shapes.h"

#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "data/image/encode.h"
#include "data/shapes_parts.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/kit/lt_test.h"

static const char *make(void *state, int64_t n_train, int64_t n_held_out, uint64_t seed,
                        lt_shapes_report *report)
{
    lt_shapes_opts o = lt_shapes_opts_default();
    o.dir = lt_test_dir(state);
    o.n_train = n_train;
    o.n_held_out = n_held_out;
    o.seed = seed;
    assert_ok(lt_shapes_write(&o, NULL, report));
    return o.dir;
}

static json_t *load(void *state, const char *dir, const char *name)
{
    json_t *v = json_loads(lt_test_read(state, lt_test_path(state, dir, name), NULL), 0, NULL);
    assert_non_null(v);
    return v;
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    static const char *const names[] = {"train.json",
                                        "held_out.json",
                                        "images/train_00000.png",
                                        "images/train_00003.jpg",
                                        "images/held_out_00001.png",
                                        "model/tokenizer.json",
                                        "model/config.json"};
    const char *a = make(*state, 5, 3, 7, NULL), *b = make(*state, 5, 3, 7, NULL),
               *c = make(*state, 5, 3, 8, NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t na = 0, nb = 0;
        const char *x = lt_test_read(*state, lt_test_path(*state, a, names[i]), &na);
        const char *y = lt_test_read(*state, lt_test_path(*state, b, names[i]), &nb);
        assert_int_equal(na, nb);
        assert_memory_equal(x, y, na);
    }
    assert_string_not_equal(lt_test_read(*state, lt_test_path(*state, a, "train.json"), NULL),
                            lt_test_read(*state, lt_test_path(*state, c, "train.json"), NULL));
}

/** Pixels of every picture of a list, one after another. */
static const uint8_t *pixels_of(void *state, const char *dir, const json_t *rows)
{
    const lt_image_budget budget = {262144, 1024, LT_IMAGE_BICUBIC, false};
    const size_t bytes = sizeof(uint8_t[LT_SHAPES_SIDE * LT_SHAPES_SIDE * 3]);
    uint8_t *px = lt_test_take(state, json_array_size(rows) * bytes);
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_array_get(json_object_get(row, "images"), 0));
        lt_image image = {0};
        assert_ok(lt_image_load(lt_test_path(state, dir, name), &budget, &image));
        assert_int_equal(image.h, LT_SHAPES_SIDE);
        assert_int_equal(image.w, LT_SHAPES_SIDE);
        memcpy(px + i * bytes, image.px, bytes);
        lt_image_deinit(&image);
    }
    return px;
}

static void no_picture_is_in_both_sets(void **state)
{
    const char *dir = make(*state, 300, 60, 1, NULL);
    json_t *train = load(*state, dir, "train.json"), *held_out = load(*state, dir, "held_out.json");
    const size_t bytes = sizeof(uint8_t[LT_SHAPES_SIDE * LT_SHAPES_SIDE * 3]);
    const uint8_t *a = pixels_of(*state, dir, train), *b = pixels_of(*state, dir, held_out);
    assert_int_equal(json_array_size(train), 300);
    assert_int_equal(json_array_size(held_out), 60);
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k < 60; k++)
            assert_true(memcmp(a + i * bytes, b + k * bytes, bytes) != 0);
    json_decref(train);
    json_decref(held_out);
}

static void check_messages(const json_t *messages)
{
    const json_t *message;
    size_t k;
    assert_in_range(json_array_size(messages), 2, 8);
    assert_int_equal(json_array_size(messages) % 2, 0);
    json_array_foreach(messages, k, message)
    {
        const char *text = json_string_value(json_object_get(message, "content"));
        assert_text_equal(json_string_value(json_object_get(message, "role")),
                          k % 2 ? "assistant" : "user");
        assert_int_equal(lt_text_starts(text, "<image>\n"), k == 0);
        assert_int_equal(lt_text_ends(text, "?"), k % 2 == 0);
    }
}

static void rows_hold_questions_and_answers_in_turns(void **state)
{
    lt_shapes_report report;
    const char *dir = make(*state, 50, 400, 3, &report);
    json_t *train = load(*state, dir, "train.json"), *held_out = load(*state, dir, "held_out.json"),
           *row;
    int64_t n = 0;
    size_t i;
    json_array_foreach(train, i, row)
    {
        check_messages(json_object_get(row, "messages"));
        n += (int64_t)json_array_size(json_object_get(row, "messages")) / 2;
    }
    json_array_foreach(held_out, i, row)
        assert_int_equal(json_array_size(json_object_get(row, "messages")), 2);
    json_decref(train);
    json_decref(held_out);
    assert_int_equal(report.n_questions, n);
    assert_int_equal(report.n_held_out_questions, 400);
    assert_true(report.commonest < 0.25); // always saying the same gets nowhere
    assert_true(report.commonest > 0.02);
    assert_true(strlen(report.commonest_answer) > 0);
}

/** The answer to a question, whatever its kind and cell. */
static const char *answer_to(const lt_scene *s, const char *ask, lt_scene_question *q)
{
    for (int kind = 0; kind < LT_N_ASKS; kind++) {
        for (int cell = 0; cell < LT_SHAPES_CELLS; cell++)
            if (lt_scene_ask(s, (lt_scene_kind)kind, cell, q) && strcmp(q->ask, ask) == 0)
                return q->answer;
    }
    return "(never asked)";
}

static void answers_are_true(void **state)
{
    // a red circle at the top left, a blue circle at the bottom right, a black triangle above it
    const lt_scene s = {{{true, LT_SHAPE_CIRCLE, LT_SHADE_RED},
                         {true, LT_SHAPE_TRIANGLE, LT_SHADE_BLACK},
                         {false, LT_SHAPE_CIRCLE, LT_SHADE_RED},
                         {true, LT_SHAPE_CIRCLE, LT_SHADE_BLUE}}};
    static const char *const pairs[][2] = {
        {"What colour is the shape at the top right?", "black"},
        {"What colour is the shape at the bottom left?", "(never asked)"},
        {"What shape is red?", "circle"},
        {"What shape is black?", "triangle"},
        {"Where is the blue shape?", "bottom right"},
        {"Where is the black shape?", "top right"},
        {"How many shapes are there?", "3"},
        {"What is at the top left?", "red circle"},
        {"What is at the bottom left?", "nothing"},
        {"What is at the bottom right?", "blue circle"},
    };
    lt_scene_question q;
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_text_equal(answer_to(&s, pairs[i][0], &q), pairs[i][1]);
    lt_mt19937 g;
    lt_mt19937_seed(&g, 1);
    lt_scene_describe(&s, true, &g, &q);
    assert_text_equal(q.answer, "red circle, black triangle, nothing, blue circle");
    for (int i = 0; i < 20; i++) { // every shape once, in any order
        lt_scene_describe(&s, false, &g, &q);
        assert_int_equal(strlen(q.answer),
                         strlen("red circle at the top left, black triangle at "
                                "the top right, blue circle at the bottom right"));
        assert_text_contains(q.answer, "red circle at the top left");
        assert_text_contains(q.answer, "black triangle at the top right");
        assert_text_contains(q.answer, "blue circle at the bottom right");
    }
}

static void shapes_are_drawn_in_their_cells(void **state)
{
    const size_t bytes = sizeof(uint8_t[LT_SHAPES_SIDE * LT_SHAPES_SIDE * 3]);
    uint8_t *px = lt_test_take(*state, bytes), *ground = lt_test_take(*state, bytes);
    for (int round = 0; round < 100; round++) {
        lt_scene s = {0};
        lt_mt19937 g;
        const int cell = round % 4;
        lt_mt19937_seed(&g, (uint64_t)round);
        lt_scene_draw(&s, &g, ground);
        s.cell[cell] = (lt_scene_cell){true, (lt_shape)(round % 3), (lt_shade)(round % 6)};
        lt_mt19937_seed(&g, (uint64_t)round);
        lt_scene_draw(&s, &g, px);
        int outside = 0, inside = 0;
        for (int64_t i = 0; i < (int64_t)LT_SHAPES_SIDE * LT_SHAPES_SIDE; i++) {
            const int64_t y = i / LT_SHAPES_SIDE, x = i % LT_SHAPES_SIDE;
            const bool here = y / LT_SHAPES_CELL_PX * 2 + x / LT_SHAPES_CELL_PX == cell;
            *(here ? &inside : &outside) += memcmp(px + 3 * i, ground + 3 * i, 3) != 0;
        }
        assert_int_equal(outside, 0);
        assert_true(inside > 100);
    }
}

static void the_models_files_fit_each_other(void **state)
{
    const char *dir = lt_test_path(*state, lt_test_dir(*state), "model");
    assert_ok(lt_shapes_write_model(dir, "qwen3_vl"));
    lt_tokenizer *t = NULL;
    assert_ok(lt_tokenizer_open(dir, &t));
    static const char text[] =
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>\nWhere is the red shape?"
        "<|im_end|>\n<|im_start|>assistant\nbottom right<|im_end|>\n";
    lt_vec ids = LT_VEC_OF(int32_t);
    lt_buf back = {0};
    assert_ok(lt_tokenizer_encode(t, text, strlen(text), 0, &ids));
    assert_int_equal(ids.n, 22); // every word is one token
    assert_ok(lt_tokenizer_decode(t, ids.data, ids.n, 0, &back));
    assert_text_equal(back.data, text);
    json_t *config = load(*state, dir, "config.json");
    static const char *const names[][2] = {{"image_token_id", "<|image_pad|>"},
                                           {"video_token_id", "<|video_pad|>"},
                                           {"vision_start_token_id", "<|vision_start|>"},
                                           {"vision_end_token_id", "<|vision_end|>"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t id = 0;
        assert_true(lt_tokenizer_id(t, names[i][1], &id));
        assert_int_equal(json_integer_value(json_object_get(config, names[i][0])), id);
    }
    const json_t *rows = json_object_get(json_object_get(config, "text_config"), "vocab_size");
    assert_true(json_integer_value(rows) >= lt_tokenizer_size(t));
    lt_image_processor p;
    lt_grid g;
    assert_ok(lt_image_processor_open(dir, &p));
    assert_ok(lt_image_grid_of_size(&p, LT_SHAPES_SIDE, LT_SHAPES_SIDE, &g));
    assert_int_equal(lt_grid_tokens(g, p.merge), 4); // a token for each cell
    json_decref(config);
    lt_vec_deinit(&ids);
    lt_buf_deinit(&back);
    lt_tokenizer_close(t);
}

static void a_picture_survives_png_and_nearly_survives_jpeg(void **state)
{
    uint8_t px[20 * 30 * 3];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)(128 + i % 90 / 3);
    const lt_image image = {.px = px, .h = 20, .w = 30};
    const lt_image_budget none = {1 << 20, 0, LT_IMAGE_BICUBIC, false};
    (void)state;
    for (int jpeg = 0; jpeg < 2; jpeg++) {
        lt_buf file = {0};
        lt_image_info info;
        assert_ok(jpeg ? lt_jpeg_encode(&image, 95, &file) : lt_png_encode(&image, &file));
        assert_ok(lt_image_probe_bytes(file.data, file.len, "own", &info));
        assert_int_equal(info.format, jpeg ? LT_IMAGE_JPEG : LT_IMAGE_PNG);
        assert_int_equal(info.h, 20);
        assert_int_equal(info.w, 30);
        lt_image back = {0}; // the budget makes the short side 28
        assert_ok(lt_image_load_bytes(file.data, file.len, "own", &none, &back));
        assert_int_equal(back.h, 28);
        for (int i = 0; i < 30 * 3; i++) // rows are all alike
            assert_in_range(back.px[i] + 8, px[i], px[i] + 16);
        lt_image_deinit(&back);
        lt_buf_deinit(&file);
    }
}

static void impossible_numbers_and_places_are_refused(void **state)
{
    lt_shapes_opts o = lt_shapes_opts_default();
    o.dir = lt_test_path(*state, lt_test_dir(*state), "file");
    o.turns = 6;
    assert_fails(lt_shapes_write(&o, NULL, NULL), LT_ERR_CONFIG, "questions a picture 1 to 5");
    o.turns = 1;
    o.n_train = 0;
    assert_fails(lt_shapes_write(&o, NULL, NULL), LT_ERR_CONFIG, "pictures must be 1 to 1000000");
    o.n_train = 1;
    lt_test_write(o.dir, "", 0); // a file where the folder should be
    assert_fails(lt_shapes_write(&o, NULL, NULL), LT_ERR_IO, o.dir);
}

LT_TEST_MAIN(LT_TEST(the_same_seed_gives_the_same_bytes), LT_TEST(no_picture_is_in_both_sets),
             LT_TEST(rows_hold_questions_and_answers_in_turns), LT_TEST(answers_are_true),
             LT_TEST(shapes_are_drawn_in_their_cells), LT_TEST(the_models_files_fit_each_other),
             LT_TEST(a_picture_survives_png_and_nearly_survives_jpeg),
             LT_TEST(impossible_numbers_and_places_are_refused))
