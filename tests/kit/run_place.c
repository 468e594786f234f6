// SPDX-License-Identifier: Apache-2.0
// The files of a place to train in, written one by one.
#include "tests/kit/run_place.h"
#include "base/file.h"
#include "base/rng.h"
#include "ckpt/safetensors_write.h"
#include "model/model.h"
#include "tests/kit/lt_qwen.h"
#include <stdio.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

void lt_place_write(void *state, const char *dir, const char *name, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = lt_test_take(state, (size_t)n + 1);
    (void)vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    lt_test_write(lt_test_path(state, dir, name), text, (size_t)n);
}

const char *lt_place_read(void *state, const char *dir, const char *name)
{
    return lt_test_read(state, lt_test_path(state, dir, name), NULL);
}

void lt_place_edit(void *state, const char *dir, const char *name, const char *from, const char *to)
{
    const char *text = lt_test_replace(state, lt_place_read(state, dir, name), from, to);
    lt_test_write(lt_test_path(state, dir, name), text, strlen(text));
}

/* ---- pictures ---- */

static void put_be32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> (24 - 8 * i));
}

static void put_chunk(lt_buf *png, const char *type, const unsigned char *data, uint32_t n)
{
    unsigned char word[4];
    put_be32(word, n);
    assert_ok(lt_buf_append(png, word, 4));
    const size_t start = png->len;
    assert_ok(lt_buf_append(png, type, 4));
    assert_ok(lt_buf_append(png, data, n));
    put_be32(word, (uint32_t)crc32(0, (const unsigned char *)png->data + start, n + 4));
    assert_ok(lt_buf_append(png, word, 4));
}

void lt_place_png(void *state, const char *path, int width, int height, int seed)
{
    const size_t row = 1 + 3 * (size_t)width;
    unsigned char *raw = lt_test_take(state, row * (size_t)height);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            unsigned char *p = raw + (size_t)y * row + 1 + 3 * (size_t)x;
            p[0] = (unsigned char)(x * 3 + seed * 40);
            p[1] = (unsigned char)(y * 2 + seed * 70);
            p[2] = (unsigned char)(x + y + seed * 110);
        }
    }
    uLongf n = compressBound((uLong)(row * (size_t)height));
    unsigned char *packed = lt_test_take(state, n), head[13] = {[8] = 8, [9] = 2};
    assert_int_equal(compress(packed, &n, raw, (uLong)(row * (size_t)height)), Z_OK);
    put_be32(head, (uint32_t)width);
    put_be32(head + 4, (uint32_t)height);
    lt_buf png = {0};
    assert_ok(lt_buf_append(&png, "\x89PNG\r\n\x1a\n", 8));
    put_chunk(&png, "IHDR", head, sizeof head);
    put_chunk(&png, "IDAT", packed, (uint32_t)n);
    put_chunk(&png, "IEND", head, 0);
    lt_test_write(path, png.data, png.len);
    lt_buf_deinit(&png);
}

/* ---- the tokenizer: 256 bytes, six merges, the tokens of the templates ---- */

static const char *const merges[][2] = {{"t", "h"},   {"th", "e"}, {"i", "n"},
                                        {"Ġ", "the"}, {"o", "r"},  {"a", "n"}};
enum { N_MERGES = sizeof merges / sizeof *merges, FIRST_ADDED = 296 };
static const char *const added[] = {"<|endoftext|>",
                                    "<|im_start|>",
                                    "<|im_end|>",
                                    "<|object_ref_start|>",
                                    "<|image_pad|>",
                                    "<|video_pad|>",
                                    "<|vision_start|>",
                                    "<|vision_end|>",
                                    "<tool_call>",
                                    "</tool_call>",
                                    "<tool_response>",
                                    "</tool_response>",
                                    "<think>",
                                    "</think>",
                                    "<img>",
                                    "</img>",
                                    "<IMG_CONTEXT>"};
// As the golden models have them.
enum { IMAGE_PAD = 300, VIDEO_PAD = 301, VISION_START = 302 };

// The character that stands for a byte: itself where it can be seen, else U+0100 and up.
static uint32_t byte_char(int byte, uint32_t *next)
{
    const bool seen =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    return seen ? (uint32_t)byte : (*next)++;
}

static void put_vocab(lt_buf *json)
{
    uint32_t next = 0x100;
    for (int b = 0; b < 256; b++)
        assert_ok(lt_buf_printf(json, "%s\"\\u%04x\": %d", b ? ", " : "",
                                (unsigned)byte_char(b, &next), b));
    for (int i = 0; i < N_MERGES; i++)
        assert_ok(lt_buf_printf(json, ", \"%s%s\": %d", merges[i][0], merges[i][1], 256 + i));
}

