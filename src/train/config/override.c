// SPDX-License-Identifier: Apache-2.0
// section.key=value from the command line: the value is read as YAML and set in the tree, before
// anything is converted.
#include "train/config/state.h"
#include <stdio.h>
#include <string.h>

// Sections and keys joined by single dots, no blanks.
static bool is_key_path(const char *text, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    int64_t n_steps = 0;
    for (size_t i = 0;; i++) {
        const size_t step = strspn(text + i, letters);
        if (step == 0)
            return false;
        i += step;
        n_steps++;
        if (i == len)
            return n_steps >= 2 && len < LT_KEY_PATH_MAX;
        if (text[i] != '.')
            return false;
    }
}

lt_status lt_config_override(lt_config_state *s, int32_t n, const char *text)
{
    char name[32], *path = NULL;
    snprintf(name, sizeof name, "override %d", (int)n);
    const size_t len = strcspn(text, "=");
    if (text[len] != '=' || !is_key_path(text, len)) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: \"%s\" is not section.key=value, such as training.lr=1e-5", name,
                       lt_yaml_excerpt(text).s);
    }
    LT_TRY(lt_arena_text(s->arena, text, len, &path));
    lt_yaml_node *value = NULL;
    const char *written = text + len + 1;
    LT_TRY(lt_yaml_parse(s->arena, name, written, strlen(written), n, NULL, &value));
    const lt_status st = lt_yaml_set(s->arena, &s->root, path, value);
    if (st == LT_ERR_CONFIG)
        lt_error_note("%s: %s", name, path);
    return st;
}
