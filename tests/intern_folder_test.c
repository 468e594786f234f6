// SPDX-License-Identifier: Apache-2.0
// InternVL folders in the three spellings of their names, trained and saved: names, shapes and
// dtypes stay, what is frozen keeps its bytes, a second run goes on from what the first saved.
#include "base/text.h"
#include "ckpt/hf_folder.h"
#include "tests/kit/intern_place.h"
#include "tests/kit/run_kit.h"
#include <string.h>

static const struct {
    lt_intern_spelling names;
    bool tied, experts;
    const char *tower, *text, *head;
} kinds[] = {
    {LT_INTERN_NEWER, false, false, "model.vision_tower", "model.language_model", "lm_head.weight"},
    {LT_INTERN_NEWER, true, false, "model.vision_tower", "model.language_model", "lm_head.weight"},
    {LT_INTERN_OLDER, false, false, "vision_tower", "language_model.model",
     "language_model.lm_head.weight"},
    {LT_INTERN_OLDER, true, false, "vision_tower", "language_model.model",
     "language_model.lm_head.weight"},
    {LT_INTERN_REMOTE, false, false, "vision_model", "language_model.model",
     "language_model.lm_head.weight"},
    {LT_INTERN_REMOTE, true, false, "vision_model", "language_model.model",
     "language_model.lm_head.weight"},
    {LT_INTERN_NEWER, false, true, "model.vision_tower", "model.language_model", "lm_head.weight"},
    {LT_INTERN_OLDER, true, true, "vision_tower", "language_model.model",
     "language_model.lm_head.weight"},
    {LT_INTERN_REMOTE, false, true, "vision_model", "language_model.model",
     "language_model.lm_head.weight"},
};
enum { N_KINDS = (int)(sizeof kinds / sizeof kinds[0]) };

static lt_hf *open_folder(void *state, const char *dir, const char *name)
{
    lt_hf *hf = NULL;
    assert_ok(lt_hf_open(lt_test_path(state, dir, name), NULL, &hf));
    return hf;
}

// Names, shapes and dtypes are the source's; the tower's bytes too, the decoder's are not.
static void assert_trained(void *state, const char *dir, const char *saved, const char *source,
                           int kind)
{
    lt_hf *a = open_folder(state, dir, saved), *b = open_folder(state, dir, source);
    assert_int_equal(lt_hf_count(a), lt_hf_count(b));
    for (int64_t i = 0; i < lt_hf_count(b); i++) {
        const lt_st_tensor *x = lt_hf_at(a, i), *y = lt_hf_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->dtype_text, y->dtype_text);
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->dim, y->dim, (size_t)y->rank * sizeof *y->dim);
        const bool same = memcmp(x->data, y->data, y->bytes) == 0;
        if (lt_text_starts(y->name, kinds[kind].tower))
            assert_true(same);
        if (lt_text_starts(y->name, kinds[kind].text))
            assert_false(same);
    }
    assert_int_equal(lt_hf_find(a, kinds[kind].head) != NULL, !kinds[kind].tied);
    lt_hf_close(a);
    lt_hf_close(b);
}

static void a_folder_is_saved_under_its_own_names(void **state)
{
    for (int i = 0; i < N_KINDS; i++) {
        const char *dir = lt_intern_place(*state, kinds[i].names, kinds[i].tied, kinds[i].experts);
        char *freeze = NULL;
        assert_ok(lt_arena_printf(*state, &freeze, "model.freeze=[%s]", kinds[i].tower));
        lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                                   "lathe.dtype=bf16", freeze);
        assert_exit(r, 0);
        assert_trained(*state, dir, "out/iter_0000002", "model", i);
        r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=4",
                     "training.load=out", "lathe.dtype=bf16", freeze);
        assert_exit(r, 0);
        assert_trained(*state, dir, "out/iter_0000004", "out/iter_0000002", i);
    }
}

// Experts that the folder has one by one are matrices of all in between.
static void a_distributed_checkpoint_goes_back_to_the_folders_own_names(void **state)
{
    for (int i = 0; i < N_KINDS; i++) {
        const char *dir = lt_intern_place(*state, kinds[i].names, kinds[i].tied, kinds[i].experts);
        char *freeze = NULL;
        assert_ok(lt_arena_printf(*state, &freeze, "model.freeze=[%s]", kinds[i].tower));
        lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1",
                                   "lathe.dtype=bf16", freeze, "training.save_format=dcp", "-n",
                                   "2", "training.save=dcp");
        assert_exit(r, 0);
        r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2",
                     "training.load=dcp", "lathe.dtype=bf16", freeze, "training.save_format=hf",
                     "-n", "2");
        assert_exit(r, 0);
        assert_trained(*state, dir, "out/iter_0000002", "model", i);
    }
}

static void older_and_newer_names_train_alike(void **state)
{
    double loss[3];
    for (int i = 0; i <= 2; i += 2) {
        const char *dir = lt_intern_place(*state, kinds[i].names, kinds[i].tied, kinds[i].experts);
        const lt_run_result r =
            lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=3");
        assert_exit(r, 0);
        loss[i] =
            lt_run_metric(lt_run_metrics(*state, lt_test_path(*state, dir, "out")), 3, "loss");
    }
    assert_near(loss[2], loss[0], 0);
}

LT_TEST_MAIN(LT_TEST(a_folder_is_saved_under_its_own_names),
             LT_TEST(a_distributed_checkpoint_goes_back_to_the_folders_own_names),
             LT_TEST(older_and_newer_names_train_alike))
