// SPDX-License-Identifier: Apache-2.0
// Rows of the schema: training, tools, lathe.
#include "train/config/schema.h"
#include "train/config/sections.h"

#define ROWS(rows) (rows), sizeof(rows) / sizeof *(rows)

static const char *const decays[] = {"constant", "linear", "cosine", NULL};
static const char *const optimizers[] = {"adamw", "adamw_swap", "muon", NULL};
static const char *const file_formats[] = {"auto", "hf", "dcp", NULL};
// The same order as lt_cfg_dtype; only floats are spelled here, so the names in between cannot be
// written.
static const char *const ckpt_dtypes[] = {"fp16", "bf16", "fp32", NULL};
static const char *const stack_kinds[] = {"python", "all", NULL};
static const char *const gather_modes[] = {"on-demand", "all", NULL};
static const char *const devices[] = {"auto", "cpu", "cuda", NULL};
static const char *const inits[] = {"weights", "random", NULL};
static const char *const computes[] = {"f32", "bf16", "fp32", NULL};
static const char *const habits[] = {"mindspeed_mm", "llama_factory", NULL}; // lt_habits
static const char *const video_times[] = {"true_times", "reference", NULL};
static const char *const empty_thoughts[] = {"auto", "train", "mask", "omit",
                                             NULL}; // lt_empty_thought
static const char *const bad_records[] = {"stop", "skip", NULL};

// ---------------------------------------------------------------- training

#define AT(field) offsetof(lt_cfg_lr_scale, field)
static const lt_field lr_scale_fields[] = {
    {"match", LT_FIELD_TEXT, AT(match), .flags = LT_FIELD_REQUIRED,
     .help = "a regular expression that matches at the start of a parameter's name"},
    {"scale", LT_FIELD_FLOAT, AT(scale), "1.0", .range = &lt_range_at_least_0,
     .help = "its rate is lr times this"},
};
#undef AT
static const lt_record lr_scale = {"lr_scaling_plan", ROWS(lr_scale_fields),
                                   sizeof(lt_cfg_lr_scale)};

#define AT(field) offsetof(lt_cfg_lora, field)
static const lt_field lora_fields[] = {
    {"enable", LT_FIELD_BOOL, AT(enable), "false",
     .refuse = {LT_WHEN_TRUE, .feature = "low-rank adapters", .instead = "set it to false"},
     .help = "train adapters instead of the weights"},
    {"rank", LT_FIELD_INT, AT(rank), "8", .help = "columns of an adapter"},
    {"alpha", LT_FIELD_INT, AT(alpha), "16", .help = "scaling is alpha / rank"},
    {"target_modules", LT_FIELD_TEXTS, AT(target_modules), "[q_proj, k_proj, v_proj]",
     .help = "layers that get an adapter"},
    {"dropout", LT_FIELD_FLOAT, AT(dropout), "0.0", .help = "dropout in front of an adapter"},
    {"init_lora_weights", LT_FIELD_BOOL_OR_TEXT, AT(init_lora_weights), "true",
     .help = "how adapters start"},
    {"pretrained_lora_path", LT_FIELD_TEXT, AT(pretrained_lora_path), .flags = LT_FIELD_NULL,
     .help = "a file of adapters to start from"},
    {"lora_target_modules_support", LT_FIELD_TEXTS, AT(lora_target_modules_support),
     .flags = LT_FIELD_NULL, .help = "names that may get one"},
    {"disable_peft_moe_conversion", LT_FIELD_BOOL, AT(disable_peft_moe_conversion), "true",
     .help = "targets mean linear layers, not expert tensors"},
};
#undef AT
static const lt_record lora = {"lora", ROWS(lora_fields), sizeof(lt_cfg_lora)};

