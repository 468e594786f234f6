// SPDX-License-Identifier: Apache-2.0
// What users get wrong, and what disks do: one clear sentence, the documented exit code, nothing
// lost. Each case is a row: what is spoilt in a place that works, and what has to be said.
#include "base/file.h"
#include "ckpt/run_folder.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_EXTRA = 4, MAX_SAYS = 4 };

typedef struct bad_case {
    const char *what;
    const char *file, *from, *to;        // an edit; from NULL: the file is removed
    size_t keep_bytes;                   // the file is cut to so many bytes instead
    void (*spoil)(void *, const char *); // anything else
    const char *command; // instead of `train train.yaml`; the extra arguments are all then
    const char *extra[MAX_EXTRA];
    int exit_code;
    const char *says[MAX_SAYS]; // all stand in the message
} bad_case;

static void spoil_place(void *state, const char *dir, const bad_case *c)
{
    size_t n = 0;
    if (c->spoil)
        c->spoil(state, dir);
    if (!c->file)
        return;
    const char *path = lt_test_path(state, dir, c->file);
    if (c->keep_bytes > 0) {
        const char *text = lt_test_read(state, path, &n);
        assert_true(c->keep_bytes < n);
        lt_test_write(path, text, c->keep_bytes);
    } else if (c->from) {
        lt_place_edit(state, dir, c->file, c->from, c->to);
    } else {
        assert_int_equal(unlink(path), 0);
    }
}

static int64_t count_lines(const char *text, const char *start)
{
    int64_t n = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        n += strncmp(line, start, strlen(start)) == 0;
    return n;
}

static bool judge(const bad_case *c, const lt_run_result *r)
{
    bool fine = r->exit_code == c->exit_code && count_lines(r->err, "error: ") == 1;
    for (int i = 0; i < MAX_SAYS && c->says[i]; i++)
        fine =
            fine && strstr(strstr(r->err, "error: ") ? strstr(r->err, "error: ") : "", c->says[i]);
    if (fine)
        return true;
    print_error("%s: exit code %d (want %d), and it said\n%s", c->what, r->exit_code, c->exit_code,
                r->err);
    for (int i = 0; i < MAX_SAYS && c->says[i]; i++)
        print_error("wanted: %s\n", c->says[i]);
    return false;
}

static bool run_case(void *state, const bad_case *c)
{
    const char *dir = lt_place(state, &(lt_place_opts){0});
    const char *args[MAX_EXTRA + 3] = {"train", "train.yaml"};
    const int before = c->command ? 1 : 2;
    if (c->command)
        args[0] = c->command;
    for (int i = 0; i < MAX_EXTRA; i++)
        args[before + i] = c->extra[i];
    spoil_place(state, dir, c);
    const lt_run_result r = lt_run(state, dir, &(lt_run_opts){0}, args);
    assert_false(lt_file_exists(lt_test_path(state, dir, "out/" LT_RUN_TRACKER)));
    return judge(c, &r);
}

// All rows of a table, each in a place of its own; all that fail are shown.
static void run_cases(const bad_case *cases, size_t n)
{
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        void *state = NULL;
        assert_int_equal(lt_test_setup(&state), 0);
        failed += !run_case(state, &cases[i]);
        assert_int_equal(lt_test_teardown(&state), 0);
    }
    assert_int_equal(failed, 0);
}
#define RUN_CASES(cases) run_cases((cases), sizeof(cases) / sizeof *(cases))

/* ---- data ---- */

// The first half of a real JPEG, in place of the first record's picture.
static void cut_jpeg(void *state, const char *dir)
{
    size_t n = 0;
    const char *jpeg = lt_test_read(state, "tests/golden/pipeline/images/n_exif6_60x40.jpg", &n);
    lt_test_write(lt_test_path(state, dir, "pictures/cut.jpg"), jpeg, n / 2);
    lt_place_edit(state, dir, LT_PLACE_DATA, "p1.png", "cut.jpg");
}

static void large_picture(void *state, const char *dir)
{
    lt_place_png(state, lt_test_path(state, dir, "pictures/p1.png"), 128, 128, 5);
}