static void write_tokenizer(void *state, const char *dir)
{
    lt_buf json = {0};
    assert_ok(lt_buf_text(&json, "{\"version\": \"1.0\", \"added_tokens\": ["));
    for (int i = 0; i < (int)(sizeof added / sizeof *added); i++) {
        assert_ok(lt_buf_printf(&json,
                                "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, "
                                "\"normalized\": false, \"special\": true}",
                                i ? ", " : "", FIRST_ADDED + i, added[i]));
    }
    assert_ok(lt_buf_text(
        &json,
        "], \"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
        "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[^\\\\r\\\\n\\\\p{L}"
        "\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+\"}, \"behavior\": "
        "\"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
        "\"use_regex\": false}]}, \"decoder\": {\"type\": \"ByteLevel\"}, "
        "\"model\": {\"type\": \"BPE\", \"vocab\": {"));
    put_vocab(&json);
    assert_ok(lt_buf_text(&json, "}, \"merges\": ["));
    for (int i = 0; i < N_MERGES; i++)
        assert_ok(lt_buf_printf(&json, "%s\"%s %s\"", i ? ", " : "", merges[i][0], merges[i][1]));
    assert_ok(lt_buf_text(&json, "]}}\n"));
    lt_test_write(lt_test_path(state, dir, "tokenizer.json"), json.data, json.len);
    lt_buf_deinit(&json);
}

/* ---- the model ---- */

static void write_config(void *state, const char *dir, const lt_place_opts *o)
{
    const int hidden = o->hidden ? o->hidden : 32;
    lt_place_write(
        state, dir, "config.json",
        "{\n  \"architectures\": [\"Qwen3VLForConditionalGeneration\"],\n"
        "  \"dtype\": \"%s\",\n  \"model_type\": \"qwen3_vl\",\n  \"tie_word_embeddings\": %s,\n"
        "  \"image_token_id\": %d, \"video_token_id\": %d,\n"
        "  \"vision_start_token_id\": %d, \"vision_end_token_id\": %d,\n"
        "  \"text_config\": {\"model_type\": \"qwen3_vl_text\", \"hidden_size\": %d,\n"
        "    \"num_hidden_layers\": %d, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,\n"
        "    \"head_dim\": 16, \"intermediate_size\": %d, \"vocab_size\": %d,\n"
        "    \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": %s,\n"
        "    \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0,\n"
        "      \"mrope_section\": [4, 2, 2], \"mrope_interleaved\": true}},\n"
        "  \"vision_config\": {\"depth\": 2, \"hidden_size\": 16, \"intermediate_size\": 24,\n"
        "    \"num_heads\": 2, \"in_channels\": 3, \"patch_size\": 16, \"spatial_merge_size\": 2,\n"
        "    \"temporal_patch_size\": 2, \"out_hidden_size\": %d, \"num_position_embeddings\": "
        "16,\n"
        "    \"deepstack_visual_indexes\": [0]}\n}\n",
        o->bf16 ? "bfloat16" : "float32", o->untied ? "false" : "true", IMAGE_PAD, VIDEO_PAD,
        VISION_START, VISION_START + 1, hidden, o->layers ? o->layers : 2, 2 * hidden,
        LT_PLACE_VOCAB, o->untied ? "false" : "true", hidden);
}

static void write_small_files(void *state, const char *dir)
{
    write_tokenizer(state, dir);
    lt_place_write(state, dir, "preprocessor_config.json",
                   "{\"patch_size\": 16, \"temporal_patch_size\": 2, \"merge_size\": 2, \"size\": "
                   "{\"longest_edge\": 16384, \"shortest_edge\": 1024}}\n");
    lt_place_write(state, dir, "tokenizer_config.json", "{\"model_max_length\": 4096}\n");
    lt_place_write(state, dir, "generation_config.json", "{\"do_sample\":true,  \"top_k\": 20}\n");
    lt_place_write(state, dir, "chat_template.jinja", "{%% for m in messages %%}{{ m }}\n");
}

// A parameter's initial values, some noise on top: biases and norms differ too.
static lt_st_item weight_item(void *state, const lt_param *p, lt_dtype dtype)
{
    lt_st_item item = {.from = dtype, .fetch = lt_st_fetch_tensor};
    float *values = lt_test_take(state, (size_t)p->n_elems * sizeof *values);
    lt_model_init_values(p, 7, 0, p->n_elems, values);
    for (int64_t i = 0; i < p->n_elems; i++)
        values[i] += 0.05F * (float)lt_normal(lt_rng_key(3, p->name), (uint64_t)i);
    lt_tensor *t = lt_test_take(state, sizeof *t);
    *t = lt_tensor_nd(dtype, p->rank, p->dim);
    t->data = lt_test_take(state, lt_tensor_bytes(t));
    lt_convert(t->data, dtype, values, LT_F32, p->n_elems);
    assert_ok(lt_st_plan(p->name, dtype, p->rank, p->dim, &item.tensor));
    item.ctx = t;
    return item;
}

