// SPDX-License-Identifier: Apache-2.0
// Rows of the schema: data.
#include "train/config/schema.h"
#include "train/config/sections.h"

#define ROWS(rows) (rows), sizeof(rows) / sizeof *(rows)

static const char *const modes[] = {"sampler", "base", NULL};
static const char *const stages[] = {"sft", "pretrain", "rm", NULL};
static const char *const formats[] = {"sharegpt", "alpaca", "openai", "multimodal_tool", NULL};

// ---------------------------------------------------------------- attr

#define AT(field) offsetof(lt_cfg_attr, field)
static const lt_field attr_fields[] = {
    {"formatting", LT_FIELD_TEXT, AT(formatting), "sharegpt", .choices = formats,
     .help = "how records are laid out: sharegpt, alpaca, openai, multimodal_tool"},
    {"messages", LT_FIELD_TEXT, AT(messages), "conversations",
     .help = "column with the list of turns"},
    {"role_tag", LT_FIELD_TEXT, AT(role_tag), "from", .help = "key of a turn's role"},
    {"content_tag", LT_FIELD_TEXT, AT(content_tag), "value", .help = "key of a turn's text"},
    {"user_tag", LT_FIELD_TEXT, AT(user_tag), "human", .help = "role: the user"},
    {"assistant_tag", LT_FIELD_TEXT, AT(assistant_tag), "gpt", .help = "role: the model"},
    {"observation_tag", LT_FIELD_TEXT, AT(observation_tag), "observation",
     .help = "role: a tool's answer"},
    {"function_tag", LT_FIELD_TEXT, AT(function_tag), "function_call",
     .help = "role: a call of a tool"},
    {"system_tag", LT_FIELD_TEXT, AT(system_tag), "system", .help = "role: the system prompt"},
    {"images", LT_FIELD_TEXT, AT(images), .flags = LT_FIELD_NULL,
     .help = "column with image files; without it images are never read"},
    {"videos", LT_FIELD_TEXT, AT(videos), .flags = LT_FIELD_NULL,
     .help = "column with videos: files, or lists of pictures, one for each frame"},
    {"audios", LT_FIELD_TEXT, AT(audios), .flags = LT_FIELD_NULL,
     .refuse = {LT_WHEN_GIVEN, .feature = "reading audio", .instead = "remove it"},
     .help = "column with audio files"},
    {"system", LT_FIELD_TEXT, AT(system), .flags = LT_FIELD_NULL,
     .help = "column with a system text"},
    {"tools", LT_FIELD_TEXT, AT(tools), .flags = LT_FIELD_NULL,
     .help = "column with tool schemas (openai)"},
    {"prompt", LT_FIELD_TEXT, AT(prompt), .flags = LT_FIELD_NULL,
     .help = "alpaca: column of the prompt"},
    {"query", LT_FIELD_TEXT, AT(query), .flags = LT_FIELD_NULL,
     .help = "alpaca: column of the query"},
    {"response", LT_FIELD_TEXT, AT(response), .flags = LT_FIELD_NULL,
     .help = "alpaca: column of the response"},
    {"history", LT_FIELD_TEXT, AT(history), .flags = LT_FIELD_NULL,
     .help = "alpaca: column of earlier turns"},
    {"ranking", LT_FIELD_BOOL, AT(ranking), "false",
     .refuse = {LT_WHEN_TRUE, .feature = "training on preferences", .instead = "set it to false"},
     .help = "preference data"},
    {"chosen", LT_FIELD_TEXT, AT(chosen), .flags = LT_FIELD_NULL,
     .help = "preference data: the better answer"},
    {"rejected", LT_FIELD_TEXT, AT(rejected), .flags = LT_FIELD_NULL,
     .help = "preference data: the worse answer"},
};
#undef AT
static const lt_record attr = {"attr", ROWS(attr_fields), sizeof(lt_cfg_attr)};

// ---------------------------------------------------------------- preprocess_parameters