#define AT(field) offsetof(lt_cfg_quantization, field)
static const lt_field quantization_fields[] = {
    {"recipe_name", LT_FIELD_TEXT, AT(recipe_name), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT, .help = "for one accelerator only; not used here"},
    {"apply_modules", LT_FIELD_TEXTS, AT(apply_modules), .flags = LT_FIELD_NULL,
     .help = "not used here"},
    {"ignored_modules", LT_FIELD_TEXTS, AT(ignored_modules), .flags = LT_FIELD_NULL,
     .help = "not used here"},
    {"quant_converters", LT_FIELD_TEXTS, AT(quant_converters), .flags = LT_FIELD_NULL,
     .help = "not used here"},
    {"extra_args", LT_FIELD_ANY, .help = "not used here"},
    {"enable_fsdp_low_precision_all_gather", LT_FIELD_BOOL,
     AT(enable_fsdp_low_precision_all_gather), "true", .help = "not used here"},
    {"fsdp_low_precision_all_gather_mode", LT_FIELD_TEXT, AT(fsdp_low_precision_all_gather_mode),
     "on-demand", .choices = gather_modes, .help = "not used here"},
};
#undef AT
static const lt_record quantization = {"quantization_plan", ROWS(quantization_fields),
                                       sizeof(lt_cfg_quantization)};

