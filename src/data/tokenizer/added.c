// SPDX-License-Identifier: Apache-2.0
// Added tokens as a byte trie: children of a node are a linked list, which is short but at the
// root.
#include "data/tokenizer/added.h"

static lt_added_node *node(const lt_added *added, int32_t i)
{
    return (lt_added_node *)added->nodes.data + i;
}

static int32_t child_of(const lt_added *added, int32_t parent, uint8_t byte)
{
    int32_t i = node(added, parent)->child;
    while (i >= 0 && node(added, i)->byte != byte)
        i = node(added, i)->next;
    return i;
}

static lt_status add_child(lt_added *added, int32_t parent, uint8_t byte, int32_t *out)
{
    const lt_added_node fresh = {.value = -1,
                                 .child = -1,
                                 .next = parent < 0 ? -1 : node(added, parent)->child,
                                 .byte = byte};
    *out = lt_int(added->nodes.n);
    LT_TRY(lt_vec_push(&added->nodes, &fresh));
    if (parent >= 0)
        node(added, parent)->child = *out;
    return LT_OK;
}

lt_status lt_added_put(lt_added *added, const char *text, size_t len, int32_t value)
{
    LT_ASSERT(len > 0 && value >= 0);
    int32_t at = 0;
    if (added->nodes.n == 0)
        LT_TRY(add_child(added, -1, 0, &at));
    for (size_t i = 0; i < len; i++) {
        int32_t below = child_of(added, at, (uint8_t)text[i]);
        if (below < 0)
            LT_TRY(add_child(added, at, (uint8_t)text[i], &below));
        at = below;
    }
    node(added, at)->value = value;
    added->first[(uint8_t)text[0]] = true;
    return LT_OK;
}

void lt_added_deinit(lt_added *added)
{
    lt_vec_deinit(&added->nodes);
}

bool lt_added_find(const lt_added *added, const char *text, size_t len, size_t from, size_t *start,
                   size_t *end, int32_t *value)
{
    if (added->nodes.n == 0)
        return false;
    for (size_t i = from; i < len; i++) {
        if (!added->first[(uint8_t)text[i]])
            continue;
        bool found = false;
        int32_t at = 0;
        for (size_t j = i; j < len; j++) {
            at = child_of(added, at, (uint8_t)text[j]);
            if (at < 0)
                break;
            if (node(added, at)->value >= 0) {
                found = true;
                *value = node(added, at)->value;
                *end = j + 1;
            }
        }
        if (found) {
            *start = i;
            return true;
        }
    }
    return false;
}
