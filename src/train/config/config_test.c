// SPDX-License-Identifier: Apache-2.0
#include "tests/kit/lt_test.h"
#include "train/config/config.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// The least that a file has to say. Tests add sections behind it, or overrides.
static const char least[] =
    "data:\n"
    "  dataset_param:\n"
    "    dataset_type: huggingface\n"
    "    basic_parameters: {template: qwen3_vl, dataset: a.json}\n"
    "  dataloader_param: {dataloader_mode: sampler, sampler_type: BaseRandomBatchSampler,\n"
    "    shuffle: true, drop_last: true, pin_memory: true}\n";

static lt_config *read_with(const char *text, int64_t world, const char *const *overrides,
                            int64_t n)
{
    lt_config *cfg = NULL;
    const lt_config_opts opts = {.overrides = overrides, .n_overrides = n, .world_size = world};
    assert_ok(lt_config_read_text("t.yaml", text, strlen(text), &opts, &cfg));
    return cfg;
}

// The least file plus `more`, on `world` ranks, with one override (or NULL).
static lt_config *read_more(void **state, const char *more, int64_t world, const char *override)
{
    char *text = lt_test_take(*state, sizeof least + strlen(more));
    memcpy(text, least, sizeof least - 1);
    memcpy(text + sizeof least - 1, more, strlen(more) + 1);
    return read_with(text, world, &override, override != NULL);
}

typedef struct row {
    int64_t world;
    const char *override;
    const char *part; // of the error; NULL: accepted
} row;

static void check_rows(void **state, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lt_config *cfg = read_more(state, "", rows[i].world, rows[i].override);
        if (rows[i].part)
            assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG, rows[i].part);
        else
            assert_ok(lt_config_verdict(cfg));
        lt_config_destroy(cfg);
    }
}

