// SPDX-License-Identifier: Apache-2.0
// lathe convert: models between Hugging Face folders and PyTorch's distributed checkpoints, with
// the converters, verbs and options of mm-convert.
#include "base/file.h"
#include "ckpt/convert.h"
#include "cli/cli.h"
#include "train/config/yaml.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern const lt_command lt_command_convert;

enum { MAX_WORKERS = 256, MAX_CONFIG_BYTES = 1 << 20 };

// Every option is a text first: it may come from the command line, a file or the environment.
typedef struct options {
    const char *hf_dir, *dcp_dir, *save_dir, *load_dir, *model_assets_dir, *save_hf_dir,
        *origin_hf_dir;
    const char *hf_prefix, *dcp_prefix, *ties, *fused, *trust, *to_bf16, *keep_mtp, *workers;
    const char *config;
} options;

#define TEXT(name, field, value, help)                                                             \
    {                                                                                              \
        "--" name, 0, LT_ARG_TEXT, offsetof(options, field), value, help, 0, 0                     \
    }
static const lt_arg args[] = {
    TEXT("hf_dir", hf_dir, "DIR", "the Hugging Face folder"),
    TEXT("dcp_dir", dcp_dir, "DIR", "the folder of the distributed checkpoint (holds release/)"),
    TEXT("save_dir", save_dir, "DIR", "what is written"),
    TEXT("load_dir", load_dir, "DIR", "dcp_to_hf: what is read; another name of dcp_dir"),
    TEXT("model_assets_dir", model_assets_dir, "DIR", "dcp_to_hf: another name of hf_dir"),
    TEXT("origin_hf_dir", origin_hf_dir, "DIR", "dcp_to_hf: another name of hf_dir"),
    TEXT("save_hf_dir", save_hf_dir, "DIR", "dcp_to_hf: another name of save_dir"),
    TEXT("hf_prefix", hf_prefix, "TEXT", "replaced in names by dcp_prefix, where it first stands"),
    TEXT("dcp_prefix", dcp_prefix, "TEXT", "put in front of names where hf_prefix is empty"),
    TEXT("tie_weight_mapping", ties, "'{TARGET: SOURCE}'", "tensors to be stored a second time"),
    TEXT("fused_linear_names", fused, "[NAME,...]", "(E, a, b) becomes (E a, b) in such names"),
    TEXT("to_bf16", to_bf16, "BOOL", "dcp_to_hf: all floats as bf16; else as in hf_dir"),
    TEXT("keep_origin_mtp_weights", keep_mtp, "BOOL",
         "dcp_to_hf: mtp.* that the checkpoint lacks come from hf_dir"),
    TEXT("num_workers", workers, "N", "files converted at a time"),
    TEXT("trust_remote_code", trust, "BOOL", "accepted; no code is ever run"),
    TEXT("config", config, "FILE.yaml", "options from a file; those given here count more"),
};
enum { N_ARGS = sizeof args / sizeof *args };

static const struct converter {
    const char *name;
    lt_convert_kind kind;
    const char *dcp_prefix; // where none is given
} converters[] = {{"GenericDCPConverter", LT_CONVERT_GENERIC, ""},
                  {"Qwen35Converter", LT_CONVERT_QWEN35, ""},
                  {"ExpertMergeDcpConverter", LT_CONVERT_EXPERT_MERGE, "model."}};
enum { N_CONVERTERS = sizeof converters / sizeof *converters };

static const char **member(options *o, const lt_arg *a)
{
    return (const char **)(void *)((char *)o + a->at);
}

// ---- values

static lt_status wrong(const char *option, const char *value, const char *rule)
{
    return LT_FAIL(LT_ERR_CONFIG, "--%s: %.100s is no %s", option, value, rule);
}

static lt_status read_bool(const char *option, const char *value, bool *out)
{
    static const char *const words[][2] = {
        {"true", "false"}, {"True", "False"}, {"yes", "no"}, {"1", "0"}, {"on", "off"}};
    *out = false;
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i][0]) == 0 || strcmp(value, words[i][1]) == 0) {
            *out = strcmp(value, words[i][0]) == 0;
            return LT_OK;
        }
    }
    return value ? wrong(option, value, "truth value (true, false)") : LT_OK;
}

static lt_status parse_value(lt_arena *arena, const char *option, const char *value,
                             lt_yaml_node **out)
{
    *out = NULL;
    return value ? lt_yaml_parse(arena, option, value, strlen(value), 0, NULL, out) : LT_OK;
}

