// SPDX-License-Identifier: Apache-2.0
// libyaml's events to a tree: anchors, aliases, merge keys, limits.
#include "train/config/yaml.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

typedef struct anchor {
    const lt_yaml_node *node;
    bool open; // its collection has not ended: an alias to it would be a loop
} anchor;

typedef struct builder {
    yaml_parser_t parser;
    lt_arena *arena;
    const char *name;
    int32_t source;
    lt_vec *twice;
    lt_map *anchor_index; // name -> index in anchors
    lt_vec anchors;       // anchor
    lt_vec open; // lt_yaml_pair: children of the collections that are not complete (a list leaves
                 // key NULL)
    int64_t n_made; // nodes and pairs made so far, merged ones included
} builder;

#define FAIL_AT(b, where, ...) fail_at((b), (where), __VA_ARGS__)
LT_PRINTF(3, 4)
static lt_status fail_at(const builder *b, lt_yaml_mark where, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (b->source > 0) // one line from the command line
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s", b->name, text);
    return LT_FAIL(LT_ERR_CONFIG, "%s:%d: %s", b->name, where.line, text);
}

static lt_yaml_mark mark_of(yaml_mark_t m)
{
    const size_t most = INT32_MAX - 1;
    return (lt_yaml_mark){(int32_t)(m.line < most ? m.line : most) + 1,
                          (int32_t)(m.column < most ? m.column : most) + 1};
}

static lt_status parser_failed(builder *b)
{
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return LT_FAIL(LT_ERR_MEMORY, "out of memory: the YAML parser reading %s", b->name);
    const lt_yaml_mark at = mark_of(p->problem_mark);
    if (p->error == YAML_READER_ERROR)
        return LT_FAIL(LT_ERR_CONFIG, "%s: byte %zu: %s; YAML files are UTF-8 text", b->name,
                       p->problem_offset, p->problem ? p->problem : "unreadable");
    const char *context = p->context ? p->context : "reading";
    const bool tab = p->problem && strstr(p->problem, "cannot start any token") &&
                     p->buffer.pointer < p->buffer.last && *p->buffer.pointer == '\t';
    return FAIL_AT(b, at, "not valid YAML: %s (%s), column %d%s",
                   p->problem ? p->problem : "unreadable", context, at.column,
                   tab ? "; a tab stands there: indent with spaces" : "");
}

static lt_status next_event(builder *b, yaml_event_t *event)
{
    return yaml_parser_parse(&b->parser, event) ? LT_OK : parser_failed(b);
}

static lt_status count(builder *b, lt_yaml_mark at, int64_t n)
{
    b->n_made += n;
    return b->n_made <= LT_YAML_MAX_NODES
               ? LT_OK
               : FAIL_AT(b, at, "the file has more than %d values", LT_YAML_MAX_NODES);
}

static lt_status make_node(builder *b, yaml_mark_t at, lt_yaml_kind kind, lt_yaml_node **out)
{
    void *memory = NULL;
    LT_TRY(count(b, mark_of(at), 1));
    LT_TRY(lt_arena_take(b->arena, sizeof(lt_yaml_node), &memory));
    *out = memory;
    **out = (lt_yaml_node){.kind = kind, .mark = mark_of(at), .source = b->source, .weight = 1};
    return LT_OK;
}

// ---- anchors ----

static lt_status set_anchor(builder *b, const yaml_char_t *name, const lt_yaml_node *node,
                            int64_t *index)
{
    *index = -1;
    if (!name)
        return LT_OK;
    *index = b->anchors.n;
    LT_TRY(lt_vec_push(&b->anchors, &(anchor){.node = node, .open = true}));
    return lt_map_put_text(b->anchor_index, (const char *)name, *index);
}

static void close_anchor(builder *b, int64_t index)
{
    if (index >= 0)
        LT_AT(&b->anchors, anchor, index).open = false;
}

// A copy of the anchored node that is marked at the alias; its children stay shared.
static lt_status node_of_alias(builder *b, const yaml_event_t *event, lt_yaml_node **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    const lt_yaml_mark at = mark_of(event->start_mark);
    int64_t index = 0;
    if (!lt_map_get_text(b->anchor_index, name, &index)) {
        return FAIL_AT(b, at,
                       "*%.64s refers to an anchor that is not defined above: write &%.64s at the "
                       "value that it stands for",
                       name, name);
    }
    const anchor a = LT_AT(&b->anchors, anchor, index);
    if (a.open) {
        return FAIL_AT(b, at,
                       "*%.64s stands inside the value that &%.64s names: it would never end", name,
                       name);
    }
    LT_TRY(make_node(b, event->start_mark, a.node->kind, out));
    const lt_yaml_mark mark = (*out)->mark;
    **out = *a.node;
    (*out)->mark = mark;
    return LT_OK;
}