static void what_the_reference_rejects_is_rejected(void **state)
{
    static const row rows[] = {
        {8, "parallel.tensor_parallel_size=2",
         "override 1: parallel.tensor_parallel_size: has to be 1, got 2"},
        {8, "parallel.ulysses_parallel_size=3",
         "override 1: parallel.ulysses_parallel_size: 8 ranks cannot be cut"},
        {8, "parallel.fully_shard_parallel_size=3", "3 does not divide the 8 ranks"},
        {8, "parallel.data_parallel_size=4", "parallel.data_parallel_size: is 4, but 8 ranks"},
        {8, "training.optimizer=sgd",
         "training.optimizer: the text \"sgd\" is none of adamw, adamw_swap, muon"},
        {8, "model.attn_implementation=foo", "is none of eager, sdpa"},
        {8, "parallel.ep_plan.dispatcher=foo", "is none of alltoall, allgather, mc2"},
        {8, "training.load_format=foo", "is none of auto, hf, dcp"},
        {8, "training.lr_min=1", "training.lr_min: 1 is above the peak rate"},
        {8, "training.lr_start=1", "training.lr_start: 1 is above the peak rate"},
        {8, "data.dataset_param.basic_parameters.stage=ppo", "is none of sft, pretrain, rm"},
        {8, "parallel.expert_parallel_size=3", "3 does not divide the 8 ranks"},
        {8, "parallel.expert_fully_shard_parallel_size=3", "do not divide the 8 ranks"},
        {1, "training.lr_decay_style=exp", "is none of constant, linear, cosine"},
        {1, "training.val_interval=-1", "training.val_interval: has to be 0 or more, got -1"},
        {1, "training.val_interval=5", "there is no validation set"},
        {1, "training.val_micro_batch_size=0", "has to be 1 or more, got 0"},
        {1, "training.manual_gc_interval=-1", "has to be 0 or more"},
        {1, "training.mem_fraction_static=0", "0 excluded, got 0"},
        {1, "training.mem_fraction_static=1.5", "from 0 to 1"},
        {1, "data.dataloader_param.drop_last=false", "the sampler has whole batches only"},
        {1, "data.dataset_param.basic_parameters.streaming=true",
         "streaming needs data.dataloader_param.dataloader_mode: base"},
        {1, "data.dataloader_param.dataloader_mode=other", "is none of sampler, base"},
        {1, "data.dataloader_param.collate_param={collator_id: a, model_name: b}",
         "\"b\" is not collator_id's \"a\""},
        {1, "features.recompute=true", "names no block"},
        {1, "features.loss_cfg.loss_type=custom", "is none of raw, default"},
        {1, "parallel.fsdp_plan.param_dtype=bfloat16", "is none of fp16, bf16"},
        {1, "model.freeze=model.visual",
         "expected a list of texts, got the text \"model.visual\"; write [model.visual]"},
        {1, "model.freeze=null", "expected a list of texts, got null"},
        {1, "model.freeze=['a.{0-3,5}']", "model.freeze[0]: in the pattern"},
        {1, "model.freeze=[a, 5]", "model.freeze[1]: expected a text, got the number 5"},
        {1, "model.model_id=5",
         "expected a text, got the number 5; if the text is meant, put it in quotes"},
        {1, "model.model_id=2026-01-01", "got the date 2026-01-01"},
        {1, "training.seed=42.5", "expected a whole number, got the number 42.5"},
        {1, "training.seed=null", "expected a whole number, got null"},
        {1, "training.seed=1e3", "got the text \"1e3\""},
        {1, "training.seed=99999999999999999999", "does not fit into 64 bits"},
        {1, "training.lr=null",
         "expected a number, got null; remove the key to get the default (5e-5)"},
        {1, "training.lr=.nan", "has to be a finite number"},
        {1, "training.lr=true", "expected a number, got the boolean true"},
        {1, "training.lr=fast", "expected a number, got the text \"fast\""},
        {1, "training.adam_fused=maybe", "expected true or false"},
        {1, "training.adam_fused=2", "expected true or false, got the number 2"},
        {1, "parallel.fully_shard_parallel_size=Auto", "expected auto or a whole number"},
        {1, "training.lora={enable: true, rank: 0}", "training.lora.rank: has to be 1 or more"},
        {1, "training.lora={enable: true, dropout: 1}", "1 excluded"},
        {1, "training.lora={enable: true, init_lora_weights: pissa_niter_}",
         "is none of true, false, gaussian"},
        {1, "training.lr_scaling_plan=[{match: '(', scale: 0.1}]",
         "training.lr_scaling_plan[0].match: the regular expression"},
        {1, "training.lr_scaling_plan=[{scale: 0.1}]",
         "training.lr_scaling_plan[0].match: is missing"},
        {1, "training.lr_scaling_plan=[5]", "expected a mapping, got the number 5"},
        {1, "lathe.memory_budget=lots", "expected a byte count such as 64GiB"},
        {1, "data.dataset_param=5", "data.dataset_param: expected a mapping, got the number 5"},
        {1, "data.dataset_param.preprocess_parameters={image_min_pixels: 10, image_max_pixels: 5}",
         "5 is less than image_min_pixels"},
        {1, "tools.profile={enable: true, static_param: {start_step: 5, end_step: 5}}",
         "nothing would be recorded"},
        {1, "training.micro_batchsize=4",
         "override 1: training.micro_batchsize: unknown key; did you mean micro_batch_size?"},
        {1, "training.recompute=true", "did you mean features.recompute?"},
    };
    check_rows(state, rows, sizeof rows / sizeof *rows);
}

static void shards_cannot_be_fewer_than_context_ranks(void **state)
{
    lt_config *cfg = read_more(
        state, "parallel: {fully_shard_parallel_size: 2, ulysses_parallel_size: 4}\n", 8, NULL);
    assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG,
                 "t.yaml:7: parallel.fully_shard_parallel_size: 2 is less than ring 1 x ulysses 4");
    lt_config_destroy(cfg);
    cfg = read_more(state, "parallel: {fully_shard_parallel_size: 6, ulysses_parallel_size: 4}\n",
                    24, NULL);
    assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG, "6 is no multiple of");
    lt_config_destroy(cfg);
}

