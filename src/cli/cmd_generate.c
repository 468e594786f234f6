// SPDX-License-Identifier: Apache-2.0
// lathe generate: one answer of a model, word by word.
#include "cli/cli.h"
#include "train/engine.h"
#include "train/generate.h"
#include "train/pictures.h"

#include <string.h>

extern const lt_command lt_command_generate;

typedef struct options {
    lt_arg_texts images;
    const char *prompt, *chat, *system;
    int64_t max_tokens, max_pixels, max_tiles;
} options;

static const lt_arg args[] = {
    {"--prompt", 'p', LT_ARG_TEXT, offsetof(options, prompt), "TEXT",
     "what to say; <image> marks where a picture goes, else all go in front", 0, 0},
    {"--image", 'i', LT_ARG_TEXTS, offsetof(options, images), "FILE",
     "a picture (may be given several times)", 0, 0},
    {"--max-tokens", 0, LT_ARG_INT, offsetof(options, max_tokens), "N",
     "the longest answer (default 128)", 1, 1 << 20},
    {"--template", 0, LT_ARG_TEXT, offsetof(options, chat), "NAME",
     "the chat template (default: the model's own, qwen3_vl_nothink or internvl2_5)", 0, 0},
    {"--system", 0, LT_ARG_TEXT, offsetof(options, system), "TEXT", "a system text", 0, 0},
    {"--max-pixels", 0, LT_ARG_INT, offsetof(options, max_pixels), "N",
     "shrink pictures above so many pixels (default 589824)", 1024, INT64_MAX},
    {"--max-tiles", 0, LT_ARG_INT, offsetof(options, max_tiles), "N",
     "InternVL: cut pictures into so many tiles at most (default: as config.json says)", 1, 256},
};

// All that an answer needs.
typedef struct speaker {
    const options *o;
    lt_engine *engine;
    const lt_template *chat;
    lt_tokenizer *tokenizer;
    lt_encoder *encoder;
    lt_arena *arena;
    lt_collate_opts collate;
    lt_vec answer;  /* int32_t */
    size_t printed; /* bytes of the answer's text that are out */
} speaker;

static lt_status open_parts(speaker *s, const char *folder)
{
    const lt_model *model = s->engine->model;
    const char *name = s->o->chat ? s->o->chat : lt_pictures_template(model);
    lt_cfg_dataset settings = {.min_dynamic_patch = LT_CFG_NONE,
                               .max_dynamic_patch = LT_CFG_NONE,
                               .dynamic_image_size = LT_CFG_UNSET,
                               .use_thumbnail = LT_CFG_UNSET,
                               .pad2square = LT_CFG_UNSET};
    settings.preprocess_parameters.image_max_pixels = s->o->max_pixels;
    settings.preprocess_parameters.image_min_pixels = lt_image_budget_default().min_pixels;
    settings.preprocess_parameters.use_fast_tokenizer = true;
    settings.preprocess_parameters.crop_to_patches = s->o->max_tiles > 1;
    if (s->o->max_tiles > 0)
        settings.max_dynamic_patch = s->o->max_tiles;
    LT_TRY(lt_template_find(name, &s->chat));
    LT_TRY(lt_tokenizer_open(folder, &s->tokenizer));
    LT_TRY(lt_pictures_open(model, s->chat, folder, &settings, NULL, &s->collate));
    lt_encode_opts o = lt_encode_opts_default();
    o.render.tokenizer = s->tokenizer;
    o.render.chat = s->chat;
    o.render.merge = model->config.vision.merge;
    o.cutoff_len = INT32_MAX;
    o.grid_of = lt_pictures_grid;
    o.grid_ctx = &s->collate;
    LT_TRY(lt_encoder_create(&o, &s->encoder));
    return lt_pictures_ids(model, s->chat, lt_encoder_ids(s->encoder), &s->collate);
}

// The user's turn: picture tags in front of the text unless it has its own.
static lt_status user_text(const speaker *s, lt_span *out)
{
    lt_buf text = {0};
    lt_status st = LT_OK;
    const bool tagged = strstr(s->o->prompt, "<image>") != NULL;
    for (int64_t i = 0; st == LT_OK && !tagged && i < s->o->images.n; i++)
        st = lt_buf_text(&text, s->chat->segments ? "<image>\n" : "<image>");
    if (st == LT_OK)
        st = lt_buf_text(&text, s->o->prompt);
    char *kept = NULL;
    if (st == LT_OK)
        st = lt_arena_text(s->arena, text.data, text.len, &kept);
    *out = (lt_span){kept, text.len};
    lt_buf_deinit(&text);
    return st;
}