// ---- scalars ----

static lt_status apply_tag(builder *b, lt_yaml_node *node, const char *tag)
{
    static const struct {
        const char *tag;
        lt_yaml_kind kind;
    } known[] = {{"!", LT_YAML_TEXT},           {YAML_STR_TAG, LT_YAML_TEXT},
                 {YAML_NULL_TAG, LT_YAML_NULL}, {YAML_BOOL_TAG, LT_YAML_BOOL},
                 {YAML_INT_TAG, LT_YAML_INT},   {YAML_FLOAT_TAG, LT_YAML_FLOAT}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(tag, known[i].tag) != 0)
            continue;
        if (known[i].kind == LT_YAML_TEXT) {
            node->kind = LT_YAML_TEXT;
            node->plain = false;
            return LT_OK;
        }
        lt_yaml_resolve(node);
        if (known[i].kind == LT_YAML_FLOAT && node->kind == LT_YAML_INT)
            node->kind = LT_YAML_FLOAT;
        if (node->kind != known[i].kind)
            return FAIL_AT(b, node->mark, "%s is not what its tag %.64s says",
                           lt_yaml_describe(node).s, tag);
        return LT_OK;
    }
    return FAIL_AT(b, node->mark, "the tag %.64s is not known here: remove it", tag);
}

static lt_status node_of_scalar(builder *b, const yaml_event_t *event, lt_yaml_node **out)
{
    LT_TRY(make_node(b, event->start_mark, LT_YAML_TEXT, out));
    lt_yaml_node *node = *out;
    const char *value = (const char *)event->data.scalar.value;
    const size_t len = event->data.scalar.length;
    if (memchr(value, '\0', len))
        return FAIL_AT(b, node->mark, "a text holds a zero byte");
    char *text = NULL;
    LT_TRY(lt_arena_text(b->arena, value, len, &text));
    node->text = text;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (event->data.scalar.tag)
        LT_TRY(apply_tag(b, node, (const char *)event->data.scalar.tag));
    else if (node->plain)
        lt_yaml_resolve(node);
    int64_t index = 0;
    LT_TRY(set_anchor(b, event->data.scalar.anchor, node, &index));
    close_anchor(b, index);
    return LT_OK;
}

// ---- collections ----

static lt_status node_of(builder *b, const yaml_event_t *event, int depth, lt_yaml_node **out);

static lt_status check_collection(builder *b, const yaml_event_t *event, const yaml_char_t *tag,
                                  const char *standard, int depth)
{
    if (depth >= LT_YAML_MAX_DEPTH)
        return FAIL_AT(b, mark_of(event->start_mark), "more than %d collections inside each other",
                       LT_YAML_MAX_DEPTH);
    if (tag && strcmp((const char *)tag, "!") != 0 && strcmp((const char *)tag, standard) != 0)
        return FAIL_AT(b, mark_of(event->start_mark), "the tag %.64s is not known here: remove it",
                       (const char *)tag);
    return LT_OK;
}

// The next child of a list or mapping; *out is NULL at its end.
static lt_status next_child(builder *b, yaml_event_type_t end, int depth, lt_yaml_node **out)
{
    yaml_event_t event;
    *out = NULL;
    LT_TRY(next_event(b, &event));
    const lt_status st = event.type == end ? LT_OK : node_of(b, &event, depth, out);
    yaml_event_delete(&event);
    return st;
}

static lt_status add_weight(builder *b, lt_yaml_node *node, const lt_yaml_node *child)
{
    node->weight += child->weight;
    if (node->weight > LT_YAML_MAX_NODES) {
        return FAIL_AT(b, child->mark,
                       "with its aliases written out the file has more than %d values",
                       LT_YAML_MAX_NODES);
    }
    return LT_OK;
}

