// SPDX-License-Identifier: Apache-2.0
#include "data/template/template.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static lt_tokenizer *small(void **state)
{
    lt_tokenizer *t = NULL;
    const char *dir = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(dir);
    assert_ok(lt_tokenizer_open(dir, &t));
    return t;
}

static lt_renderer *renderer(const lt_tokenizer *t, const char *name, lt_literal literals)
{
    lt_renderer_opts o = lt_renderer_opts_default();
    lt_renderer *r;
    o.tokenizer = t;
    o.literals = literals;
    assert_ok(lt_template_find(name, &o.chat));
    assert_ok(lt_renderer_create(&o, &r));
    return r;
}

static lt_span span(const char *s)
{
    return (lt_span){s, strlen(s)};
}

// The ids as text, special tokens included.
static const char *text_of(void **state, const lt_tokenizer *t, lt_vec *ids)
{
    lt_buf text = {0};
    char *copy;
    assert_ok(lt_tokenizer_decode(t, ids->data, ids->n, 0, &text));
    assert_ok(lt_arena_text(*state, text.data ? text.data : "", text.len, &copy));
    lt_buf_deinit(&text);
    lt_vec_deinit(ids);
    return copy;
}

static void unknown_templates_are_refused_with_the_nearest_name(void **state)
{
    const lt_template *t = NULL;
    (void)state;
    assert_ok(lt_template_find("qwen3_vl", &t));
    assert_text_equal(t->name, "qwen3_vl");
    assert_fails(lt_template_find("qwen3_vl_nothnk", &t), LT_ERR_CONFIG,
                 "did you mean qwen3_vl_nothink?");
    assert_fails(lt_template_find("x", &t), LT_ERR_CONFIG,
                 "there is no template \"x\" (known: qwen3_vl, ");
}

static void every_row_of_the_table_is_whole(void **state)
{
    int64_t n;
    const lt_template *list = lt_template_list(&n);
    (void)state;
    for (int64_t i = 0; i < n; i++) {
        assert_non_null(strstr(list[i].system, "{{content}}"));
        for (int role = 0; role < LT_N_ROLES; role++)
            assert_true(!list[i].slots[role] || strstr(list[i].slots[role], "{{content}}"));
        assert_non_null(list[i].slots[LT_ROLE_USER]);
        assert_non_null(list[i].slots[LT_ROLE_ASSISTANT]);
        assert_non_null(list[i].stop);
        assert_true(!list[i].tool_preamble || strstr(list[i].tool_preamble, "%s"));
        assert_true(!list[i].reasoning ||
                    (list[i].thought[0] && list[i].thought[1] && list[i].empty_thought));
        assert_true(list[i].media == LT_PLUGIN_NONE ||
                    (list[i].image_pad && list[i].vision_start && list[i].vision_end));
        // InternVL takes no videos here
        assert_int_equal(list[i].media == LT_PLUGIN_QWEN && list[i].pictures == LT_PICTURES_QWEN,
                         list[i].video_pad != NULL);
    }
}

static void turns_fill_their_slots(void **state)
{
    lt_tokenizer *t = small(state);
    lt_renderer *r = renderer(t, "qwen3_vl_nothink", LT_LITERAL_KEEP);
    const struct {
        lt_turn turn;
        int64_t pair;
        const char *text;
    } cases[] = {
        {{LT_ROLE_USER, span("hi")}, 0, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"},
        {{LT_ROLE_ASSISTANT, span("yo")}, 0, "yo<|im_end|>\n"},
        {{LT_ROLE_ASSISTANT, span("")}, 0, "<|im_end|>\n"},
        {{LT_ROLE_TOOL_CALL, span("call")}, 0, "call<|im_end|>\n"},
        {{LT_ROLE_OBSERVATION, span("res")},
         0,
         "<|im_start|>user\n<tool_response>\nres\n</"
         "tool_response><|im_end|>\n<|im_start|>assistant\n"},
        {{LT_ROLE_USER, span("{{content}} {{idx}} {{idx}}")},
         7,
         "<|im_start|>user\n{{content}} 7 {{idx}}<|im_end|>\n<|im_start|>assistant\n"},
        {{LT_ROLE_ASSISTANT, span("{{idx}}")}, 7, "{{idx}}<|im_end|>\n"},
    };
    lt_media_cursor none = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_vec ids = LT_VEC_OF(int32_t);
        assert_ok(lt_render_turn(r, &cases[i].turn, cases[i].pair, &none, &ids, NULL));
        assert_text_equal(text_of(state, t, &ids), cases[i].text);
    }
    lt_vec ids = LT_VEC_OF(int32_t);
    const lt_turn call = {LT_ROLE_FUNCTION, span("{}")};
    assert_fails(lt_render_turn(r, &call, 0, &none, &ids, NULL), LT_ERR_DATA,
                 "the template qwen3_vl_nothink has no place for a function_call turn");
    lt_vec_deinit(&ids);
    lt_renderer_destroy(r);
    lt_tokenizer_close(t);
}

