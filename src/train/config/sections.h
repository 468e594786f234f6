// SPDX-License-Identifier: Apache-2.0
// The configuration as plain structs that mirror the YAML's sections, with the YAML's own key
// names. The meaning, default and rules of each key stand in its row of the schema (schema_*.c;
// `lathe config --keys` prints them); here stands what C needs. source:
// spec/config-trainer-checkpoint.md, sections 1.3 to 1.8; design.md section 8 for lathe's own.
#ifndef LT_TRAIN_CONFIG_SECTIONS_H
#define LT_TRAIN_CONFIG_SECTIONS_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An optional whole number that is absent. Absent texts are NULL, absent floats NaN, absent lists
 * empty. */
#define LT_CFG_NONE INT64_MIN
/** An optional boolean that is absent; else 0 or 1. */
#define LT_CFG_UNSET (-1)
/** fully_shard_parallel_size: auto. */
#define LT_CFG_AUTO 0

typedef struct lt_texts {
    const char *const *items;
    int64_t n;
} lt_texts;

typedef struct lt_ints {
    const int64_t *items;
    int64_t n;
} lt_ints;

// Choices: their values follow the order of the spellings in the schema; -1 is null where the key
// may be null.
typedef enum lt_cfg_dtype {
    LT_CFG_DTYPE_NONE = -1,
    LT_CFG_FP16,
    LT_CFG_BF16,
    LT_CFG_FP32,
    LT_CFG_FP64,
    LT_CFG_INT8,
    LT_CFG_INT16,
    LT_CFG_INT32,
    LT_CFG_INT64
} lt_cfg_dtype;
typedef enum lt_cfg_dispatcher { LT_CFG_ALLTOALL, LT_CFG_ALLGATHER, LT_CFG_MC2 } lt_cfg_dispatcher;
typedef enum lt_cfg_loader_mode { LT_CFG_MODE_SAMPLER, LT_CFG_MODE_BASE } lt_cfg_loader_mode;
typedef enum lt_cfg_stage {
    LT_CFG_STAGE_NONE = -1,
    LT_CFG_SFT,
    LT_CFG_PRETRAIN,
    LT_CFG_RM
} lt_cfg_stage;
typedef enum lt_cfg_loss {
    LT_CFG_LOSS_NULL = -1, /* never seen after loading: null becomes raw */
    LT_CFG_LOSS_RAW,
    LT_CFG_LOSS_DEFAULT,
    LT_CFG_LOSS_PER_SAMPLE,
    LT_CFG_LOSS_PER_TOKEN
} lt_cfg_loss;
typedef enum lt_cfg_decay { LT_CFG_CONSTANT, LT_CFG_LINEAR, LT_CFG_COSINE } lt_cfg_decay;
typedef enum lt_cfg_optimizer { LT_CFG_ADAMW, LT_CFG_ADAMW_SWAP, LT_CFG_MUON } lt_cfg_optimizer;
typedef enum lt_cfg_format {
    LT_CFG_FORMAT_AUTO,
    LT_CFG_FORMAT_HF,
    LT_CFG_FORMAT_DCP
} lt_cfg_format;
typedef enum lt_cfg_device {
    LT_CFG_DEVICE_AUTO,
    LT_CFG_DEVICE_CPU,
    LT_CFG_DEVICE_CUDA
} lt_cfg_device;
typedef enum lt_cfg_init { LT_CFG_INIT_WEIGHTS, LT_CFG_INIT_RANDOM } lt_cfg_init;
typedef enum lt_cfg_compute {
    LT_CFG_COMPUTE_NONE = -1,
    LT_CFG_COMPUTE_F32,
    LT_CFG_COMPUTE_BF16
} lt_cfg_compute;
typedef enum lt_cfg_bad_record {
    LT_CFG_BAD_NONE = -1,
    LT_CFG_BAD_STOP,
    LT_CFG_BAD_SKIP
} lt_cfg_bad_record;

// ---------------------------------------------------------------- parallel

typedef struct lt_cfg_fsdp {
    lt_texts apply_modules, ignored_modules, hook_modules; /* patterns */
    int param_dtype, reduce_dtype, output_dtype;           /* lt_cfg_dtype */
    bool cast_forward_inputs, reshard_after_forward, pregather, cpu_offload;
    int64_t num_to_forward_prefetch, num_to_backward_prefetch; /* null becomes 0 */
} lt_cfg_fsdp;

typedef struct lt_cfg_tp {
    lt_texts colwise_parallel, rowwise_parallel, sequence_parallel;
} lt_cfg_tp;

