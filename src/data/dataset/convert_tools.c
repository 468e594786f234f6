// SPDX-License-Identifier: Apache-2.0
// Schemas of tools, and the converter multimodal_tool, whose turns are what templates take.
#include "data/dataset/convert_parts.h"
#include "data/dataset/python_json.h"
#include <string.h>

// A schema in one form. A text that isn't JSON stands for itself in all of them.
static lt_status write_form(json_t *tool, lt_tools_form form, lt_buf *out)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    json_t *inner = json_object_get(tool, "function");
    const bool wrapped = type && strcmp(type, "function") == 0;
    if (form == LT_TOOLS_INNER && wrapped && inner)
        return lt_python_json(inner, out);
    if (form == LT_TOOLS_OUTER && json_is_object(tool) && !wrapped) {
        LT_TRY(lt_buf_text(out, "{\"type\": \"function\", \"function\": "));
        LT_TRY(lt_python_json(tool, out));
        return lt_buf_text(out, "}");
    }
    return lt_python_json(tool, out);
}

static lt_status write_tool(json_t *tool, lt_tools_form form, lt_buf *out)
{
    json_t *parsed = NULL;
    if (!json_is_string(tool))
        return write_form(tool, form, out);
    if (form != LT_TOOLS_GIVEN)
        LT_TRY(lt_python_parse(json_string_value(tool), json_string_length(tool), &parsed));
    const lt_status st = json_is_object(parsed) ? write_form(parsed, form, out)
                                                : lt_buf_append(out, json_string_value(tool),
                                                                json_string_length(tool));
    json_decref(parsed);
    return st;
}

static lt_status write_tools(const json_t *tools, lt_tools_form form, lt_buf *out)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        if (i > 0)
            LT_TRY(lt_buf_text(out, "\n"));
        LT_TRY(write_tool(json_array_get(tools, i), form, out));
    }
    return LT_OK;
}

static lt_status read_list(const lt_converter *c, const char *column, const json_t *tools)
{
    if (tools && !json_is_array(tools))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" is %s; a list of tools is expected", column,
                       lt_json_kind(tools));
    lt_buf text = {0};
    lt_status st = LT_OK;
    for (int form = 0; form < LT_N_TOOLS_FORMS && st == LT_OK; form++) {
        char *copy = NULL;
        lt_buf_clear(&text);
        st = write_tools(tools, (lt_tools_form)form, &text);
        if (st == LT_OK)
            st = lt_arena_text(c->arena, text.len > 0 ? text.data : "", text.len, &copy);
        c->out->tools[form] = (lt_span){copy, text.len};
    }
    lt_buf_deinit(&text);
    return st;
}

lt_status lt_read_tools(const lt_converter *c, const char *column)
{
    const json_t *tools = lt_column(c, column, 0);
    json_t *parsed = NULL;
    if (json_is_string(tools) && c->attr->habits == LT_HABITS_FACTORY) {
        LT_TRY(lt_python_parse(json_string_value(tools), json_string_length(tools), &parsed));
        if (json_string_length(tools) > 0)
            tools = json_is_array(parsed) ? parsed : tools;
        else
            tools = NULL;
    }
    const lt_status st = read_list(c, column, tools);
    json_decref(parsed);
    return st;
}

static bool role_of(const char *name, lt_role *role)
{
    static const struct {
        const char *name;
        lt_role role;
    } roles[] = {
        {"user", LT_ROLE_USER},
        {"assistant", LT_ROLE_ASSISTANT},
        {"observation", LT_ROLE_OBSERVATION},
        {"function", LT_ROLE_FUNCTION},
        {"tool_call", LT_ROLE_TOOL_CALL},
        {"tool_response", LT_ROLE_TOOL_RESPONSE},
    };
    for (size_t i = 0; name && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(name, roles[i].name) == 0) {
            *role = roles[i].role;
            return true;
        }
    }
    return false;
}

static lt_status take_turn(const lt_converter *c, json_t *turn, size_t number)
{
    const json_t *role = json_object_get(turn, "role"), *content = json_object_get(turn, "content");
    lt_turn *out = &c->out->turns[number];
    if (!json_is_object(turn) || !json_is_string(role) || !json_is_string(content)) {
        return LT_FAIL(LT_ERR_DATA,
                       "turn %zu of \"%s\" must be an object with the strings \"role\" and "
                       "\"content\" (attr.formatting multimodal_tool)",
                       number + 1, c->attr->messages);
    }
    c->out->seen |= LT_SEEN_CONTENT;
    if (!role_of(json_string_value(role), &out->role)) {
        return LT_FAIL(LT_ERR_DATA,
                       "turn %zu of \"%s\" is by \"%.60s\"; the roles of multimodal_tool are user, "
                       "assistant, tool_call, tool_response, observation and function",
                       number + 1, c->attr->messages, json_string_value(role));
    }
    return lt_keep_text(c, content, &out->text);
}

lt_status lt_convert_multimodal_tool(const lt_converter *c)
{
    const json_t *list;
    LT_TRY(lt_read_messages(c, &list));
    LT_TRY(lt_text_column(c, c->attr->system, LT_SEEN_SYSTEM, &c->out->system));
    LT_TRY(lt_read_tools(c, "tools"));
    const size_t n = json_array_size(list);
    LT_TRY(lt_take_turns(c, (int64_t)n));
    for (size_t i = 0; i < n; i++)
        LT_TRY(take_turn(c, json_array_get(list, i), i));
    if (n % 2 != 0)
        return lt_drop(c, "its last turn has no answer: add one, or take that turn away");
    c->out->n_turns = (int64_t)n;
    return LT_OK;
}