static void what_the_reference_accepts_is_accepted(void **state)
{
    static const row rows[] = {
        {8, "training.lr=1e-5", NULL},
        {8, "training.seed=42.0", NULL},
        {8, "training.seed=\"42\"", NULL},
        {8, "training.seed=' 1_000 '", NULL},
        {8, "training.seed=true", NULL},
        {8, "parallel.fully_shard_parallel_size=\"2\"", NULL},
        {8, "data.dataloader_param.shuffle=null", NULL},
        {8, "training.load=null", NULL},
        {8, "training.save=", NULL},
        {8, "training.allow_hf32=~", NULL},
        {8, "parallel.expert_fully_shard_parallel_size=null", NULL},
        {8, "parallel.fsdp_plan.apply_modules=null", NULL},
        {8, "features.recompute=\"false\"", NULL},
        {8, "training.adam_fused='Off'", NULL},
        {8, "training.adam_fused=1", NULL},
        {8, "model.attn_implementation=null", NULL},
        {8, "features.loss_cfg.loss_type=null", NULL},
        {8, "training.lora={enable: false, rank: 0}", NULL},
        {8, "training.lora={enable: true, init_lora_weights: PiSSA_niter_16}", NULL},
        {8, "training.quantization_plan={recipe_name: mxfp8, extra_args: {a: [1, 2]}}", NULL},
        {8, "training.profile={enable: true, anything: 3}", NULL},
        {8, "data.dataset_param.basic_parameters.dataset=[a.json, b.json]", NULL},
        {8, "lathe.device=cpu", NULL},
        {8, "lathe.policy=full", NULL},
        {8, "lathe.policy='full:12,lean'", NULL},
    };
    check_rows(state, rows, sizeof rows / sizeof *rows);
}

static void values_arrive_in_their_fields(void **state)
{
    lt_config *cfg = read_more(
        state,
        "parallel: {fsdp_plan: {param_dtype: bf16, apply_modules: ['model.layers.{*}', lm_head]}}\n"
        "model: {model_id: qwen3_vl, freeze: [model.visual], gdn_implementation: ' Triton ', "
        "num_hidden_layers: 2}\n"
        "features: {loss_cfg: {loss_type: per_token_loss}, enable_chunk_loss: on, chunkloss_plan: "
        "{chunk_size: 512}}\n"
        "training:\n"
        "  lr: 1e-5\n"
        "  lr_decay_style: cosine\n"
        "  micro_batch_size: 2\n"
        "  gradient_accumulation_steps: 3\n"
        "  lr_scaling_plan: [{match: 'model\\.visual', scale: 0.1}, {match: lm_head}]\n"
        "lathe: {memory_budget: 1.5GiB, dtype: fp32}\n",
        4, NULL);
    assert_ok(lt_config_verdict(cfg));
    assert_int_equal(cfg->parallel.fsdp_plan.param_dtype, LT_CFG_BF16);
    assert_int_equal(cfg->parallel.fsdp_plan.reduce_dtype, LT_CFG_DTYPE_NONE);
    assert_text_equal(cfg->parallel.fsdp_plan.apply_modules.items[0], "model.layers.{*}");
    assert_int_equal(cfg->model.freeze.n, 1);
    assert_text_equal(cfg->model.gdn_implementation, "triton");
    assert_int_equal(cfg->model.num_hidden_layers, 2);
    assert_int_equal(cfg->model.vision_depth, LT_CFG_NONE);
    assert_int_equal(cfg->features.loss_cfg.loss_type, LT_CFG_LOSS_PER_TOKEN);
    assert_true(cfg->features.enable_chunk_loss);
    assert_true(cfg->training.lr == 1e-5);
    assert_int_equal(cfg->training.lr_decay_style, LT_CFG_COSINE);
    assert_int_equal(cfg->training.lr_scaling_plan.n, 2);
    assert_text_equal(cfg->training.lr_scaling_plan.items[0].match, "model\\.visual");
    assert_true(cfg->training.lr_scaling_plan.items[0].scale == 0.1);
    assert_true(cfg->training.lr_scaling_plan.items[1].scale == 1.0);
    assert_int_equal(cfg->training.val_micro_batch_size, 2);
    assert_int_equal(cfg->training.allow_hf32, LT_CFG_UNSET);
    assert_true(isnan(cfg->data.dataset_param.basic_parameters.val_rate));
    assert_int_equal(cfg->lathe.memory_budget, INT64_C(3) << 29);
    assert_int_equal(cfg->sizes.global_batch, 2 * 4 * 3);
    assert_int_equal(cfg->sizes.dp_shard, 4);
    assert_int_equal(lt_config_compute_dtype(cfg), LT_CFG_COMPUTE_F32);
    assert_int_equal(lt_config_loss_rows(cfg), 1024);
    lt_config_destroy(cfg);
}