typedef struct lt_cfg_ep {
    lt_texts apply_modules, apply_efsdp_modules; /* patterns */
    bool use_npu_fused_ops;
    int dispatcher; /* lt_cfg_dispatcher */
} lt_cfg_ep;

typedef struct lt_cfg_recompute {
    lt_texts apply_modules; /* patterns */
    bool use_reentrant;
} lt_cfg_recompute;

typedef struct lt_cfg_parallel {
    int64_t data_parallel_size;        /* LT_CFG_NONE: derived; see lt_cfg_sizes */
    int64_t fully_shard_parallel_size; /* LT_CFG_AUTO: all ranks */
    lt_cfg_fsdp fsdp_plan;
    int64_t tensor_parallel_size;
    lt_cfg_tp tp_plan;
    int64_t ring_attention_size, ulysses_parallel_size, expert_parallel_size;
    int64_t expert_fully_shard_parallel_size; /* LT_CFG_NONE: derived */
    lt_cfg_ep ep_plan;
    bool recompute;                  /* without effect; the switch is features.recompute */
    lt_cfg_recompute recompute_plan; /* without effect */
} lt_cfg_parallel;

// ---------------------------------------------------------------- data

typedef struct lt_cfg_attr {
    const char *formatting;
    const char *messages, *role_tag, *content_tag, *user_tag, *assistant_tag, *observation_tag,
        *function_tag, *system_tag;
    const char *images, *videos, *audios, *system, *tools; /* NULL: there is no such column */
    const char *prompt, *query, *response, *history, *chosen, *rejected;
    bool ranking;
} lt_cfg_attr;

typedef struct lt_cfg_preprocess {
    const char *model_name_or_path; /* NULL: model.model_name_or_path */
    bool use_fast_tokenizer; /* also chooses the resampler: true torchvision's arithmetic, false
                                Pillow's */
    bool split_special_tokens, image_do_pan_and_scan, crop_to_patches, use_audio_in_video,
        trust_remote_code;
    int64_t image_resolution, video_resolution;
    int64_t image_max_pixels, image_min_pixels, video_max_pixels, video_min_pixels;
    double video_fps;
    int64_t video_maxlen, audio_sampling_rate;
} lt_cfg_preprocess;

typedef struct lt_cfg_basic {
    lt_texts dataset;   /* files; a text is split at its commas, blanks around a name dropped */
    lt_texts data_path; /* InternVL's word for dataset, into which it goes */
    const char *data_folder; /* and for dataset_dir */
    const char *dataset_dir, *cache_dir, *template_id /* key: template */, *chat_template,
        *tool_format;
    bool train_on_prompt, mask_history, streaming, overwrite_cache, neat_packing, preprocess_on_fly,
        async_preprocess;
    int enable_thinking; /* 0, 1, LT_CFG_UNSET for null */
    int packing;         /* 0, 1, LT_CFG_UNSET: on for pretrain; see lt_config_packs */
    int64_t cutoff_len, preprocessing_batch_size;
    int64_t preprocessing_num_workers, async_preprocess_buffer_size; /* LT_CFG_NONE */
    int64_t max_samples, val_max_samples; /* LT_CFG_NONE: all; 0 means all too */
    const char *val_dataset;
    double val_rate;
    int stage; /* lt_cfg_stage; null becomes sft */
} lt_cfg_basic;

typedef struct lt_cfg_dataset {
    /* whether the section stands in the file at all (val_dataset_param may be absent) */
    bool given;
    const char *dataset_type;
    /* internvl3_5: how pictures are cut; LT_CFG_UNSET, LT_CFG_NONE: as the model's config.json */
    int dynamic_image_size, use_thumbnail, pad2square;
    int64_t min_dynamic_patch, max_dynamic_patch;
    lt_cfg_basic basic_parameters;
    lt_cfg_preprocess preprocess_parameters;
    lt_cfg_attr attr;
} lt_cfg_dataset;

typedef struct lt_cfg_collate {
    const char *collator_id, *model_name; /* the second is the older spelling of the first */
    bool ignore_pad_token_for_loss; /* labels of padded rows: true -100, false the pad token's id */
    int64_t pad_to_multiple_of;
    int64_t pad_id; /* InternVL's; LT_CFG_NONE */
} lt_cfg_collate;

