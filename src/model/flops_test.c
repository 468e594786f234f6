// SPDX-License-Identifier: Apache-2.0
// Known counts: the table and the example of spec/models.md 10.1, and the peer script's formula.
#include "model/model.h"
#include "tests/kit/lt_qwen.h"
#include <string.h>

static lt_model *open_size(void *state, int size)
{
    const char *text = lt_qwen_config_text(state, &lt_qwen_sizes[size], false);
    lt_model_config config;
    lt_model *m = NULL;
    assert_ok(lt_model_config_parse(text, strlen(text), "config.json", NULL, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &m));
    return m;
}

static void products_per_token_and_patch_are_the_published_ones(void **state)
{
    for (int i = 0; i < lt_n_qwen_sizes; i++) {
        lt_model *m = open_size(*state, i);
        const lt_flops f = lt_model_flops(m, &(lt_work){.tokens = 1, .patches = 1});
        assert_near(f.text, 2 * lt_qwen_sizes[i].per_token, 0);
        assert_near(f.head, 2 * lt_qwen_sizes[i].head, 0);
        assert_near(f.vision + f.patch_embed, 2 * lt_qwen_sizes[i].per_patch, 0);
        assert_near(f.text_attention + f.vision_attention + f.mergers, 0, 0);
        lt_model_destroy(m);
    }
}

// 8B, one document of 4096 tokens, all trainable: 6 p per token and 6 n^2 D nH per layer.
static void the_example_of_the_specification_comes_out(void **state)
{
    lt_model *m = open_size(*state, 2);
    const lt_flops f =
        lt_model_flops(m, &(lt_work){.tokens = 4096, .token_squares = 4096.0 * 4096.0});
    assert_near(3 * (f.text + f.head), 6 * 4096.0 * 7568097280.0, 0);
    assert_near(3 * f.text_attention, 6 * 4096.0 * 4096.0 * 128 * 32 * 36, 0);
    assert_near(f.step, 3 * (f.text + f.text_attention + f.head), 0);
    assert_near(f.plain, f.step, 0);
    lt_model_destroy(m);
}

// Two images of 16 x 16 patches. Vision: attention 4 n^2 C per block and frame, mergers per merged
// token.
static void vision_is_counted_by_frames_and_merged_tokens(void **state)
{
    lt_model *m = open_size(*state, 0);
    const lt_work work = {.tokens = 1024,
                          .patches = 512,
                          .merged = 128,
                          .token_squares = 1024.0 * 1024.0,
                          .patch_squares = 2 * 256.0 * 256.0};
    lt_flops f = lt_model_flops(m, &work);
    assert_near(f.vision_attention, 24 * 4 * 2 * 256.0 * 256.0 * 1024, 0);
    assert_near(f.mergers, 4 * 2 * 128 * (16.0 * 1024 * 1024 + 4 * 1024 * 2048), 0);
    assert_near(f.plain, 3 * (f.text + f.text_attention + f.head + f.vision + f.vision_attention),
                0);
    assert_near(f.step, 3 * f.forward - f.patch_embed, 0); // pixels need no gradient
    assert_ok(lt_model_freeze(m, (const char *[]){"model.visual"}, 1, NULL));
    f = lt_model_flops(m, &work);
    assert_near(f.step,
                3 * (f.text + f.text_attention + f.head) + f.vision + f.vision_attention +
                    f.patch_embed + f.mergers,
                0);
    assert_near(f.plain, 3 * (f.text + f.text_attention + f.head) + f.vision + f.vision_attention,
                0);
    lt_model_destroy(m);
}

static void frozen_parts_cost_a_product_less_and_below_them_nothing(void **state)
{
    lt_model *m = open_size(*state, 2);
    const lt_work work = {.tokens = 10};
    // everything but the last layer and the head is frozen: 2 p below, 6 p in it
    assert_ok(lt_model_freeze(m,
                              (const char *[]){"model.visual", "model.language_model.embed_tokens",
                                               "model.language_model.layers.{0-34}",
                                               "model.language_model.norm"},
                              4, NULL));
    lt_flops f = lt_model_flops(m, &work);
    assert_near(f.step, f.text * 35 / 36 + 3 * (f.text / 36 + f.head), 1);
    // a frozen head still passes the gradient on: 4 p
    assert_ok(lt_model_freeze(m, (const char *[]){"lm_head"}, 1, NULL));
    f = lt_model_flops(m, &work);
    assert_near(f.step, f.text * 35 / 36 + f.text / 12 + 2 * f.head, 1);
    lt_model_destroy(m);
}

static void work_adds_up_over_micro_batches(void **state)
{
    (void)state;
    const int32_t samples[] = {0, 3, 7}, frames[] = {0, 4, 8};
    lt_batch_view b = {
        .extents = {.n = {[LT_EXT_TOKENS] = 7, [LT_EXT_PATCHES] = 8, [LT_EXT_MERGED] = 2}}};
    b.value[LT_BATCH_SEGMENTS] = lt_tensor_1d(LT_I32, 3);
    b.value[LT_BATCH_SEGMENTS].host = samples;
    b.value[LT_BATCH_FRAME_SEGMENTS] = lt_tensor_1d(LT_I32, 3);
    b.value[LT_BATCH_FRAME_SEGMENTS].host = frames;
    lt_work work = {0};
    lt_work_add(&work, &b);
    lt_work_add(&work, &b);
    assert_near(work.tokens, 14, 0);
    assert_near(work.token_squares, 2 * (9 + 16), 0);
    assert_near(work.patch_squares, 2 * (16 + 16), 0);
    assert_near(work.merged, 4, 0);
}

LT_TEST_MAIN(LT_TEST(products_per_token_and_patch_are_the_published_ones),
             LT_TEST(the_example_of_the_specification_comes_out),
             LT_TEST(vision_is_counted_by_frames_and_merged_tokens),
             LT_TEST(frozen_parts_cost_a_product_less_and_below_them_nothing),
             LT_TEST(work_adds_up_over_micro_batches))