static lt_status node_of_list(builder *b, const yaml_event_t *event, int depth, lt_yaml_node **out)
{
    int64_t index = 0;
    LT_TRY(check_collection(b, event, event->data.sequence_start.tag, YAML_SEQ_TAG, depth));
    LT_TRY(make_node(b, event->start_mark, LT_YAML_LIST, out));
    lt_yaml_node *list = *out;
    LT_TRY(set_anchor(b, event->data.sequence_start.anchor, list, &index));
    const int64_t base = b->open.n;
    for (;;) {
        lt_yaml_pair child = {0};
        LT_TRY(next_child(b, YAML_SEQUENCE_END_EVENT, depth + 1, &child.value));
        if (!child.value)
            break;
        LT_TRY(add_weight(b, list, child.value));
        LT_TRY(lt_vec_push(&b->open, &child));
    }
    list->n = b->open.n - base;
    void *memory = NULL;
    LT_TRY(lt_arena_take(b->arena, (size_t)list->n * sizeof(lt_yaml_node *), &memory));
    list->items = memory;
    for (int64_t i = 0; i < list->n; i++)
        list->items[i] = LT_AT(&b->open, lt_yaml_pair, base + i).value;
    LT_TRY(lt_vec_resize(&b->open, base));
    close_anchor(b, index);
    return LT_OK;
}

// The pair of b->open[base..) with this key, NULL when there is none.
static lt_yaml_pair *find_open(builder *b, int64_t base, const char *key)
{
    for (int64_t i = base; i < b->open.n; i++) {
        lt_yaml_pair *pair = &LT_AT(&b->open, lt_yaml_pair, i);
        if (strcmp(pair->key->text, key) == 0)
            return pair;
    }
    return NULL;
}

static lt_status put_pair(builder *b, int64_t base, lt_yaml_pair pair, bool merged)
{
    lt_yaml_pair *old = find_open(b, base, pair.key->text);
    if (old) {
        if (!merged && b->twice)
            LT_TRY(lt_vec_push(b->twice,
                               &(lt_yaml_twice){pair.key->text, old->key->mark, pair.key->mark}));
        *old = pair;
        return LT_OK;
    }
    if (b->open.n - base >= LT_YAML_MAX_KEYS)
        return FAIL_AT(b, pair.key->mark, "a mapping has more than %d keys", LT_YAML_MAX_KEYS);
    return lt_vec_push(&b->open, &pair);
}

// <<: a mapping, or a list of mappings of which the earlier win. Pairs go to `merged`, in the order
// in which they are overridden.
static lt_status collect_merge(builder *b, const lt_yaml_node *value, lt_vec *merged)
{
    if (value->kind == LT_YAML_MAP) {
        LT_TRY(count(b, value->mark, value->n));
        return lt_vec_append(merged, value->pairs, value->n);
    }
    if (value->kind != LT_YAML_LIST)
        return FAIL_AT(b, value->mark, "<< merges a mapping or a list of mappings, got %s",
                       lt_yaml_describe(value).s);
    for (int64_t i = value->n; i-- > 0;) {
        if (value->items[i]->kind != LT_YAML_MAP)
            return FAIL_AT(b, value->items[i]->mark, "<< merges mappings, got %s in its list",
                           lt_yaml_describe(value->items[i]).s);
        LT_TRY(collect_merge(b, value->items[i], merged));
    }
    return LT_OK;
}

static bool is_merge_key(const lt_yaml_node *key)
{
    return key->plain && strcmp(key->text, "<<") == 0;
}

// Reads the pairs of a mapping: its own to b->open, those of << to `merged`.
static lt_status read_pairs(builder *b, int depth, lt_vec *merged)
{
    const int64_t base = b->open.n;
    for (;;) {
        lt_yaml_node *key = NULL, *value = NULL;
        LT_TRY(next_child(b, YAML_MAPPING_END_EVENT, depth, &key));
        if (!key)
            return LT_OK;
        if (key->kind == LT_YAML_LIST || key->kind == LT_YAML_MAP)
            return FAIL_AT(b, key->mark, "a key has to be a word, got %s", lt_yaml_describe(key).s);
        LT_TRY(next_child(b, YAML_NO_EVENT, depth, &value));
        if (is_merge_key(key))
            LT_TRY(collect_merge(b, value, merged));
        else
            LT_TRY(put_pair(b, base, (lt_yaml_pair){key, value}, false));
    }
}