static lt_status read_ties(lt_arena *arena, const char *value, lt_convert_opts *c)
{
    lt_yaml_node *node;
    void *memory;
    LT_TRY(parse_value(arena, "tie_weight_mapping", value, &node));
    if (!node || node->kind == LT_YAML_NULL)
        return LT_OK;
    if (node->kind != LT_YAML_MAP)
        return wrong("tie_weight_mapping", value, "object {target: source}");
    LT_TRY(lt_arena_take(arena, (size_t)node->n * sizeof(lt_st_pair), &memory));
    lt_st_pair *ties = memory;
    for (int64_t i = 0; i < node->n; i++) {
        ties[i] = (lt_st_pair){node->pairs[i].key->text, node->pairs[i].value->text};
        if (node->pairs[i].value->kind != LT_YAML_TEXT)
            return wrong("tie_weight_mapping", value, "object of tensor names");
    }
    c->ties = ties;
    c->n_ties = node->n;
    return LT_OK;
}

static lt_status read_fused(lt_arena *arena, const char *value, lt_convert_opts *c)
{
    lt_yaml_node *node;
    void *memory;
    LT_TRY(parse_value(arena, "fused_linear_names", value, &node));
    if (!node || node->kind == LT_YAML_NULL)
        return LT_OK;
    const int64_t n = node->kind == LT_YAML_LIST ? node->n : 1;
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(char *), &memory));
    const char **names = memory;
    for (int64_t i = 0; i < n; i++) {
        const lt_yaml_node *item = node->kind == LT_YAML_LIST ? node->items[i] : node;
        if (item->kind != LT_YAML_TEXT || item->text[0] == '\0')
            return wrong("fused_linear_names", value, "list of names");
        names[i] = item->text;
    }
    c->fused = names;
    c->n_fused = n;
    return LT_OK;
}

static lt_status read_workers(const char *value, int *out)
{
    char *end;
    *out = 0;
    if (!value)
        return LT_OK;
    const long n = strtol(value, &end, 10);
    if (*end != '\0' || end == value || n < 0 || n > MAX_WORKERS)
        return wrong("num_workers", value, "whole number of 0 to 256");
    *out = (int)n;
    return LT_OK;
}

// ---- other places that options come from

static lt_status fill_from_file(lt_arena *arena, const char *converter, const char *verb,
                                options *o)
{
    lt_buf text = {0};
    lt_yaml_node *root = NULL;
    if (!o->config)
        return LT_OK;
    LT_TRY(lt_file_read(o->config, MAX_CONFIG_BYTES, &text));
    lt_status st =
        lt_yaml_parse(arena, o->config, text.data ? text.data : "", text.len, 0, NULL, &root);
    lt_buf_deinit(&text);
    LT_TRY(st);
    // As mm-convert prints them: below the converter and the verb, or right away.
    if (lt_yaml_get(root, converter))
        root = lt_yaml_get(root, converter);
    if (lt_yaml_get(root, verb))
        root = lt_yaml_get(root, verb);
    for (int i = 0; i < N_ARGS; i++) {
        const lt_yaml_node *node = lt_yaml_get(root, args[i].name + 2);
        const char **to = member(o, &args[i]);
        if (!node || node->kind == LT_YAML_NULL || *to)
            continue;
        if (node->kind == LT_YAML_LIST || node->kind == LT_YAML_MAP)
            return LT_FAIL(LT_ERR_CONFIG, "%s:%d: %s: write it as a text: '[...]' or '{...}'",
                           o->config, node->mark.line, args[i].name + 2);
        *to = node->text;
    }
    return LT_OK;
}

// MM_CONVERT_<CONVERTER>__<VERB>__<NAME>
static lt_status fill_from_environment(lt_arena *arena, const char *converter, const char *verb,
                                       options *o)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char *on = getenv("JSONARGPARSE_DEFAULT_ENV");
    if (!on || (strcmp(on, "true") != 0 && strcmp(on, "1") != 0))
        return LT_OK;
    for (int i = 0; i < N_ARGS; i++) {
        char *name;
        LT_TRY(lt_arena_printf(arena, &name, "MM_CONVERT_%s__%s__%s", converter, verb,
                               args[i].name + 2));
        for (char *c = name; *c; c++)
            *c = (char)toupper((unsigned char)*c);
        // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
        const char *value = getenv(name);
        if (value && !*member(o, &args[i]))
            *member(o, &args[i]) = value;
    }
    return LT_OK;
}