#define AT(field) offsetof(lt_cfg_training, field)
static const lt_field training_fields[] = {
    {"lr", LT_FIELD_FLOAT, AT(lr), "5e-5", .range = &lt_range_at_least_0,
     .help = "peak learning rate"},
    {"lr_min", LT_FIELD_FLOAT, AT(lr_min), "0.0", .range = &lt_range_at_least_0,
     .help = "floor of the cosine schedule"},
    {"lr_start", LT_FIELD_FLOAT, AT(lr_start), "0.0", .range = &lt_range_at_least_0,
     .help = "rate at the start of warm-up"},
    {"lr_decay_style", LT_FIELD_CHOICE, AT(lr_decay_style), "constant", .choices = decays,
     .help = "the schedule after warm-up"},
    {"lr_warmup_ratio", LT_FIELD_FLOAT, AT(lr_warmup_ratio), "0.0", .range = &lt_range_unit,
     .help = "share of the steps that warm up"},
    {"lr_decay_ratio", LT_FIELD_FLOAT, AT(lr_decay_ratio), "1.0", .range = &lt_range_unit,
     .help = "share of the steps after which cosine stays at lr_min"},
    {"weight_decay", LT_FIELD_FLOAT, AT(weight_decay), "0.0", .range = &lt_range_at_least_0,
     .help = "of every trained tensor, norms and biases too"},
    {"no_decay_modules", LT_FIELD_TEXTS, AT(no_decay_modules), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT,
     .help = "without effect: weight decay applies to every trained tensor"},
    {"no_decay_params", LT_FIELD_TEXTS, AT(no_decay_params), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT,
     .help = "without effect: weight decay applies to every trained tensor"},
    {"optimizer", LT_FIELD_CHOICE, AT(optimizer), "adamw", .choices = optimizers,
     .help = "the optimizer"},
    {"adam_fused", LT_FIELD_BOOL, AT(adam_fused), "true", .support = LT_SUPPORT_HINT,
     .help = "a choice of kernels"},
    {"adam_beta1", LT_FIELD_FLOAT, AT(adam_beta1), "0.9", .range = &lt_range_unit_open_high,
     .help = "decay of the first moment"},
    {"adam_beta2", LT_FIELD_FLOAT, AT(adam_beta2), "0.999", .range = &lt_range_unit_open_high,
     .help = "decay of the second moment"},
    {"adam_eps", LT_FIELD_FLOAT, AT(adam_eps), "1e-8", .range = &lt_range_at_least_0,
     .help = "added to the root of the second moment"},
    {"mem_fraction_static", LT_FIELD_FLOAT, AT(mem_fraction_static), "0.8",
     .range = &lt_range_unit_open_low, .help = "adamw_swap: share of free memory to use"},
    {"matched_adamw_rms", LT_FIELD_FLOAT, AT(matched_adamw_rms), "0.2",
     .range = &lt_range_at_least_0, .help = "muon: size of an update"},
    {"muon_momentum", LT_FIELD_FLOAT, AT(muon_momentum), "0.95", .range = &lt_range_unit_open_high,
     .help = "muon: momentum"},
    {"ns_steps", LT_FIELD_INT, AT(ns_steps), "5", .range = &lt_range_at_least_1,
     .help = "muon: iterations"},
    {"clip_grad", LT_FIELD_FLOAT, AT(clip_grad), "1.0", .range = &lt_range_at_least_0,
     .help = "largest gradient norm; 0 measures only"},
    {"clip_grad_foreach", LT_FIELD_BOOL, AT(clip_grad_foreach), "true", .support = LT_SUPPORT_HINT,
     .help = "a choice of kernels"},
    {"micro_batch_size", LT_FIELD_INT, AT(micro_batch_size), "1", .range = &lt_range_at_least_1,
     .help = "samples of a rank in one pass"},
    {"gradient_accumulation_steps", LT_FIELD_INT, AT(gradient_accumulation_steps), "1",
     .flags = LT_FIELD_NULL, .range = &lt_range_at_least_1, .help = "passes of one step"},
    {"train_iters", LT_FIELD_INT, AT(train_iters), "10000", .range = &lt_range_at_least_1,
     .help = "steps"},
    {"train_epochs", LT_FIELD_INT, AT(train_epochs), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1, .help = "passes over the data; wins over train_iters"},
    {"max_steps", LT_FIELD_INT, AT(max_steps), .flags = LT_FIELD_NULL, .support = LT_SUPPORT_INERT,
     .help = "without effect: train_iters says how many steps"},
    {"seed", LT_FIELD_INT, AT(seed), "42", .range = &lt_range_at_least_0,
     .help = "of random weights; the order of samples depends on the epoch alone"},
    {"use_deter_comp", LT_FIELD_BOOL, AT(use_deter_comp), "false",
     .help = "runs repeat bit for bit on a GPU too, for a tenth more time in attention's gradient"},
    {"enable_full_determinism", LT_FIELD_BOOL, AT(enable_full_determinism), "false",
     .help = "the same as use_deter_comp"},
    {"allow_hf32", LT_FIELD_TRISTATE, AT(allow_hf32), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_HINT, .help = "of other accelerators"},
    {"init_model_with_meta_device", LT_FIELD_BOOL, AT(init_model_with_meta_device), "false",
     .support = LT_SUPPORT_HINT, .help = "weights are always mapped, never built twice"},
    {"load", LT_FIELD_TEXT, AT(load), .flags = LT_FIELD_NULL,
     .help = "a run's folder to resume from, or a Hugging Face folder to start from"},
    {"load_format", LT_FIELD_CHOICE, AT(load_format), "auto", .choices = file_formats,
     .help = "what lies there, a Hugging Face folder or a distributed checkpoint; auto looks"},
    {"load_strict", LT_FIELD_BOOL, AT(load_strict), "false",
     .help = "unknown tensors are an error"},
    {"load_rank0_and_broadcast", LT_FIELD_BOOL, AT(load_rank0_and_broadcast), "false",
     .support = LT_SUPPORT_HINT, .help = "who reads the files"},
    {"no_load_optim", LT_FIELD_BOOL, AT(no_load_optim), "false",
     .help = "start with a fresh optimizer"},
    {"no_load_rng", LT_FIELD_BOOL, AT(no_load_rng), "false", .help = "start with fresh generators"},
    {"save", LT_FIELD_TEXT, AT(save), .flags = LT_FIELD_NULL,
     .help = "folder for checkpoints; without it nothing is saved"},
    {"save_format", LT_FIELD_CHOICE, AT(save_format), "auto", .choices = file_formats,
     .help =
         "hf: a Hugging Face folder and the optimizer beside it; dcp: a distributed checkpoint, "
         "of which every rank writes its part; auto: as what was loaded"},
    {"save_interval", LT_FIELD_INT, AT(save_interval), "1", .range = &lt_range_at_least_0,
     .help = "steps between checkpoints; 0 saves at the end only"},
    {"save_async", LT_FIELD_BOOL, AT(save_async), "false",
     .help = "distributed checkpoints are written while training goes on, from a copy of the state "
             "in memory; a Hugging Face folder is written at once"},
    {"save_ckpt_dtype", LT_FIELD_CHOICE, AT(save_ckpt_dtype), .flags = LT_FIELD_NULL,
     .choices = ckpt_dtypes,
     .help = "type of saved weights; without it each as in the file that it came from"},
    {"no_save_optim", LT_FIELD_BOOL, AT(no_save_optim), "false",
     .help = "save no optimizer state: such a run cannot be resumed exactly"},
    {"no_save_rng", LT_FIELD_BOOL, AT(no_save_rng), "false", .help = "save no generators"},
    {"log_interval", LT_FIELD_INT, AT(log_interval), "1", .range = &lt_range_at_least_1,
     .help = "steps between log lines"},
    {"val_interval", LT_FIELD_INT, AT(val_interval), "0", .range = &lt_range_at_least_0,
     .help = "steps between validations; 0 never"},
    {"val_micro_batch_size", LT_FIELD_INT, AT(val_micro_batch_size), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1, .help = "without it micro_batch_size"},
    {"manual_gc_interval", LT_FIELD_INT, AT(manual_gc_interval), "0", .range = &lt_range_at_least_0,
     .support = LT_SUPPORT_HINT, .help = "there is nothing to collect"},
    {"plugin", LT_FIELD_TEXTS, AT(plugin), .flags = LT_FIELD_NULL, .support = LT_SUPPORT_HINT,
     .help = "what these name is built in"},
    {"lr_scaling_plan", LT_FIELD_RECORDS, AT(lr_scaling_plan), .flags = LT_FIELD_NULL,
     .record = &lr_scale, .help = "rates of their own for some parameters; the first match counts"},
    {"lora", LT_FIELD_RECORD, AT(lora), .record = &lora, .help = "low-rank adapters"},
    {"quantization_plan", LT_FIELD_RECORD, AT(quantization_plan), .record = &quantization,
     .help = "for one accelerator only; not used here"},
    {"profile", LT_FIELD_ANY, .support = LT_SUPPORT_INERT,
     .help = "without effect; the section is tools.profile"},
    {"ckpt_manager", LT_FIELD_TEXT, AT(ckpt_manager), "dcp", .support = LT_SUPPORT_INERT,
     .help = "without effect: save_format says what is written"},
    {"load_checkpoint_path", LT_FIELD_TEXT, AT(load_checkpoint_path), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT, .help = "without effect; the key is training.load"},
    {"save_steps", LT_FIELD_INT, AT(save_steps), "0", .support = LT_SUPPORT_INERT,
     .help = "without effect; the key is training.save_interval"},
};
#undef AT
const lt_record lt_schema_training = {"training", ROWS(training_fields), sizeof(lt_cfg_training)};