typedef struct lt_cfg_dataloader {
    int dataloader_mode; /* lt_cfg_loader_mode */
    const char *sampler_type;
    bool shuffle, drop_last, pin_memory, enable_preload,
        data_sharding; /* shuffle: null becomes false */
    int64_t num_workers;
    int64_t prefetch_factor; /* LT_CFG_NONE */
    int persistent_workers;  /* 0, 1, LT_CFG_UNSET */
    lt_cfg_collate collate_param;
} lt_cfg_dataloader;

typedef struct lt_cfg_data {
    lt_cfg_dataset dataset_param, val_dataset_param;
    lt_cfg_dataloader dataloader_param;
} lt_cfg_data;

// ---------------------------------------------------------------- model

typedef struct lt_cfg_vision_parallel {
    int64_t dp_shard; /* LT_CFG_NONE: as the rest of the model */
    int64_t cp, ulysses_degree;
    bool async_cp;
} lt_cfg_vision_parallel;

typedef struct lt_cfg_model {
    const char *model_id, *model_name_or_path;
    bool trust_remote_code;
    int attn_implementation; /* index of its spelling in the schema; a hint */
    lt_texts freeze;         /* patterns */
    int64_t mtp_num_layers;
    double mtp_loss_scaling_factor;
    const char *gdn_implementation, *causal_conv1d_implementation;
    bool skip_gdn_recompute, skip_flash_attn_recompute, use_grouped_expert_matmul;
    int64_t num_hidden_layers; /* LT_CFG_NONE: all; else the decoder is cut to its first n layers */
    int64_t vision_depth;      /* LT_CFG_NONE: all; else the tower is cut to its first n blocks */
    lt_cfg_vision_parallel vision_parallel;
} lt_cfg_model;

// ---------------------------------------------------------------- features

typedef struct lt_cfg_loss_cfg {
    int loss_type; /* lt_cfg_loss */
    double router_aux_loss_coef;
    bool router_aux_loss_offload;
} lt_cfg_loss_cfg;

typedef struct lt_cfg_chunkloss {
    const char *apply_module; /* a pattern */
    int64_t chunk_size, total_chunk_size;
} lt_cfg_chunkloss;

typedef struct lt_cfg_offload {
    lt_texts apply_modules; /* patterns */
} lt_cfg_offload;

typedef struct lt_cfg_chunkmbs {
    lt_texts apply_modules; /* patterns */
    int64_t chunk_mbs, batch_dim;
    lt_ints chunk_arg_indexs;
    lt_texts chunk_kwarg_names;
} lt_cfg_chunkmbs;

typedef struct lt_cfg_ep_balance {
    int64_t max_dup_experts_num;
} lt_cfg_ep_balance;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order is the YAML's
typedef struct lt_cfg_features {
    bool recompute;
    lt_cfg_recompute recompute_plan;
    lt_cfg_loss_cfg loss_cfg;
    bool enable_chunk_loss, enable_dynamic_chunk_loss;
    lt_cfg_chunkloss chunkloss_plan;
    bool enable_activation_offload;
    lt_cfg_offload activation_offload_plan;
    bool enable_chunk_mbs;
    lt_cfg_chunkmbs chunkmbs_plan;
    bool enable_ep_balance;
    lt_cfg_ep_balance ep_balance_plan;
    bool skip_moe_pad_tokens;
} lt_cfg_features;

// ---------------------------------------------------------------- training

typedef struct lt_cfg_lr_scale {
    /* a regular expression that has to match at the start of a parameter's name */
    const char *match;
    double scale;
} lt_cfg_lr_scale;

typedef struct lt_cfg_lr_scales {
    const lt_cfg_lr_scale *items;
    int64_t n;
} lt_cfg_lr_scales;

typedef struct lt_cfg_lora {
    bool enable;
    int64_t rank, alpha;
    lt_texts target_modules;
    double dropout;
    const char *init_lora_weights; /* "true", "false" or a method's name */
    const char *pretrained_lora_path;
    lt_texts lora_target_modules_support;
    bool disable_peft_moe_conversion;
} lt_cfg_lora;

