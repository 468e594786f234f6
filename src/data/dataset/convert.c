// SPDX-License-Identifier: Apache-2.0
// The table of converters, media and system columns, and the small readers that they share.
#include "data/dataset/convert_parts.h"
#include "data/tokenizer/unicode.h"
#include <stdio.h>
#include <string.h>

// Limits of one record.
enum { MAX_MEDIA = 1 << 16, MAX_TURNS = 1 << 20 };

typedef struct formatting {
    const char *name;
    lt_status (*convert)(const lt_converter *c);
} formatting;
static const formatting formattings[] = {
    {"sharegpt", lt_convert_sharegpt}, {"alpaca", lt_convert_alpaca},
    {"openai", lt_convert_openai},     {"multimodal_tool", lt_convert_multimodal_tool},
    {"internvl", lt_convert_internvl},
};
enum { N_FORMATTINGS = sizeof formattings / sizeof formattings[0] };

lt_attr lt_attr_default(void)
{
    return (lt_attr){
        .formatting = "sharegpt",
        .messages = "conversations",
        .role_tag = "from",
        .content_tag = "value",
        .user_tag = "human",
        .assistant_tag = "gpt",
        .observation_tag = "observation",
        .function_tag = "function_call",
        .system_tag = "system",
    };
}

static const formatting *formatting_of(const char *name)
{
    for (size_t i = 0; i < N_FORMATTINGS; i++)
        if (name && strcmp(formattings[i].name, name) == 0)
            return &formattings[i];
    return NULL;
}

lt_status lt_attr_check(const lt_attr *attr)
{
    const formatting *f = formatting_of(attr->formatting);
    if (!f) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "attr.formatting \"%.80s\" is unknown; there are sharegpt, alpaca, openai and "
            "multimodal_tool",
            attr->formatting ? attr->formatting : "null");
    }
    if (f->convert == lt_convert_alpaca) {
        if (!attr->prompt || (!attr->response && !attr->no_answers))
            return LT_FAIL(LT_ERR_CONFIG,
                           "attr.formatting alpaca needs attr.prompt and attr.response");
        return LT_OK;
    }
    if (!attr->messages || !attr->role_tag || !attr->content_tag || !attr->user_tag ||
        !attr->assistant_tag) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "attr.formatting %s needs attr.messages, role_tag, content_tag, user_tag "
                       "and assistant_tag",
                       f->name);
    }
    return LT_OK;
}

const char *lt_json_kind(const json_t *value)
{
    if (!value)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something unknown";
}

lt_keys_text lt_json_keys(json_t *object)
{
    lt_keys_text out = {""};
    size_t len = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const size_t gap = len > 0 ? 2 : 0, n = strlen(key);
        if (len + gap + n >= sizeof out.s)
            break;
        memcpy(out.s + len, ", ", gap);
        memcpy(out.s + len + gap, key, n + 1);
        len += gap + n;
    }
    return out;
}

lt_status lt_drop(const lt_converter *c, const char *fmt, ...)
{
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *copy = NULL;
    LT_TRY(lt_arena_text(c->arena, text, strlen(text), &copy));
    c->out->dropped = copy;
    c->out->dropped_kind = fmt;
    c->out->n_turns = 0;
    return LT_OK;
}

const json_t *lt_column(const lt_converter *c, const char *column, unsigned bit)
{
    const json_t *value = column ? json_object_get(c->record, column) : NULL;
    if (value)
        c->out->seen |= bit;
    return json_is_null(value) ? NULL : value;
}

lt_status lt_keep_text(const lt_converter *c, const json_t *string, lt_span *out)
{
    *out = (lt_span){"", 0};
    if (!json_is_string(string))
        return LT_OK;
    char *copy = NULL;
    LT_TRY(lt_arena_text(c->arena, json_string_value(string), json_string_length(string), &copy));
    *out = (lt_span){copy, json_string_length(string)};
    return LT_OK;
}

lt_status lt_text_column(const lt_converter *c, const char *column, unsigned bit, lt_span *out)
{
    const json_t *value = lt_column(c, column, bit);
    if (value && !json_is_string(value))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" is %s; a string is expected", column,
                       lt_json_kind(value));
    return lt_keep_text(c, value, out);
}

lt_status lt_take_turns(const lt_converter *c, int64_t n)
{
    if (n > MAX_TURNS)
        return LT_FAIL(LT_ERR_DATA, "there are %lld turns, more than %d", (long long)n, MAX_TURNS);
    void *memory = NULL;
    LT_TRY(lt_arena_take(c->arena, (size_t)n * sizeof(lt_turn), &memory));
    c->out->turns = memory;
    return LT_OK;
}