// ---------------------------------------------------------------- tools

#define AT(field) offsetof(lt_cfg_profile_static, field)
static const lt_field static_fields[] = {
    {"level", LT_FIELD_TEXT, AT(level), "level1", .help = "of one accelerator's profiler"},
    {"with_stack", LT_FIELD_BOOL, AT(with_stack), "false", .support = LT_SUPPORT_HINT,
     .help = "record call stacks"},
    {"with_memory", LT_FIELD_BOOL, AT(with_memory), "false", .support = LT_SUPPORT_HINT,
     .help = "record memory; `lathe plan` shows it"},
    {"record_shapes", LT_FIELD_BOOL, AT(record_shapes), "false", .support = LT_SUPPORT_HINT,
     .help = "record shapes: they always are"},
    {"with_cpu", LT_FIELD_BOOL, AT(with_cpu), "false", .support = LT_SUPPORT_HINT,
     .help = "record the host"},
    {"save_path", LT_FIELD_TEXT, AT(save_path), "./profiling", .help = "folder for traces"},
    {"start_step", LT_FIELD_INT, AT(start_step), "10", .range = &lt_range_at_least_0,
     .help = "first step, counted from 0"},
    {"end_step", LT_FIELD_INT, AT(end_step), "11", .range = &lt_range_at_least_0,
     .help = "step behind the last"},
    {"data_simplification", LT_FIELD_BOOL, AT(data_simplification), "false",
     .help = "of one accelerator's profiler"},
    {"aic_metrics_type", LT_FIELD_TEXT, AT(aic_metrics_type), "PipeUtilization",
     .help = "of one accelerator's profiler"},
    {"analyse_flag", LT_FIELD_BOOL, AT(analyse_flag), "true",
     .help = "of one accelerator's profiler"},
};
#undef AT
static const lt_record static_param = {"static_param", ROWS(static_fields),
                                       sizeof(lt_cfg_profile_static)};

