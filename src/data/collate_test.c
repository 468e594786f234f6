// SPDX-License-Identifier: Apache-2.0
// The packed micro-batch: each sample as if alone, media in token order, refusals that name the
// record.
#include "data/collate.h"

#include <string.h>

#include "tests/kit/lt_test.h"

enum { TEXT = 7, START = 90, END = 91, IMAGE = 92, VIDEO = 93, MAX_TOKENS = 256 };

/** A sample that is written token by token. */
typedef struct draft {
    int32_t ids[MAX_TOKENS], labels[MAX_TOKENS];
    lt_media media[4];
    lt_sample s;
} draft;

static draft *new_draft(void *state, int64_t record)
{
    draft *d = lt_test_take(state, sizeof *d);
    d->s = (lt_sample){.ids = d->ids,
                       .labels = d->labels,
                       .media = d->media,
                       .file = "data.json",
                       .record = record};
    return d;
}

static void put(draft *d, int32_t id, int32_t label)
{
    d->ids[d->s.n] = id;
    d->labels[d->s.n++] = label;
}

static void put_media(draft *d, lt_media_kind kind, const char *path, lt_grid g)
{
    for (int64_t t = 0; t < g.t; t++) {
        put(d, START, LT_IGNORE_LABEL);
        for (int64_t i = 0; i < g.h * g.w / 4; i++)
            put(d, kind == LT_MEDIA_VIDEO ? VIDEO : IMAGE, LT_IGNORE_LABEL);
        put(d, END, LT_IGNORE_LABEL);
        put(d, TEXT, LT_IGNORE_LABEL);
    }
    d->media[d->s.n_media++] = (lt_media){kind, path, g, NULL};
}

static void put_answer(draft *d, int n)
{
    put(d, TEXT, LT_IGNORE_LABEL);
    for (int i = 0; i < n; i++)
        put(d, 20 + i, 20 + i);
}

/** Pixels that say whose they are: the path's first letter. */
static lt_status letter_pixels(void *ctx, const lt_media *m, void *rows)
{
    float *f = rows;
    const int64_t n = lt_grid_patches(m->grid) * *(const int64_t *)ctx;
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)m->path[0];
    return LT_OK;
}

/** A number from 0 to 2^24 - 1. */
static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

static lt_collate_opts small_opts(int64_t *width)
{
    lt_collate_opts o = lt_collate_opts_default();
    o.vision = (lt_vision_ids){.image_pad = IMAGE, .video_pad = VIDEO, .vision_start = START};
    o.vocab_size = 100;
    o.table_side = 8;
    o.processor.patch = 2;
    o.pixels = letter_pixels;
    *width = lt_image_row_width(&o.processor);
    o.pixels_ctx = width;
    return o;
}

// Every array of a batch that follows tokens, targets, pictures or frames, against each sample's.
static void assert_as_if_alone(const lt_sample *samples, int64_t n_samples,
                               const lt_collate_opts *o, int64_t width)
{
    lt_batch *all = NULL, *one = NULL;
    assert_ok(lt_batch_create(&all));
    assert_ok(lt_batch_create(&one));
    assert_ok(lt_batch_collate(all, samples, n_samples, o));
    int64_t token = 0, target = 0, visual = 0, patch = 0, frame = 0;
    for (int64_t s = 0; s < n_samples; s++) {
        assert_ok(lt_batch_collate(one, &samples[s], 1, o));
        for (int64_t axis = 0; axis < 3; axis++) {
            assert_memory_equal(all->positions + axis * all->n_tokens + token,
                                one->positions + axis * one->n_tokens,
                                (size_t)one->n_tokens * sizeof(int32_t));
        }
        for (int64_t i = 0; i < one->n_targets; i++) {
            assert_int_equal(all->target_rows[target + i], one->target_rows[i] + token);
            assert_int_equal(all->targets[target + i], one->targets[i]);
            assert_int_equal(all->target_sample[target + i], s);
        }
        for (int64_t i = 0; i < one->n_visual; i++)
            assert_int_equal(all->visual_rows[visual + i], one->visual_rows[i] + token);
        for (int64_t i = 0; i <= one->n_frames; i++)
            assert_int_equal(all->geometry.segments[frame + i], one->geometry.segments[i] + patch);
        if (one->n_patches > 0) {
            assert_memory_equal((float *)all->pixels + patch * width, one->pixels,
                                (size_t)(one->n_patches * width) * sizeof(float));
            assert_memory_equal(all->geometry.corner + 4 * patch, one->geometry.corner,
                                (size_t)one->n_patches * 16);
            assert_memory_equal(all->geometry.row_col + patch, one->geometry.row_col,
                                (size_t)one->n_patches * 4);
        }
        assert_int_equal(all->sample_targets[s], one->n_targets);
        assert_int_equal(all->sample_labels[s], one->n_labels);
        assert_int_equal(one->n_tokens, samples[s].n); // no padding anywhere
        assert_int_equal(all->segments[s + 1] - all->segments[s], one->n_tokens);
        token += one->n_tokens;
        target += one->n_targets;
        visual += one->n_visual;
        patch += one->n_patches;
        frame += one->n_frames;
    }
    assert_int_equal(token, all->n_tokens);
    assert_int_equal(target, all->n_targets);
    assert_int_equal(visual, all->n_visual);
    assert_int_equal(patch, all->n_patches);
    lt_batch_destroy(all);
    lt_batch_destroy(one);
}

