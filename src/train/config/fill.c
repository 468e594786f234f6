// SPDX-License-Identifier: Apache-2.0
// From the tree to the struct, guided by the schema: every key converted or defaulted, every
// unknown or missing one named.
#include "train/config/state.h"
#include <stdio.h>
#include <string.h>

typedef struct fill {
    lt_config_state *s;
    char path[LT_KEY_PATH_MAX];
} fill;

// Append ".key" to the path. The schema's keys fit; a key of the file may be cut.
static size_t push_key(fill *w, size_t len, const char *key)
{
    const int n = snprintf(w->path + len, sizeof w->path - len, "%s%s", len ? "." : "", key);
    const size_t end = len + (n > 0 ? (size_t)n : 0);
    return end < sizeof w->path ? end : sizeof w->path - 1;
}

static lt_config_spot spot_of(const lt_yaml_node *node)
{
    return (lt_config_spot){.source = node->source, .mark = node->mark};
}

// ---- required keys that are missing ----

typedef struct needs {
    const char *prefix;
    lt_buf text;
} needs;

static lt_status add_need(void *ctx, const lt_field *f, const char *path, const void *member)
{
    needs *n = ctx;
    (void)member;
    // Leaves of the optional validation set are needed only when the set is there.
    if (f->kind == LT_FIELD_RECORD || !(f->flags & LT_FIELD_REQUIRED) ||
        lt_text_starts(path, "val_"))
        return LT_OK;
    return lt_buf_printf(&n->text, "%s%s.%s", n->text.len ? ", " : "", n->prefix, path);
}

static lt_status report_missing(fill *w, const lt_field *f, const lt_config_spot *where)
{
    if (f->kind != LT_FIELD_RECORD)
        return lt_config_issue_add(w->s, LT_CONFIG_ERROR, where, w->path,
                                   "is missing and has to be set: %s", f->help);
    needs n = {.prefix = w->path};
    lt_status st = lt_schema_walk(f->record, NULL, add_need, &n);
    if (st == LT_OK)
        st = lt_config_issue_add(w->s, LT_CONFIG_ERROR, where, w->path,
                                 "the section is missing; it has to set %s", n.text.data);
    lt_buf_deinit(&n.text);
    return st;
}

// ---- keys that the schema does not have ----

static lt_status report_unknown(fill *w, const lt_record *record, const lt_yaml_pair *pair,
                                size_t len)
{
    char advice[256];
    lt_config_spot spot = spot_of(pair->key);
    push_key(w, len, lt_yaml_excerpt(pair->key->text).s);
    const bool foreign = lt_config_advice(record, w->path, pair->key->text, advice, sizeof advice);
    const lt_config_level level =
        w->s->strict || foreign || spot.source > 0 ? LT_CONFIG_ERROR : LT_CONFIG_WARNING;
    const lt_status st =
        lt_config_issue_add(w->s, level, &spot, w->path, "unknown %s%s%s", len ? "key" : "section",
                            advice[0] ? "; " : ", it has no effect", advice);
    w->path[len] = '\0';
    return st;
}

// ---- values ----

static lt_status fill_record(fill *w, const lt_record *record, const lt_yaml_node *map, char *base,
                             size_t len, const lt_config_spot *where);

static lt_status report_wrong(fill *w, const lt_convert *c)
{
    char path[LT_KEY_PATH_MAX + sizeof c->item];
    snprintf(path, sizeof path, "%s%s", w->path, c->item);
    return lt_config_issue_add(w->s, LT_CONFIG_ERROR, &c->spot, path, "%s", c->why);
}

static lt_status fill_leaf(fill *w, const lt_field *f, const lt_yaml_pair *pair, char *member,
                           const lt_config_spot *where)
{
    if (f->kind != LT_FIELD_ANY)
        LT_TRY(lt_convert_default(w->s->arena, f, member));
    if (!pair)
        return (f->flags & LT_FIELD_REQUIRED) && where ? report_missing(w, f, where) : LT_OK;
    if (pair->value->kind == LT_YAML_NULL && (f->flags & LT_FIELD_NULL))
        return LT_OK;
    LT_TRY(lt_config_spot_put(w->s, w->path, spot_of(pair->value)));
    lt_convert c = {.arena = w->s->arena};
    const bool ok = lt_convert_node(&c, f, pair->value, member);
    LT_TRY(c.st);
    return ok ? LT_OK : report_wrong(w, &c);
}

