// SPDX-License-Identifier: Apache-2.0
// Samples in one row never see each other (BR-01, BR-02, BR-05 of the user reports; with linear
// attention BR-13 to BR-16).
#include "tests/kit/lt_test.h"
#include "train/engine.h"
#include "train/feed.h"
#include <string.h>

enum { LENGTH = 13, PATCHES = 16, TOKENS = PATCHES / 4 };

typedef struct model {
    lt_engine *engine;
    lt_collate_opts collate;
    lt_batch *batch;
} model;

/** Patch rows that depend on the medium's path. */
static lt_status pixels(void *ctx, const lt_media *media, void *rows)
{
    const model *m = ctx;
    float *f = rows;
    const int64_t n = lt_grid_patches(media->grid) * lt_image_row_width(&m->collate.processor);
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)((i * 37 + (int64_t)media->path[0] * 101) % 255) / 127.5F - 1.0F;
    return LT_OK;
}

static void open_model(const char *folder, model *m)
{
    const lt_engine_opts opts = {.weights = true, .folder = folder};
    assert_ok(lt_engine_open(NULL, &opts, NULL, &m->engine));
    assert_ok(lt_engine_start(m->engine, &opts));
    const lt_model_config *c = &m->engine->model->config;
    m->collate = lt_collate_opts_default();
    m->collate.vision = (lt_vision_ids){c->image_token, c->video_token, c->vision_start};
    m->collate.vocab_size = c->text.vocab;
    m->collate.table_side = c->vision.grid;
    m->collate.processor.patch = c->vision.patch;
    m->collate.processor.merge = c->vision.merge;
    m->collate.processor.temporal = c->vision.temporal_patch;
    m->collate.pixels = pixels;
    m->collate.pixels_ctx = m;
    assert_ok(lt_batch_create(&m->batch));
}

/** A start token, a picture, and text that depends on `seed`. */
static lt_sample sample_of(void **state, const model *m, const char *picture, int32_t seed)
{
    int32_t *ids = lt_test_take(*state, LENGTH * sizeof *ids);
    lt_media *media = lt_test_take(*state, sizeof *media);
    *media = (lt_media){LT_MEDIA_IMAGE, picture, {1, 4, 4}, NULL};
    ids[0] = m->collate.vision.vision_start;
    for (int32_t i = 1; i < LENGTH; i++)
        ids[i] = i <= TOKENS ? m->collate.vision.image_pad : 3 + (i * 7 + seed) % 50;
    return (lt_sample){.ids = ids, .labels = ids, .n = LENGTH, .media = media, .n_media = 1};
}

/** Logits of all tokens of the last sample, in double. */
static double *last_logits(void **state, model *m, const lt_sample *samples, int64_t n,
                           int64_t *count)
{
    assert_ok(lt_batch_collate(m->batch, samples, n, &m->collate));
    int32_t *rows = lt_test_take(*state, LENGTH * sizeof *rows);
    void *zeros = lt_test_take(*state, (size_t)LENGTH * 8);
    for (int64_t i = 0; i < LENGTH; i++)
        rows[i] = (int32_t)(m->batch->segments[n - 1] + i);
    const lt_batch_view v = lt_feed_rows(m->batch, rows, LENGTH, zeros);
    lt_tensor logits;
    assert_ok(lt_exec_logits(m->engine->exec, &v, &logits));
    *count = LENGTH * lt_width(&logits);
    double *out = lt_test_take(*state, (size_t)*count * sizeof *out);
    for (int64_t i = 0; i < *count; i++)
        out[i] = lt_load(&logits, i);
    return out;
}

static void not_a_bit_leaks(void **state, const char *folder)
{
    model m = {0};
    assert_non_null(folder);
    open_model(folder, &m);
    const lt_sample b = sample_of(state, &m, "b", 5);
    const lt_sample before[] = {sample_of(state, &m, "r", 1), sample_of(state, &m, "s", 1),
                                sample_of(state, &m, "r", 2)};
    int64_t n = 0, alone_n = 0;
    const double *alone = last_logits(state, &m, &b, 1, &alone_n), *first = NULL;
    double largest = 0;
    for (int64_t k = 0; k < alone_n; k++)
        largest = alone[k] > largest ? alone[k] : largest;
    for (int i = 0; i < 3; i++) {
        const lt_sample pair[] = {before[i], b};
        const double *logits = last_logits(state, &m, pair, 2, &n);
        assert_int_equal(n, alone_n);
        first = first ? first : logits;
        assert_memory_equal(logits, first, (size_t)n * sizeof *logits);
        // Alone, products are cut into other pieces: only rounding in f32 may differ.
        for (int64_t k = 0; k < n; k++)
            assert_near(logits[k], alone[k], 1e-5 * largest);
    }
    // And the samples can be told apart at all.
    const double *other = last_logits(state, &m, &before[1], 1, &n);
    assert_true(memcmp(other, alone, (size_t)n * sizeof *other) != 0);
    lt_batch_destroy(m.batch);
    lt_engine_close(m.engine);
}

static void not_a_bit_of_a_sample_reaches_the_next_one(void **state)
{
    not_a_bit_leaks(state, lt_test_golden(*state, "model/qwen3_vl"));
}

// Through convolution and state.
static void not_a_bit_leaks_through_linear_attention(void **state)
{
    not_a_bit_leaks(state, lt_test_golden(*state, "model/qwen3_5_mtp"));
}

LT_TEST_MAIN(LT_TEST(not_a_bit_of_a_sample_reaches_the_next_one),
             LT_TEST(not_a_bit_leaks_through_linear_attention))