static lt_st_item extra_item(void *state, const char *name, const char *dtype, size_t elem)
{
    enum { N = 12 };
    int64_t *dim = lt_test_take(state, 2 * sizeof *dim);
    uint8_t *data = lt_test_take(state, N * elem);
    dim[0] = 3;
    dim[1] = 4;
    for (size_t i = 0; i < N * elem; i++)
        data[i] = (uint8_t)(i * 37 + 5) & 0xBF; // no NaN
    return (lt_st_item){.tensor = {.name = name,
                                   .dtype_text = dtype,
                                   .dtype = strcmp(dtype, "BF16") == 0 ? LT_BF16 : LT_N_DTYPES,
                                   .rank = 2,
                                   .dim = dim,
                                   .data = data,
                                   .bytes = N * elem}};
}

static void write_index(void *state, const char *dir, const lt_vec *items, int files)
{
    lt_buf json = {0};
    size_t bytes = 0;
    for (int64_t i = 0; i < items->n; i++)
        bytes += LT_AT(items, lt_st_item, i).tensor.bytes;
    assert_ok(
        lt_buf_printf(&json, "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", bytes));
    for (int64_t i = 0; i < items->n; i++) {
        assert_ok(lt_buf_printf(&json, "%s\"%s\": \"model-%05d-of-%05d.safetensors\"",
                                i ? ",\n" : "\n", LT_AT(items, lt_st_item, i).tensor.name,
                                (int)(i * files / items->n) + 1, files));
    }
    assert_ok(lt_buf_text(&json, "}}\n"));
    lt_test_write(lt_test_path(state, dir, "model.safetensors.index.json"), json.data, json.len);
    lt_buf_deinit(&json);
}

static void write_files(void *state, const char *dir, const lt_vec *items, int files)
{
    static const lt_st_pair meta[] = {{"format", "pt"}};
    for (int f = 0, at = 0; f < files; f++) {
        char name[64];
        int n = 0;
        while (at + n < items->n && (int64_t)(at + n) * files / items->n == f)
            n++;
        (void)snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", f + 1, files);
        assert_ok(lt_st_write(lt_test_path(state, dir, files > 1 ? name : "model.safetensors"),
                              &LT_AT(items, lt_st_item, at), n, meta, 1));
        at += n;
    }
    if (files > 1)
        write_index(state, dir, items, files);
}

static void write_weights(void *state, const char *dir, const lt_place_opts *o)
{
    lt_model_config config;
    lt_model *model = NULL;
    lt_vec items = LT_VEC_OF(lt_st_item);
    const lt_model_cut whole = {0};
    assert_ok(lt_model_config_load(dir, &whole, &config));
    assert_ok(lt_model_create(&config, LT_HEAD_AS_CONFIG, &model));
    for (int32_t i = 0; i < model->n_params; i++) {
        const lt_st_item item = weight_item(state, &model->params[i], o->bf16 ? LT_BF16 : LT_F32);
        assert_ok(lt_vec_push(&items, &item));
    }
    const lt_st_item extra[] = {extra_item(state, "mtp.layers.0.weight", "BF16", 2),
                                extra_item(state, "mtp.scales", "F8_E4M3", 1)};
    if (o->extra)
        assert_ok(lt_vec_append(&items, extra, 2));
    write_files(state, dir, &items, o->files > 1 ? o->files : 1);
    lt_vec_deinit(&items);
    lt_model_destroy(model);
}

/* ---- data and configuration ---- */

static void write_data(void *state, const char *dir, int n)
{
    static const char *const answers[] = {"Red.", "The one on the left, of course.", "Two boxes",
                                          "I see nothing there", "Green and blue!"};
    static const char *const tags[] = {"", "<image>", "<image> and <image>"};
    lt_buf json = {0};
    assert_ok(lt_buf_text(&json, "[\n"));
    for (int i = 0; i < n; i++) {
        assert_ok(lt_buf_printf(&json,
                                "{\"messages\": [{\"role\": \"user\", \"content\": \"%s Question "
                                "%d in the picture?\"},\n {\"role\": \"assistant\", \"content\": "
                                "\"%s\"}], \"images\": [",
                                tags[i % 3], i * i, answers[i % 5]));
        for (int k = 0; k < i % 3; k++)
            assert_ok(lt_buf_printf(&json, "%s\"p%d.png\"", k ? ", " : "",
                                    (i + k) % LT_PLACE_PICTURE_COUNT));
        assert_ok(lt_buf_printf(&json, "]}%s\n", i + 1 < n ? "," : ""));
    }
    assert_ok(lt_buf_text(&json, "]\n"));
    lt_test_write(lt_test_path(state, dir, LT_PLACE_DATA), json.data, json.len);
    lt_buf_deinit(&json);
}

