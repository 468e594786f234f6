// SPDX-License-Identifier: Apache-2.0
// The converter internvl: records of InternVL's own data sets, {"image": ..., "conversations":
// [{"from", "value"}]}. Entries stand in any order and are not stripped.
#include "data/dataset/convert_parts.h"

// The reference takes a record without media for broken, and puts another one in its place.
static lt_status check_media(const lt_converter *c)
{
    if (!c->attr->images || c->out->n_images > 0)
        return LT_OK;
    if (!c->attr->videos && json_object_get(c->record, "video")) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "it has a \"video\", and videos of InternVL models are not supported yet");
    }
    return LT_FAIL(LT_ERR_DATA,
                   "it has no \"%s\": records of dataset_type internvl3_5 have pictures, as in "
                   "the reference; text alone goes through dataset_type huggingface with the "
                   "template intern_vl",
                   c->attr->images);
}

// The tag of a single image that the first entry lacks, be it the system's, as in the reference.
static lt_status add_tag(const lt_converter *c, lt_span *first)
{
    const char *tag = c->attr->image_tag ? c->attr->image_tag : "<image>";
    lt_buf text = {0};
    char *copy = NULL;
    if (c->out->n_images != 1 || lt_count_tag(*first, tag) > 0)
        return LT_OK;
    lt_status st = lt_buf_printf(&text, "%s\n", tag);
    if (st == LT_OK)
        st = lt_buf_append(&text, first->s, first->len);
    if (st == LT_OK)
        st = lt_arena_text(c->arena, text.data, text.len, &copy);
    *first = (lt_span){copy, text.len};
    lt_buf_deinit(&text);
    return st;
}

static lt_status put_entry(const lt_converter *c, size_t i, const lt_message *m)
{
    const lt_attr *a = c->attr;
    lt_turn *t = &c->out->turns[c->out->n_turns];
    if (lt_role_is(m->role, a->system_tag)) {
        if (i > 0) {
            return LT_FAIL(LT_ERR_DATA,
                           "entry %zu of \"%s\" is a system text, which only the first may be",
                           i + 1, a->messages);
        }
        c->out->system = m->whole;
        c->out->has_system = true;
        return LT_OK;
    }
    t->text = m->whole;
    t->role = lt_role_is(m->role, a->user_tag) ? LT_ROLE_USER : LT_ROLE_ASSISTANT;
    if (t->role != LT_ROLE_USER && !lt_role_is(m->role, a->assistant_tag)) {
        return LT_FAIL(LT_ERR_DATA,
                       "entry %zu of \"%s\" is by \"%.60s\"; %s, %s and, in the first place, %s "
                       "are known",
                       i + 1, a->messages, m->role ? m->role : "null", a->user_tag,
                       a->assistant_tag, a->system_tag ? a->system_tag : "system");
    }
    c->out->n_turns++;
    return LT_OK;
}

lt_status lt_convert_internvl(const lt_converter *c)
{
    const json_t *list;
    LT_TRY(lt_read_messages(c, &list));
    LT_TRY(check_media(c));
    LT_TRY(lt_take_turns(c, (int64_t)json_array_size(list)));
    for (size_t i = 0; i < json_array_size(list); i++) {
        lt_message m;
        LT_TRY(lt_read_message(c, list, i, &m));
        if (i == 0)
            LT_TRY(add_tag(c, &m.whole));
        LT_TRY(put_entry(c, i, &m));
    }
    return LT_OK;
}
