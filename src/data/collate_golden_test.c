// SPDX-License-Identifier: Apache-2.0
// Micro-batches of encoded samples against golden/pipeline/collate.jsonl: the padded view, the
// packed batch, the pixels.
#include <jansson.h>
#include <string.h>

#include "data/collate.h"
#include "data/padded.h"
#include "tests/kit/lt_test.h"
#include "tests/kit/sha256.h"

enum { MAX_ROWS = 8 };
static const int64_t white_bytes = INT64_C(64) * 64 * 3;
static const lt_image_budget budget = {262144, 1024, LT_IMAGE_BICUBIC, false};

static int32_t *ints_of(void *state, const json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    int32_t *out = lt_test_take(state, (size_t)*n * sizeof *out);
    for (int64_t i = 0; i < *n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return out;
}

/** The sample of that name, as it was encoded; grids from the pictures' headers. */
static lt_sample sample_of(void *state, const json_t *encoded, const char *name)
{
    const json_t *row = NULL, *e;
    size_t i;
    json_array_foreach(encoded, i, e) if (strcmp(json_string_value(json_object_get(e, "name")),
                                                 name) == 0) row = e;
    assert_non_null(row);
    lt_sample s = {.file = "encode.jsonl", .record = 1};
    int64_t n_labels = 0;
    s.ids = ints_of(state, json_object_get(row, "input_ids"), &s.n);
    s.labels = ints_of(state, json_object_get(row, "labels"), &n_labels);
    assert_int_equal(s.n, n_labels);
    const json_t *images = json_object_get(json_object_get(row, "sample"), "images"), *image;
    lt_media *media = lt_test_take(state, json_array_size(images) * sizeof *media);
    const lt_image_processor p = lt_image_processor_default();
    json_array_foreach(images, i, image)
    {
        lt_image_info info;
        media[i].path =
            lt_test_path(state, lt_test_golden(state, "pipeline/images"), json_string_value(image));
        assert_ok(lt_image_probe(media[i].path, &info));
        assert_ok(lt_image_grid(&p, &budget, info.h, info.w, &media[i].grid));
        s.n_media++;
    }
    s.media = media;
    return s;
}

/** A nested list of numbers equals values in row-major order. */
static void check_flat(const json_t *want, const int32_t *got, int64_t *at)
{
    const json_t *e;
    size_t i;
    if (json_is_integer(want))
        assert_int_equal(got[(*at)++], json_integer_value(want));
    else
        json_array_foreach(want, i, e) check_flat(e, got, at);
}

static void check_key(const json_t *c, const char *key, const int32_t *got, int64_t n)
{
    int64_t at = 0;
    check_flat(json_object_get(c, key), got, &at);
    assert_int_equal(at, n);
}

static void check_grids(const json_t *want, const lt_grid *got, int64_t n)
{
    assert_int_equal(json_array_size(want), n);
    for (int64_t i = 0; i < n; i++) {
        const json_t *g = json_array_get(want, (size_t)i);
        assert_int_equal(got[i].t, json_integer_value(json_array_get(g, 0)));
        assert_int_equal(got[i].h, json_integer_value(json_array_get(g, 1)));
        assert_int_equal(got[i].w, json_integer_value(json_array_get(g, 2)));
    }
}

static void check_pixels(const json_t *c, const void *pixels, int64_t rows)
{
    const json_t *shape = json_object_get(c, "pixel_values_shape");
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), rows);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), 1536);
    assert_text_equal(lt_sha256(pixels, (size_t)rows * 1536 * sizeof(float)).s,
                      json_string_value(json_object_get(c, "pixel_values_f32le_sha256")));
}

/** A white picture of 64 x 64 through budget, resize and patches. */
static void check_stand_in(void *state, const json_t *c, lt_grid grid)
{
    const lt_image_processor p = lt_image_processor_default();
    lt_image white = {.px = lt_test_take(state, (size_t)white_bytes), .h = 64, .w = 64};
    memset(white.px, 255, (size_t)white_bytes);
    float *rows = lt_test_take(state, (size_t)lt_grid_patches(grid) * 1536 * sizeof *rows);
    assert_ok(lt_image_rows(&p, &white, LT_F32, rows));
    for (int64_t i = 0; i < lt_grid_patches(grid) * 1536; i++)
        assert_true(rows[i] == 1.0F);
    check_grids(json_object_get(c, "image_grid_thw"), &grid, 1);
    check_pixels(c, rows, lt_grid_patches(grid));
}

