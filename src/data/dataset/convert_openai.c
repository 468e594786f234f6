// SPDX-License-Identifier: Apache-2.0
// The converter openai: tool calls, tool results, thoughts in a key of their own.
#include "data/dataset/calls.h"
#include "data/dataset/convert_parts.h"
#include "data/dataset/python_json.h"
#include <string.h>

static const char BETWEEN_RESULTS[] = "\n</tool_response>\n<tool_response>\n";

typedef struct walk {
    const lt_converter *c;
    lt_buf waiting, text; // results of tools that no turn has taken yet; scratch
    int64_t n_waiting;
    bool bad;
} walk;

static lt_status keep(const walk *w, const lt_buf *buf, lt_span *out)
{
    char *copy = NULL;
    LT_TRY(lt_arena_text(w->c->arena, buf->len > 0 ? buf->data : "", buf->len, &copy));
    *out = (lt_span){copy, buf->len};
    return LT_OK;
}

static lt_status append(lt_buf *buf, lt_span text)
{
    return lt_buf_append(buf, text.s, text.len);
}

static lt_turn *last_turn(const walk *w)
{
    return w->c->out->n_turns > 0 ? &w->c->out->turns[w->c->out->n_turns - 1] : NULL;
}

static void emit(const walk *w, lt_role role, lt_span text)
{
    LT_ASSERT(w->c->out->turns); // lt_take_turns made room for all
    w->c->out->turns[w->c->out->n_turns++] = (lt_turn){role, text};
}

static lt_status wait_for_turn(walk *w, lt_span text)
{
    if (w->n_waiting++ > 0)
        LT_TRY(lt_buf_text(&w->waiting, BETWEEN_RESULTS));
    return append(&w->waiting, text);
}

static lt_status emit_waiting(walk *w)
{
    lt_span text;
    if (w->n_waiting == 0)
        return LT_OK;
    LT_TRY(keep(w, &w->waiting, &text));
    emit(w, LT_ROLE_TOOL_RESPONSE, text);
    lt_buf_clear(&w->waiting);
    w->n_waiting = 0;
    return LT_OK;
}

// A user who goes on speaking: one line more in the turn that is there.
static lt_status extend(walk *w, lt_turn *turn, lt_span text)
{
    lt_buf_clear(&w->text);
    LT_TRY(append(&w->text, turn->text));
    if (!lt_span_empty(turn->text))
        LT_TRY(lt_buf_text(&w->text, "\n"));
    LT_TRY(append(&w->text, text));
    return keep(w, &w->text, &turn->text);
}

static lt_status write_call(walk *w, json_t *call, lt_buf *out)
{
    json_t *inner = json_object_get(call, "function"),
           *function = json_is_object(inner) ? inner : call;
    const json_t *name = json_object_get(function, "name");
    json_t *arguments = json_object_get(function, "arguments"), *parsed = NULL;
    if (!json_is_string(name) || json_string_length(name) == 0) {
        w->bad = true;
        return lt_drop(w->c, "a tool call has no name");
    }
    if (json_is_string(arguments)) {
        LT_TRY(
            lt_python_parse(json_string_value(arguments), json_string_length(arguments), &parsed));
        arguments = parsed;
    }
    const lt_status st = lt_write_xml_call(name, arguments, out);
    json_decref(parsed);
    return st;
}

static lt_span trim_newlines(lt_span t)
{
    for (; t.len > 0 && t.s[0] == '\n'; t.len--)
        t.s++;
    while (t.len > 0 && t.s[t.len - 1] == '\n')
        t.len--;
    return t;
}