static lt_status encode_prompt(speaker *s, lt_sample *out)
{
    lt_turn turns[2] = {{.role = LT_ROLE_USER}, {.role = LT_ROLE_ASSISTANT, .text = {"", 0}}};
    LT_TRY(user_text(s, &turns[0].text));
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)s->o->images.n * sizeof(char *), &memory));
    const char **images = memory;
    for (int64_t i = 0; i < s->o->images.n; i++)
        images[i] = s->o->images.items[i];
    const lt_conversation c = {
        .turns = turns,
        .n_turns = 2,
        .system = {s->o->system ? s->o->system : "", s->o->system ? strlen(s->o->system) : 0},
        .images = images,
        .n_images = s->o->images.n};
    const lt_record_place place = {.file = "--prompt", .record = 1, .line = 1};
    LT_TRY(lt_encode(s->encoder, &c, place, s->arena, out, NULL));
    out->n = lt_last_answer(out);
    return out->n > 0 ? LT_OK
                      : LT_FAIL(LT_ERR_INTERNAL, "template %s leaves no place for an answer",
                                s->chat->name);
}

// Prints what is new of the answer; bytes of a character that is not complete yet wait.
static bool print_token(void *ctx, int64_t prompt, int32_t id)
{
    (void)prompt;
    speaker *s = ctx;
    lt_buf text = {0};
    if (lt_vec_push(&s->answer, &id) != LT_OK)
        return false;
    const lt_status st =
        lt_tokenizer_decode(s->tokenizer, s->answer.data, s->answer.n, LT_SKIP_SPECIAL, &text);
    const bool whole = text.len < 3 || memcmp(text.data + text.len - 3, "\xef\xbf\xbd", 3) != 0;
    if (st == LT_OK && text.len > s->printed && whole) {
        (void)fwrite(text.data + s->printed, 1, text.len - s->printed, stdout);
        (void)fflush(stdout);
        s->printed = text.len;
    }
    lt_buf_deinit(&text);
    return st == LT_OK;
}

static lt_status speak(speaker *s)
{
    const lt_model_config *m = &s->engine->model->config;
    int32_t stops[LT_MAX_EOS + 1];
    int64_t n_stops = 0;
    for (int32_t i = 0; i < m->n_eos; i++)
        stops[n_stops++] = m->eos[i];
    stops[n_stops++] = lt_encoder_ids(s->encoder)->stop;
    lt_sample prompt;
    LT_TRY(encode_prompt(s, &prompt));
    const lt_generate_opts g = {.collate = &s->collate,
                                .stops = stops,
                                .n_stops = n_stops,
                                .max_tokens = s->o->max_tokens,
                                .token = print_token,
                                .ctx = s};
    lt_vec ids = LT_VEC_OF(int32_t);
    const lt_status st = lt_generate(s->engine->exec, &prompt, 1, &g, &ids);
    lt_vec_deinit(&ids);
    (void)putchar('\n');
    return st;
}

static lt_status generate(const char *folder, const options *o, const lt_log *log, lt_arena *arena)
{
    speaker s = {.o = o, .arena = arena, .answer = LT_VEC_OF(int32_t)};
    const lt_engine_opts opts = {.weights = true, .folder = folder};
    lt_status st;
    LT_TRY_GOTO(st, lt_engine_open(NULL, &opts, log, &s.engine), done);
    LT_TRY_GOTO(st, open_parts(&s, s.engine->source), done);
    LT_TRY_GOTO(st, lt_engine_start(s.engine, &opts), done);
    st = speak(&s);
done:
    lt_vec_deinit(&s.answer);
    lt_encoder_destroy(s.encoder);
    lt_tokenizer_close(s.tokenizer);
    lt_engine_close(s.engine);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    const lt_log log = lt_cli_log();
    options o = {.max_tokens = 128, .max_pixels = lt_image_budget_default().max_pixels};
    lt_args rest = {0};
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, &o, &rest);
    if (st == LT_OK && !o.prompt)
        st = LT_FAIL(LT_ERR_CONFIG, "--prompt is missing: it says what to answer");
    if (st == LT_OK)
        st = generate(rest.positional.items[0], &o, &log, arena);
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_generate = {
    .name = "generate",
    .summary = "Answer a prompt with pictures, greedily, to the stop token",
    .positional = "MODEL",
    .min_positional = 1,
    .max_positional = 1,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "MODEL is a Hugging Face folder, a checkpoint of a run (iter_*), or a run's root.\n",
    .run = run,
};