static void images_become_start_pads_and_end(void **state)
{
    lt_tokenizer *t = small(state);
    lt_renderer *r = renderer(t, "qwen3_vl", LT_LITERAL_REFUSE);
    const lt_media images[] = {{LT_MEDIA_IMAGE, "a", {1, 4, 2}, NULL},
                               {LT_MEDIA_IMAGE, "b", {1, 2, 2}, NULL}};
    lt_media_cursor media = {.images = images, .n_images = 2};
    lt_vec ids = LT_VEC_OF(int32_t), places = LT_VEC_OF(lt_media_place);
    const lt_turn turn = {LT_ROLE_USER, span("<image>a<image>")};
    assert_ok(lt_render_turn(r, &turn, 0, &media, &ids, &places));
    assert_int_equal(media.next_image, 2);
    assert_int_equal(places.n, 2);
    const lt_media_place *p = places.data;
    assert_int_equal(p[0].n_pads, 2);
    assert_int_equal(p[1].n_pads, 1);
    assert_int_equal(LT_AT(&ids, int32_t, p[1].start), lt_renderer_ids(r)->vision.vision_start);
    assert_int_equal(LT_AT(&ids, int32_t, p[1].start + 1), lt_renderer_ids(r)->vision.image_pad);
    assert_int_equal(LT_AT(&ids, int32_t, p[1].start + 2), lt_renderer_ids(r)->vision_end);
    assert_text_equal(
        text_of(state, t, &ids),
        "<|im_start|>user\n<|vision_start|><|image_pad|><|image_pad|><|vision_end|>a"
        "<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n");
    ids = LT_VEC_OF(int32_t);
    assert_fails(lt_render_turn(r, &turn, 0, &media, &ids, NULL), LT_ERR_DATA,
                 "more <image> tags than images (2)");
    const lt_turn video = {LT_ROLE_USER, span("<video>")};
    assert_fails(lt_render_turn(r, &video, 0, &media, &ids, NULL), LT_ERR_DATA,
                 "more <video> tags than videos (0)");
    lt_vec_deinit(&ids);
    lt_vec_deinit(&places);
    lt_renderer_destroy(r);
    lt_tokenizer_close(t);
}

// BR-19: a group of tokens for each temporal slice, each behind its time.
static void videos_become_a_piece_for_each_slice(void **state)
{
    lt_tokenizer *t = small(state);
    static const double stamps[] = {0.25, 1.25, 2.05};
    const lt_clip clip = {.stamps = stamps, .n = 6};
    const lt_media videos[] = {{LT_MEDIA_VIDEO, "v", {3, 2, 4}, &clip}},
                   images[] = {{LT_MEDIA_IMAGE, "a", {1, 2, 2}, NULL}};
    const lt_turn turn = {LT_ROLE_USER, span("<video>a<image>")};
    const struct {
        const char *chat, *text;
        int64_t n_places;
    } cases[] = {
        {"qwen3_vl_nothink",
         "<0.2 seconds><|vision_start|><|video_pad|><|video_pad|><|vision_end|>"
         "<1.2 seconds><|vision_start|><|video_pad|><|video_pad|><|vision_end|>"
         "<2.0 seconds><|vision_start|><|video_pad|><|video_pad|><|vision_end|>"
         "a<|vision_start|><|image_pad|><|vision_end|>",
         4},
        {"qwen2_vl",
         "<|vision_start|><|video_pad|><|video_pad|><|video_pad|><|video_pad|>"
         "<|video_pad|><|video_pad|><|vision_end|>"
         "a<|vision_start|><|image_pad|><|vision_end|>",
         2},
    };
    for (size_t i = 0; i < 2; i++) {
        lt_renderer *r = renderer(t, cases[i].chat, LT_LITERAL_REFUSE);
        lt_media_cursor media = {.images = images, .n_images = 1, .videos = videos, .n_videos = 1};
        lt_vec ids = LT_VEC_OF(int32_t), places = LT_VEC_OF(lt_media_place);
        assert_ok(lt_render_turn(r, &turn, 0, &media, &ids, &places));
        assert_int_equal(places.n, cases[i].n_places);
        assert_int_equal(LT_AT(&places, lt_media_place, 0).kind, LT_MEDIA_VIDEO);
        assert_int_equal(LT_AT(&places, lt_media_place, places.n - 1).kind, LT_MEDIA_IMAGE);
        const char *text = text_of(state, t, &ids);
        assert_text_contains(text, cases[i].text);
        lt_vec_deinit(&places);
        lt_renderer_destroy(r);
    }
    lt_tokenizer_close(t);
}