// Records are two lines each, from line 2 on.
static const bad_case data_cases[] = {
    {"missing image", "pictures/p3.png", .exit_code = 3,
     .says = {"data.json:6: record 3: image 2, p3.png, is not there"}},
    {"truncated JPEG", .spoil = cut_jpeg, .exit_code = 3, .says = {"cut.jpg", "record 2"}},
    {"an image that is none", LT_PLACE_DATA, "p1.png", "../train.yaml", .exit_code = 3,
     .says = {"train.yaml", "record 2"}},
    {"JSON error", LT_PLACE_DATA, "\"user\", \"content\": \"<image> Q",
     "\"user\" \"content\": \"<image> Q", .exit_code = 3, .says = {"data.json:4", "record 2"}},
    {"JSON that ends too early", LT_PLACE_DATA, .keep_bytes = 700, .exit_code = 3,
     .says = {"data.json:"}},
    {"too many image tags", LT_PLACE_DATA, "<image> Q", "<image><image> Q", .exit_code = 3,
     .says = {"data.json:4: record 2: ", "2 <image> tags, but 1 image belongs to it"}},
    {"an image larger than cutoff_len",
     .extra = {"data.dataset_param.basic_parameters.cutoff_len=20"}, .spoil = large_picture,
     .exit_code = 3,
     .says = {"data.json:4: record 2", "cutoff_len 20 cuts through image 1", "p1.png"}},
    {"a data set smaller than a batch", .extra = {"training.micro_batch_size=12"}, .exit_code = 2,
     .says = {"11 samples", "micro_batch_size 12"}},
    {"no data set", LT_PLACE_DATA, .exit_code = 3, .says = {"data.json"}},
    {"a data set of no use", LT_PLACE_DATA, .keep_bytes = 1, .exit_code = 3, .says = {"data.json"}},
    {"columns that are called otherwise",
     .extra = {"data.dataset_param.attr.messages=conversations"}, .exit_code = 3,
     .says = {"data.json", "conversations"}},
};

static void mistakes_in_the_data_are_named(void **state)
{
    (void)state;
    RUN_CASES(data_cases);
}

/* ---- models and checkpoints ---- */

static void empty_folder(void *state, const char *dir)
{
    assert_ok(lt_dir_make(lt_test_path(state, dir, "empty")));
}

static const bad_case model_cases[] = {
    {"an unknown model", "model/config.json", "\"model_type\": \"qwen3_vl\"",
     "\"model_type\": \"llama\"", .exit_code = 2,
     .says = {"model/config.json", "llama", "qwen3_vl"}},
    {"config.json cut short", "model/config.json", .keep_bytes = 100, .exit_code = 3,
     .says = {"model/config.json"}},
    {"no config.json", "model/config.json", .exit_code = 3, .says = {"model/config.json"}},
    {"a checkpoint cut short", "model/model.safetensors", .keep_bytes = 20000, .exit_code = 3,
     .says = {"model/model.safetensors"}},
    {"no weights and no init: random", "model/model.safetensors", .exit_code = 3,
     .says = {"lathe.init=random", "model is no checkpoint", "model.safetensors"}},
    {"a tensor of the wrong shape", "model/config.json", "\"intermediate_size\": 64",
     "\"intermediate_size\": 48", .exit_code = 3,
     .says = {"model/model.safetensors", "mlp.gate_proj.weight", "64,32", "48,32"}},
    {"a tensor that is not there", "model/config.json", "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 3", .exit_code = 3, .says = {"model", "layers.2."}},
    {"load at an empty folder", .spoil = empty_folder, .extra = {"training.load=empty"},
     .exit_code = 3, .says = {"empty is no checkpoint"}},
    {"load at nothing", .extra = {"training.load=nowhere"}, .exit_code = 3, .says = {"nowhere"}},
    {"no tokenizer.json", "model/tokenizer.json", .exit_code = 3, .says = {"model/tokenizer.json"}},
    {"tokenizer.json cut short", "model/tokenizer.json", .keep_bytes = 2000, .exit_code = 3,
     .says = {"model/tokenizer.json:"}},
    {"a tokenizer larger than the model's vocabulary", "model/config.json", "\"vocab_size\": 320",
     "\"vocab_size\": 305", .exit_code = 2,
     .says = {"the tokenizer has 313 tokens, the model's vocabulary 305"}},
    {"another model's tokenizer", "model/config.json", "\"image_token_id\": 300",
     "\"image_token_id\": 299", .exit_code = 2, .says = {"<|image_pad|>", "300", "299"}},
    {"another model's processor", "model/preprocessor_config.json", "\"patch_size\": 16",
     "\"patch_size\": 14", .exit_code = 2, .says = {"patch 14", "16"}},
};

static void mistakes_in_the_model_are_named(void **state)
{
    (void)state;
    RUN_CASES(model_cases);
}

/* ---- the configuration ---- */