static void dynamic_chunks_follow_from_the_batch(void **state)
{
    static const struct {
        int64_t total, batch, rows;
    } cases[] = {{4096, 1, 4096}, {4096, 3, 3072}, {5000, 2, 4096}, {4, 8, 8}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[256];
        snprintf(more, sizeof more,
                 "features: {enable_dynamic_chunk_loss: true, chunkloss_plan: {total_chunk_size: "
                 "%d}}\ntraining: {micro_batch_size: %d}\n",
                 (int)cases[i].total, (int)cases[i].batch);
        lt_config *cfg = read_more(state, more, 0, NULL);
        assert_int_equal(lt_config_loss_rows(cfg), cases[i].rows);
        lt_config_destroy(cfg);
    }
}

static void sizes_follow_from_the_ranks(void **state)
{
    lt_config *cfg = read_more(
        state,
        "parallel: {ulysses_parallel_size: 2, fully_shard_parallel_size: 4, expert_parallel_size: "
        "2, expert_fully_shard_parallel_size: 2}\ntraining: {micro_batch_size: 4}\n",
        8, NULL);
    assert_ok(lt_config_verdict(cfg));
    const lt_cfg_sizes *s = &cfg->sizes;
    assert_int_equal(s->dp, 4);
    assert_int_equal(s->dp_shard, 2);
    assert_int_equal(s->dp_replicate, 2);
    assert_int_equal(s->efsdp, 2);
    assert_int_equal(s->edp, 2);
    assert_int_equal(s->global_batch, 16);
    lt_config_destroy(cfg);
}

static void unknown_keys_warn_and_are_errors_in_strict_mode(void **state)
{
    lt_config *cfg =
        read_more(state, "training:\n  micro_batchsize: 4\nextra: {foo: 1}\n", 1, NULL);
    assert_ok(lt_config_verdict(cfg));
    assert_int_equal(lt_config_n_issues(cfg), 2);
    assert_text_equal(
        lt_config_issue_at(cfg, 0).text,
        "t.yaml:8: training.micro_batchsize: unknown key; did you mean micro_batch_size?");
    assert_text_equal(lt_config_issue_at(cfg, 1).text,
                      "t.yaml:9: extra: unknown section, it has no effect");
    lt_config_destroy(cfg);
    cfg = read_more(state, "training:\n  micro_batchsize: 4\nlathe: {strict: true}\n", 1, NULL);
    assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG,
                 "t.yaml:8: training.micro_batchsize: unknown key");
    lt_config_destroy(cfg);
}

static void all_errors_of_a_file_come_together(void **state)
{
    lt_config *cfg =
        read_more(state, "training:\n  lr: fast\n  seed: 1.5\nmodel:\n  freeze: a\n", 1, NULL);
    const lt_status st = lt_config_verdict(cfg);
    assert_fails(st, LT_ERR_CONFIG, "t.yaml:11: model.freeze: expected a list");
    assert_text_contains(lt_error_message(), "\nt.yaml:8: training.lr: expected a number");
    assert_text_contains(lt_error_message(), "\nt.yaml:9: training.seed: expected a whole number");
    assert_true(cfg->training.lr == 5e-5); // a wrong key has its default
    lt_config_destroy(cfg);
}

