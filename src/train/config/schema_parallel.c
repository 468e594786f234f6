// SPDX-License-Identifier: Apache-2.0
// Rows of the schema: parallel, model, features.
#include "train/config/schema.h"
#include "train/config/sections.h"

#define ROWS(rows) (rows), sizeof(rows) / sizeof *(rows)

static const char *const dtypes[] = {"fp16",  "bf16",  "fp32",  "fp64", "int8",
                                     "int16", "int32", "int64", NULL};
static const char *const dispatchers[] = {"alltoall", "allgather", "mc2", NULL};
static const char *const losses[] = {"raw", "default", "per_sample_loss", "per_token_loss", NULL};
static const char *const attentions[] = {
    "eager", "sdpa", "flash_attention_2", "flash_attention_3", "native-sparse", NULL};

// ---------------------------------------------------------------- parallel

#define AT(field) offsetof(lt_cfg_fsdp, field)
static const lt_field fsdp_fields[] = {
    {"apply_modules", LT_FIELD_TEXTS, AT(apply_modules), .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .help = "modules whose parameters are gathered together; the root is always one"},
    {"ignored_modules", LT_FIELD_TEXTS, AT(ignored_modules),
     .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS, .support = LT_SUPPORT_HINT,
     .help = "modules that are never sharded"},
    {"param_dtype", LT_FIELD_CHOICE, AT(param_dtype), .flags = LT_FIELD_NULL, .choices = dtypes,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "bf16 fp32", .known = "fp16 fp64 int8 int16 int32 int64",
                .feature = "computing in that type", .instead = "set it to bf16 or fp32"},
     .help = "the type of weights and activations in compute; masters stay fp32. Without it: fp32"},
    {"reduce_dtype", LT_FIELD_CHOICE, AT(reduce_dtype), .flags = LT_FIELD_NULL, .choices = dtypes,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "bf16 fp16 fp32", .known = "fp64 int8 int16 int32 int64",
                .feature = "reducing gradients in that type", .instead = "set it to fp32"},
     .help = "the type in which gradients travel; sums are always made in fp32"},
    {"output_dtype", LT_FIELD_CHOICE, AT(output_dtype), .flags = LT_FIELD_NULL, .choices = dtypes,
     .support = LT_SUPPORT_HINT,
     .help = "the type of a unit's outputs; here they keep the compute type"},
    {"cast_forward_inputs", LT_FIELD_BOOL, AT(cast_forward_inputs), "true",
     .refuse = {LT_WHEN_FALSE, .feature = "units with inputs of another type",
                .instead = "set it to true"},
     .help = "inputs of every unit are cast to param_dtype"},
    {"reshard_after_forward", LT_FIELD_BOOL, AT(reshard_after_forward), "true",
     .support = LT_SUPPORT_HINT, .help = "free gathered weights after forward"},
    {"num_to_forward_prefetch", LT_FIELD_INT, AT(num_to_forward_prefetch), "0",
     .flags = LT_FIELD_NULL, .range = &lt_range_at_least_0, .support = LT_SUPPORT_HINT,
     .help = "units gathered ahead in forward"},
    {"num_to_backward_prefetch", LT_FIELD_INT, AT(num_to_backward_prefetch), "0",
     .flags = LT_FIELD_NULL, .range = &lt_range_at_least_0, .support = LT_SUPPORT_HINT,
     .help = "units gathered ahead in backward"},
    {"pregather", LT_FIELD_BOOL, AT(pregather), "false", .support = LT_SUPPORT_HINT,
     .help = "gather every unit before each step"},
    {"hook_modules", LT_FIELD_TEXTS, AT(hook_modules), .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .support = LT_SUPPORT_HINT, .help = "units below one of these are gathered together"},
    {"cpu_offload", LT_FIELD_BOOL, AT(cpu_offload), "false",
     .help = "keep masters, gradients and moments in host memory"},
};
#undef AT
static const lt_record fsdp = {"fsdp_plan", ROWS(fsdp_fields), sizeof(lt_cfg_fsdp)};