#define AT(field) offsetof(lt_cfg_profile, field)
static const lt_field profile_fields[] = {
    {"enable", LT_FIELD_BOOL, AT(enable), "false", .help = "write a trace of some steps"},
    {"profile_type", LT_FIELD_TEXT, AT(profile_type), "static",
     .help = "static: a window of steps"},
    {"ranks", LT_FIELD_INTS, AT(ranks), "[0]", .help = "which ranks; [-1] is all"},
    {"static_param", LT_FIELD_RECORD, AT(static_param), .record = &static_param,
     .help = "the window"},
};
#undef AT
static const lt_record profile = {"profile", ROWS(profile_fields), sizeof(lt_cfg_profile)};

#define AT(field) offsetof(lt_cfg_memory_profile, field)
static const lt_field memory_profile_fields[] = {
    {"enable", LT_FIELD_BOOL, AT(enable), "false",
     .refuse = {LT_WHEN_TRUE, .feature = "memory snapshots", .instead = "set it to false"},
     .help = "write a snapshot of memory"},
    {"start_step", LT_FIELD_INT, AT(start_step), "1", .range = &lt_range_at_least_0,
     .help = "from the beginning of this step on; 0: before the model is built"},
    {"end_step", LT_FIELD_INT, AT(end_step), "2", .range = &lt_range_at_least_0,
     .help = "written at the beginning of this step"},
    {"save_path", LT_FIELD_TEXT, AT(save_path), "./memory_snapshot",
     .help = "folder for snapshots"},
    {"dump_ranks", LT_FIELD_INTS, AT(dump_ranks), "[0]", .help = "which ranks"},
    {"stacks", LT_FIELD_TEXT, AT(stacks), "all", .choices = stack_kinds, .help = "python or all"},
    {"max_entries", LT_FIELD_INT, AT(max_entries), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1, .help = "events kept, at most"},
    {"mem_info", LT_FIELD_BOOL, AT(mem_info), "false",
     .refuse = {LT_WHEN_TRUE, .feature = "memory lines of every step",
                .instead = "set it to false"},
     .help = "print the peak of every step"},
};
#undef AT
static const lt_record memory_profile = {"memory_profile", ROWS(memory_profile_fields),
                                         sizeof(lt_cfg_memory_profile)};

#define AT(field) offsetof(lt_cfg_tools, field)
static const lt_field tools_fields[] = {
    {"profile", LT_FIELD_RECORD, AT(profile), .record = &profile, .help = "traces"},
    {"memory_profile", LT_FIELD_RECORD, AT(memory_profile), .record = &memory_profile,
     .help = "memory snapshots"},
};
#undef AT
const lt_record lt_schema_tools = {"tools", ROWS(tools_fields), sizeof(lt_cfg_tools)};

