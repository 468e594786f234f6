// SPDX-License-Identifier: Apache-2.0
// From turns to ids: fill a slot, cut it at the media tags, tokenise the text between them.
#include "data/template/template.h"
#include <string.h>

struct lt_renderer {
    lt_renderer_opts opts;
    lt_template_ids ids;
    lt_vec thought; // int32_t: the empty thought
};

static const char CONTENT[] = "{{content}}", INDEX[] = "{{idx}}";

lt_renderer_opts lt_renderer_opts_default(void)
{
    return (lt_renderer_opts){.merge = 2, .image_tag = "<image>", .video_tag = "<video>"};
}

static lt_status id_of(const lt_renderer_opts *o, const char *token, int32_t *id)
{
    *id = -1;
    if (token && !lt_tokenizer_id(o->tokenizer, token, id)) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "the template %s needs the token %s, which the tokenizer does not have",
                       o->chat->name, token);
    }
    return LT_OK;
}

static lt_status encode(const lt_renderer *r, const char *text, size_t len, lt_vec *ids)
{
    return lt_tokenizer_encode(r->opts.tokenizer, text, len,
                               r->opts.split_special_tokens ? LT_SPLIT_SPECIAL : 0, ids);
}

static lt_status fill(lt_renderer *r)
{
    const lt_renderer_opts *o = &r->opts;
    const lt_template *t = o->chat;
    LT_TRY(id_of(o, t->stop, &r->ids.stop));
    LT_TRY(id_of(o, t->pad, &r->ids.pad));
    LT_TRY(id_of(o, t->vision_start, &r->ids.vision.vision_start));
    LT_TRY(id_of(o, t->vision_end, &r->ids.vision_end));
    LT_TRY(id_of(o, t->image_pad, &r->ids.vision.image_pad));
    LT_TRY(id_of(o, t->video_pad, &r->ids.vision.video_pad));
    if (t->reasoning)
        LT_TRY(encode(r, t->empty_thought, strlen(t->empty_thought), &r->thought));
    return LT_OK;
}

lt_status lt_renderer_create(const lt_renderer_opts *opts, lt_renderer **out)
{
    LT_ASSERT(opts->tokenizer && opts->chat && opts->merge > 0);
    LT_ASSERT(opts->image_tag[0] && opts->video_tag[0]);
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_renderer), "the template"));
    lt_renderer *r = memory;
    *r = (lt_renderer){.opts = *opts, .thought = LT_VEC_OF(int32_t)};
    const lt_status st = fill(r);
    if (st != LT_OK) {
        lt_renderer_destroy(r);
        return st;
    }
    *out = r;
    return LT_OK;
}

void lt_renderer_destroy(lt_renderer *r)
{
    if (r)
        lt_vec_deinit(&r->thought);
    lt_mem_free(r);
}

const lt_template_ids *lt_renderer_ids(const lt_renderer *r)
{
    return &r->ids;
}

// The first place of `word` in text, or NULL.
static const char *find(lt_span text, const char *word)
{
    return text.len > 0 ? memmem(text.s, text.len, word, strlen(word)) : NULL;
}

static lt_span behind(lt_span text, const char *place)
{
    return (lt_span){place, text.len - (size_t)(place - text.s)};
}

const char *lt_literal_in(const lt_renderer *r, lt_span text)
{
    const lt_template *t = r->opts.chat;
    if (t->image_pad && find(text, t->image_pad))
        return t->image_pad;
    return t->video_pad && find(text, t->video_pad) ? t->video_pad : NULL;
}

lt_status lt_refuse_literal(const char *token)
{
    return LT_FAIL(LT_ERR_DATA,
                   "the text itself spells %s, where the model would look for a picture: take it "
                   "out, or write it otherwise",
                   token);
}

int64_t lt_count_tag(lt_span text, const char *tag)
{
    int64_t n = 0;
    for (const char *at = find(text, tag); at; at = find(text, tag)) {
        text = behind(text, at + strlen(tag));
        n++;
    }
    return n;
}

// What stands in a slot, or in a preamble, before and behind its placeholder.
static void halves(const char *slot, const char *mark, lt_span *before, lt_span *after)
{
    const char *at = strstr(slot, mark);
    LT_ASSERT(at);
    *before = (lt_span){slot, (size_t)(at - slot)};
    *after = (lt_span){at + strlen(mark), strlen(at + strlen(mark))};
}

static lt_status append(lt_buf *buf, lt_span text)
{
    return lt_buf_append(buf, text.s, text.len);
}

static lt_status put_tools(const lt_template *t, lt_span tools, lt_buf *text)
{
    lt_span head, tail;
    if (lt_span_empty(tools))
        return LT_OK;
    halves(t->tool_preamble, "%s", &head, &tail);
    LT_TRY(append(text, head));
    LT_TRY(append(text, tools));
    return append(text, tail);
}