#define AT(field) offsetof(lt_cfg_tp, field)
static const lt_field tp_fields[] = {
    {"colwise_parallel", LT_FIELD_TEXTS, AT(colwise_parallel), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT, .help = "without effect"},
    {"rowwise_parallel", LT_FIELD_TEXTS, AT(rowwise_parallel), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT, .help = "without effect"},
    {"sequence_parallel", LT_FIELD_TEXTS, AT(sequence_parallel), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT, .help = "without effect"},
};
#undef AT
static const lt_record tp = {"tp_plan", ROWS(tp_fields), sizeof(lt_cfg_tp)};

#define AT(field) offsetof(lt_cfg_ep, field)
static const lt_field ep_fields[] = {
    {"apply_modules", LT_FIELD_TEXTS, AT(apply_modules), .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .help = "expert containers to spread over the expert-parallel ranks"},
    {"use_npu_fused_ops", LT_FIELD_BOOL, AT(use_npu_fused_ops), "true", .support = LT_SUPPORT_HINT,
     .help = "a choice of kernels"},
    {"dispatcher", LT_FIELD_CHOICE, AT(dispatcher), "alltoall", .choices = dispatchers,
     .help = "how tokens travel to their experts"},
    {"apply_efsdp_modules", LT_FIELD_TEXTS, AT(apply_efsdp_modules),
     .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .help = "expert modules that are sharded too; without it those of apply_modules"},
};
#undef AT
static const lt_record ep = {"ep_plan", ROWS(ep_fields), sizeof(lt_cfg_ep)};

#define AT(field) offsetof(lt_cfg_recompute, field)
static const lt_field recompute_fields[] = {
    {"apply_modules", LT_FIELD_TEXTS, AT(apply_modules), .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .help = "blocks that keep only their inputs and are computed again in backward"},
    {"use_reentrant", LT_FIELD_BOOL, AT(use_reentrant), "false", .support = LT_SUPPORT_HINT,
     .help = "has no meaning here"},
};
#undef AT
static const lt_record recompute_plan = {"recompute_plan", ROWS(recompute_fields),
                                         sizeof(lt_cfg_recompute)};

#define AT(field) offsetof(lt_cfg_parallel, field)
static const lt_field parallel_fields[] = {
    {"data_parallel_size", LT_FIELD_INT, AT(data_parallel_size), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1,
     .help = "follows from the others; when given it has to equal ranks / (ring * ulysses)"},
    {"fully_shard_parallel_size", LT_FIELD_INT_OR_AUTO, AT(fully_shard_parallel_size), "auto",
     .range = &lt_range_at_least_1,
     .help = "ranks that share the parameters of a unit; auto is all of them"},
    {"fsdp_plan", LT_FIELD_RECORD, AT(fsdp_plan), .record = &fsdp,
     .help = "units, types and prefetch of sharded parameters"},
    {"tensor_parallel_size", LT_FIELD_INT, AT(tensor_parallel_size), "1",
     .range = &lt_range_at_least_1, .help = "has to be 1"},
    {"tp_plan", LT_FIELD_RECORD, AT(tp_plan), .record = &tp, .help = "without effect"},
    {"ring_attention_size", LT_FIELD_INT, AT(ring_attention_size), "1",
     .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "ring attention", .instead = "set it to 1"},
     .help = "ranks in a ring of attention"},
    {"ulysses_parallel_size", LT_FIELD_INT, AT(ulysses_parallel_size), "1",
     .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "Ulysses context parallelism",
                .instead = "set it to 1"},
     .help = "ranks that exchange sequence for heads"},
    {"expert_parallel_size", LT_FIELD_INT, AT(expert_parallel_size), "1",
     .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "expert parallelism",
                .instead = "set it to 1"},
     .help = "ranks that share the experts"},
    {"expert_fully_shard_parallel_size", LT_FIELD_INT, AT(expert_fully_shard_parallel_size),
     .flags = LT_FIELD_NULL, .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "sharding experts over several ranks",
                .instead = "remove it"},
     .help = "ranks that shard one expert; without it ranks / expert_parallel_size"},
    {"ep_plan", LT_FIELD_RECORD, AT(ep_plan), .record = &ep, .help = "expert parallelism"},
    {"recompute", LT_FIELD_BOOL, AT(recompute), "false", .support = LT_SUPPORT_INERT,
     .help = "without effect; the switch is features.recompute"},
    {"recompute_plan", LT_FIELD_RECORD, AT(recompute_plan), .record = &recompute_plan,
     .support = LT_SUPPORT_INERT, .help = "without effect; the plan is features.recompute_plan"},
};
#undef AT
const lt_record lt_schema_parallel = {"parallel", ROWS(parallel_fields), sizeof(lt_cfg_parallel)};