typedef struct lt_cfg_quantization {
    const char *recipe_name; /* NULL: none */
    lt_texts apply_modules, ignored_modules, quant_converters;
    bool enable_fsdp_low_precision_all_gather;
    const char *fsdp_low_precision_all_gather_mode;
} lt_cfg_quantization;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order is the YAML's
typedef struct lt_cfg_training {
    double lr, lr_min, lr_start;
    int lr_decay_style; /* lt_cfg_decay */
    double lr_warmup_ratio, lr_decay_ratio, weight_decay;
    lt_texts no_decay_modules, no_decay_params; /* without effect, as in the reference */
    int optimizer;                              /* lt_cfg_optimizer */
    bool adam_fused;
    double adam_beta1, adam_beta2, adam_eps;
    double mem_fraction_static, matched_adamw_rms, muon_momentum;
    int64_t ns_steps;
    double clip_grad; /* 0: measure the norm, do not clip */
    bool clip_grad_foreach;
    int64_t micro_batch_size;
    int64_t gradient_accumulation_steps; /* null becomes 1 */
    int64_t train_iters;                 /* what the file says; train_epochs, when given, rules */
    int64_t train_epochs;                /* LT_CFG_NONE */
    int64_t max_steps;                   /* without effect */
    int64_t seed;
    bool use_deter_comp, enable_full_determinism;
    int allow_hf32; /* 0, 1, LT_CFG_UNSET */
    bool init_model_with_meta_device;
    const char *load; /* NULL: start from model.model_name_or_path */
    int load_format;  /* lt_cfg_format */
    bool load_strict, load_rank0_and_broadcast, no_load_optim, no_load_rng;
    const char *save;      /* NULL: never save */
    int save_format;       /* lt_cfg_format */
    int64_t save_interval; /* 0: at the end only */
    bool save_async;
    int save_ckpt_dtype; /* lt_cfg_dtype, of the weights only; LT_CFG_DTYPE_NONE: each as in the
                            file that it came from */
    bool no_save_optim, no_save_rng;
    int64_t log_interval, val_interval;
    int64_t val_micro_batch_size; /* null becomes micro_batch_size */
    int64_t manual_gc_interval;
    lt_texts plugin;
    /* the first entry that matches a name sets its rate to lr * scale */
    lt_cfg_lr_scales lr_scaling_plan;
    lt_cfg_lora lora;
    lt_cfg_quantization quantization_plan;
    const char *ckpt_manager, *load_checkpoint_path; /* without effect */
    int64_t save_steps;                              /* without effect */
} lt_cfg_training;

// ---------------------------------------------------------------- tools

typedef struct lt_cfg_profile_static {
    const char *level;
    bool with_stack, with_memory, record_shapes, with_cpu, data_simplification, analyse_flag;
    const char *save_path, *aic_metrics_type;
    int64_t start_step, end_step; /* 0-based steps start .. end - 1 are recorded */
} lt_cfg_profile_static;

typedef struct lt_cfg_profile {
    bool enable;
    const char *profile_type;
    lt_ints ranks; /* [-1]: all */
    lt_cfg_profile_static static_param;
} lt_cfg_profile;

typedef struct lt_cfg_memory_profile {
    bool enable, mem_info;
    int64_t start_step, end_step;
    const char *save_path, *stacks;
    lt_ints dump_ranks;
    int64_t max_entries; /* LT_CFG_NONE */
} lt_cfg_memory_profile;

typedef struct lt_cfg_tools {
    lt_cfg_profile profile;
    lt_cfg_memory_profile memory_profile;
} lt_cfg_tools;

// ---------------------------------------------------------------- lathe

/** When a video's slices are. */
typedef enum lt_cfg_video_times {
    LT_CFG_TIMES_TRUE,     /* in the video */
    LT_CFG_TIMES_REFERENCE /* by the numbers of a second sampling, as MindSpeed-MM has it */
} lt_cfg_video_times;

typedef struct lt_cfg_lathe {
    int device;      /* lt_cfg_device */
    int64_t threads; /* 0: the CPUs that the process may use */
    /* metrics.jsonl and the like; NULL: beside the checkpoints, or runs/NAME */
    const char *run_dir;
    const char *policy;    /* NULL: the switches of `features` rule */
    int64_t memory_budget; /* bytes; LT_CFG_NONE: what the device has */
    int init;              /* lt_cfg_init */
    bool strict;
    int dtype;                         /* lt_cfg_compute: overrides fsdp_plan.param_dtype */
    int on_bad_record;                 /* lt_cfg_bad_record */
    int empty_thought;                 /* lt_empty_thought */
    int video_times;                   /* lt_cfg_video_times */
    const char *image_tag, *video_tag; /* what stands for media in texts */
    /* 0: lathe's own choice. Threads that prepare micro-batches, and how many of these ahead */
    int habits; /* lt_habits */
    int64_t data_threads, data_ahead;
    int64_t keep_last; /* checkpoints of a run; 0: all */
} lt_cfg_lathe;

#ifdef __cplusplus
}
#endif
#endif