static lt_status system_text(const lt_template *t, lt_span system, lt_span tools, lt_buf *text)
{
    lt_span before, after;
    halves(t->system, CONTENT, &before, &after);
    LT_TRY(append(text, before));
    if (t->tools_last) {
        LT_TRY(append(text, system));
        LT_TRY(put_tools(t, tools, text));
    } else {
        LT_TRY(put_tools(t, tools, text));
        if (!lt_span_empty(tools) && !lt_span_empty(system))
            LT_TRY(lt_buf_text(text, "\n\n"));
        LT_TRY(append(text, system));
    }
    return append(text, after);
}

lt_status lt_render_system(const lt_renderer *r, lt_span system, lt_span tools, lt_vec *ids)
{
    const lt_template *t = r->opts.chat;
    if (lt_span_empty(system) && t->default_system)
        system = (lt_span){t->default_system, strlen(t->default_system)};
    if (!t->tool_preamble)
        tools = (lt_span){0};
    if (lt_span_empty(system) && lt_span_empty(tools))
        return LT_OK;
    lt_buf text = {0};
    lt_status st = system_text(t, system, tools, &text);
    if (st == LT_OK)
        st = encode(r, text.data, text.len, ids);
    lt_buf_deinit(&text);
    return st;
}

// The slot filled. A user's first {{idx}} becomes the number of the pair, wherever it comes from.
static lt_status fill_slot(const char *slot, const lt_turn *turn, int64_t pair, lt_buf *text)
{
    lt_span before, after;
    halves(slot, CONTENT, &before, &after);
    LT_TRY(append(text, before));
    const char *index = turn->role == LT_ROLE_USER ? find(turn->text, INDEX) : NULL;
    if (index) {
        LT_TRY(lt_buf_append(text, turn->text.s, (size_t)(index - turn->text.s)));
        LT_TRY(lt_buf_printf(text, "%lld", (long long)pair));
        LT_TRY(append(text, behind(turn->text, index + strlen(INDEX))));
    } else {
        LT_TRY(append(text, turn->text));
    }
    return append(text, after);
}

// Ids of a text without media tags.
static lt_status encode_text(const lt_renderer *r, lt_span text, lt_vec *ids)
{
    const int64_t from = ids->n;
    if (lt_span_empty(text))
        return LT_OK;
    LT_TRY(encode(r, text.s, text.len, ids));
    if (r->opts.literals == LT_LITERAL_KEEP)
        return LT_OK;
    for (int64_t i = from; i < ids->n; i++) {
        const int32_t id = LT_AT(ids, int32_t, i);
        if (id >= 0 && (id == r->ids.vision.image_pad || id == r->ids.vision.video_pad))
            return lt_refuse_literal(lt_tokenizer_name(r->opts.tokenizer, id));
    }
    return LT_OK;
}

// Start token, n pads, end token.
static lt_status put_pads(const lt_renderer *r, lt_media_kind kind, int64_t index, int64_t n,
                          lt_vec *ids, lt_vec *places)
{
    const lt_media_place place = {kind, index, ids->n, n};
    const int32_t pad = kind == LT_MEDIA_VIDEO ? r->ids.vision.video_pad : r->ids.vision.image_pad;
    if (r->opts.split_special_tokens) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "split_special_tokens takes the tokens of pictures apart: it cannot be used "
                       "with images and videos");
    }
    LT_TRY(lt_vec_push(ids, &r->ids.vision.vision_start));
    LT_TRY(lt_vec_resize(ids, ids->n + n));
    for (int64_t i = ids->n - n; i < ids->n; i++)
        LT_AT(ids, int32_t, i) = pad;
    LT_TRY(lt_vec_push(ids, &r->ids.vision_end));
    return places ? lt_vec_push(places, &place) : LT_OK;
}

static lt_status put_image(const lt_renderer *r, lt_span before, lt_media_cursor *media,
                           lt_vec *ids, lt_vec *places)
{
    if (media->next_image >= media->n_images)
        return LT_FAIL(LT_ERR_DATA, "there are more %s tags than images (%lld)", r->opts.image_tag,
                       (long long)media->n_images);
    const int64_t index = media->next_image++;
    LT_TRY(encode_text(r, before, ids));
    return put_pads(r, LT_MEDIA_IMAGE, index,
                    lt_grid_tokens(media->images[index].grid, r->opts.merge), ids, places);
}

// The text before the tag and the first stamp are tokenised together, as in the reference.
static lt_status put_slices(const lt_renderer *r, lt_span before, const lt_media *video,
                            int64_t index, lt_vec *ids, lt_vec *places)
{
    const lt_grid slice = {1, video->grid.h, video->grid.w};
    lt_buf text = {0};
    lt_status st = append(&text, before);
    for (int64_t t = 0; t < video->grid.t && st == LT_OK; t++) {
        st = lt_buf_printf(&text, "<%.1f seconds>", video->clip->stamps[t]);
        if (st == LT_OK)
            st = encode_text(r, (lt_span){text.data, text.len}, ids);
        if (st == LT_OK)
            st = put_pads(r, LT_MEDIA_VIDEO, index, lt_grid_tokens(slice, r->opts.merge), ids,
                          places);
        lt_buf_clear(&text);
    }
    lt_buf_deinit(&text);
    return st;
}