static void a_text_that_spells_a_placeholder_is_kept_or_refused(void **state)
{
    lt_tokenizer *t = small(state);
    lt_renderer *keep = renderer(t, "qwen3_vl", LT_LITERAL_KEEP),
                *refuse = renderer(t, "qwen3_vl", LT_LITERAL_REFUSE);
    lt_media_cursor none = {0};
    lt_vec ids = LT_VEC_OF(int32_t);
    const lt_turn turn = {LT_ROLE_USER, span("what is <|video_pad|>?")};
    assert_fails(lt_render_turn(refuse, &turn, 0, &none, &ids, NULL), LT_ERR_DATA,
                 "the text itself spells <|video_pad|>");
    assert_text_equal(lt_literal_in(refuse, turn.text), "<|video_pad|>");
    assert_null(lt_literal_in(refuse, span("<|im_end|> and |image_pad|")));
    lt_vec_clear(&ids);
    assert_ok(lt_render_turn(keep, &turn, 0, &none, &ids, NULL));
    bool found = false;
    for (int64_t i = 0; i < ids.n; i++)
        found |= LT_AT(&ids, int32_t, i) == lt_renderer_ids(keep)->vision.video_pad;
    assert_true(found);
    lt_vec_deinit(&ids);
    lt_renderer_destroy(keep);
    lt_renderer_destroy(refuse);
    lt_tokenizer_close(t);
}

static const char *system_text(void **state, const lt_renderer *r, const lt_tokenizer *t,
                               const char *system, const char *tools)
{
    lt_vec ids = LT_VEC_OF(int32_t);
    assert_ok(lt_render_system(r, span(system), span(tools), &ids));
    return text_of(state, t, &ids);
}

static void tools_stand_before_the_system_text_where_the_template_knows_them(void **state)
{
    lt_tokenizer *t = small(state);
    lt_renderer *plain = renderer(t, "qwen3_vl_nothink", LT_LITERAL_KEEP),
                *reasoning = renderer(t, "qwen3_vl", LT_LITERAL_KEEP);
    assert_text_equal(system_text(state, plain, t, "", ""), "");
    assert_text_equal(system_text(state, plain, t, "Be brief.", ""),
                      "<|im_start|>system\nBe brief.<|im_end|>\n");
    const char *both = system_text(state, plain, t, "Be brief.", "{}");
    assert_true(lt_text_starts(both, "<|im_start|>system\n\n\n# Tools\n\nYou may call"));
    assert_text_contains(both, "<tools>\n{}\n</tools>");
    assert_text_contains(both, "</tool_call>\n\nBe brief.<|im_end|>\n");
    assert_text_equal(system_text(state, reasoning, t, "", "{}"), "");
    lt_renderer_destroy(plain);
    lt_renderer_destroy(reasoning);
    lt_tokenizer_close(t);
}