static void missing_keys_are_named(void **state)
{
    (void)state;
    lt_config *cfg = read_with("training: {lr: 1}\n", 1, NULL, 0);
    assert_fails(
        lt_config_verdict(cfg), LT_ERR_CONFIG,
        "t.yaml: data: the section is missing; it has to set data.dataset_param.dataset_type, "
        "data.dataloader_param.dataloader_mode, data.dataloader_param.sampler_type, "
        "data.dataloader_param.shuffle, "
        "data.dataloader_param.drop_last, data.dataloader_param.pin_memory");
    lt_config_destroy(cfg);
    cfg = read_with("data:\n  dataset_param: {attr: {}}\n  dataloader_param:\n    dataloader_mode: "
                    "sampler\n    drop_last: true\n",
                    1, NULL, 0);
    assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG,
                 "t.yaml:2: data.dataset_param.dataset_type: is missing");
    assert_text_contains(lt_error_message(), "t.yaml:3: data.dataloader_param.shuffle: is missing");
    lt_config_destroy(cfg);
}

static void overrides_are_named_by_number(void **state)
{
    const char *const good[] = {"training.lr=2.0e-5", "model.freeze=[a, b]", "training.lr=3e-5",
                                "data.dataset_param.basic_parameters.dataset=x.json, y.json",
                                "model.model_name_or_path=/some/where"};
    lt_config *cfg = read_with(least, 1, good, 5);
    assert_ok(lt_config_verdict(cfg));
    assert_true(cfg->training.lr == 3e-5);
    assert_int_equal(cfg->model.freeze.n, 2);
    assert_int_equal(cfg->data.dataset_param.basic_parameters.dataset.n, 2);
    assert_text_equal(cfg->data.dataset_param.basic_parameters.dataset.items[1], "y.json");
    assert_text_equal(lt_config_where(cfg, "training.lr").s, "override 3");
    assert_text_equal(lt_config_where(cfg, "data.dataset_param.dataset_type").s, "t.yaml:3");
    assert_text_equal(lt_config_where(cfg, "training.seed").s, "default");
    lt_config_destroy(cfg);
    static const char *const wrong[][2] = {
        {"training.lr", "override 2: \"training.lr\" is not section.key=value"},
        {"--lr=3", "is not section.key=value"},
        {"training=3", "is not section.key=value"},
        {"training..lr=3", "is not section.key=value"},
        {"training.lr.=3", "is not section.key=value"},
        {"training.lr=[1", "override 2: not valid YAML"},
        {"model.freeze=*x", "override 2: *x refers to an anchor"},
        {"data.dataset_param.dataset_type.x=1", "override 2: data.dataset_param.dataset_type.x: "
                                                "data.dataset_param.dataset_type is the text"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const list[] = {"training.lr=1", wrong[i][0]};
        const lt_config_opts opts = {.overrides = list, .n_overrides = 2};
        lt_config *none = NULL;
        assert_fails(lt_config_read_text("t.yaml", least, strlen(least), &opts, &none),
                     LT_ERR_CONFIG, wrong[i][1]);
    }
    (void)state;
}

static void files_of_other_families_are_recognised(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"MM_MODEL_LOAD_PATH: &a x\ngpt_args: {a: 1}\n",
         "t.yaml:2: gpt_args: this is a configuration of the Megatron-bridged family"},
        {"sharding_size: 8\nsub_modules_to_wrap: []\n",
         "t.yaml:1: sharding_size: this is an fsdp2_config.yaml"},
        {"- a\n", "this file is a list"},
        {"", "this file is empty"},
        {"hello\n", "this file is the text \"hello\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lt_config *cfg = NULL;
        assert_fails(lt_config_read_text("t.yaml", cases[i][0], strlen(cases[i][0]), NULL, &cfg),
                     LT_ERR_CONFIG, cases[i][1]);
        assert_null(cfg);
    }
}