// BR-01, BR-02, BR-11 (ids, labels and positions are packed alike): a text sample, one with a
// picture and one with a picture and a video, packed.
static void every_sample_of_a_packed_batch_is_as_if_alone(void **state)
{
    int64_t width = 0;
    const lt_collate_opts o = small_opts(&width);
    draft *d[3];
    lt_sample samples[3];
    for (int i = 0; i < 3; i++)
        d[i] = new_draft(*state, i + 1);
    put_answer(d[0], 5);
    put_media(d[1], LT_MEDIA_IMAGE, "a", (lt_grid){1, 4, 6});
    put_answer(d[1], 2);
    put_media(d[2], LT_MEDIA_VIDEO, "b", (lt_grid){2, 2, 4});
    put_media(d[2], LT_MEDIA_IMAGE, "c", (lt_grid){1, 4, 4});
    put_answer(d[2], 3);
    for (int i = 0; i < 3; i++)
        samples[i] = d[i]->s;
    assert_as_if_alone(samples, 3, &o, width);
}

/** A sample of random length, with up to three pictures or videos of random sizes. */
static const draft *random_draft(void *state, uint32_t *seed, int64_t record)
{
    draft *d = new_draft(state, record);
    const int n_media = (int)(next(seed) % 4);
    for (int i = (int)(next(seed) % 9); i > 0; i--)
        put(d, TEXT, LT_IGNORE_LABEL);
    for (int i = 0; i < n_media; i++) {
        const bool video = next(seed) % 3 == 0;
        const int64_t t = video ? 1 + next(seed) % 3 : 1, h = 2 + 2 * (next(seed) % 3),
                      w = 2 + 2 * (next(seed) % 3);
        put_media(
            d, video ? LT_MEDIA_VIDEO : LT_MEDIA_IMAGE, &"abc" [i], (lt_grid) { t, h, w });
    }
    put_answer(d, 1 + (int)(next(seed) % 13));
    return d;
}

// Borders, targets, positions, pictures' rows and their tokens move together, whatever lies before.
static void br_10_borders_masks_and_features_move_together_at_any_length(void **state)
{
    enum { BATCHES = 60, MAX_SAMPLES = 6 };
    int64_t width = 0;
    const lt_collate_opts o = small_opts(&width);
    uint32_t seed = 12345;
    for (int b = 0; b < BATCHES; b++) {
        lt_sample samples[MAX_SAMPLES];
        const int64_t n = 1 + next(&seed) % MAX_SAMPLES;
        for (int64_t i = 0; i < n; i++)
            samples[i] = random_draft(*state, &seed, i + 1)->s;
        assert_as_if_alone(samples, n, &o, width);
    }
}

static void images_and_videos_lie_in_token_order(void **state)
{
    int64_t width = 0;
    const lt_collate_opts o = small_opts(&width);
    draft *d = new_draft(*state, 1);
    put_media(d, LT_MEDIA_VIDEO, "v", (lt_grid){3, 2, 2});
    put_media(d, LT_MEDIA_IMAGE, "i", (lt_grid){1, 2, 4});
    put_media(d, LT_MEDIA_VIDEO, "w", (lt_grid){1, 4, 2});
    put_answer(d, 1);
    lt_batch *b = NULL;
    assert_ok(lt_batch_create(&b));
    assert_ok(lt_batch_collate(b, &d->s, 1, &o));
    assert_int_equal(b->n_patches, 12 + 8 + 8);
    assert_int_equal(b->n_frames, 5);
    assert_int_equal(b->n_visual, 7);
    const float *px = b->pixels;
    for (int64_t r = 0; r < b->n_patches; r++)
        assert_true(px[r * width] == (float)(r < 12 ? 'v' : r < 20 ? 'i' : 'w'));
    for (int64_t i = 0; i < b->n_visual; i++)
        assert_true(b->ids[b->visual_rows[i]] == IMAGE || b->ids[b->visual_rows[i]] == VIDEO);
    lt_batch_destroy(b);
}

