// SPDX-License-Identifier: Apache-2.0
// Configuration files as strangers send them. Lines behind one that says %% are overrides. What
// loads is printed, and the print has to load to the same print.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/config/config.h"

enum { MAX_BYTES = 1 << 16, MAX_OVERRIDES = 8 };

// Print without the marks of defaults, which the second round cannot have.
static void print(const lt_config *cfg, lt_buf *out)
{
    static const char mark[] = "  # default\n";
    LT_ASSERT(lt_config_print(cfg, out) == LT_OK);
    char *to = out->data;
    for (const char *p = out->data; *p;) {
        const bool marked = strncmp(p, mark, sizeof mark - 1) == 0;
        p += marked ? sizeof mark - 2 : 0;
        *to++ = *p++;
    }
    *to = '\0';
}

static void round_trip(const lt_config *cfg)
{
    lt_buf first = {0}, second = {0};
    lt_config *again = NULL;
    print(cfg, &first);
    LT_ASSERT(lt_config_read_text("printed", first.data, strlen(first.data), NULL, &again) ==
              LT_OK);
    if (lt_config_verdict(cfg) == LT_OK) {
        LT_ASSERT(lt_config_verdict(again) == LT_OK);
        print(again, &second);
        LT_ASSERT(strcmp(first.data, second.data) == 0);
    }
    (void)!lt_config_refuse(cfg, LT_USE_TRAIN, NULL);
    lt_config_destroy(again);
    lt_buf_deinit(&first);
    lt_buf_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *overrides[MAX_OVERRIDES];
    char *text = len <= MAX_BYTES ? malloc(len + 1) : NULL;
    if (!text)
        return 0;
    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    lt_config_opts opts = {.overrides = overrides, .world_size = (int64_t)(len % 5)};
    size_t file_len = len;
    char *bar = memchr(text, '\0', len) ? NULL : strstr(text, "\n%%\n");
    if (bar) {
        file_len = (size_t)(bar - text);
        char *rest = NULL;
        for (char *line = strtok_r(bar + 4, "\n", &rest); line && opts.n_overrides < MAX_OVERRIDES;
             line = strtok_r(NULL, "\n", &rest))
            overrides[opts.n_overrides++] = line;
    }
    lt_config *cfg = NULL;
    if (lt_config_read_text("fuzz", text, file_len, &opts, &cfg) == LT_OK)
        round_trip(cfg);
    lt_config_destroy(cfg);
    free(text);
    return 0;
}