// ---------------------------------------------------------------- model

#define AT(field) offsetof(lt_cfg_vision_parallel, field)
static const lt_field vision_parallel_fields[] = {
    {"dp_shard", LT_FIELD_INT, AT(dp_shard), .flags = LT_FIELD_NULL, .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "sharding over several ranks",
                .instead = "remove it"},
     .help = "1: every rank holds the vision tower; without it sharded as the rest"},
    {"cp", LT_FIELD_INT, AT(cp), "1", .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "context parallelism in the vision tower",
                .instead = "set it to 1"},
     .help = "ranks that share one image's rows"},
    {"ulysses_degree", LT_FIELD_INT, AT(ulysses_degree), "1", .range = &lt_range_at_least_1,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "context parallelism in the vision tower",
                .instead = "set it to 1"},
     .help = "how many of them exchange heads"},
    {"async_cp", LT_FIELD_BOOL, AT(async_cp), "false", .support = LT_SUPPORT_HINT,
     .help = "overlap the exchange with projections"},
};
#undef AT
static const lt_record vision_parallel = {"vision_parallel", ROWS(vision_parallel_fields),
                                          sizeof(lt_cfg_vision_parallel)};

#define AT(field) offsetof(lt_cfg_model, field)
static const lt_field model_fields[] = {
    {"model_id", LT_FIELD_TEXT, AT(model_id), .flags = LT_FIELD_NULL,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe internvl3_5",
                .known = "", .feature = "model family",
                .instead =
                    "use a qwen3_vl, qwen3_vl_moe, qwen3_5, qwen3_5_moe or internvl3_5 model"},
     .help = "the model family"},
    {"model_name_or_path", LT_FIELD_TEXT, AT(model_name_or_path), .flags = LT_FIELD_NULL,
     .help = "a Hugging Face folder: config.json, tokenizer, and the weights when training.load is "
             "absent"},
    {"trust_remote_code", LT_FIELD_BOOL, AT(trust_remote_code), "false", .support = LT_SUPPORT_HINT,
     .help = "no code is ever loaded"},
    {"attn_implementation", LT_FIELD_CHOICE, AT(attn_implementation), "flash_attention_2",
     .flags = LT_FIELD_NULL, .choices = attentions, .support = LT_SUPPORT_HINT,
     .help = "a choice of kernels"},
    {"freeze", LT_FIELD_TEXTS, AT(freeze), .flags = LT_FIELD_PATTERNS,
     .help = "modules whose parameters are not trained"},
    {"mtp_num_layers", LT_FIELD_INT, AT(mtp_num_layers), "0", .range = &lt_range_at_least_0,
     .refuse = {LT_WHEN_ABOVE, .limit = 1, .feature = "predicting more than one further token",
                .instead = "set it to 1 or 0"},
     .help = "layers that predict one more token (Qwen3.5: 0 or 1)"},
    {"mtp_loss_scaling_factor", LT_FIELD_FLOAT, AT(mtp_loss_scaling_factor), "0.1",
     .range = &lt_range_at_least_0, .help = "weight of their loss"},
    {"gdn_implementation", LT_FIELD_TEXT, AT(gdn_implementation), "eager",
     .flags = LT_FIELD_NULL | LT_FIELD_LOWER, .support = LT_SUPPORT_HINT,
     .help = "a choice of kernels"},
    {"causal_conv1d_implementation", LT_FIELD_TEXT, AT(causal_conv1d_implementation), "eager",
     .flags = LT_FIELD_NULL | LT_FIELD_LOWER, .support = LT_SUPPORT_HINT,
     .help = "a choice of kernels"},
    {"skip_gdn_recompute", LT_FIELD_BOOL, AT(skip_gdn_recompute), "false",
     .help = "keep the results of linear attention across recompute"},
    {"skip_flash_attn_recompute", LT_FIELD_BOOL, AT(skip_flash_attn_recompute), "false",
     .help = "keep the results of attention across recompute"},
    {"use_grouped_expert_matmul", LT_FIELD_BOOL, AT(use_grouped_expert_matmul), "false",
     .support = LT_SUPPORT_HINT, .help = "a choice of kernels"},
    {"num_hidden_layers", LT_FIELD_INT, AT(num_hidden_layers), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1, .help = "cut the decoder to its first layers; without it all"},
    {"vision_depth", LT_FIELD_INT, AT(vision_depth), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_1,
     .help = "cut the vision tower to its first blocks; without it all"},
    {"vision_parallel", LT_FIELD_RECORD, AT(vision_parallel), .record = &vision_parallel,
     .help = "a layout of its own for the vision tower"},
};
#undef AT
const lt_record lt_schema_model = {"model", ROWS(model_fields), sizeof(lt_cfg_model)};