static void targets_stay_within_their_sample(void **state)
{
    int64_t width = 0;
    const lt_collate_opts o = small_opts(&width);
    draft *a = new_draft(*state, 1), *b = new_draft(*state, 2);
    put(a, 5, 5); // labels from the first token on
    put(a, 6, 6);
    put(b, 8, 8);
    put(b, 9, LT_IGNORE_LABEL);
    const lt_sample samples[] = {a->s, b->s};
    lt_batch *batch = NULL;
    assert_ok(lt_batch_create(&batch));
    assert_ok(lt_batch_collate(batch, samples, 2, &o));
    assert_int_equal(batch->n_targets, 1); // 5 -> 6; 6 -> 8 would cross the border
    assert_int_equal(batch->target_rows[0], 0);
    assert_int_equal(batch->targets[0], 6);
    assert_int_equal(batch->n_labels, 3);
    assert_int_equal(batch->sample_labels[0], 2);
    assert_int_equal(batch->sample_labels[1], 1);
    assert_int_equal(batch->sample_targets[1], 0);
    assert_int_equal(batch->n_patches, 0);
    assert_int_equal(batch->geometry.segments[0], 0);
    lt_batch_destroy(batch);
}

static void a_batchs_buffers_are_used_again(void **state)
{
    int64_t width = 0;
    const lt_collate_opts o = small_opts(&width);
    draft *large = new_draft(*state, 1), *small = new_draft(*state, 2);
    put_media(large, LT_MEDIA_IMAGE, "a", (lt_grid){1, 8, 8});
    put_answer(large, 9);
    put_answer(small, 1);
    lt_batch *b = NULL;
    assert_ok(lt_batch_create(&b));
    assert_ok(lt_batch_collate(b, &large->s, 1, &o));
    const int64_t bytes = lt_batch_bytes(b);
    const void *ids = b->ids;
    assert_ok(lt_batch_collate(b, &small->s, 1, &o));
    assert_int_equal(b->n_tokens, 2);
    assert_int_equal(lt_batch_bytes(b), bytes);
    assert_ptr_equal(b->ids, ids);
    assert_ok(lt_batch_collate(b, &large->s, 1, &o));
    assert_int_equal(b->n_visual, 16);
    lt_batch_destroy(b);
}

static void samples_that_do_not_add_up_are_refused_by_record(void **state)
{
    int64_t width = 0;
    lt_collate_opts o = small_opts(&width);
    draft *good = new_draft(*state, 1), *d = new_draft(*state, 42);
    lt_batch *b = NULL;
    put_answer(good, 3);
    assert_ok(lt_batch_create(&b));
    lt_sample samples[] = {good->s, d->s};
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA,
                 "data.json, record 42: it has no tokens");
    put(d, 100, LT_IGNORE_LABEL);
    samples[1] = d->s;
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA, "record 42: token 0 has id 100");
    d->ids[0] = -1;
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA, "token 0 has id -1");
    d->ids[0] = 5;
    d->labels[0] = 100;
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA, "label 100");
    d->labels[0] = 5;
    d->media[0] = (lt_media){LT_MEDIA_IMAGE, "x", {1, 4, 4}, NULL};
    samples[1].n_media = 1;
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA,
                 "record 42: it has 1 pictures and videos, but placeholders for 0 only");
    d->media[0].grid.h = 3;
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_SHAPE,
                 "record 42: grid 0 is 1 x 3 x 4");
    o.vision.image_pad = -1;
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA, "the model takes none");
    o = small_opts(&width);
    o.mrope = false; // BR-04: never plain positions for pictures
    assert_fails(lt_batch_collate(b, samples, 2, &o), LT_ERR_DATA, "the model takes none");
    assert_fails(lt_batch_collate(b, samples, 0, &o), LT_ERR_DATA, "at least one sample");
    lt_batch_destroy(b);
}

static lt_status count_up(void *ctx, const lt_media *media, void *rows)
{
    const int64_t n = lt_grid_patches(media->grid) * *(const int64_t *)ctx;
    for (int64_t i = 0; i < n; i++)
        ((float *)rows)[i] = (float)i;
    return LT_OK;
}

