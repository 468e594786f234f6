// SPDX-License-Identifier: Apache-2.0
// stage: pretrain. Texts with their ends, by themselves or in blocks; spec data-pipeline 12.
#include "data/dataset/dataset.h"
#include "tests/kit/lt_test.h"
#include <string.h>

typedef struct place {
    lt_tokenizer *tokenizer;
    lt_dataset_opts opts;
    const char *files[1];
} place;

static void set_up(void **state, place *p, const char *records)
{
    const char *golden = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(golden);
    *p = (place){.opts = lt_dataset_opts_default()};
    assert_ok(lt_tokenizer_open(golden, &p->tokenizer));
    p->files[0] = lt_test_path(*state, lt_test_dir(*state), "d.jsonl");
    lt_test_write(p->files[0], records, strlen(records));
    p->opts.files = p->files;
    p->opts.n_files = 1;
    p->opts.pretrain = true;
    p->opts.attr.formatting = "alpaca";
    p->opts.attr.prompt = "text";
    p->opts.encode.render.tokenizer = p->tokenizer;
    assert_ok(lt_template_find("qwen3_vl", &p->opts.encode.render.chat));
}

/** ids of a text as the tokenizer alone makes them. */
static lt_vec ids_of(const place *p, const char *text)
{
    lt_vec ids = LT_VEC_OF(int32_t);
    assert_ok(lt_tokenizer_encode(p->tokenizer, text, strlen(text), 0, &ids));
    return ids;
}

static void assert_sample(const lt_sample *s, const int32_t *ids, int64_t n)
{
    assert_int_equal(s->n, n);
    assert_memory_equal(s->ids, ids, (size_t)n * sizeof *ids);
    assert_memory_equal(s->labels, ids, (size_t)n * sizeof *ids); // all of it is trained
}

static const char texts[] = "{\"text\": \"one two\"}\n{\"text\": \"\"}\n{\"text\": \" 3 \"}\n"
                            "{\"text\": \"four, five\"}\n{\"text\": \"six\"}\n";
static const char *const ended[] = {"one two<|im_end|>", "<|im_end|>", " 3 <|im_end|>",
                                    "four, five<|im_end|>", "six<|im_end|>"};
enum { N_TEXTS = 5 };

static void a_row_is_a_text_with_its_end(void **state)
{
    place p;
    lt_dataset *d;
    set_up(state, &p, texts);
    assert_ok(lt_dataset_open(&p.opts, NULL, NULL, &d));
    assert_int_equal(lt_dataset_rows(d), N_TEXTS);
    for (int i = 0; i < N_TEXTS; i++) {
        lt_vec samples = LT_VEC_OF(lt_sample), ids = ids_of(&p, ended[i]);
        assert_ok(lt_dataset_encode_row(d, i, *state, &samples));
        assert_int_equal(samples.n, 1);
        assert_sample(&LT_AT(&samples, lt_sample, 0), ids.data, ids.n);
        lt_vec_deinit(&samples);
        lt_vec_deinit(&ids);
    }
    lt_dataset_close(d);
    p.opts.files = p.files;
    p.opts.encode.cutoff_len = 2;
    assert_ok(lt_dataset_open(&p.opts, NULL, NULL, &d));
    lt_vec ids = ids_of(&p, ended[3]);
    lt_sample s;
    assert_ok(lt_dataset_encode(d, 3, *state, &s));
    assert_sample(&s, ids.data, 2); // its head stays
    lt_vec_deinit(&ids);
    lt_dataset_close(d);
    lt_tokenizer_close(p.tokenizer);
}

/** Groups of `batch` texts, put end to end and cut, against the blocks of the data set. */
static void check_blocks(void **state, place *p, int64_t batch, int64_t cutoff)
{
    lt_dataset *d;
    p->opts.files = p->files;
    p->opts.packing = true;
    p->opts.pack_batch = batch;
    p->opts.encode.cutoff_len = cutoff;
    assert_ok(lt_dataset_open(&p->opts, NULL, NULL, &d));
    assert_int_equal(lt_dataset_row_len(d), cutoff);
    int64_t row = 0;
    for (int64_t from = 0; from < N_TEXTS; from += batch) {
        lt_vec all = LT_VEC_OF(int32_t);
        for (int64_t i = from; i < N_TEXTS && i < from + batch; i++) {
            lt_vec ids = ids_of(p, ended[i]);
            assert_ok(lt_vec_append(&all, ids.data, ids.n));
            lt_vec_deinit(&ids);
        }
        for (int64_t at = 0; at + cutoff <= all.n; at += cutoff, row++) {
            lt_vec samples = LT_VEC_OF(lt_sample);
            assert_ok(lt_dataset_encode_row(d, row, *state, &samples));
            assert_int_equal(samples.n, 1); // one sequence, not one for each text
            assert_sample(&LT_AT(&samples, lt_sample, 0), &LT_AT(&all, int32_t, at), cutoff);
            lt_vec_deinit(&samples);
        }
        lt_vec_deinit(&all);
    }
    assert_int_equal(lt_dataset_rows(d), row);
    lt_dataset_close(d);
}

static void blocks_are_cut_out_of_a_groups_texts(void **state)
{
    place p;
    set_up(state, &p, texts);
    for (int64_t batch = 1; batch <= N_TEXTS + 1; batch++)
        for (int64_t cutoff = 2; cutoff <= 5; cutoff++)
            check_blocks(state, &p, batch, cutoff);
    check_blocks(state, &p, 1000, 12);
    lt_tokenizer_close(p.tokenizer);
}

static void what_fills_no_block_is_an_error(void **state)
{
    place p;
    lt_dataset *d = NULL;
    set_up(state, &p, texts);
    p.opts.packing = true;
    p.opts.encode.cutoff_len = 1000;
    assert_fails(lt_dataset_open(&p.opts, NULL, NULL, &d), LT_ERR_DATA,
                 "no group of preprocessing_batch_size records has the 1000 tokens of a block");
    lt_tokenizer_close(p.tokenizer);
}

static void conversations_give_their_first_turn_and_no_pictures(void **state)
{
    place p;
    lt_dataset *d = NULL;
    set_up(
        state, &p,
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"<image>?\"}, {\"from\": \"gpt\", "
        "\"value\": \"b\"}], \"images\": []}\n");
    p.opts.attr = lt_attr_default();
    assert_ok(lt_dataset_open(&p.opts, NULL, NULL, &d));
    lt_vec ids = ids_of(&p, "<image>?<|im_end|>"); // a tag is text
    lt_sample s;
    assert_ok(lt_dataset_encode(d, 0, *state, &s));
    assert_sample(&s, ids.data, ids.n);
    lt_vec_deinit(&ids);
    lt_dataset_close(d);
    lt_tokenizer_close(p.tokenizer);
    set_up(state, &p, "{\"text\": \"a\", \"images\": [\"x.png\"]}\n");
    p.opts.attr.images = "images";
    assert_fails(lt_dataset_open(&p.opts, NULL, NULL, &d), LT_ERR_DATA,
                 "record 1: the record has 1 image, but stage: pretrain reads text alone");
    lt_tokenizer_close(p.tokenizer);
}

LT_TEST_MAIN(LT_TEST(a_row_is_a_text_with_its_end), LT_TEST(blocks_are_cut_out_of_a_groups_texts),
             LT_TEST(what_fills_no_block_is_an_error),
             LT_TEST(conversations_give_their_first_turn_and_no_pictures))
