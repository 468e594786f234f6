// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a data file from a stranger, scanned, parsed and converted by each of the
// converters.
#include "data/dataset/convert.h"
#include "data/dataset/plain_json.h"
#include "data/dataset/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void convert(const lt_attr *attr, json_t *record, lt_arena *arena)
{
    lt_conversation c;
    if (lt_convert_record(attr, record, arena, &c) != LT_OK)
        lt_error_clear();
    lt_arena_reset(arena);
}

static void convert_all(json_t *record, lt_arena *arena)
{
    lt_attr a = lt_attr_default();
    a.images = "images";
    a.system = "system";
    convert(&a, record, arena);
    a.formatting = "internvl";
    convert(&a, record, arena);
    a.formatting = "sharegpt";
    a.tools = "tools";
    a.habits = LT_HABITS_FACTORY;
    convert(&a, record, arena);
    a.habits = LT_HABITS_MINDSPEED;
    a.formatting = "openai";
    a.messages = "messages";
    a.role_tag = "role";
    a.content_tag = "content";
    a.user_tag = "user";
    a.assistant_tag = "assistant";
    a.observation_tag = "tool";
    a.tools = "tools";
    convert(&a, record, arena);
    a.formatting = "multimodal_tool";
    convert(&a, record, arena);
    a.formatting = "alpaca";
    a.prompt = "instruction";
    a.query = "input";
    a.response = "output";
    a.history = "history";
    convert(&a, record, arena);
}

// Where the plain parser gives a value at all, it is Jansson's.
static void compare(const char *text, size_t len)
{
    lt_buf scratch = {0};
    json_error_t error;
    json_t *ours = lt_plain_json(text, len, &scratch), *theirs = NULL;
    if (ours)
        theirs = json_loadb(text, len, JSON_ALLOW_NUL, &error);
    LT_ASSERT(!ours || (theirs && json_equal(ours, theirs)));
    json_decref(ours);
    json_decref(theirs);
    lt_buf_deinit(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    lt_records *r;
    lt_arena *arena;
    compare((const char *)data, len);
    if (lt_records_scan((const char *)data, len, "fuzz", &r) != LT_OK)
        return 0;
    if (lt_arena_create(&arena, "a record") == LT_OK) {
        for (int64_t i = 0; i < lt_records_count(r); i++) {
            json_t *record;
            if (lt_records_parse(r, i, &record) != LT_OK)
                continue;
            convert_all(record, arena);
            json_decref(record);
        }
        lt_arena_destroy(arena);
    }
    lt_records_close(r);
    return 0;
}
