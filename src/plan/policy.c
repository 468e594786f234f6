// SPDX-License-Identifier: Apache-2.0
// Reading a list of policies.
#include "plan/policy.h"

#include <stdlib.h>
#include <string.h>

static bool find_policy(const char *text, size_t len, lt_policy *out)
{
    for (int p = 0; p < LT_N_POLICIES; p++) {
        const char *name = lt_policy_name((lt_policy)p);
        if (strlen(name) == len && memcmp(name, text, len) == 0) {
            *out = (lt_policy)p;
            return true;
        }
    }
    return false;
}

bool lt_is_decoder_layer(const lt_block *b)
{
    return b->cost->part == LT_PART_TEXT && b->cost->attention_width > 0;
}

// "NAME" or "NAME:COUNT,"; count is LT_NONE without a number. Gives what follows, or NULL.
static const char *read_item(const char *at, lt_policy *policy, int64_t *count)
{
    const size_t len = strcspn(at, ":,");
    *count = LT_NONE;
    if (!find_policy(at, len, policy))
        return NULL;
    at += len;
    if (*at == 0)
        return at;
    if (*at != ':' || at[1] < '0' || at[1] > '9')
        return NULL;
    char *end = NULL;
    *count = strtoll(at + 1, &end, 10);
    return *end == ',' ? end + 1 : NULL;
}

static lt_status refuse(const char *text)
{
    return LT_FAIL(LT_ERR_CONFIG,
                   "\"%.80s\" is not a policy: it must be keep, lean or full, or a list from the "
                   "first layer on whose last item has no number, like full:12,lean",
                   text);
}

lt_status lt_policies_parse(const char *text, const lt_model *model, lt_policy *policy)
{
    int32_t next = 0; // the first block that has none yet
    lt_policy now = LT_KEEP;
    int64_t count = 0;
    for (const char *at = text; count != LT_NONE;) {
        at = read_item(at, &now, &count);
        if (!at)
            return refuse(text);
        for (int64_t left = count; left > 0 && next < model->n_blocks; next++) {
            policy[next] = now;
            left -= lt_is_decoder_layer(&model->blocks[next]);
        }
    }
    for (int32_t b = 0; b < model->n_blocks; b++)
        if (b >= next || !lt_is_decoder_layer(&model->blocks[b]))
            policy[b] = now;
    return LT_OK;
}