#define AT(field) offsetof(lt_cfg_preprocess, field)
static const lt_field preprocess_fields[] = {
    {"model_name_or_path", LT_FIELD_TEXT, AT(model_name_or_path), .flags = LT_FIELD_NULL,
     .help =
         "folder with tokenizer and preprocessor_config.json; without it model.model_name_or_path"},
    {"use_fast_tokenizer", LT_FIELD_BOOL, AT(use_fast_tokenizer), "true",
     .help = "also how images are resized: true as torchvision does, false as Pillow does"},
    {"split_special_tokens", LT_FIELD_BOOL, AT(split_special_tokens), "false",
     .help = "treat special tokens as plain text, also the template's own; not with images"},
    {"image_resolution", LT_FIELD_INT, AT(image_resolution), "512", .support = LT_SUPPORT_HINT,
     .help = "without effect on these models"},
    {"video_resolution", LT_FIELD_INT, AT(video_resolution), "128", .support = LT_SUPPORT_HINT,
     .help = "without effect on these models"},
    {"image_max_pixels", LT_FIELD_INT, AT(image_max_pixels), "589824",
     .range = &lt_range_at_least_1, .help = "an image with more is made smaller"},
    {"image_min_pixels", LT_FIELD_INT, AT(image_min_pixels), "1024", .range = &lt_range_at_least_0,
     .help = "an image with less is made larger"},
    {"video_max_pixels", LT_FIELD_INT, AT(video_max_pixels), "65536", .range = &lt_range_at_least_1,
     .help = "the same for a frame"},
    {"video_min_pixels", LT_FIELD_INT, AT(video_min_pixels), "256", .range = &lt_range_at_least_0,
     .help = "the same for a frame"},
    {"video_fps", LT_FIELD_FLOAT, AT(video_fps), "2.0", .range = &lt_range_above_0,
     .help = "frames taken of a second"},
    {"video_maxlen", LT_FIELD_INT, AT(video_maxlen), "128", .range = &lt_range_at_least_1,
     .help = "frames taken of a video, at most"},
    {"image_do_pan_and_scan", LT_FIELD_BOOL, AT(image_do_pan_and_scan), "false",
     .support = LT_SUPPORT_HINT, .help = "without effect on these models"},
    {"crop_to_patches", LT_FIELD_BOOL, AT(crop_to_patches), "false",
     .help = "template intern_vl: cut a picture into 1 to 12 tiles and a thumbnail"},
    {"use_audio_in_video", LT_FIELD_BOOL, AT(use_audio_in_video), "false",
     .support = LT_SUPPORT_HINT, .help = "without effect on these models"},
    {"audio_sampling_rate", LT_FIELD_INT, AT(audio_sampling_rate), "16000",
     .support = LT_SUPPORT_HINT, .help = "without effect on these models"},
    {"trust_remote_code", LT_FIELD_BOOL, AT(trust_remote_code), "false", .support = LT_SUPPORT_HINT,
     .help = "no code is ever loaded"},
};
#undef AT
static const lt_record preprocess = {"preprocess_parameters", ROWS(preprocess_fields),
                                     sizeof(lt_cfg_preprocess)};

// ---------------------------------------------------------------- basic_parameters

