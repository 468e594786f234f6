// SPDX-License-Identifier: Apache-2.0
// The converters sharegpt and alpaca.
#include "data/dataset/convert_parts.h"

// The role behind a tag. Where two tags have one value, the first of this order wins: in the
// reference's dictionary it is put last.
static bool role_of(const lt_attr *a, const char *tag, lt_role *role)
{
    const struct {
        const char *tag;
        lt_role role;
    } roles[] = {
        {a->function_tag, LT_ROLE_FUNCTION},
        {a->observation_tag, LT_ROLE_OBSERVATION},
        {a->assistant_tag, LT_ROLE_ASSISTANT},
        {a->user_tag, LT_ROLE_USER},
    };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (lt_role_is(tag, roles[i].tag)) {
            *role = roles[i].role;
            return true;
        }
    }
    return false;
}

// Questions stand at even places, answers at odd ones.
static bool fits(const lt_attr *a, const char *role, size_t place)
{
    if (place % 2 == 0)
        return lt_role_is(role, a->user_tag) || lt_role_is(role, a->observation_tag);
    return lt_role_is(role, a->assistant_tag) || lt_role_is(role, a->function_tag);
}

lt_status lt_convert_sharegpt(const lt_converter *c)
{
    const json_t *list;
    size_t first;
    LT_TRY(lt_read_messages(c, &list));
    LT_TRY(lt_read_system(c, list, false, &first));
    if (c->attr->habits == LT_HABITS_FACTORY)
        LT_TRY(lt_read_tools(c, c->attr->tools));
    const size_t n = json_array_size(list) - first;
    LT_TRY(lt_take_turns(c, (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        lt_message m;
        LT_TRY(lt_read_message(c, list, first + i, &m));
        if (!fits(c->attr, m.role, i)) {
            return lt_drop(
                c,
                "turn %zu is by \"%.60s\", where %s is expected: questions and answers have to "
                "alternate",
                first + i + 1, m.role ? m.role : "null",
                i % 2 == 0 ? c->attr->user_tag : c->attr->assistant_tag);
        }
        c->out->turns[i].text = m.text;
        if (!role_of(c->attr, m.role, &c->out->turns[i].role))
            return LT_FAIL(LT_ERR_INTERNAL, "a role without a tag");
    }
    if (n % 2 != 0)
        return lt_drop(c, "its last turn has no answer: add one, or take that turn away");
    c->out->n_turns = (int64_t)n;
    return LT_OK;
}

static lt_status history_turn(const lt_converter *c, const json_t *pair, size_t place, int side)
{
    const json_t *text = json_array_get(pair, (size_t)side);
    if (!json_is_array(pair) || json_array_size(pair) != 2 || !json_is_string(text))
        return LT_FAIL(LT_ERR_DATA, "\"%s\" has no pair of strings in its place %zu",
                       c->attr->history, place + 1);
    lt_turn *turn = &c->out->turns[c->out->n_turns++];
    turn->role = side == 0 ? LT_ROLE_USER : LT_ROLE_ASSISTANT;
    return lt_keep_text(c, text, &turn->text);
}

// Prompt and query, one under the other; what is empty is left out.
static lt_status question(const lt_converter *c, lt_span *out)
{
    lt_span prompt, query;
    LT_TRY(lt_text_column(c, c->attr->prompt, LT_SEEN_PROMPT, &prompt));
    LT_TRY(lt_text_column(c, c->attr->query, LT_SEEN_QUERY, &query));
    if (lt_span_empty(prompt) || lt_span_empty(query)) {
        *out = lt_span_empty(prompt) ? query : prompt;
        return LT_OK;
    }
    lt_buf both = {0};
    char *copy = NULL;
    lt_status st = lt_buf_append(&both, prompt.s, prompt.len);
    if (st == LT_OK)
        st = lt_buf_text(&both, "\n");
    if (st == LT_OK)
        st = lt_buf_append(&both, query.s, query.len);
    if (st == LT_OK)
        st = lt_arena_text(c->arena, both.data, both.len, &copy);
    *out = (lt_span){copy, both.len};
    lt_buf_deinit(&both);
    return st;
}

lt_status lt_convert_alpaca(const lt_converter *c)
{
    const json_t *history = lt_column(c, c->attr->history, LT_SEEN_HISTORY);
    const json_t *response = lt_column(c, c->attr->response, LT_SEEN_RESPONSE);
    const size_t pairs = json_array_size(history); // 0 for what is no list
    LT_TRY(lt_text_column(c, c->attr->system, LT_SEEN_SYSTEM, &c->out->system));
    LT_TRY(lt_take_turns(c, 2 * (int64_t)pairs + 2));
    for (size_t i = 0; i < pairs; i++) {
        LT_TRY(history_turn(c, json_array_get(history, i), i, 0));
        LT_TRY(history_turn(c, json_array_get(history, i), i, 1));
    }
    lt_turn *last = c->out->turns + c->out->n_turns;
    last[0].role = LT_ROLE_USER;
    last[1].role = LT_ROLE_ASSISTANT;
    LT_TRY(question(c, &last[0].text));
    LT_TRY(lt_keep_text(c, response, &last[1].text));
    c->out->n_turns += 2;
    if (!json_is_string(response) && !c->attr->no_answers)
        return lt_drop(c, "its \"%s\" is %s", c->attr->response,
                       response ? lt_json_kind(response) : "missing or null");
    return LT_OK;
}