// ---------------------------------------------------------------- features

#define AT(field) offsetof(lt_cfg_loss_cfg, field)
static const lt_field loss_fields[] = {
    {"loss_type", LT_FIELD_CHOICE, AT(loss_type), "raw", .flags = LT_FIELD_NULL, .choices = losses,
     .help = "how token losses are averaged"},
    {"router_aux_loss_coef", LT_FIELD_FLOAT, AT(router_aux_loss_coef), "0.0",
     .range = &lt_range_at_least_0, .help = "weight of the experts' balance loss"},
    {"router_aux_loss_offload", LT_FIELD_BOOL, AT(router_aux_loss_offload), "false",
     .support = LT_SUPPORT_HINT, .help = "not needed here: the gradient is made inside each layer"},
};
#undef AT
static const lt_record loss = {"loss_cfg", ROWS(loss_fields), sizeof(lt_cfg_loss_cfg)};

#define AT(field) offsetof(lt_cfg_chunkloss, field)
static const lt_field chunkloss_fields[] = {
    {"apply_module", LT_FIELD_TEXT, AT(apply_module), "lm_head", .flags = LT_FIELD_PATTERNS,
     .help = "the head"},
    {"chunk_size", LT_FIELD_INT, AT(chunk_size), "1024", .range = &lt_range_at_least_1,
     .help = "sequence positions of which logits exist at a time"},
    {"total_chunk_size", LT_FIELD_INT, AT(total_chunk_size), "4096", .range = &lt_range_at_least_1,
     .help = "for the dynamic form: rows at a time"},
};
#undef AT
static const lt_record chunkloss = {"chunkloss_plan", ROWS(chunkloss_fields),
                                    sizeof(lt_cfg_chunkloss)};

#define AT(field) offsetof(lt_cfg_offload, field)
static const lt_field offload_fields[] = {
    {"apply_modules", LT_FIELD_TEXTS, AT(apply_modules), .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .help = "blocks whose inputs wait in host memory"},
};
#undef AT
static const lt_record offload = {"activation_offload_plan", ROWS(offload_fields),
                                  sizeof(lt_cfg_offload)};