static lt_status print_config(const options *o)
{
    union {
        const options *in;
        options *out;
    } v = {.in = o};
    for (int i = 0; i < N_ARGS; i++) {
        const char *value = *member(v.out, &args[i]);
        if (strcmp(args[i].name, "--config") == 0)
            continue;
        if (!value)
            (void)printf("%s: null\n", args[i].name + 2);
        else
            (void)printf("%s: '%s'\n", args[i].name + 2, value);
    }
    return LT_OK;
}

// ---- the run

typedef struct bar {
    bool on;
    time_t last;
} bar;

static void show(void *ctx, int64_t done, int64_t total)
{
    enum { WIDTH = 30 };
    bar *b = ctx;
    const time_t now = time(NULL);
    if (!b->on || (now == b->last && done < total))
        return;
    b->last = now;
    char text[WIDTH + 1];
    const int64_t full =
        total > 0 ? lt_min_i64(WIDTH, (int64_t)((double)done * WIDTH / (double)total)) : WIDTH;
    for (int i = 0; i < WIDTH; i++)
        text[i] = i < full ? '#' : '.';
    text[WIDTH] = '\0';
    (void)fprintf(stderr, "\r\033[K[%s] %s of %s", text, lt_bytes_text(done).s,
                  lt_bytes_text(total).s);
    (void)fflush(stderr);
}

static const char *either(const char *a, const char *b, const char *c)
{
    return a ? a : b ? b : c;
}

static lt_status need(const char *value, const char *verb, const char *names)
{
    return value ? LT_OK : LT_FAIL(LT_ERR_CONFIG, "%s needs --%s", verb, names);
}

// What a folder is converted by where no converter is named.
static const struct converter *choose(const char *hf_dir)
{
    lt_buf path = {0};
    json_error_t error;
    const struct converter *found = &converters[0];
    json_t *config = NULL;
    if (hf_dir && lt_buf_printf(&path, "%s/config.json", hf_dir) == LT_OK)
        config = json_load_file(path.data, 0, &error);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (type && lt_text_starts(type, "qwen3_5"))
        found = &converters[1];
    json_decref(config);
    lt_buf_deinit(&path);
    return found;
}

static lt_status convert(const struct converter *by, const char *verb, const options *o,
                         lt_arena *arena)
{
    const bool to_dcp = strcmp(verb, "hf_to_dcp") == 0;
    const lt_log log = lt_cli_log();
    bar b = {.on = lt_cli_is_terminal(stderr)};
    bool trust;
    int workers;
    lt_convert_opts c = {.kind = by->kind,
                         .hf_dir = either(o->hf_dir, o->origin_hf_dir, o->model_assets_dir),
                         .dcp_dir = to_dcp ? either(o->dcp_dir, o->save_dir, NULL)
                                           : either(o->dcp_dir, o->load_dir, NULL),
                         .save_dir = either(o->save_dir, o->save_hf_dir, NULL),
                         .hf_prefix = o->hf_prefix ? o->hf_prefix : "",
                         .dcp_prefix = o->dcp_prefix ? o->dcp_prefix : by->dcp_prefix,
                         .progress = show,
                         .ctx = &b,
                         .log = &log};
    if (!to_dcp && !c.dcp_dir && by->kind == LT_CONVERT_GENERIC)
        c.dcp_dir = "mm_save_dir/release"; // the reference's default
    LT_TRY(need(c.hf_dir, verb, to_dcp ? "hf_dir" : "hf_dir (origin_hf_dir, model_assets_dir)"));
    LT_TRY(need(c.dcp_dir, verb, to_dcp ? "dcp_dir" : "dcp_dir (load_dir)"));
    LT_TRY(need(to_dcp ? c.dcp_dir : c.save_dir, verb, "save_dir (save_hf_dir)"));
    LT_TRY(read_ties(arena, o->ties, &c));
    LT_TRY(read_fused(arena, o->fused, &c));
    LT_TRY(read_bool("to_bf16", o->to_bf16, &c.to_bf16));
    LT_TRY(read_bool("keep_origin_mtp_weights", o->keep_mtp, &c.keep_origin_mtp));
    LT_TRY(read_bool("trust_remote_code", o->trust, &trust));
    LT_TRY(read_workers(o->workers, &workers));
    if (workers > 1)
        LT_TRY(lt_pool_create(workers, &c.pool));
    const lt_status st = to_dcp ? lt_convert_to_dcp(&c) : lt_convert_to_hf(&c);
    if (b.on)
        (void)fputs("\r\033[K", stderr);
    lt_pool_destroy(c.pool);
    return st;
}