static lt_config *read_golden(void **state, const char *name, int64_t world)
{
    char path[128];
    snprintf(path, sizeof path, "yaml/%s.yaml", name);
    lt_config *cfg = NULL;
    const lt_config_opts opts = {.world_size = world};
    assert_ok(lt_config_read(lt_test_golden(*state, path), &opts, &cfg));
    return cfg;
}

static void the_users_files_load_unchanged(void **state)
{
    static const struct {
        const char *name;
        int64_t global_batch; // on 8 ranks
    } files[] = {{"qwen3_5_4B_config", 8},
                 {"qwen3_6_27B_config", 8},
                 {"qwen3_6_27B_offload_config", 64},
                 {"qwen3vl_8B_config_v1", 8}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        lt_config *cfg = read_golden(state, files[i].name, 8);
        assert_ok(lt_config_verdict(cfg));
        assert_int_equal(lt_config_n_issues(cfg), 0);
        assert_int_equal(cfg->sizes.global_batch, files[i].global_batch);
        assert_non_null(strstr(cfg->model.model_name_or_path, "Qwen3"));
        assert_text_equal(cfg->model.model_name_or_path,
                          cfg->data.dataset_param.preprocess_parameters.model_name_or_path);
        lt_config_destroy(cfg);
    }
}

static void the_excerpts_say_what_is_missing(void **state)
{
    lt_config *cfg = read_golden(state, "internvl3_5_excerpt", 0);
    assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG,
                 "data: the section is missing; it has to set data.dataset_param.dataset_type");
    assert_int_equal(cfg->parallel.fsdp_plan.num_to_backward_prefetch, 2);
    assert_int_equal(cfg->model.num_hidden_layers, LT_CFG_NONE);
    lt_config_destroy(cfg);
    cfg = read_golden(state, "hyperparallel_vision_parallel", 0);
    assert_fails(lt_config_verdict(cfg), LT_ERR_CONFIG, "data: the section is missing");
    assert_text_contains(lt_error_message(),
                         "hyperparallel_vision_parallel.yaml:3: model.name: unknown key; it is "
                         "HyperParallel's: the key is model_id");
    assert_text_contains(
        lt_error_message(),
        "hyperparallel_vision_parallel.yaml:11: train: unknown section; it is HyperParallel's");
    assert_int_equal(cfg->model.vision_parallel.cp, 2);
    assert_fails(lt_config_refuse(cfg, LT_USE_TRAIN, NULL), LT_ERR_CONFIG,
                 "model.model_id: is missing");
    lt_config_destroy(cfg);
}

static void what_is_printed_loads_to_the_same(void **state)
{
    static const char *const names[] = {"qwen3_5_4B_config", "qwen3_6_27B_offload_config",
                                        "qwen3vl_8B_config_v1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lt_buf first = {0}, second = {0};
        lt_config *cfg = read_golden(state, names[i], 8);
        assert_ok(lt_config_print(cfg, &first));
        lt_config_destroy(cfg);
        cfg = read_with(first.data, 8, NULL, 0);
        assert_ok(lt_config_verdict(cfg));
        assert_ok(lt_config_print(cfg, &second));
        lt_config_destroy(cfg);
        // The second file sets every key, so that only the marks of defaults differ.
        char *mark = NULL;
        while ((mark = strstr(first.data, "  # default\n")) != NULL)
            memmove(mark, mark + strlen("  # default"), strlen(mark + strlen("  # default")) + 1);
        for (char *p = second.data; (mark = strstr(p, "  # default\n")) != NULL; p = mark)
            memmove(mark, mark + strlen("  # default"), strlen(mark + strlen("  # default")) + 1);
        assert_text_equal(second.data, first.data);
        lt_buf_deinit(&first);
        lt_buf_deinit(&second);
    }
}