/** What the packed batch holds of each sample is what the padded view shows of it. */
static void check_packed(const lt_batch *b, const lt_sample *samples, const lt_padded *p)
{
    int64_t target = 0, token = 0;
    for (int64_t s = 0; s < b->n_samples; s++) {
        assert_int_equal(b->segments[s], token);
        for (int64_t i = 0; i < samples[s].n; i++, token++) {
            assert_int_equal(b->ids[token], p->ids[s * p->width + i]);
            for (int64_t axis = 0; axis < 3; axis++)
                assert_int_equal(b->positions[axis * b->n_tokens + token],
                                 p->positions[(axis * p->rows + s) * p->width + i]);
            const bool has = i + 1 < samples[s].n && samples[s].labels[i + 1] > -1;
            if (!has)
                continue;
            assert_int_equal(b->target_rows[target], token);
            assert_int_equal(b->targets[target], samples[s].labels[i + 1]);
            assert_int_equal(b->target_sample[target++], s);
        }
    }
    assert_int_equal(b->segments[b->n_samples], token);
    assert_int_equal(token, b->n_tokens);
    assert_int_equal(target, b->n_targets);
}

static void check_good(void *state, const json_t *c, const lt_sample *samples, int64_t n,
                       const lt_padded_opts *po, lt_batch *b)
{
    lt_padded p;
    lt_collate_opts o = lt_collate_opts_default();
    o.vision = po->vision;
    o.budget = budget;
    o.table_side = 48;
    assert_ok(lt_padded_make(samples, n, po, state, &p));
    check_key(c, "input_ids", p.ids, n * p.width);
    check_key(c, "attention_mask", p.mask, n * p.width);
    check_key(c, "labels", p.labels, n * p.width);
    check_key(c, "position_ids", p.positions, 3 * n * p.width);
    for (int64_t r = 0; r < n; r++) {
        assert_int_equal(p.rope_delta[r],
                         json_integer_value(json_array_get(
                             json_array_get(json_object_get(c, "rope_deltas"), (size_t)r), 0)));
    }
    assert_ok(lt_batch_collate(b, samples, n, &o));
    check_packed(b, samples, &p);
    assert_int_equal(p.has_stand_in, b->n_media == 0);
    if (p.has_stand_in) {
        check_stand_in(state, c, po->stand_in);
    } else {
        check_grids(json_object_get(c, "image_grid_thw"), b->grids, b->n_media);
        check_pixels(c, b->pixels, b->n_patches);
    }
}

static void check_case(void *state, const json_t *encoded, const json_t *c, lt_batch *b)
{
    const json_t *names = json_object_get(c, "batch"), *name;
    lt_sample samples[MAX_ROWS];
    int64_t n = 0;
    size_t i;
    json_array_foreach(names, i, name) samples[n++] =
        sample_of(state, encoded, json_string_value(name));
    const lt_padded_opts po = {
        .vision = {.image_pad = 151655, .video_pad = 151656, .vision_start = 151652},
        .vision_end = 151653,
        .merge = 2,
        .pad_id = 151643,
        .multiple = 8,
        .ignore_pad = true,
        .position_fill = strcmp(json_string_value(json_object_get(c, "rope")), "qwen3_vl") == 0,
        .stand_in = {1, 16, 16}};
    if (json_object_get(c, "input_ids") != NULL) {
        check_good(state, c, samples, n, &po, b);
        return;
    }
    lt_padded p;
    lt_collate_opts o = lt_collate_opts_default();
    o.vision = po.vision;
    o.budget = budget;
    assert_fails(lt_padded_make(samples, n, &po, state, &p), LT_ERR_DATA,
                 "encode.jsonl, record 1: ");
    assert_fails(lt_batch_collate(b, samples, n, &o), LT_ERR_DATA,
                 "placeholder tokens where its grid asks for 70");
}

/** One JSON value a line. */
static json_t *load_lines(void *state, const char *name)
{
    const char *path = lt_test_golden(state, name);
    assert_non_null(path);
    json_t *list = json_array();
    for (char *rest = lt_test_read(state, path, NULL), *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line != 0)
            assert_int_equal(json_array_append_new(list, json_loads(line, 0, NULL)), 0);
    return list;
}

// Rows 49, 50 and 60 of spec data-pipeline 16.1 are among them: batches of text get the stand-in
// in their padded form, mixed ones do not, and padding has the label -100.
static void golden_batches_come_out_padded_and_packed(void **state)
{
    json_t *encoded = load_lines(*state, "pipeline/encode.jsonl"), *c;
    json_t *cases = load_lines(*state, "pipeline/collate.jsonl");
    lt_batch *b = NULL;
    size_t i;
    assert_ok(lt_batch_create(&b));
    assert_true(json_array_size(cases) >= 16);
    json_array_foreach(cases, i, c)
        check_case(*state, encoded, c, b); // one batch's buffers serve all
    lt_batch_destroy(b);
    json_decref(encoded);
    json_decref(cases);
}

LT_TEST_MAIN(LT_TEST(golden_batches_come_out_padded_and_packed))