#define AT(field) offsetof(lt_cfg_basic, field)
static const lt_field basic_fields[] = {
    {"dataset", LT_FIELD_TEXT_OR_TEXTS, AT(dataset), .flags = LT_FIELD_NULL,
     .help = "JSON or JSONL files: a list, or one text with commas between them"},
    {"data_path", LT_FIELD_TEXT_OR_TEXTS, AT(data_path), .flags = LT_FIELD_NULL,
     .help = "internvl3_5: another word for dataset"},
    {"data_folder", LT_FIELD_TEXT, AT(data_folder), .flags = LT_FIELD_NULL,
     .help = "internvl3_5: another word for dataset_dir"},
    {"dataset_dir", LT_FIELD_TEXT, AT(dataset_dir), "data",
     .help = "folder that relative media paths start from"},
    {"cache_dir", LT_FIELD_TEXT, AT(cache_dir), .flags = LT_FIELD_NULL, .support = LT_SUPPORT_HINT,
     .help = "nothing is cached"},
    {"template", LT_FIELD_TEXT, AT(template_id), .flags = LT_FIELD_NULL,
     .refuse = {LT_WHEN_NOT_IN,
                .allowed = "qwen3_vl qwen3_vl_nothink qwen3_5 qwen3_5_nothink qwen3_6 "
                           "qwen3_6_nothink qwen2vl qwen2_vl internvl2_5 intern_vl",
                .known = "", .feature = "template",
                .instead = "use the one that belongs to the model, such as qwen3_vl"},
     .help = "the chat template"},
    {"chat_template", LT_FIELD_TEXT, AT(chat_template), .flags = LT_FIELD_NULL,
     .refuse = {LT_WHEN_GIVEN, .feature = "Jinja templates", .instead = "set template instead"},
     .help = "path of a Jinja file; wins over template"},
    {"enable_thinking", LT_FIELD_TRISTATE, AT(enable_thinking), "true", .flags = LT_FIELD_NULL,
     .help =
         "qwen3_5, and with lathe.habits: llama_factory all: false cuts thoughts out, null masks "
         "empty ones; the other templates do not look at it"},
    {"cutoff_len", LT_FIELD_INT, AT(cutoff_len), "1024", .range = &lt_range_at_least_1,
     .help = "tokens of a sample, at most"},
    {"train_on_prompt", LT_FIELD_BOOL, AT(train_on_prompt), "false",
     .help = "labels on the prompt as well"},
    {"mask_history", LT_FIELD_BOOL, AT(mask_history), "false",
     .help = "labels on the last turn only"},
    {"streaming", LT_FIELD_BOOL, AT(streaming), "false",
     .help = "with dataloader_mode: base; files are never loaded whole in any case"},
    {"overwrite_cache", LT_FIELD_BOOL, AT(overwrite_cache), "false", .support = LT_SUPPORT_HINT,
     .help = "nothing is cached"},
    {"preprocessing_batch_size", LT_FIELD_INT, AT(preprocessing_batch_size), "1000",
     .range = &lt_range_at_least_1,
     .help = "packing: rows that are packed together; otherwise without effect"},
    {"preprocessing_num_workers", LT_FIELD_INT, AT(preprocessing_num_workers),
     .flags = LT_FIELD_NULL, .range = &lt_range_at_least_0,
     .help = "packing: shares of the rows that are packed apart; threads are lathe's own choice"},
    {"max_samples", LT_FIELD_INT, AT(max_samples), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_0, .help = "only the first rows; null and 0 mean all"},
    {"tool_format", LT_FIELD_TEXT, AT(tool_format), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_INERT, .help = "without effect"},
    {"val_dataset", LT_FIELD_TEXT, AT(val_dataset), .flags = LT_FIELD_NULL,
     .help = "validation file"},
    {"val_max_samples", LT_FIELD_INT, AT(val_max_samples), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_0, .help = "only its first rows"},
    {"val_rate", LT_FIELD_FLOAT, AT(val_rate), .flags = LT_FIELD_NULL, .support = LT_SUPPORT_INERT,
     .help = "without effect"},
    {"packing", LT_FIELD_TRISTATE, AT(packing), .flags = LT_FIELD_NULL,
     .help =
         "several samples in a row of cutoff_len - 1 tokens; they never see each other. stage: "
         "pretrain packs unless this is false: blocks of cutoff_len tokens of texts end to end"},
    {"neat_packing", LT_FIELD_BOOL, AT(neat_packing), "false",
     .help = "the same: samples of a row never see each other in lathe"},
    {"preprocess_on_fly", LT_FIELD_BOOL, AT(preprocess_on_fly), "false", .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_HINT, .help = "samples are always prepared ahead of the step"},
    {"async_preprocess", LT_FIELD_BOOL, AT(async_preprocess), "false", .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_HINT, .help = "for streaming"},
    {"async_preprocess_buffer_size", LT_FIELD_INT, AT(async_preprocess_buffer_size),
     .flags = LT_FIELD_NULL, .range = &lt_range_at_least_0, .support = LT_SUPPORT_HINT,
     .help = "for streaming"},
    {"stage", LT_FIELD_CHOICE, AT(stage), "sft", .flags = LT_FIELD_NULL, .choices = stages,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "sft pretrain", .known = "rm",
                .feature = "training stage", .instead = "set it to sft"},
     .help = "what is trained: sft answers, pretrain the text of first turns, whole"},
};
#undef AT
static const lt_record basic = {"basic_parameters", ROWS(basic_fields), sizeof(lt_cfg_basic)};

