// SPDX-License-Identifier: Apache-2.0
// Looking into a YAML tree, describing its nodes, and setting values in it.
#include "train/config/yaml.h"
#include <stdio.h>
#include <string.h>

static int64_t find(const lt_yaml_node *map, const char *key, size_t len)
{
    for (int64_t i = 0; i < map->n; i++) {
        const char *text = map->pairs[i].key->text;
        if (strncmp(text, key, len) == 0 && text[len] == '\0')
            return i;
    }
    return -1;
}

const lt_yaml_pair *lt_yaml_find(const lt_yaml_node *map, const char *key)
{
    const int64_t i = map && map->kind == LT_YAML_MAP ? find(map, key, strlen(key)) : -1;
    return i < 0 ? NULL : &map->pairs[i];
}

lt_yaml_node *lt_yaml_get(const lt_yaml_node *map, const char *key)
{
    const lt_yaml_pair *pair = lt_yaml_find(map, key);
    return pair ? pair->value : NULL;
}

lt_yaml_words lt_yaml_describe(const lt_yaml_node *node)
{
    static const struct {
        const char *words;
        bool with_text;
    } kinds[] = {[LT_YAML_NULL] = {"null", false},     [LT_YAML_BOOL] = {"the boolean", true},
                 [LT_YAML_INT] = {"the number", true}, [LT_YAML_FLOAT] = {"the number", true},
                 [LT_YAML_DATE] = {"the date", true},  [LT_YAML_TEXT] = {"the text", true},
                 [LT_YAML_LIST] = {"a list", false},   [LT_YAML_MAP] = {"a mapping", false}};
    lt_yaml_words out;
    const char *quote = node->kind == LT_YAML_TEXT ? "\"" : "";
    if (kinds[node->kind].with_text) {
        snprintf(out.s, sizeof out.s, "%s %s%.70s%s", kinds[node->kind].words, quote,
                 lt_yaml_excerpt(node->text).s, quote);
    } else {
        snprintf(out.s, sizeof out.s, "%s", kinds[node->kind].words);
    }
    return out;
}

lt_yaml_words lt_yaml_excerpt(const char *text)
{
    enum { MOST = 60 };
    lt_yaml_words out;
    size_t n = strlen(text);
    const bool cut = n > MOST;
    if (cut) {
        n = MOST;
        while (n > 0 && ((unsigned char)text[n] & 0xC0U) == 0x80U) // not inside a character
            n--;
    }
    memcpy(out.s, text, n);
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            out.s[i] = '?';
    }
    snprintf(out.s + n, sizeof out.s - n, "%s", cut ? "..." : "");
    return out;
}

static lt_status copy_node(lt_arena *arena, const lt_yaml_node *from, lt_yaml_node **out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, sizeof *from, &memory));
    *out = memory;
    **out = *from;
    return LT_OK;
}

// A mapping of our own: the pairs of `from` (none when it is null), and room for `more`.
static lt_status copy_map(lt_arena *arena, const lt_yaml_node *from, int64_t more,
                          lt_yaml_node **out)
{
    void *pairs = NULL;
    LT_TRY(copy_node(arena, from, out));
    LT_TRY(lt_arena_take(arena, (size_t)(from->n + more) * sizeof *from->pairs, &pairs));
    if (from->n > 0)
        memcpy(pairs, from->pairs, (size_t)from->n * sizeof *from->pairs);
    (*out)->kind = LT_YAML_MAP;
    (*out)->pairs = pairs;
    return LT_OK;
}

// The slot of a key in a mapping that copy_map made; a missing key is added with a null value.
static lt_status slot_of(lt_arena *arena, lt_yaml_node *map, const char *key, size_t len,
                         const lt_yaml_node *like, lt_yaml_node ***slot)
{
    int64_t i = find(map, key, len);
    if (i < 0) {
        char *text = NULL;
        lt_yaml_node *name = NULL, *nothing = NULL;
        const lt_yaml_node blank = {.kind = LT_YAML_NULL,
                                    .source = like->source,
                                    .mark = like->mark,
                                    .text = "",
                                    .weight = 1};
        LT_TRY(lt_arena_text(arena, key, len, &text));
        LT_TRY(copy_node(arena, &blank, &name));
        LT_TRY(copy_node(arena, &blank, &nothing));
        name->kind = LT_YAML_TEXT;
        name->text = text;
        i = map->n++;
        map->pairs[i] = (lt_yaml_pair){name, nothing};
    }
    *slot = &map->pairs[i].value;
    return LT_OK;
}

// Each pair of `value` into a copy of *slot; mappings below are merged the same way.
static lt_status merge(lt_arena *arena, lt_yaml_node **slot, lt_yaml_node *value, int depth)
{
    if (value->kind != LT_YAML_MAP || (*slot)->kind != LT_YAML_MAP || depth >= LT_YAML_MAX_DEPTH) {
        *slot = value;
        return LT_OK;
    }
    lt_yaml_node *map = NULL, **child = NULL;
    LT_TRY(copy_map(arena, *slot, value->n, &map));
    *slot = map;
    for (int64_t i = 0; i < value->n; i++) {
        const char *key = value->pairs[i].key->text;
        LT_TRY(slot_of(arena, map, key, strlen(key), value->pairs[i].key, &child));
        LT_TRY(merge(arena, child, value->pairs[i].value, depth + 1));
    }
    return LT_OK;
}

lt_status lt_yaml_set(lt_arena *arena, lt_yaml_node **root, const char *path, lt_yaml_node *value)
{
    lt_yaml_node **slot = root;
    for (const char *p = path; *p;) {
        const size_t len = strcspn(p, ".");
        lt_yaml_node *map = NULL;
        if ((*slot)->kind != LT_YAML_MAP && (*slot)->kind != LT_YAML_NULL) {
            return LT_FAIL(LT_ERR_CONFIG, "%.*s is %s, so it has no %.*s",
                           (int)(p > path ? p - path - 1 : 0), path, lt_yaml_describe(*slot).s,
                           (int)len, p);
        }
        LT_TRY(copy_map(arena, *slot, 1, &map));
        *slot = map;
        LT_TRY(slot_of(arena, map, p, len, value, &slot));
        p += len + (p[len] == '.');
    }
    return merge(arena, slot, value, 0);
}