static const bad_case config_cases[] = {
    {"a key typo, strict", "train.yaml", "micro_batch_size: 2", "micro_batchsize: 2",
     .extra = {"lathe.strict=true"}, .exit_code = 2,
     .says = {"train.yaml:20: training.micro_batchsize", "did you mean micro_batch_size?"}},
    {"a wrong type", "train.yaml", "lr: 1.0e-2", "lr: fast", .exit_code = 2,
     .says = {"train.yaml:14: training.lr: ", "fast"}},
    {"an unknown template", .extra = {"data.dataset_param.basic_parameters.template=qwen3_vlx"},
     .exit_code = 2, .says = {"template", "\"qwen3_vlx\"", "such as qwen3_vl"}},
    {"a value that is none of the choices", .extra = {"training.lr_decay_style=cosinus"},
     .exit_code = 2, .says = {"training.lr_decay_style", "cosine"}},
    {"what does not exist yet", .extra = {"features.enable_chunk_mbs=true"}, .exit_code = 2,
     .says = {"features.enable_chunk_mbs"}},
    {"a YAML error", "train.yaml", "data:", "data: [", .exit_code = 2, .says = {"train.yaml:"}},
    {"no such file", "train.yaml", .exit_code = 3, .says = {"train.yaml"}},
    {"a freeze list that matches nothing", .extra = {"model.freeze=[model.vision]"}, .exit_code = 2,
     .says = {"model.freeze", "model.vision"}},
    {"nothing left to train", .extra = {"model.freeze=['model*', lm_head]"}, .exit_code = 2,
     .says = {"model.freeze", "nothing is left to train"}},
    {"a save folder that cannot be", .extra = {"training.save=train.yaml/out"}, .exit_code = 4,
     .says = {"train.yaml/out"}},
    {"a save folder that cannot be, with metrics elsewhere",
     .extra = {"training.save=train.yaml/out", "lathe.run_dir=runs"}, .exit_code = 4,
     .says = {"training.save: train.yaml/out"}},
    {"a memory budget that is too small", .extra = {"lathe.memory_budget=1MiB"}, .exit_code = 1,
     .says = {"lathe.memory_budget"}},
    {"an override without a section", .extra = {"lr=1"}, .exit_code = 2, .says = {"lr"}},
    {"an unknown option", .extra = {"--fast"}, .exit_code = 2, .says = {"--fast"}},
};

static void mistakes_in_the_configuration_are_named(void **state)
{
    (void)state;
    RUN_CASES(config_cases);
}

/* ---- other commands ---- */

static void copy_unknown(void *state, const char *dir)
{
    lt_place_write(state, dir, "text.png", "no picture");
}

static const bad_case command_cases[] = {
    {"no command of that name", .command = "trian", .extra = {"train.yaml"}, .exit_code = 2,
     .says = {"did you mean train?"}},
    {"train what?", .command = "train", .exit_code = 2, .says = {"CONFIG.yaml"}},
    {"generate without a prompt", .command = "generate", .extra = {"model"}, .exit_code = 2,
     .says = {"--prompt"}},
    {"generate without a model", .command = "generate", .extra = {"nowhere", "--prompt", "Hello"},
     .exit_code = 3, .says = {"nowhere"}},
    {"generate from a picture that is none", .command = "generate",
     .extra = {"model", "--prompt=Hello", "--image=text.png"}, .spoil = copy_unknown,
     .exit_code = 3, .says = {"text.png"}},
    {"generate from a picture that is not there", .command = "generate",
     .extra = {"model", "--prompt=Hello", "--image=none.png"}, .exit_code = 3,
     .says = {"none.png"}},
    {"nothing to evaluate on", .command = "eval", .extra = {"train.yaml"}, .exit_code = 2,
     .says = {"--data", "val_dataset"}},
    {"evaluate on nothing", .command = "eval", .extra = {"train.yaml", "--data", "none.json"},
     .exit_code = 3, .says = {"none.json"}},
    {"a plan of an unknown model", "model/config.json", "\"model_type\": \"qwen3_vl\"",
     "\"model_type\": \"gpt\"", .command = "plan", .extra = {"train.yaml"}, .exit_code = 2,
     .says = {"gpt"}},
};

static void mistakes_on_the_command_line_are_named(void **state)
{
    (void)state;
    RUN_CASES(command_cases);
}

/* ---- what happens while a run goes on ---- */

static void assert_tracker(void *state, const char *dir, const char *want)
{
    assert_string_equal(lt_place_read(state, dir, "out/" LT_RUN_TRACKER), want);
}

// Without lathe.strict a typo warns, and the run goes on with the default.
static void a_key_typo_warns(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_place_edit(*state, dir, "train.yaml", "clip_grad", "clip_gard");
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=1");
    assert_exit(r, 0);
    assert_text_contains(r.err, "warning: train.yaml:18: training.clip_gard: unknown key");
    assert_text_contains(r.err, "did you mean clip_grad?");
}