static lt_status assistant(walk *w, const lt_message *m)
{
    const json_t *calls = json_object_get(m->json, "tool_calls"),
                 *reasoning = json_object_get(m->json, "reasoning_content");
    if (calls && !json_is_array(calls) && !json_is_null(calls))
        return LT_FAIL(LT_ERR_DATA, "\"tool_calls\" is %s; a list is expected",
                       lt_json_kind(calls));
    if (reasoning && !json_is_string(reasoning) && !json_is_null(reasoning))
        return LT_FAIL(LT_ERR_DATA, "\"reasoning_content\" is %s; a string is expected",
                       lt_json_kind(reasoning));
    const size_t n = json_array_size(calls);
    lt_buf_clear(&w->text);
    if (json_string_length(reasoning) > 0) {
        LT_TRY(lt_buf_text(&w->text, "<think>\n"));
        LT_TRY(append(&w->text, trim_newlines((lt_span){json_string_value(reasoning),
                                                        json_string_length(reasoning)})));
        LT_TRY(lt_buf_text(&w->text, "\n</think>\n\n"));
    }
    LT_TRY(append(&w->text, m->text)); // stripped already
    if (n > 0 && !lt_span_empty(m->text))
        LT_TRY(lt_buf_text(&w->text, "\n\n"));
    for (size_t i = 0; i < n && !w->bad; i++) {
        if (i > 0)
            LT_TRY(lt_buf_text(&w->text, "\n"));
        LT_TRY(write_call(w, json_array_get(calls, i), &w->text));
    }
    if (w->bad)
        return LT_OK;
    lt_span text;
    LT_TRY(keep(w, &w->text, &text));
    emit(w, n > 0 ? LT_ROLE_TOOL_CALL : LT_ROLE_ASSISTANT, text);
    return LT_OK;
}

static lt_status take(walk *w, const lt_message *m, size_t number)
{
    const lt_attr *a = w->c->attr;
    const bool user = lt_role_is(m->role, a->user_tag);
    lt_turn *last = last_turn(w);
    if (lt_role_is(m->role, a->observation_tag) || (user && w->n_waiting > 0))
        return wait_for_turn(w, m->text);
    if (user && last && (last->role == LT_ROLE_USER || last->role == LT_ROLE_TOOL_RESPONSE))
        return extend(w, last, m->text);
    LT_TRY(emit_waiting(w));
    if (user) {
        emit(w, LT_ROLE_USER, m->text);
        return LT_OK;
    }
    if (lt_role_is(m->role, a->assistant_tag))
        return assistant(w, m);
    w->bad = true;
    return lt_drop(w->c, "turn %zu is by \"%.60s\"", number, m->role ? m->role : "null");
}

static lt_status check_order(const walk *w)
{
    const lt_conversation *out = w->c->out;
    for (int64_t i = 0; i < out->n_turns; i++) {
        const lt_role role = out->turns[i].role;
        const bool question = role == LT_ROLE_USER || role == LT_ROLE_TOOL_RESPONSE;
        if (question != (i % 2 == 0))
            return lt_drop(w->c, "its questions and answers don't alternate");
    }
    if (out->n_turns % 2 != 0)
        return lt_drop(w->c, "its last turn has no answer: add one, or take that turn away");
    return LT_OK;
}

static lt_status convert(walk *w)
{
    const json_t *list;
    size_t first;
    LT_TRY(lt_read_messages(w->c, &list));
    LT_TRY(lt_read_system(w->c, list, true, &first));
    const size_t n = json_array_size(list);
    LT_TRY(lt_take_turns(
        w->c, 2 * (int64_t)n +
                  1)); // each message makes at most a turn, and a turn of waiting results before it
    for (size_t i = first; i < n && !w->bad; i++) {
        lt_message m;
        LT_TRY(lt_read_message(w->c, list, i, &m));
        LT_TRY(take(w, &m, i + 1));
    }
    if (w->bad)
        return LT_OK;
    LT_TRY(emit_waiting(w));
    LT_TRY(lt_read_tools(w->c, w->c->attr->tools));
    return check_order(w);
}

lt_status lt_convert_openai(const lt_converter *c)
{
    walk w = {.c = c};
    const lt_status st = convert(&w);
    lt_buf_deinit(&w.waiting);
    lt_buf_deinit(&w.text);
    return st;
}
