// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a conversation of any text through every template, cut to any length. The first byte
// chooses the template, the second the length and the settings; the rest is turns with zero bytes
// between.
#include "data/dataset/encode.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { MAX_TURNS = 16, MAX_BYTES = 1 << 14 };

static lt_status grid_of(void *ctx, const char *path, int64_t n_images, lt_grid *out)
{
    (void)ctx, (void)path, (void)n_images;
    *out = (lt_grid){1, 4, 6};
    return LT_OK;
}

static int64_t split(const uint8_t *data, size_t len, lt_turn *turns)
{
    int64_t n = 0;
    for (size_t at = 0; at < len && n < MAX_TURNS;) {
        const uint8_t *end = memchr(data + at, 0, len - at);
        const size_t stop = end ? (size_t)(end - data) : len;
        turns[n] =
            (lt_turn){(lt_role)(data[at] % LT_N_ROLES), {(const char *)data + at, stop - at}};
        n++;
        at = stop + 1;
    }
    return n / 2 * 2;
}

static void encode(const lt_encode_opts *o, const lt_conversation *c, lt_arena *arena)
{
    lt_encoder *e = NULL;
    lt_sample s;
    lt_cut cut;
    if (lt_encoder_create(o, &e) == LT_OK &&
        lt_encode(e, c, (lt_record_place){"fuzz", 1, 1}, arena, &s, &cut) == LT_OK) {
        LT_ASSERT(s.n <= o->cutoff_len && cut.full_len >= s.n);
        for (int64_t i = 0; i < s.n; i++)
            LT_ASSERT(s.labels[i] == LT_IGNORE_LABEL || s.labels[i] == s.ids[i]);
    } else {
        lt_error_clear();
    }
    lt_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static lt_tokenizer *tokenizer; // lives as long as the program: opening it takes a while
    static const char *images[] = {"fuzz/template_fuzz.c"};
    // Run it from the repository's root: without the tokenizer it would find nothing, silently.
    if (!tokenizer)
        LT_ASSERT(lt_tokenizer_open("tests/golden/tokenizer/small", &tokenizer) == LT_OK);
    if (len < 3 || len > MAX_BYTES)
        return 0;
    int64_t n_templates;
    const lt_template *list = lt_template_list(&n_templates);
    lt_turn turns[MAX_TURNS];
    const int64_t n = split(data + 2, len - 2, turns);
    lt_arena *arena = NULL;
    if (n == 0 || lt_arena_create(&arena, "fuzz") != LT_OK)
        return 0;
    lt_encode_opts o = lt_encode_opts_default();
    o.render.tokenizer = tokenizer;
    o.render.chat = lt_template_as(&list[data[0] % n_templates],
                                   data[0] & 128 ? LT_HABITS_FACTORY : LT_HABITS_MINDSPEED);
    o.render.literals = data[1] & 1 ? LT_LITERAL_REFUSE : LT_LITERAL_KEEP;
    o.render.no_thinking = data[1] & 2;
    o.mask_history = data[1] & 4;
    o.train_on_prompt = data[1] & 8;
    o.refuse_cut_images = data[1] & 16;
    o.text_alone = data[0] == 255;
    o.cutoff_len = 1 + (data[1] >> 5) * 40;
    o.grid_of = grid_of;
    lt_conversation c = {.turns = turns, .n_turns = n, .system = turns[0].text};
    int64_t tags = 0;
    for (int64_t i = 0; i < n; i++)
        tags += lt_count_tag(turns[i].text, "<image>");
    c.images = images;
    c.n_images = tags == 1;
    encode(&o, &c, arena);
    lt_arena_destroy(arena);
    return 0;
}