static void each_template_has_its_own_order_of_system_and_tools(void **state)
{
    lt_tokenizer *t = small(state);
    const struct {
        const char *name, *system, *start, *end;
    } cases[] = {
        {"qwen3_6", "Be brief.", "<|im_start|>system\n# Tools\n\nYou have access",
         "</IMPORTANT>\n\nBe brief.<|im_end|>\n"},
        {"qwen3_6_nothink", "", "<|im_start|>system\n# Tools", "</IMPORTANT><|im_end|>\n"},
        {"qwen3_5", "Be brief.", "<|im_start|>system\nBe brief.\n\n# Tools\n\nYou have access",
         "</IMPORTANT><|im_end|>\n"},
        {"qwen3_5_nothink", "", "<|im_start|>system\n\n\n# Tools", "</IMPORTANT><|im_end|>\n"},
        {"qwen2vl", "", "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n",
         "<|im_end|>\n"},
        {"qwen2_vl", "", "<|im_start|>system\nYou are a helpful assistant.\n\n# Tools\n\nYou may",
         "</tool_call><|im_end|>\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_renderer *r = renderer(t, cases[i].name, LT_LITERAL_KEEP);
        const char *text = system_text(state, r, t, cases[i].system, "{}");
        assert_true(lt_text_starts(text, cases[i].start));
        assert_true(lt_text_ends(text, cases[i].end));
        lt_renderer_destroy(r);
    }
    lt_tokenizer_close(t);
}

static void whole_thoughts_are_cut_out_and_others_stay(void **state)
{
    lt_tokenizer *t = small(state);
    lt_renderer *r = renderer(t, "qwen3_5", LT_LITERAL_KEEP);
    const struct {
        const char *answer, *rest;
    } cases[] = {
        {"", ""},
        {"a", "a"},
        {"<think>\nx\n</think>\n\n\na", "a"},
        {"a<think>\nx\n</think>\n\nb<think>\n\n</think>\n\nc", "abc"},
        {"<think>\n1\n</think>\n\n2\n</think>\n\n3", "2\n</think>\n\n3"},
        {"<think>x</think>a", "<think>x</think>a"}, // not that shape
        {"<think>\nnever closed", "<think>\nnever closed"},
        {"\n\na", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_span rest;
        assert_ok(lt_without_thoughts(r, span(cases[i].answer), *state, &rest));
        assert_int_equal(rest.len, strlen(cases[i].rest));
        assert_memory_equal(rest.s, cases[i].rest, rest.len);
    }
    lt_renderer_destroy(r);
    lt_tokenizer_close(t);
}

static void only_reasoning_templates_add_an_empty_thought(void **state)
{
    lt_tokenizer *t = small(state);
    lt_renderer *plain = renderer(t, "qwen3_vl_nothink", LT_LITERAL_KEEP),
                *reasoning = renderer(t, "qwen3_vl", LT_LITERAL_KEEP);
    const struct {
        const lt_renderer *r;
        const char *answer, *thought;
    } cases[] = {
        {plain, "a", ""},
        {reasoning, "a", "<think>\n\n</think>\n\n"},
        {reasoning, "<think>\nhm\n</think>\n\na", ""},
        {reasoning, "only </think>", ""},
        {reasoning, "only <think>", ""},
        {reasoning, "", "<think>\n\n</think>\n\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lt_vec ids = LT_VEC_OF(int32_t);
        assert_ok(lt_render_thought(cases[i].r, span(cases[i].answer), &ids));
        assert_text_equal(text_of(state, t, &ids), cases[i].thought);
    }
    lt_renderer_destroy(plain);
    lt_renderer_destroy(reasoning);
    lt_tokenizer_close(t);
}

static void a_tokenizer_without_the_templates_tokens_is_refused(void **state)
{
    const char *dir = lt_test_golden(*state, "tokenizer/small");
    assert_non_null(dir);
    size_t len;
    char *json = lt_test_read(*state, lt_test_path(*state, dir, "tokenizer.json"), &len);
    char *pad = strstr(json, "<|image_pad|>");
    assert_non_null(pad);
    pad[2] = 'I';
    lt_tokenizer *t;
    lt_renderer *r;
    lt_renderer_opts o = lt_renderer_opts_default();
    assert_ok(lt_tokenizer_parse(json, len, "t.json", &t));
    o.tokenizer = t;
    assert_ok(lt_template_find("qwen3_vl", &o.chat));
    assert_fails(lt_renderer_create(&o, &r), LT_ERR_CONFIG,
                 "the template qwen3_vl needs the token <|image_pad|>");
    lt_tokenizer_close(t);
}

LT_TEST_MAIN(LT_TEST(unknown_templates_are_refused_with_the_nearest_name),
             LT_TEST(every_row_of_the_table_is_whole), LT_TEST(turns_fill_their_slots),
             LT_TEST(images_become_start_pads_and_end),
             LT_TEST(videos_become_a_piece_for_each_slice),
             LT_TEST(a_text_that_spells_a_placeholder_is_kept_or_refused),
             LT_TEST(tools_stand_before_the_system_text_where_the_template_knows_them),
             LT_TEST(each_template_has_its_own_order_of_system_and_tools),
             LT_TEST(whole_thoughts_are_cut_out_and_others_stay),
             LT_TEST(only_reasoning_templates_add_an_empty_thought),
             LT_TEST(a_tokenizer_without_the_templates_tokens_is_refused))
