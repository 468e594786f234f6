// SPDX-License-Identifier: Apache-2.0
// Edits of JSON text: the input is a path up to the first line break, and the text after it.
#include "ckpt/json_text.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct lookup {
    const char *path;
    bool found;
} lookup;

static const char *look(void *ctx, const char *path, const char *value, size_t len)
{
    lookup *l = ctx;
    if (path[0] == '.' && strcmp(path + 1, l->path) == 0 && len == 4 &&
        memcmp(value, "true", 4) == 0)
        l->found = true;
    return NULL;
}

// What was set is there, setting it again changes nothing, and looking changes nothing.
static void check(lt_buf *text, const char *path)
{
    lt_buf copy = {0};
    lookup l = {.path = path};
    LT_ASSERT(lt_buf_append(&copy, text->data, text->len) == LT_OK);
    LT_ASSERT(lt_json_edit(&copy, look, &l) == LT_OK);
    LT_ASSERT(l.found);
    LT_ASSERT(lt_json_set(&copy, path, "true") == LT_OK);
    LT_ASSERT(copy.len == text->len && memcmp(copy.data, text->data, copy.len) == 0);
    lt_buf_deinit(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *line = len > 0 ? memchr(data, '\n', len) : NULL;
    lt_buf path = {0}, text = {0};
    if (line == NULL)
        return 0;
    const size_t path_len = (size_t)(line - data);
    LT_ASSERT(lt_buf_append(&path, data, path_len) == LT_OK);
    LT_ASSERT(lt_buf_append(&text, line + 1, len - path_len - 1) == LT_OK);
    if (strlen(path.data) == path_len && lt_json_set(&text, path.data, "true") == LT_OK)
        check(&text, path.data);
    lt_buf_deinit(&path);
    lt_buf_deinit(&text);
    return 0;
}