bool lt_role_is(const char *role, const char *tag)
{
    return role && tag && strcmp(role, tag) == 0;
}

lt_status lt_read_messages(const lt_converter *c, const json_t **list)
{
    *list = lt_column(c, c->attr->messages, LT_SEEN_MESSAGES);
    if (!*list)
        return LT_FAIL(LT_ERR_DATA, "there is no \"%s\" (attr.messages); there are: %s",
                       c->attr->messages, lt_json_keys(c->record).s);
    if (!json_is_array(*list))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" is %s; a list of turns is expected", c->attr->messages,
                       lt_json_kind(*list));
    return LT_OK;
}

lt_status lt_read_message(const lt_converter *c, const json_t *list, size_t i, lt_message *out)
{
    const lt_attr *a = c->attr;
    json_t *turn = json_array_get(list, i);
    if (!json_is_object(turn))
        return LT_FAIL(LT_ERR_DATA, "turn %zu of \"%s\" is %s; an object is expected", i + 1,
                       a->messages, lt_json_kind(turn));
    const json_t *role = json_object_get(turn, a->role_tag),
                 *content = json_object_get(turn, a->content_tag);
    if (!role)
        return LT_FAIL(LT_ERR_DATA, "turn %zu of \"%s\" has no \"%s\" (attr.role_tag); it has: %s",
                       i + 1, a->messages, a->role_tag, lt_json_keys(turn).s);
    if (!json_is_string(role) && !json_is_null(role))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" of turn %zu is %s; a string is expected", a->role_tag,
                       i + 1, lt_json_kind(role));
    if (content && !json_is_string(content) && !json_is_null(content)) {
        return LT_FAIL(LT_ERR_DATA, "\"%s\" of turn %zu is %s; a string is expected%s",
                       a->content_tag, i + 1, lt_json_kind(content),
                       json_is_array(content)
                           ? " (lists of parts, as in OpenAI's image_url form, are not supported)"
                           : "");
    }
    const bool exact = a->habits == LT_HABITS_FACTORY;
    if (exact && !json_is_string(content)) {
        return LT_FAIL(LT_ERR_DATA,
                       "\"%s\" of turn %zu is %s; a string is expected (lathe.habits: "
                       "llama_factory)",
                       a->content_tag, i + 1, content ? "null" : "missing");
    }
    if (content)
        c->out->seen |= LT_SEEN_CONTENT;
    *out = (lt_message){.role = json_string_value(role), .json = turn};
    LT_TRY(lt_keep_text(c, content, &out->whole));
    out->text = exact ? out->whole : lt_strip(out->whole);
    return LT_OK;
}

lt_status lt_read_system(const lt_converter *c, const json_t *list, bool strip, size_t *first)
{
    *first = 0;
    LT_TRY(lt_text_column(c, c->attr->system, LT_SEEN_SYSTEM, &c->out->system));
    if (strip)
        c->out->system = lt_strip(c->out->system);
    if (json_array_size(list) == 0)
        return LT_OK;
    lt_message m;
    LT_TRY(lt_read_message(c, list, 0, &m));
    if (lt_role_is(m.role, c->attr->system_tag)) {
        c->out->system = m.text;
        *first = 1;
    }
    return LT_OK;
}

// A path of a column, copied.
static lt_status read_path(const lt_converter *c, const char *column, const json_t *path,
                           size_t place, const char **out)
{
    lt_span text;
    if (!json_is_string(path))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" has %s in its place %zu; a path is expected", column,
                       lt_json_kind(path), place + 1);
    LT_TRY(lt_keep_text(c, path, &text));
    if (text.len == 0 || strlen(text.s) != text.len)
        return LT_FAIL(LT_ERR_DATA, "\"%s\" has an empty or broken path in its place %zu", column,
                       place + 1);
    *out = text.s;
    return LT_OK;
}

// The column as a list; a plain string is a list of one.
static lt_status media_list(const lt_converter *c, const char *column, unsigned bit,
                            const json_t **value, size_t *n)
{
    *value = lt_column(c, column, bit);
    *n = 0;
    if (!*value)
        return LT_OK;
    if (!json_is_string(*value) && !json_is_array(*value))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" is %s; a list of paths is expected", column,
                       lt_json_kind(*value));
    *n = json_is_string(*value) ? 1 : json_array_size(*value);
    if (*n > MAX_MEDIA)
        return LT_FAIL(LT_ERR_DATA, "\"%s\" lists %zu paths, more than %d", column, *n, MAX_MEDIA);
    return LT_OK;
}