// A list of records: a pointer and a count in the struct.
static lt_status fill_records(fill *w, const lt_field *f, const lt_yaml_pair *pair, char *member,
                              size_t len)
{
    const lt_yaml_node *list = pair ? pair->value : NULL;
    if (!list || (list->kind == LT_YAML_NULL && (f->flags & LT_FIELD_NULL)))
        return LT_OK;
    const lt_config_spot spot = spot_of(pair->key);
    LT_TRY(lt_config_spot_put(w->s, w->path, spot));
    if (list->kind != LT_YAML_LIST)
        return lt_config_issue_add(w->s, LT_CONFIG_ERROR, &spot, w->path, "expected %s, got %s",
                                   lt_convert_words(f), lt_yaml_describe(list).s);
    void *items = NULL;
    LT_TRY(lt_arena_take(w->s->arena, (size_t)list->n * f->record->bytes, &items));
    for (int64_t i = 0; i < list->n; i++) {
        const lt_config_spot at = spot_of(list->items[i]);
        const int n = snprintf(w->path + len, sizeof w->path - len, "[%lld]", (long long)i);
        LT_ASSERT(n > 0 && (size_t)n < sizeof w->path - len);
        if (list->items[i]->kind != LT_YAML_MAP) {
            LT_TRY(lt_config_issue_add(w->s, LT_CONFIG_ERROR, &at, w->path,
                                       "expected a mapping, got %s",
                                       lt_yaml_describe(list->items[i]).s));
        } else {
            LT_TRY(fill_record(w, f->record, list->items[i],
                               (char *)items + (size_t)i * f->record->bytes, len + (size_t)n, &at));
        }
        w->path[len] = '\0';
    }
    memcpy(member, &items, sizeof items);
    memcpy(member + sizeof items, &list->n, sizeof list->n);
    return LT_OK;
}

static lt_status fill_section(fill *w, const lt_field *f, const lt_yaml_pair *pair, char *member,
                              size_t len, const lt_config_spot *where)
{
    const lt_yaml_node *map = pair ? pair->value : NULL;
    const lt_config_spot spot = pair ? spot_of(pair->key) : (lt_config_spot){0};
    const lt_config_spot *ask =
        where; // an absent record asks for its required keys when it is required itself
    if (map && map->kind != LT_YAML_MAP && map->kind != LT_YAML_NULL) {
        LT_TRY(lt_config_issue_add(w->s, LT_CONFIG_ERROR, &spot, w->path,
                                   "expected a mapping, got %s", lt_yaml_describe(map).s));
        ask = NULL;
        map = NULL;
    } else if (map && map->kind == LT_YAML_MAP) {
        LT_TRY(lt_config_spot_put(w->s, w->path, spot));
        ask = &spot;
    } else {
        if ((f->flags & LT_FIELD_REQUIRED) && where)
            LT_TRY(report_missing(w, f, pair ? &spot : where));
        ask = NULL;
    }
    if (f->flags & LT_FIELD_GIVEN)
        *(bool *)member = map && map->kind == LT_YAML_MAP;
    return fill_record(w, f->record, map, member, len, ask);
}

// `where` is the place of the record, NULL when it is absent: its required keys are not asked for
// then.
static lt_status fill_record(fill *w, const lt_record *record, const lt_yaml_node *map, char *base,
                             size_t len, const lt_config_spot *where)
{
    for (int64_t i = 0; i < record->n; i++) {
        const lt_field *f = &record->fields[i];
        const lt_yaml_pair *pair = lt_yaml_find(map, f->key);
        const size_t end = push_key(w, len, f->key);
        if (f->kind == LT_FIELD_RECORD)
            LT_TRY(fill_section(w, f, pair, base + f->at, end, where));
        else if (f->kind == LT_FIELD_RECORDS)
            LT_TRY(fill_records(w, f, pair, base + f->at, end));
        else
            LT_TRY(fill_leaf(w, f, pair, base + f->at, where));
        w->path[len] = '\0';
    }
    for (int64_t i = 0; map && map->kind == LT_YAML_MAP && i < map->n; i++) {
        if (!lt_schema_find(record, map->pairs[i].key->text))
            LT_TRY(report_unknown(w, record, &map->pairs[i], len));
    }
    return LT_OK;
}

// lathe.strict has to be known before the first unknown key is met.
static lt_status read_strict(lt_config_state *s)
{
    const lt_yaml_node *node = lt_yaml_get(lt_yaml_get(s->root, "lathe"), "strict");
    lt_convert c = {.arena = s->arena};
    if (node && !lt_convert_node(&c, lt_schema_find(&lt_schema_lathe, "strict"), node, &s->strict))
        s->strict = false; // what is wrong with it is said in its turn
    return c.st;
}

lt_status lt_config_fill(lt_config *cfg)
{
    fill w = {.s = cfg->state};
    const lt_config_spot file = {0};
    LT_TRY(read_strict(cfg->state));
    return fill_record(&w, &lt_schema, cfg->state->root, (char *)cfg, 0, &file);
}