// The disk is full when step 3 is to be saved: what was saved before stays, and goes on later.
static void a_full_disk_loses_nothing(void **state)
{
    const char *constant[] = {"training.lr_decay_style=constant", "training.lr_warmup_ratio=0"};
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const char *want = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result whole = lt_lathe(*state, want, "train", "train.yaml",
                                         "training.train_iters=4", constant[0], constant[1]);
    assert_exit(whole, 0);
    const lt_run_result first = lt_lathe(*state, dir, "train", "train.yaml",
                                         "training.train_iters=2", constant[0], constant[1]);
    assert_exit(first, 0);
    const char *const args[] = {
        "train",     "train.yaml", "training.train_iters=4", "training.save_interval=1",
        constant[0], constant[1],  "training.load=out",      NULL};
    const lt_run_result r = lt_run(*state, dir, &(lt_run_opts){.file_bytes = 200000}, args);
    assert_exit(r, 4);
    assert_text_contains(r.err, "error: saving iteration 3 to out: cannot write out/iter_0000003");
    assert_tracker(*state, dir, "2");
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(lt_test_path(*state, dir, "out"), *state, &names));
    assert_int_equal(names.n, 5); // iter_0000002, tracker, metrics.jsonl, loss.svg, tensorboard
    lt_vec_deinit(&names);
    const lt_run_result on = lt_run(*state, dir, &(lt_run_opts){0}, args);
    assert_exit(on, 0);
    lt_run_same_folder(*state, lt_test_path(*state, dir, "out/iter_0000004"),
                       lt_test_path(*state, want, "out/iter_0000004"));
}

static void a_full_disk_for_metrics_stops_nothing(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const char *const args[] = {"train", "train.yaml", "training.train_iters=4",
                                "training.save=null", NULL};
    const lt_run_result r = lt_run(*state, dir, &(lt_run_opts){.file_bytes = 500}, args);
    assert_exit(r, 0);
    assert_text_contains(r.out, " iteration        4/       4 |");
    assert_text_contains(r.err, "metrics.jsonl: cannot write");
}

// The checkpoint to go on from was cut short: named, and nothing of it is touched.
static void a_cut_checkpoint_is_named(void **state)
{
    static const struct {
        const char *file;
        size_t keep;
    } cuts[] = {{"out/iter_0000002/model.safetensors", 9000},
                {"out/iter_0000002/lathe_state.safetensors", 30000},
                {"out/latest_checkpointed_iteration.txt", 0}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        size_t n = 0;
        const char *dir = lt_place(*state, &(lt_place_opts){0});
        const lt_run_result first =
            lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=2");
        assert_exit(first, 0);
        const char *path = lt_test_path(*state, dir, cuts[i].file);
        const char *bytes = lt_test_read(*state, path, &n);
        lt_test_write(path, bytes, cuts[i].keep);
        const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml",
                                         "training.train_iters=4", "training.load=out");
        assert_exit(r, 3);
        assert_text_contains(r.err, cuts[i].file);
        assert_int_equal(count_lines(r.err, "error: "), 1);
        (void)lt_test_read(*state, path, &n);
        assert_int_equal(n, cuts[i].keep);
    }
}

static void a_missing_shard_is_named(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.files = 2});
    assert_int_equal(unlink(lt_test_path(*state, dir, "model/model-00002-of-00002.safetensors")),
                     0);
    const lt_run_result r = lt_lathe(*state, dir, "train", "train.yaml");
    assert_exit(r, 3);
    assert_text_contains(r.err, "model-00002-of-00002.safetensors");
}

// Record 11 comes last: its picture breaks while the run goes on. The steps before it are kept.
static void a_record_that_fails_late_keeps_what_was_trained(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    lt_place_png(*state, lt_test_path(*state, dir, "pictures/late.png"), 64, 64, 1);
    size_t n = 0;
    const char *path = lt_test_path(*state, dir, "pictures/late.png");
    const char *png = lt_test_read(*state, path, &n);
    lt_test_write(path, png, n - 30);
    lt_place_edit(*state, dir, LT_PLACE_DATA, "\"p2.png\", \"p3.png\"", "\"p2.png\", \"late.png\"");
    const lt_run_result r =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=9",
                 "data.dataloader_param.shuffle=false", "training.gradient_accumulation_steps=1");
    assert_exit(r, 3);
    assert_text_contains(r.err, "late.png");
    assert_text_contains(r.err, "record 3");
    assert_tracker(*state, dir, "1");
    assert_text_contains(r.out, "Saved checkpoint to out/iter_0000001");
}

LT_TEST_MAIN(LT_TEST(mistakes_in_the_data_are_named), LT_TEST(mistakes_in_the_model_are_named),
             LT_TEST(mistakes_in_the_configuration_are_named),
             LT_TEST(mistakes_on_the_command_line_are_named), LT_TEST(a_key_typo_warns),
             LT_TEST(a_full_disk_loses_nothing), LT_TEST(a_full_disk_for_metrics_stops_nothing),
             LT_TEST(a_cut_checkpoint_is_named), LT_TEST(a_missing_shard_is_named),
             LT_TEST(a_record_that_fails_late_keeps_what_was_trained))