// ---------------------------------------------------------------- data sets, loader

#define AT(field) offsetof(lt_cfg_dataset, field)
static const lt_field dataset_fields[] = {
    {"dataset_type", LT_FIELD_TEXT, AT(dataset_type), .flags = LT_FIELD_REQUIRED,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "huggingface internvl3_5", .known = "",
                .feature = "data set type", .instead = "set it to huggingface"},
     .help = "kind of data set: huggingface, or internvl3_5 with records of InternVL's form"},
    {"dynamic_image_size", LT_FIELD_TRISTATE, AT(dynamic_image_size), .flags = LT_FIELD_NULL,
     .help = "internvl3_5: cut pictures into tiles; without it as the model's config.json says"},
    {"use_thumbnail", LT_FIELD_TRISTATE, AT(use_thumbnail), .flags = LT_FIELD_NULL,
     .help = "internvl3_5: the whole picture as one more tile, where there are several"},
    {"min_dynamic_patch", LT_FIELD_INT, AT(min_dynamic_patch), .flags = LT_FIELD_NULL,
     .range = &lt_range_up_to_256, .help = "internvl3_5: tiles of a picture, at least"},
    {"max_dynamic_patch", LT_FIELD_INT, AT(max_dynamic_patch), .flags = LT_FIELD_NULL,
     .range = &lt_range_up_to_256,
     .help = "internvl3_5: tiles of a record's pictures, at most; 1 cuts nothing"},
    {"pad2square", LT_FIELD_TRISTATE, AT(pad2square), .flags = LT_FIELD_NULL,
     .help = "internvl3_5: pad a picture that is not cut to a square before its resize"},
    {"basic_parameters", LT_FIELD_RECORD, AT(basic_parameters), .record = &basic,
     .help = "files, template, lengths"},
    {"preprocess_parameters", LT_FIELD_RECORD, AT(preprocess_parameters), .record = &preprocess,
     .help = "tokenizer, sizes of images"},
    {"attr", LT_FIELD_RECORD, AT(attr), .record = &attr, .help = "names of columns and roles"},
};
#undef AT
static const lt_record dataset = {"dataset_param", ROWS(dataset_fields), sizeof(lt_cfg_dataset)};

#define AT(field) offsetof(lt_cfg_collate, field)
static const lt_field collate_fields[] = {
    {"collator_id", LT_FIELD_TEXT, AT(collator_id), .flags = LT_FIELD_NULL,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "qwen3vl internvl internvl3_5 llm_pretrain",
                .known = "qwen3omni qwen3asr step3_vl", .feature = "collator",
                .instead = "set it to qwen3vl"},
     .help = "how samples are joined, which follows from the model"},
    {"model_name", LT_FIELD_TEXT, AT(model_name), .flags = LT_FIELD_NULL,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "qwen3vl internvl internvl3_5 llm_pretrain",
                .known = "qwen3omni qwen3asr step3_vl", .feature = "collator",
                .instead = "set it to qwen3vl"},
     .help = "older spelling of collator_id"},
    {"ignore_pad_token_for_loss", LT_FIELD_BOOL, AT(ignore_pad_token_for_loss), "false",
     .help = "labels of padding: true none, false the pad token"},
    {"pad_id", LT_FIELD_INT, AT(pad_id), .flags = LT_FIELD_NULL, .range = &lt_range_at_least_0,
     .support = LT_SUPPORT_HINT, .help = "internvl: lathe does not pad"},
    {"pad_to_multiple_of", LT_FIELD_INT, AT(pad_to_multiple_of), "8", .range = &lt_range_at_least_1,
     .help = "length of a padded batch is a multiple of this"},
};
#undef AT
static const lt_record collate = {"collate_param", ROWS(collate_fields), sizeof(lt_cfg_collate)};