static const struct converter *find_converter(const char *name)
{
    for (int i = 0; i < N_CONVERTERS; i++)
        if (strcmp(converters[i].name, name) == 0)
            return &converters[i];
    return NULL;
}

static lt_status unknown_converter(const char *name)
{
    static const char *const later[] = {"moe_expert", "Qwen3VLConverter"};
    for (int i = 0; i < 2; i++)
        if (strcmp(name, later[i]) == 0)
            return LT_FAIL(LT_ERR_UNSUPPORTED, "the converter %s of mm-convert isn't built", name);
    return LT_FAIL(
        LT_ERR_CONFIG,
        "there is no converter %.60s; there are GenericDCPConverter, Qwen35Converter and "
        "ExpertMergeDcpConverter",
        name);
}

static lt_status check_verb(const char *verb)
{
    static const char *const empty[] = {"hf_to_mm", "mm_to_hf", "resplit"};
    if (strcmp(verb, "hf_to_dcp") == 0 || strcmp(verb, "dcp_to_hf") == 0)
        return LT_OK;
    for (int i = 0; i < 3; i++) {
        if (strcmp(verb, empty[i]) == 0) {
            return LT_FAIL(LT_ERR_UNSUPPORTED,
                           "%s does nothing for distributed checkpoints: "
                           "hf_to_dcp and dcp_to_hf convert",
                           verb);
        }
    }
    return LT_FAIL(LT_ERR_CONFIG, "there is no conversion %.60s; there are hf_to_dcp and dcp_to_hf",
                   verb);
}

static lt_status run_parsed(const lt_args *rest, options *o, bool print, lt_arena *arena)
{
    const bool named = rest->positional.n == 2;
    const char *name = rest->positional.items[0], *verb = rest->positional.items[named ? 1 : 0];
    const struct converter *by = named ? find_converter(name) : NULL;
    if (!by && (named || find_converter(name)))
        return named ? unknown_converter(name)
                     : LT_FAIL(LT_ERR_CONFIG, "%s hf_to_dcp or %s dcp_to_hf?", name, name);
    LT_TRY(check_verb(verb));
    LT_TRY(fill_from_file(arena, by ? by->name : "", verb, o));
    LT_TRY(fill_from_environment(arena, by ? by->name : "convert", verb, o));
    if (print)
        return print_config(o);
    return convert(by ? by : choose(either(o->hf_dir, o->origin_hf_dir, o->model_assets_dir)), verb,
                   o, arena);
}

// --print_config, with or without flags, is taken out of the arguments.
static bool take_print(int *argc, char **argv)
{
    bool print = false;
    int n = 1;
    for (int i = 1; i < *argc; i++) {
        const bool it =
            strcmp(argv[i], "--print_config") == 0 || lt_text_starts(argv[i], "--print_config=");
        print = print || it;
        if (!it)
            argv[n++] = argv[i];
    }
    *argc = n;
    return print;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {0};
    lt_args rest = {0};
    lt_arena *arena = NULL;
    const bool print = take_print(&argc, argv);
    LT_TRY(lt_arena_create(&arena, "command line"));
    lt_status st = lt_args_parse(self, arena, argc, argv, &o, &rest);
    if (st == LT_OK)
        st = run_parsed(&rest, &o, print, arena);
    lt_arena_destroy(arena);
    return st;
}

const lt_command lt_command_convert = {
    .name = "convert",
    .summary = "Convert a model between a Hugging Face folder and a distributed checkpoint",
    .positional = "[CONVERTER] hf_to_dcp|dcp_to_hf",
    .min_positional = 1,
    .max_positional = 2,
    .options = args,
    .n_options = N_ARGS,
    .details =
        "  lathe convert hf_to_dcp --hf_dir MODEL --dcp_dir OUT        writes OUT/release\n"
        "  lathe convert dcp_to_hf --dcp_dir RUN --hf_dir MODEL --save_dir OUT\n"
        "Converters are those of mm-convert: GenericDCPConverter, Qwen35Converter and\n"
        "ExpertMergeDcpConverter; without one, config.json decides between the first two. A "
        "program\n"
        "of the name mm-convert (a link to lathe) takes the same arguments. Training needs no\n"
        "conversion: training.load takes either form.\n",
    .run = run,
};