static lt_status put_video(const lt_renderer *r, lt_span before, lt_media_cursor *media,
                           lt_vec *ids, lt_vec *places)
{
    if (media->next_video >= media->n_videos)
        return LT_FAIL(LT_ERR_DATA, "there are more %s tags than videos (%lld)", r->opts.video_tag,
                       (long long)media->n_videos);
    const int64_t index = media->next_video++;
    const lt_media *video = &media->videos[index];
    if (r->opts.chat->video_stamps)
        return put_slices(r, before, video, index, ids, places);
    LT_TRY(encode_text(r, before, ids));
    return put_pads(r, LT_MEDIA_VIDEO, index, lt_grid_tokens(video->grid, r->opts.merge), ids,
                    places);
}

static lt_status encode_filled(const lt_renderer *r, lt_span text, lt_media_cursor *media,
                               lt_vec *ids, lt_vec *places)
{
    const char *image_tag = r->opts.image_tag, *video_tag = r->opts.video_tag;
    if (r->opts.chat->media == LT_PLUGIN_NONE)
        return encode_text(r, text, ids);
    for (;;) {
        const char *image = find(text, image_tag), *video = find(text, video_tag);
        const bool is_video = video && (!image || video < image);
        const char *at = is_video ? video : image;
        if (!at)
            return encode_text(r, text, ids);
        const lt_span before = {text.s, (size_t)(at - text.s)};
        LT_TRY(is_video ? put_video(r, before, media, ids, places)
                        : put_image(r, before, media, ids, places));
        text = behind(text, at + strlen(is_video ? video_tag : image_tag));
    }
}

lt_status lt_render_text(const lt_renderer *r, lt_span text, lt_vec *ids)
{
    lt_buf whole = {0};
    lt_status st = append(&whole, text);
    if (st == LT_OK)
        st = lt_buf_text(&whole, r->opts.chat->stop);
    if (st == LT_OK)
        st = encode_text(r, (lt_span){whole.data, whole.len}, ids);
    lt_buf_deinit(&whole);
    return st;
}

lt_status lt_render_turn(const lt_renderer *r, const lt_turn *turn, int64_t pair,
                         lt_media_cursor *media, lt_vec *ids, lt_vec *places)
{
    const char *slot = r->opts.chat->slots[turn->role];
    if (!slot)
        return LT_FAIL(LT_ERR_DATA, "the template %s has no place for a %s turn",
                       r->opts.chat->name, lt_role_name(turn->role));
    lt_buf text = {0};
    lt_status st = fill_slot(slot, turn, pair, &text);
    if (st == LT_OK)
        st = encode_filled(r, (lt_span){text.data, text.len}, media, ids, places);
    lt_buf_deinit(&text);
    return st;
}

// The marker without the newlines that belong to it.
static bool holds_marker(lt_span answer, const char *marker)
{
    const char *at = marker + strspn(marker, "\n");
    size_t len = strlen(at);
    while (len > 0 && at[len - 1] == '\n')
        len--;
    return answer.len > 0 && memmem(answer.s, answer.len, at, len);
}

lt_status lt_render_thought(const lt_renderer *r, lt_span answer, lt_vec *ids)
{
    const lt_template *t = r->opts.chat;
    if (!t->reasoning || holds_marker(answer, t->thought[0]) || holds_marker(answer, t->thought[1]))
        return LT_OK;
    return lt_vec_append(ids, r->thought.data, r->thought.n);
}

lt_empty_thought lt_thought_place(const lt_renderer *r)
{
    const lt_renderer_opts *o = &r->opts;
    if (o->empty_thought != LT_THOUGHT_AUTO)
        return o->empty_thought;
    return o->chat->thinking_setting && o->no_thinking ? LT_THOUGHT_MASK : LT_THOUGHT_TRAIN;
}

bool lt_thoughts_go(const lt_renderer *r, bool history)
{
    const lt_template *t = r->opts.chat;
    return t->reasoning && t->thinking_setting && (history || r->opts.no_thinking);
}

lt_status lt_without_thoughts(const lt_renderer *r, lt_span answer, lt_arena *arena, lt_span *out)
{
    const lt_template *t = r->opts.chat;
    lt_buf rest = {0};
    lt_status st = LT_OK;
    char *copy = NULL;
    for (const char *open = find(answer, t->thought[0]); open && st == LT_OK;
         open = find(answer, t->thought[0])) {
        const char *close = find(behind(answer, open + strlen(t->thought[0])), t->thought[1]);
        if (!close)
            break;
        st = lt_buf_append(&rest, answer.s, (size_t)(open - answer.s));
        answer = behind(answer, close + strlen(t->thought[1]));
    }
    if (st == LT_OK)
        st = append(&rest, answer);
    if (st == LT_OK)
        st = lt_arena_text(arena, rest.len > 0 ? rest.data : "", rest.len, &copy);
    *out = (lt_span){copy, rest.len};
    lt_buf_deinit(&rest);
    for (; st == LT_OK && out->len > 0 && out->s[0] == '\n'; out->len--)
        out->s++;
    return st;
}