#define AT(field) offsetof(lt_cfg_chunkmbs, field)
static const lt_field chunkmbs_fields[] = {
    {"apply_modules", LT_FIELD_TEXTS, AT(apply_modules), .flags = LT_FIELD_NULL | LT_FIELD_PATTERNS,
     .help = "blocks that take a batch in pieces"},
    {"chunk_mbs", LT_FIELD_INT, AT(chunk_mbs), "1", .range = &lt_range_at_least_1,
     .help = "samples in a piece"},
    {"batch_dim", LT_FIELD_INT, AT(batch_dim), "0", .support = LT_SUPPORT_HINT,
     .help = "has no meaning here: samples are known"},
    {"chunk_arg_indexs", LT_FIELD_INTS, AT(chunk_arg_indexs), "[0]", .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_HINT, .help = "has no meaning here"},
    {"chunk_kwarg_names", LT_FIELD_TEXTS, AT(chunk_kwarg_names), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_HINT, .help = "has no meaning here"},
};
#undef AT
static const lt_record chunkmbs = {"chunkmbs_plan", ROWS(chunkmbs_fields), sizeof(lt_cfg_chunkmbs)};

#define AT(field) offsetof(lt_cfg_ep_balance, field)
static const lt_field balance_fields[] = {
    {"max_dup_experts_num", LT_FIELD_INT, AT(max_dup_experts_num), "2",
     .range = &lt_range_at_least_0, .help = "spare slots of a rank"},
};
#undef AT
static const lt_record balance = {"ep_balance_plan", ROWS(balance_fields),
                                  sizeof(lt_cfg_ep_balance)};

#define AT(field) offsetof(lt_cfg_features, field)
static const lt_field features_fields[] = {
    {"recompute", LT_FIELD_BOOL, AT(recompute), "false", .flags = LT_FIELD_NULL,
     .help = "compute the blocks of recompute_plan again in backward"},
    {"recompute_plan", LT_FIELD_RECORD, AT(recompute_plan), .record = &recompute_plan,
     .help = "which blocks"},
    {"loss_cfg", LT_FIELD_RECORD, AT(loss_cfg), .record = &loss, .help = "the loss"},
    {"enable_chunk_loss", LT_FIELD_BOOL, AT(enable_chunk_loss), "false",
     .help = "make the head's logits in pieces; lathe always does, this sets the size"},
    {"enable_dynamic_chunk_loss", LT_FIELD_BOOL, AT(enable_dynamic_chunk_loss), "false",
     .help = "the size of a piece follows from total_chunk_size and the batch"},
    {"chunkloss_plan", LT_FIELD_RECORD, AT(chunkloss_plan), .record = &chunkloss,
     .help = "sizes of the pieces"},
    {"enable_activation_offload", LT_FIELD_BOOL, AT(enable_activation_offload), "false",
     .help = "block inputs wait in host memory"},
    {"activation_offload_plan", LT_FIELD_RECORD, AT(activation_offload_plan), .record = &offload,
     .help = "which blocks"},
    {"enable_chunk_mbs", LT_FIELD_BOOL, AT(enable_chunk_mbs), "false",
     .refuse = {LT_WHEN_TRUE, .feature = "blocks that take a micro-batch in pieces",
                .instead = "set it to false"},
     .help = "blocks take a micro-batch in pieces"},
    {"chunkmbs_plan", LT_FIELD_RECORD, AT(chunkmbs_plan), .record = &chunkmbs,
     .help = "which blocks, how large a piece"},
    {"enable_ep_balance", LT_FIELD_BOOL, AT(enable_ep_balance), "false",
     .refuse = {LT_WHEN_TRUE, .feature = "balancing of experts over ranks",
                .instead = "set it to false"},
     .help = "double busy experts on other ranks"},
    {"ep_balance_plan", LT_FIELD_RECORD, AT(ep_balance_plan), .record = &balance,
     .help = "how many"},
    {"skip_moe_pad_tokens", LT_FIELD_BOOL, AT(skip_moe_pad_tokens), "false",
     .support = LT_SUPPORT_HINT, .help = "padding never reaches an expert here"},
};
#undef AT
const lt_record lt_schema_features = {"features", ROWS(features_fields), sizeof(lt_cfg_features)};