// ---------------------------------------------------------------- lathe

#define AT(field) offsetof(lt_cfg_lathe, field)
static const lt_field lathe_fields[] = {
    {"device", LT_FIELD_CHOICE, AT(device), "auto", .choices = devices,
     .help = "where to compute; auto takes a GPU when the build and the machine have one"},
    {"threads", LT_FIELD_INT, AT(threads), "0", .range = &lt_range_at_least_0,
     .help = "threads of the CPU backend; 0: as many as the process may use. Results do not depend "
             "on it"},
    {"run_dir", LT_FIELD_TEXT, AT(run_dir), .flags = LT_FIELD_NULL,
     .help = "folder for metrics.jsonl and reports"},
    {"policy", LT_FIELD_TEXT, AT(policy), .flags = LT_FIELD_NULL,
     .help = "what blocks keep for backward: keep, lean, full, a list over the decoder's layers "
             "from the first on (full:12,lean), or auto: as much as fits into memory; without it "
             "features.recompute decides"},
    {"memory_budget", LT_FIELD_BYTES, AT(memory_budget), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1, .help = "bytes that a run may plan for, such as 120GiB"},
    {"init", LT_FIELD_CHOICE, AT(init), "weights", .choices = inits,
     .help = "random: start from random weights instead of a checkpoint's"},
    {"strict", LT_FIELD_BOOL, AT(strict), "false", .help = "unknown keys are errors"},
    {"dtype", LT_FIELD_CHOICE, AT(dtype), .flags = LT_FIELD_NULL, .choices = computes,
     .help = "computing in f32 or bf16, whatever fsdp_plan.param_dtype says"},
    {"on_bad_record", LT_FIELD_CHOICE, AT(on_bad_record), .flags = LT_FIELD_NULL,
     .choices = bad_records,
     .help = "stop or skip at a bad record; without it as the reference does for each fault"},
    {"empty_thought", LT_FIELD_CHOICE, AT(empty_thought), "auto", .choices = empty_thoughts,
     .help = "the empty thought that templates with reasoning put before an answer without one: "
             "train, mask or omit it; auto as the template and enable_thinking say"},
    {"habits", LT_FIELD_CHOICE, AT(habits), "mindspeed_mm", .choices = habits,
     .help = "whose ways data are read in where the two differ: mindspeed_mm or llama_factory; "
             "docs/compatibility.md lists them"},
    {"video_times", LT_FIELD_CHOICE, AT(video_times), "true_times", .choices = video_times,
     .help = "time stamps of videos: true_times, or reference: frames sampled a second time and "
             "counted, as MindSpeed-MM does"},
    {"image_tag", LT_FIELD_TEXT, AT(image_tag), "<image>",
     .help = "what stands for an image in texts: the reference's IMAGE_PLACEHOLDER"},
    {"video_tag", LT_FIELD_TEXT, AT(video_tag), "<video>",
     .help = "what stands for a video in texts: the reference's VIDEO_PLACEHOLDER"},
    {"data_threads", LT_FIELD_INT, AT(data_threads), "0", .range = &lt_range_up_to_256,
     .help = "threads that prepare micro-batches; 0: two, beside a GPU up to eight. Results do not "
             "depend on it"},
    {"data_ahead", LT_FIELD_INT, AT(data_ahead), "0", .range = &lt_range_up_to_256,
     .help = "micro-batches prepared ahead, which bounds the memory of data; 0: a step's, at least "
             "one a thread"},
    {"keep_last", LT_FIELD_INT, AT(keep_last), "0", .range = &lt_range_at_least_0,
     .help = "checkpoints of a run that are kept, the newest; 0: all"},
};
#undef AT
const lt_record lt_schema_lathe = {"lathe", ROWS(lathe_fields), sizeof(lt_cfg_lathe)};