// InternVL: a picture of two tiles, positions count on, a class token's row before each tile.
static void tiles_have_plain_positions_and_rows_for_class_tokens(void **state)
{
    (void)state;
    int64_t width = 0;
    lt_collate_opts o = small_opts(&width);
    int32_t ids[] = {1, 0, 0, 2, 3}, labels[] = {-100, -100, -100, 2, 3};
    ids[1] = ids[2] = o.vision.image_pad;
    lt_media media = {LT_MEDIA_IMAGE, "x", {2, 2, 2}, NULL};
    lt_sample s = {
        .ids = ids, .labels = labels, .n = 5, .media = &media, .n_media = 1, .record = 7};
    lt_batch *b = NULL;
    o.mrope = false;
    o.tiles = true;
    o.pixels = count_up;
    width = lt_image_row_width(&o.processor);
    o.pixels_ctx = &width;
    assert_ok(lt_batch_create(&b));
    assert_ok(lt_batch_collate(b, &s, 1, &o));
    assert_memory_equal(b->positions + 10, ((int32_t[]){0, 1, 2, 3, 4}), 5 * sizeof(int32_t));
    assert_memory_equal(b->visual_rows, ((int32_t[]){1, 2}), 2 * sizeof(int32_t));
    assert_memory_equal(b->geometry.segments, ((int32_t[]){0, 4, 8}), 3 * sizeof(int32_t));
    assert_memory_equal(b->geometry.tiles, ((int32_t[]){0, 5, 10}), 3 * sizeof(int32_t));
    ids[3] = o.vision.image_pad;
    assert_fails(lt_batch_collate(b, &s, 1, &o), LT_ERR_DATA,
                 "record 7: its 1 pictures make 2 tokens, but it has 3 placeholders");
    media.kind = LT_MEDIA_VIDEO;
    assert_fails(lt_batch_collate(b, &s, 1, &o), LT_ERR_DATA, "the model takes pictures alone");
    lt_batch_destroy(b);
}

static void pictures_in_another_order_than_their_placeholders_are_refused(void **state)
{
    int64_t width = 0;
    const lt_collate_opts o = small_opts(&width);
    draft *d = new_draft(*state, 3);
    put_media(d, LT_MEDIA_VIDEO, "v", (lt_grid){2, 2, 2});
    put_media(d, LT_MEDIA_IMAGE, "i", (lt_grid){1, 2, 2});
    const lt_media first = d->media[0];
    d->media[0] = d->media[1];
    d->media[1] = first;
    lt_batch *b = NULL;
    assert_ok(lt_batch_create(&b));
    assert_fails(lt_batch_collate(b, &d->s, 1, &o), LT_ERR_DATA,
                 "record 3: its placeholders and its pictures");
    lt_batch_destroy(b);
}

static void missing_changed_and_moving_pictures_are_named(void **state)
{
    lt_collate_opts o = lt_collate_opts_default();
    o.vision = (lt_vision_ids){.image_pad = IMAGE, .video_pad = VIDEO, .vision_start = START};
    o.budget = (lt_image_budget){262144, 1024, LT_IMAGE_BICUBIC, false};
    const char *path = lt_test_golden(*state, "pipeline/images/a_40x30.png");
    draft *d = new_draft(*state, 8), *gone = new_draft(*state, 9), *v = new_draft(*state, 10);
    put_media(d, LT_MEDIA_IMAGE, path, (lt_grid){1, 14, 20});
    put_media(gone, LT_MEDIA_IMAGE, "no/such.jpg", (lt_grid){1, 4, 4});
    put_media(v, LT_MEDIA_VIDEO, "clip.mp4", (lt_grid){1, 4, 4});
    lt_batch *b = NULL;
    assert_ok(lt_batch_create(&b));
    assert_ok(lt_batch_collate(b, &d->s, 1, &o));
    assert_int_equal(b->n_patches, 280);
    o.pixel_dtype = LT_BF16;
    assert_ok(lt_batch_collate(b, &d->s, 1, &o));
    assert_fails(lt_batch_collate(b, &gone->s, 1, &o), LT_ERR_NOT_FOUND,
                 "data.json, record 9: reading a picture: cannot open no/such.jpg");
    assert_fails(lt_batch_collate(b, &v->s, 1, &o), LT_ERR_UNSUPPORTED,
                 "record 10: video clip.mp4");
    d->s.n = 0;
    d->s.n_media = 0;
    put_media(d, LT_MEDIA_IMAGE, path, (lt_grid){1, 4, 4});
    assert_fails(lt_batch_collate(b, &d->s, 1, &o), LT_ERR_DATA,
                 "makes 14 x 20 patches, but made 4 x 4");
    o.pixel_dtype = LT_F64;
    assert_fails(lt_batch_collate(b, &d->s, 1, &o), LT_ERR_DTYPE, "not f64");
    lt_batch_destroy(b);
}

LT_TEST_MAIN(LT_TEST(every_sample_of_a_packed_batch_is_as_if_alone),
             LT_TEST(br_10_borders_masks_and_features_move_together_at_any_length),
             LT_TEST(images_and_videos_lie_in_token_order),
             LT_TEST(targets_stay_within_their_sample), LT_TEST(a_batchs_buffers_are_used_again),
             LT_TEST(tiles_have_plain_positions_and_rows_for_class_tokens),
             LT_TEST(samples_that_do_not_add_up_are_refused_by_record),
             LT_TEST(pictures_in_another_order_than_their_placeholders_are_refused),
             LT_TEST(missing_changed_and_moving_pictures_are_named))