static const char yaml[] =
    "data:\n"
    "  dataset_param:\n"
    "    dataset_type: huggingface\n"
    "    attr: {images: images, messages: messages, role_tag: role, content_tag: content,\n"
    "           user_tag: user, assistant_tag: assistant, system_tag: system}\n"
    "    preprocess_parameters: {model_name_or_path: model, image_max_pixels: 16384,\n"
    "                            image_min_pixels: 1024}\n"
    "    basic_parameters: {cutoff_len: 256, template: qwen3_vl_nothink, dataset_dir: pictures,\n"
    "                       dataset: data.json}\n"
    "  dataloader_param: {dataloader_mode: sampler, sampler_type: BaseRandomBatchSampler,\n"
    "                     shuffle: true, drop_last: true, pin_memory: true}\n"
    "model: {model_id: qwen3_vl, model_name_or_path: model}\n"
    "training:\n"
    "  lr: 1.0e-2\n"
    "  lr_decay_style: cosine\n"
    "  lr_warmup_ratio: 0.2\n"
    "  weight_decay: 0.01\n"
    "  clip_grad: 1.0\n"
    "  train_iters: 6\n"
    "  micro_batch_size: 2\n"
    "  gradient_accumulation_steps: 2\n"
    "  save: out\n"
    "  save_interval: 0\n"
    "lathe: {device: cpu, threads: 2}\n";

const char *lt_place(void *state, const lt_place_opts *opts)
{
    static const int sizes[LT_PLACE_PICTURE_COUNT][2] = {{32, 32}, {64, 40}, {50, 90}, {100, 70}};
    const char *dir = lt_test_dir(state), *model = lt_test_path(state, dir, LT_PLACE_MODEL);
    const char *pictures = lt_test_path(state, dir, LT_PLACE_PICTURES);
    assert_ok(lt_dir_make(model));
    assert_ok(lt_dir_make(pictures));
    write_config(state, model, opts);
    write_small_files(state, model);
    if (!opts->random)
        write_weights(state, model, opts);
    for (int i = 0; i < LT_PLACE_PICTURE_COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "p%d.png", i);
        lt_place_png(state, lt_test_path(state, pictures, name), sizes[i][0], sizes[i][1], i);
    }
    write_data(state, dir, opts->records ? opts->records : LT_PLACE_RECORDS);
    lt_test_write(lt_test_path(state, dir, LT_PLACE_CONFIG), yaml, strlen(yaml));
    return dir;
}

const char *lt_hybrid_place(void *state, bool experts)
{
    const lt_place_opts opts = {.random = true, .layers = 4, .untied = true};
    const char *dir = lt_place(state, &opts);
    const char *model = lt_test_path(state, dir, LT_PLACE_MODEL);
    lt_place_edit(state, model, "config.json", "\"qwen3_vl\"",
                  experts ? "\"qwen3_5_moe\"" : "\"qwen3_5\"");
    lt_place_edit(state, model, "config.json", "\"hidden_size\": 32,",
                  "\"hidden_size\": 32, \"full_attention_interval\": 3, "
                  "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, "
                  "\"linear_key_head_dim\": 8, \"linear_value_head_dim\": 6, "
                  "\"mtp_num_hidden_layers\": 1, \"partial_rotary_factor\": 0.5, "
                  "\"num_experts\": 0,");
    if (experts) {
        lt_place_edit(state, model, "config.json", "\"num_experts\": 0",
                      "\"num_experts\": 4, \"num_experts_per_tok\": 2, "
                      "\"moe_intermediate_size\": 12, \"shared_expert_intermediate_size\": 20");
    }
    lt_place_edit(state, model, "config.json", "[4, 2, 2]", "[2, 1, 1]");
    lt_place_edit(state, model, "config.json", "\"deepstack_visual_indexes\": [0]",
                  "\"deepstack_visual_indexes\": []");
    lt_place_edit(state, dir, LT_PLACE_CONFIG, "model_id: qwen3_vl", "model_id: qwen3_5");
    return dir;
}
