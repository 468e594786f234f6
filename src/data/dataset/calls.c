// SPDX-License-Identifier: Apache-2.0
// Calls of tools: in tags, or as JSON between tags.
#include "data/dataset/calls.h"
#include "data/dataset/python_json.h"
#include <string.h>

static lt_status put_string(const json_t *string, lt_buf *out)
{
    return lt_buf_append(out, json_string_value(string), json_string_length(string));
}

static lt_status put_parameters(json_t *arguments, lt_buf *out)
{
    const char *key;
    json_t *value;
    json_object_foreach(arguments, key, value)
    {
        LT_TRY(lt_buf_text(out, "<parameter="));
        LT_TRY(lt_python_key(key, out));
        LT_TRY(lt_buf_text(out, ">\n"));
        LT_TRY(lt_python_is_text(value) ? put_string(value, out) : lt_python_json(value, out));
        LT_TRY(lt_buf_text(out, "\n</parameter>\n"));
    }
    return LT_OK;
}

lt_status lt_write_xml_call(const json_t *name, json_t *arguments, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "<tool_call>\n<function="));
    LT_TRY(put_string(name, out));
    LT_TRY(lt_buf_text(out, ">\n"));
    if (json_is_object(arguments))
        LT_TRY(put_parameters(arguments, out));
    return lt_buf_text(out, "</function>\n</tool_call>");
}

static lt_status write_json_call(json_t *name, json_t *arguments, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "<tool_call>\n{\"name\": "));
    LT_TRY(lt_python_json(name, out));
    LT_TRY(lt_buf_text(out, ", \"arguments\": "));
    LT_TRY(lt_python_json(arguments, out));
    return lt_buf_text(out, "}\n</tool_call>");
}

static lt_status write_call(lt_calls_form form, json_t *call, lt_buf *out)
{
    json_t *name = json_object_get(call, "name"), *arguments = json_object_get(call, "arguments");
    if (!json_is_string(name) || !lt_python_is_text(name) || !arguments) {
        return LT_FAIL(LT_ERR_DATA, "a function_call turn holds a call without \"name\" or without "
                                    "\"arguments\"");
    }
    if (form == LT_CALLS_JSON)
        return write_json_call(name, arguments, out);
    if (!json_is_object(arguments))
        return LT_FAIL(LT_ERR_DATA, "the arguments of a call in a function_call turn must be an "
                                    "object");
    return lt_write_xml_call(name, arguments, out);
}

static lt_status write_calls(lt_calls_form form, lt_span text, lt_buf *out)
{
    json_t *calls = NULL;
    LT_TRY(lt_python_parse(text.s, text.len, &calls));
    if (!json_is_object(calls) && !json_is_array(calls)) {
        json_decref(calls);
        return LT_FAIL(LT_ERR_DATA, "a function_call turn is not the JSON of one or several calls");
    }
    const size_t n = json_is_array(calls) ? json_array_size(calls) : 1;
    lt_status st = LT_OK;
    for (size_t i = 0; i < n && st == LT_OK; i++) {
        if (i > 0)
            st = lt_buf_text(out, "\n");
        if (st == LT_OK)
            st = write_call(form, json_is_array(calls) ? json_array_get(calls, i) : calls, out);
    }
    json_decref(calls);
    return st;
}

// The first thought of the text, markers included; empty when it has none.
static lt_span thought_of(const lt_template *chat, lt_span text)
{
    const char *const open = chat->thought[0], *const close = chat->thought[1];
    const char *from = text.len > 0 ? memmem(text.s, text.len, open, strlen(open)) : NULL;
    if (!from)
        return (lt_span){"", 0};
    const char *behind = from + strlen(open);
    const char *to = memmem(behind, (size_t)(text.s + text.len - behind), close, strlen(close));
    return to ? (lt_span){from, (size_t)(to - from) + strlen(close)} : (lt_span){"", 0};
}

// `text` without any copy of `part`.
static lt_status without(lt_span text, lt_span part, lt_buf *out)
{
    while (part.len > 0 && text.len > 0) {
        const char *at = memmem(text.s, text.len, part.s, part.len);
        if (!at)
            break;
        const size_t n = (size_t)(at - text.s);
        LT_TRY(lt_buf_append(out, text.s, n));
        text = (lt_span){at + part.len, text.len - n - part.len};
    }
    return lt_buf_append(out, text.s, text.len);
}

lt_status lt_write_calls(const lt_template *chat, lt_span turn, lt_arena *arena, lt_span *out)
{
    const lt_span thought = thought_of(chat, turn);
    lt_buf json = {0}, text = {0};
    char *copy = NULL;
    lt_status st = without(turn, thought, &json);
    if (st == LT_OK)
        st = lt_buf_append(&text, thought.s, thought.len);
    if (st == LT_OK)
        st = write_calls(chat->calls, (lt_span){json.len > 0 ? json.data : "", json.len}, &text);
    if (st == LT_OK)
        st = lt_arena_text(arena, text.len > 0 ? text.data : "", text.len, &copy);
    *out = (lt_span){copy, text.len};
    lt_buf_deinit(&json);
    lt_buf_deinit(&text);
    return st;
}