// Merged pairs first, then the mapping's own, which win.
static lt_status finish_map(builder *b, lt_yaml_node *map, int64_t base, const lt_vec *merged)
{
    const int64_t end = b->open.n;
    for (int64_t i = 0; i < merged->n; i++)
        LT_TRY(put_pair(b, end, LT_AT(merged, lt_yaml_pair, i), true));
    for (int64_t i = base; i < end; i++)
        LT_TRY(put_pair(b, end, LT_AT(&b->open, lt_yaml_pair, i), true));
    map->n = b->open.n - end;
    void *memory = NULL;
    LT_TRY(lt_arena_take(b->arena, (size_t)map->n * sizeof *map->pairs, &memory));
    map->pairs = memory;
    for (int64_t i = 0; i < map->n; i++) {
        map->pairs[i] = LT_AT(&b->open, lt_yaml_pair, end + i);
        LT_TRY(add_weight(b, map, map->pairs[i].value));
    }
    return lt_vec_resize(&b->open, base);
}

static lt_status node_of_map(builder *b, const yaml_event_t *event, int depth, lt_yaml_node **out)
{
    int64_t index = 0;
    LT_TRY(check_collection(b, event, event->data.mapping_start.tag, YAML_MAP_TAG, depth));
    LT_TRY(make_node(b, event->start_mark, LT_YAML_MAP, out));
    LT_TRY(set_anchor(b, event->data.mapping_start.anchor, *out, &index));
    const int64_t base = b->open.n;
    lt_vec merged = LT_VEC_OF(lt_yaml_pair);
    lt_status st = read_pairs(b, depth + 1, &merged);
    if (st == LT_OK)
        st = finish_map(b, *out, base, &merged);
    lt_vec_deinit(&merged);
    close_anchor(b, index);
    return st;
}

static lt_status node_of(builder *b, const yaml_event_t *event, int depth, lt_yaml_node **out)
{
    if (event->type == YAML_ALIAS_EVENT)
        return node_of_alias(b, event, out);
    if (event->type == YAML_SCALAR_EVENT)
        return node_of_scalar(b, event, out);
    if (event->type == YAML_SEQUENCE_START_EVENT)
        return node_of_list(b, event, depth, out);
    LT_ASSERT(event->type == YAML_MAPPING_START_EVENT);
    return node_of_map(b, event, depth, out);
}

// ---- documents ----

static lt_status expect_end(builder *b)
{
    yaml_event_t event;
    LT_TRY(next_event(b, &event)); // the document's end
    yaml_event_delete(&event);
    LT_TRY(next_event(b, &event));
    const bool end = event.type == YAML_STREAM_END_EVENT;
    const lt_yaml_mark at = mark_of(event.start_mark);
    yaml_event_delete(&event);
    return end ? LT_OK
               : FAIL_AT(b, at, "a second document begins here; a configuration is one document");
}

static lt_status read_document(builder *b, lt_yaml_node **root)
{
    yaml_event_t event;
    LT_TRY(next_event(b, &event)); // the stream's start
    yaml_event_delete(&event);
    LT_TRY(next_event(b, &event));
    const bool empty = event.type == YAML_STREAM_END_EVENT;
    const yaml_mark_t at = event.start_mark;
    yaml_event_delete(&event);
    if (empty) {
        LT_TRY(make_node(b, at, LT_YAML_NULL, root));
        (*root)->text = "";
        return LT_OK;
    }
    LT_TRY(next_child(b, YAML_NO_EVENT, 0, root));
    return expect_end(b);
}

lt_status lt_yaml_parse(lt_arena *arena, const char *name, const char *text, size_t len,
                        int32_t source, lt_vec *twice, lt_yaml_node **root)
{
    if (len > LT_YAML_MAX_BYTES)
        return LT_FAIL(LT_ERR_CONFIG, "%s has %zu bytes; a configuration has %d at most", name, len,
                       LT_YAML_MAX_BYTES);
    builder b = {.arena = arena, .name = name, .source = source, .twice = twice};
    b.anchors = LT_VEC_OF(anchor);
    b.open = LT_VEC_OF(lt_yaml_pair);
    LT_TRY(lt_map_create(&b.anchor_index));
    lt_yaml_node *tree = NULL;
    lt_status st = LT_OK;
    if (!yaml_parser_initialize(&b.parser)) {
        st = LT_FAIL(LT_ERR_MEMORY, "out of memory: the YAML parser reading %s", name);
    } else {
        yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, len);
        st = read_document(&b, &tree);
        yaml_parser_delete(&b.parser);
    }
    lt_map_destroy(b.anchor_index);
    lt_vec_deinit(&b.anchors);
    lt_vec_deinit(&b.open);
    if (st == LT_OK)
        *root = tree;
    return st;
}