#define AT(field) offsetof(lt_cfg_dataloader, field)
static const lt_field dataloader_fields[] = {
    {"dataloader_mode", LT_FIELD_CHOICE, AT(dataloader_mode), "sampler", .flags = LT_FIELD_REQUIRED,
     .choices = modes,
     .help = "sampler: batches by sampler_type; base: one sample at a time in file order"},
    {"sampler_type", LT_FIELD_TEXT, AT(sampler_type), .flags = LT_FIELD_REQUIRED,
     .refuse = {LT_WHEN_NOT_IN, .allowed = "BaseRandomBatchSampler", .known = "",
                .feature = "sampler", .instead = "set it to BaseRandomBatchSampler"},
     .help = "order of samples: BaseRandomBatchSampler"},
    {"shuffle", LT_FIELD_BOOL, AT(shuffle), "false", .flags = LT_FIELD_REQUIRED | LT_FIELD_NULL,
     .help = "a new order every epoch"},
    {"drop_last", LT_FIELD_BOOL, AT(drop_last), "true", .flags = LT_FIELD_REQUIRED,
     .help = "leave out an incomplete last batch; has to be true"},
    {"pin_memory", LT_FIELD_BOOL, AT(pin_memory), "false", .flags = LT_FIELD_REQUIRED,
     .support = LT_SUPPORT_HINT, .help = "lathe pins what it copies to a device"},
    {"num_workers", LT_FIELD_INT, AT(num_workers), "2", .range = &lt_range_at_least_0,
     .support = LT_SUPPORT_HINT, .help = "threads of one process load data, no workers"},
    {"enable_preload", LT_FIELD_BOOL, AT(enable_preload), "false", .support = LT_SUPPORT_HINT,
     .help = "the next batch is always loaded ahead"},
    {"data_sharding", LT_FIELD_BOOL, AT(data_sharding), "false",
     .help = "each rank shuffles a share of its own"},
    {"prefetch_factor", LT_FIELD_INT, AT(prefetch_factor), .flags = LT_FIELD_NULL,
     .range = &lt_range_at_least_0, .support = LT_SUPPORT_HINT,
     .help = "batches loaded ahead are lathe's own choice"},
    {"persistent_workers", LT_FIELD_TRISTATE, AT(persistent_workers), .flags = LT_FIELD_NULL,
     .support = LT_SUPPORT_HINT, .help = "there are no workers"},
    {"collate_param", LT_FIELD_RECORD, AT(collate_param), .record = &collate,
     .help = "how samples become a batch"},
};
#undef AT
static const lt_record dataloader = {"dataloader_param", ROWS(dataloader_fields),
                                     sizeof(lt_cfg_dataloader)};

#define AT(field) offsetof(lt_cfg_data, field)
static const lt_field data_fields[] = {
    {"dataset_param", LT_FIELD_RECORD, AT(dataset_param),
     .flags = LT_FIELD_REQUIRED | LT_FIELD_GIVEN, .record = &dataset, .help = "the training set"},
    {"val_dataset_param", LT_FIELD_RECORD, AT(val_dataset_param), .flags = LT_FIELD_GIVEN,
     .record = &dataset, .help = "the validation set; may be absent"},
    {"dataloader_param", LT_FIELD_RECORD, AT(dataloader_param), .flags = LT_FIELD_REQUIRED,
     .record = &dataloader, .help = "how it is read"},
};
#undef AT
const lt_record lt_schema_data = {"data", ROWS(data_fields), sizeof(lt_cfg_data)};