static void awkward_texts_survive_printing(void **state)
{
    lt_buf out = {0};
    lt_config *cfg =
        read_more(state,
                  "model: {freeze: ['a: b', \"quo\\\"te\", 'yes', '007', \"tab\\t\", ', x', '#no', "
                  "'\xC3\xA9'], model_id: 'null'}\ntraining: {lr: 1.0e-20, load: ' '}\n",
                  0, NULL);
    assert_ok(lt_config_print(cfg, &out));
    lt_config *again = read_with(out.data, 0, NULL, 0);
    assert_ok(lt_config_verdict(again));
    assert_int_equal(again->model.freeze.n, cfg->model.freeze.n);
    for (int64_t i = 0; i < cfg->model.freeze.n; i++)
        assert_text_equal(again->model.freeze.items[i], cfg->model.freeze.items[i]);
    assert_text_equal(again->model.model_id, "null");
    assert_text_equal(again->training.load, " ");
    assert_true(again->training.lr == 1e-20);
    lt_config_destroy(cfg);
    lt_config_destroy(again);
    lt_buf_deinit(&out);
}

static void features_that_do_not_exist_are_refused_by_name(void **state)
{
    static const char *const cases[][2] = {
        {"features.enable_chunk_mbs=true", "features.enable_chunk_mbs: true asks for"},
        {"training.lora.enable=true", "training.lora.enable: true asks for low-rank adapters"},
        {"tools.memory_profile.enable=true", "tools.memory_profile.enable"},
        {"parallel.ulysses_parallel_size=2", "parallel.ulysses_parallel_size: 2 asks for Ulysses"},
        {"parallel.ring_attention_size=2", "ring attention"},
        {"parallel.expert_parallel_size=2", "expert parallelism"},
        {"data.dataset_param.basic_parameters.template=qwen3_vll",
         "\"qwen3_vll\" is not a template that lathe knows"},
        {"data.dataset_param.attr.audios=audios", "reading audio"},
        {"data.dataloader_param.sampler_type=Other", "\"Other\" is not a sampler that lathe knows"},
        {"model.model_id=llava", "\"llava\" is not a model family that lathe knows"},
        {"model.mtp_num_layers=2", "predicting more than one further token"},
        {"model.vision_parallel.cp=2", "context parallelism in the vision tower"},
        {"parallel.fsdp_plan.param_dtype=fp16", "fp16"},
        {"parallel.fsdp_plan.cast_forward_inputs=false", "false asks for"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lt_config *cfg = read_more(state, "model: {model_id: qwen3_vl, model_name_or_path: x}\n", 0,
                                   cases[i][0]);
        char part[160];
        snprintf(part, sizeof part, "override 1: %.*s: ", (int)strcspn(cases[i][0], "="),
                 cases[i][0]);
        assert_fails(lt_config_refuse(cfg, LT_USE_TRAIN, NULL), LT_ERR_UNSUPPORTED, cases[i][1]);
        assert_text_contains(lt_error_message(), part);
        assert_null(strchr(lt_error_message(), '\n')); // nothing else is refused
        lt_config_destroy(cfg);
    }
}

typedef struct heard {
    int n;
    char last[512];
} heard;

static void listen(void *ctx, lt_log_level level, const char *area, const char *text)
{
    heard *h = ctx;
    (void)level, (void)area;
    h->n++;
    snprintf(h->last, sizeof h->last, "%s", text);
}

static void hints_are_accepted_with_one_note(void **state)
{
    heard h = {0};
    const lt_log log = {.fn = listen, .ctx = &h};
    lt_config *cfg =
        read_more(state,
                  "model: {model_id: qwen3_vl, model_name_or_path: x, attn_implementation: "
                  "sdpa}\ntraining: {adam_fused: true, plugin: [a/b]}\n",
                  1, NULL);
    assert_ok(lt_config_refuse(cfg, LT_USE_TRAIN, &log));
    assert_int_equal(h.n, 1);
    assert_text_equal(
        h.last,
        "hints that change no result here: pin_memory attn_implementation adam_fused plugin");
    lt_config_destroy(cfg);
}

static void evaluation_does_not_look_at_training(void **state)
{
    lt_config *cfg = read_more(state, "model: {model_id: qwen3_vl, model_name_or_path: x}\n", 1,
                               "training.lora.enable=true");
    assert_ok(lt_config_refuse(cfg, LT_USE_EVAL, NULL));
    assert_fails(lt_config_refuse(cfg, LT_USE_PLAN, NULL), LT_ERR_UNSUPPORTED, "lora");
    lt_config_destroy(cfg);
}

static void nothing_in_the_qwen3vl_8b_file_is_refused(void **state)
{
    lt_config *cfg = read_golden(state, "qwen3vl_8B_config_v1", 1);
    assert_ok(lt_config_refuse(cfg, LT_USE_TRAIN, NULL));
    lt_config_destroy(cfg);
}

static void keys_without_effect_warn_when_they_are_set(void **state)
{
    lt_config *cfg = read_more(state,
                               "parallel: {recompute: true}\ntraining: {no_decay_params: [bias], "
                               "max_steps: null, save_steps: 0, save: out}\n",
                               1, NULL);
    assert_ok(lt_config_verdict(cfg));
    assert_int_equal(lt_config_n_issues(cfg), 3);
    assert_text_contains(lt_config_issue_at(cfg, 0).text,
                         "training.save: save_interval is not set, and its default saves a "
                         "checkpoint after every step");
    assert_text_contains(
        lt_config_issue_at(cfg, 1).text,
        "parallel.recompute: is set, and without effect; the switch is features.recompute");
    assert_text_contains(lt_config_issue_at(cfg, 2).text, "training.no_decay_params");
    lt_config_destroy(cfg);
}

static void a_key_written_twice_warns(void **state)
{
    lt_config *cfg = read_more(state, "training:\n  lr: 1\n  lr: 2\n", 1, NULL);
    assert_int_equal(lt_config_n_issues(cfg), 1);
    assert_text_equal(lt_config_issue_at(cfg, 0).text,
                      "t.yaml:9: lr: stands here and on line 8; this one counts");
    assert_true(cfg->training.lr == 2);
    lt_config_destroy(cfg);
}

// A page that is out of date is made again by `lathe config --keys > docs/user-guide/keys.md`.
static void the_page_of_all_keys_is_up_to_date(void **state)
{
    lt_buf out = {0};
    assert_ok(lt_config_keys(&out));
    assert_text_equal(lt_test_read(*state, "docs/user-guide/keys.md", NULL), out.data);
    lt_buf_deinit(&out);
}

static void a_file_that_is_not_there_says_so(void **state)
{
    (void)state;
    lt_config *cfg = NULL;
    assert_fails(lt_config_load("no/such/file.yaml", NULL, NULL, &cfg), LT_ERR_NOT_FOUND,
                 "no/such/file.yaml");
}

LT_TEST_MAIN(
    LT_TEST(what_the_reference_rejects_is_rejected),
    LT_TEST(shards_cannot_be_fewer_than_context_ranks),
    LT_TEST(what_the_reference_accepts_is_accepted), LT_TEST(values_arrive_in_their_fields),
    LT_TEST(dynamic_chunks_follow_from_the_batch), LT_TEST(sizes_follow_from_the_ranks),
    LT_TEST(unknown_keys_warn_and_are_errors_in_strict_mode),
    LT_TEST(all_errors_of_a_file_come_together), LT_TEST(missing_keys_are_named),
    LT_TEST(overrides_are_named_by_number), LT_TEST(files_of_other_families_are_recognised),
    LT_TEST(the_users_files_load_unchanged), LT_TEST(the_excerpts_say_what_is_missing),
    LT_TEST(what_is_printed_loads_to_the_same), LT_TEST(awkward_texts_survive_printing),
    LT_TEST(features_that_do_not_exist_are_refused_by_name),
    LT_TEST(hints_are_accepted_with_one_note), LT_TEST(evaluation_does_not_look_at_training),
    LT_TEST(nothing_in_the_qwen3vl_8b_file_is_refused),
    LT_TEST(keys_without_effect_warn_when_they_are_set), LT_TEST(a_key_written_twice_warns),
    LT_TEST(the_page_of_all_keys_is_up_to_date), LT_TEST(a_file_that_is_not_there_says_so))