static const json_t *item(const json_t *list, size_t i)
{
    return json_is_array(list) ? json_array_get(list, i) : list;
}

static lt_status read_images(const lt_converter *c)
{
    const json_t *list;
    size_t n;
    void *memory = NULL;
    LT_TRY(media_list(c, c->attr->images, LT_SEEN_IMAGES, &list, &n));
    LT_TRY(lt_arena_take(c->arena, n * sizeof(char *), &memory));
    c->out->images = memory;
    for (size_t i = 0; i < n; i++)
        LT_TRY(read_path(c, c->attr->images, item(list, i), i, &c->out->images[i]));
    c->out->n_images = (int64_t)n;
    return LT_OK;
}

// A video's frames as pictures.
static lt_status read_frames(const lt_converter *c, const json_t *list, size_t place,
                             lt_video_ref *out)
{
    const size_t n = json_array_size(list);
    void *memory = NULL;
    if (n == 0 || n > MAX_MEDIA)
        return LT_FAIL(LT_ERR_DATA, "\"%s\" has %zu frames in its place %zu; 1 to %d are the rule",
                       c->attr->videos, n, place + 1, MAX_MEDIA);
    LT_TRY(lt_arena_take(c->arena, n * sizeof(char *), &memory));
    const char **frames = memory;
    for (size_t i = 0; i < n; i++)
        LT_TRY(read_path(c, c->attr->videos, json_array_get(list, i), place, &frames[i]));
    *out = (lt_video_ref){.path = frames[0], .frames = frames, .n_frames = (int64_t)n};
    return LT_OK;
}

// Files, or lists of frames; a plain string is one file.
static lt_status read_videos(const lt_converter *c)
{
    const json_t *list;
    size_t n;
    void *memory = NULL;
    LT_TRY(media_list(c, c->attr->videos, LT_SEEN_VIDEOS, &list, &n));
    LT_TRY(lt_arena_take(c->arena, n * sizeof(lt_video_ref), &memory));
    c->out->videos = memory;
    for (size_t i = 0; i < n; i++) {
        const json_t *video = item(list, i);
        if (json_is_array(video))
            LT_TRY(read_frames(c, video, i, &c->out->videos[i]));
        else
            LT_TRY(read_path(c, c->attr->videos, video, i, &c->out->videos[i].path));
    }
    c->out->n_videos = (int64_t)n;
    return LT_OK;
}

// For the message about tags without images: the likely column that the settings leave out.
static const char *unread_images(const lt_attr *attr, const json_t *record)
{
    static const char *const names[] = {"images", "image"};
    for (size_t i = 0; !attr->images && i < sizeof names / sizeof names[0]; i++) {
        const json_t *value = json_object_get(record, names[i]);
        if (json_array_size(value) > 0 || json_string_length(value) > 0)
            return names[i];
    }
    return NULL;
}

lt_status lt_convert_record(const lt_attr *attr, json_t *record, lt_arena *arena,
                            lt_conversation *out)
{
    const formatting *f = formatting_of(attr->formatting);
    LT_ASSERT(f);
    *out = (lt_conversation){.system = {"", 0}, .tools = {{"", 0}, {"", 0}, {"", 0}}};
    const lt_converter c = {attr, record, arena, out};
    if (!json_is_object(record))
        return LT_FAIL(LT_ERR_DATA, "the record is %s; an object is expected",
                       lt_json_kind(record));
    LT_TRY(read_images(&c));
    LT_TRY(read_videos(&c));
    LT_TRY(f->convert(&c));
    out->unread_images = unread_images(attr, record);
    if (!out->dropped && out->n_turns == 0)
        return lt_drop(&c, "it has no turns");
    return LT_OK;
}

static bool is_python_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

lt_span lt_strip(lt_span t)
{
    uint32_t code;
    int bad;
    while (t.len > 0) {
        const int n = lt_utf8_next(t.s, t.len, &code, &bad);
        if (n == 0 || !is_python_space(code))
            break;
        t.s += n;
        t.len -= (size_t)n;
    }
    while (t.len > 0) {
        size_t start = t.len - 1;
        while (start > 0 && ((uint8_t)t.s[start] & 0xC0) == 0x80)
            start--;
        const int n = lt_utf8_next(t.s + start, t.len - start, &code, &bad);
        if (n == 0 || !is_python_space(code))
            break;
        t.len = start;
    }
    return t;
}
