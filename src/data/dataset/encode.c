// SPDX-License-Identifier: Apache-2.0
// Encoding: render all pairs, cut them pair by pair, lay ids, labels and media out.
#include "base/file.h"
#include "data/dataset/calls.h"
#include "data/dataset/encode_parts.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>

struct lt_encoder {
    lt_encode_opts opts;
    lt_renderer *renderer;
};

// A pair of turns: where its tokens stand in the rendering, and how many of them stay.
typedef struct pair {
    int64_t source, target,
        end; // first token of the question, first of the answer, behind the last
    int64_t keep_source, keep_target;
    bool masked; // the answer is history
} pair;

typedef struct encoding {
    const lt_encoder *e;
    const lt_conversation *c;
    lt_arena *arena;
    lt_media *images, *videos;
    lt_vec ids, places, pairs; // int32_t, lt_media_place, pair
} encoding;

lt_encode_opts lt_encode_opts_default(void)
{
    return (lt_encode_opts){.render = lt_renderer_opts_default(), .cutoff_len = 1024};
}

// InternVL's own code knows no such settings.
static lt_status check_segments(const lt_encode_opts *o)
{
    const struct {
        const char *key;
        bool set;
    } keys[] = {{"train_on_prompt", o->train_on_prompt},
                {"mask_history", o->mask_history},
                {"split_special_tokens", o->render.split_special_tokens}};
    for (size_t i = 0; o->render.chat->segments && i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].set) {
            return LT_FAIL(LT_ERR_CONFIG,
                           "%s: true does not go with the template %s, which trains every answer, "
                           "and nothing but answers",
                           keys[i].key, o->render.chat->name);
        }
    }
    return LT_OK;
}

lt_status lt_encoder_create(const lt_encode_opts *opts, lt_encoder **out)
{
    if (opts->cutoff_len < 1)
        return LT_FAIL(LT_ERR_CONFIG, "cutoff_len is %lld; at least 1 is needed",
                       (long long)opts->cutoff_len);
    LT_TRY(check_segments(opts));
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_encoder), "the encoder"));
    lt_encoder *e = memory;
    *e = (lt_encoder){.opts = *opts};
    const lt_status st = lt_renderer_create(&opts->render, &e->renderer);
    if (st != LT_OK) {
        lt_mem_free(e);
        return st;
    }
    *out = e;
    return LT_OK;
}

void lt_encoder_destroy(lt_encoder *e)
{
    if (e)
        lt_renderer_destroy(e->renderer);
    lt_mem_free(e);
}

const lt_template_ids *lt_encoder_ids(const lt_encoder *e)
{
    return lt_renderer_ids(e->renderer);
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

lt_status lt_media_path(const char *dir, const char *path, lt_arena *arena, const char **out,
                        bool *found)
{
    char *joined = NULL;
    *out = path;
    if (dir && dir[0] && path[0] != '/') {
        LT_TRY(lt_path_join(arena, dir, path, &joined));
        *found = is_file(joined);
        if (*found) {
            *out = joined;
            return LT_OK;
        }
    }
    *found = is_file(path);
    return LT_OK;
}

void lt_cut_lengths(int64_t source, int64_t target, int64_t limit, int64_t *new_source,
                    int64_t *new_target)
{
    int64_t most;
    if (target * 2 < limit)
        most = limit;
    else if (source * 2 < limit)
        most = limit - source;
    else
        most = (int64_t)((double)limit * ((double)target / (double)(source + target)));
    *new_target = lt_min_i64(most, target);
    *new_source = lt_min_i64(lt_max_i64(limit - *new_target, 0), source);
}

static int64_t count_tags(const lt_conversation *c, const char *tag)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_turns; i++)
        n += lt_count_tag(c->turns[i].text, tag);
    return n;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static lt_status check_tags(int64_t tags, const char *tag, const char *kind, int64_t n,
                            const char *unread)
{
    if (tags == n)
        return LT_OK;
    return LT_FAIL(LT_ERR_DATA,
                   "its turns hold %lld %s tag%s, but %lld %s%s belong%s to it: each %s needs one "
                   "tag in the text, in their order%s%s",
                   (long long)tags, tag, plural(tags), (long long)n, kind, plural(n),
                   n == 1 ? "s" : "", kind,
                   unread ? "; attr.images is not set, so it doesn't read the column " : "",
                   unread ? unread : "");
}

// What InternVL's templates take: pictures, as many tags as there are or, in segments, more.
static lt_status check_intern(const lt_encoder *e, const lt_conversation *c)
{
    const lt_renderer_opts *o = &e->opts.render;
    int64_t asked = 0; // tags of what the user says: the only ones that segments replace
    if (c->n_videos > 0) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "it has %lld video%s; the template %s takes pictures alone so far",
                       (long long)c->n_videos, plural(c->n_videos), o->chat->name);
    }
    for (int64_t i = 0; i < c->n_turns; i++)
        if (c->turns[i].role == LT_ROLE_USER)
            asked += lt_count_tag(c->turns[i].text, o->image_tag);
    const int64_t tags =
        o->chat->segments ? lt_min_i64(asked, c->n_images) : count_tags(c, o->image_tag);
    return check_tags(tags, o->image_tag, "image", c->n_images, c->unread_images);
}

static lt_status check_counts(const lt_encoder *e, const lt_conversation *c)
{
    const lt_renderer_opts *o = &e->opts.render;
    const int64_t n = c->n_images + c->n_videos;
    if (e->opts.text_alone) {
        if (n == 0)
            return LT_OK;
        return LT_FAIL(LT_ERR_DATA,
                       "the record has %lld image%s, but stage: pretrain reads text alone: without "
                       "attr.images and attr.videos they are passed over",
                       (long long)n, plural(n));
    }
    if (o->chat->media == LT_PLUGIN_NONE) {
        if (n > 0) {
            return LT_FAIL(LT_ERR_DATA,
                           "the record has %lld image%s, but the template %s takes none",
                           (long long)n, plural(n), o->chat->name);
        }
        return LT_OK;
    }
    if (o->chat->no_tools && !lt_span_empty(c->tools[o->chat->tools_form]))
        return LT_FAIL(LT_ERR_DATA, "it has tools, for which the template %s has no place",
                       o->chat->name);
    if (o->chat->pictures != LT_PICTURES_QWEN)
        return check_intern(e, c);
    LT_TRY(check_tags(count_tags(c, o->image_tag), o->image_tag, "image", c->n_images,
                      c->unread_images));
    return check_tags(count_tags(c, o->video_tag), o->video_tag, "video", c->n_videos, NULL);
}

// Where a file of a medium lies; *path is what the record says.
static lt_status find_file(const lt_encoder *e, const char *kind, int64_t i, lt_arena *arena,
                           const char **path)
{
    const char *dir = e->opts.media_dir, *given = *path;
    const bool in = dir && dir[0];
    bool found = false;
    LT_TRY(lt_media_path(dir, given, arena, path, &found));
    if (!found) {
        return LT_FAIL(
            LT_ERR_NOT_FOUND, "%s %lld, %s, is not there%s%s%s: mend its path, or set dataset_dir",
            kind, (long long)i + 1, given, in ? " (nor in " : "", in ? dir : "", in ? ")" : "");
    }
    return LT_OK;
}

static lt_status find_image(const lt_encoder *e, const lt_conversation *c, int64_t i,
                            lt_arena *arena, const char **path)
{
    *path = c->images[i];
    return find_file(e, "image", i, arena, path);
}

static lt_status find_video(const lt_encoder *e, const lt_conversation *c, int64_t i,
                            lt_arena *arena, lt_video_ref *out)
{
    void *memory = NULL;
    *out = c->videos[i];
    if (!out->frames)
        return find_file(e, "video", i, arena, &out->path);
    LT_TRY(lt_arena_take(arena, (size_t)out->n_frames * sizeof(char *), &memory));
    const char **frames = memory;
    for (int64_t k = 0; k < out->n_frames; k++) {
        frames[k] = out->frames[k];
        LT_TRY(find_file(e, "a frame of video", i, arena, &frames[k]));
    }
    out->frames = frames;
    out->path = frames[0];
    return LT_OK;
}

static lt_status check_literals(const lt_encoder *e, const lt_conversation *c)
{
    const char *token = NULL;
    if (e->opts.render.literals == LT_LITERAL_REFUSE)
        token = lt_literal_in(e->renderer, c->system);
    for (int64_t i = 0; i < c->n_turns && !token && e->opts.render.literals == LT_LITERAL_REFUSE;
         i++)
        token = lt_literal_in(e->renderer, c->turns[i].text);
    return token ? lt_refuse_literal(token) : LT_OK;
}

lt_status lt_encode_check(const lt_encoder *e, const lt_conversation *c, lt_record_place place,
                          lt_arena *arena)
{
    lt_status st = check_counts(e, c);
    if (st == LT_OK)
        st = check_literals(e, c);
    for (int64_t i = 0; i < c->n_images && st == LT_OK; i++) {
        const char *path;
        st = find_image(e, c, i, arena, &path);
    }
    for (int64_t i = 0; i < c->n_videos && st == LT_OK; i++) {
        lt_video_ref video;
        st = find_video(e, c, i, arena, &video);
    }
    if (st != LT_OK)
        lt_record_note(place);
    return st;
}

static lt_status check_grid(const encoding *s, const lt_media *m)
{
    const int64_t merge = s->e->opts.render.merge;
    if (m->grid.t < 1 || m->grid.h < merge || m->grid.w < merge ||
        lt_grid_tokens(m->grid, merge) > INT32_MAX / 2) {
        return LT_FAIL(LT_ERR_SHAPE, "%s: a grid of %lld x %lld x %lld patches cannot be", m->path,
                       (long long)m->grid.t, (long long)m->grid.h, (long long)m->grid.w);
    }
    return LT_OK;
}

static lt_status count_images(encoding *s)
{
    const lt_encode_opts *o = &s->e->opts;
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)s->c->n_images * sizeof(lt_media), &memory));
    s->images = memory;
    for (int64_t i = 0; i < s->c->n_images; i++) {
        lt_media *m = &s->images[i];
        if (!o->grid_of)
            return LT_FAIL(LT_ERR_UNSUPPORTED,
                           "the record has images, and nobody here reads images");
        LT_TRY(find_image(s->e, s->c, i, s->arena, &m->path));
        m->kind = LT_MEDIA_IMAGE;
        LT_TRY(o->grid_of(o->grid_ctx, m->path, s->c->n_images, &m->grid));
        LT_TRY(check_grid(s, m));
    }
    return LT_OK;
}

static lt_status count_videos(encoding *s)
{
    const lt_encode_opts *o = &s->e->opts;
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)s->c->n_videos * sizeof(lt_media), &memory));
    s->videos = memory;
    for (int64_t i = 0; i < s->c->n_videos; i++) {
        lt_video_ref video;
        if (!o->clip_of)
            return LT_FAIL(LT_ERR_UNSUPPORTED,
                           "the record has videos, and nobody here reads videos");
        LT_TRY(find_video(s->e, s->c, i, s->arena, &video));
        LT_TRY(o->clip_of(o->grid_ctx, &video, s->arena, &s->videos[i]));
        LT_TRY(check_grid(s, &s->videos[i]));
    }
    return LT_OK;
}

// Question and answer behind what stands in ids; the empty thought belongs to one of them.
static lt_status render_pair(encoding *s, int64_t i, lt_media_cursor *media, pair *p)
{
    const lt_renderer *r = s->e->renderer;
    const lt_template *chat = s->e->opts.render.chat;
    const lt_conversation *c = s->c;
    lt_turn answer = c->turns[i + 1];
    const bool history = s->e->opts.mask_history && i + 2 < c->n_turns;
    lt_empty_thought thought = lt_thought_place(r);
    if (lt_thoughts_go(r, history)) {
        LT_TRY(lt_without_thoughts(r, answer.text, s->arena, &answer.text));
        if (history)
            thought = LT_THOUGHT_OMIT;
    }
    LT_TRY(lt_render_turn(r, &c->turns[i], i / 2, media, &s->ids, &s->places));
    if (thought == LT_THOUGHT_MASK)
        LT_TRY(lt_render_thought(r, answer.text, &s->ids));
    p->target = s->ids.n;
    if (thought == LT_THOUGHT_TRAIN)
        LT_TRY(lt_render_thought(r, answer.text, &s->ids));
    if (answer.role == LT_ROLE_FUNCTION && chat->calls != LT_CALLS_NONE)
        LT_TRY(lt_write_calls(chat, answer.text, s->arena, &answer.text));
    LT_TRY(lt_render_turn(r, &answer, i / 2, media, &s->ids, &s->places));
    p->end = s->ids.n;
    return LT_OK;
}

static lt_status render(encoding *s)
{
    const lt_conversation *c = s->c;
    const lt_template *chat = s->e->opts.render.chat;
    lt_media_cursor media = {
        .images = s->images, .n_images = c->n_images, .videos = s->videos, .n_videos = c->n_videos};
    for (int64_t i = 0; i + 1 < c->n_turns; i += 2) {
        pair p = {.source = s->ids.n};
        if (i == 0) {
            LT_TRY(
                lt_render_system(s->e->renderer, c->system, c->tools[chat->tools_form], &s->ids));
        }
        LT_TRY(render_pair(s, i, &media, &p));
        LT_TRY(lt_vec_push(&s->pairs, &p));
    }
    return LT_OK;
}

// Pretraining: one text that is an answer without a question.
static lt_status render_text(encoding *s)
{
    LT_TRY(lt_render_text(s->e->renderer, s->c->turns[0].text, &s->ids));
    const pair p = {.end = s->ids.n};
    return lt_vec_push(&s->pairs, &p);
}

// Share cutoff_len out over the pairs, from the front, or with mask_history from the back. Returns
// how many tokens stay.
static int64_t share_out(encoding *s)
{
    const lt_encode_opts *o = &s->e->opts;
    int64_t total = 0;
    for (int64_t k = 0; k < s->pairs.n && total < o->cutoff_len; k++) {
        pair *p = &LT_AT(&s->pairs, pair, o->mask_history ? s->pairs.n - 1 - k : k);
        lt_cut_lengths(p->target - p->source, p->end - p->target, o->cutoff_len - total,
                       &p->keep_source, &p->keep_target);
        p->masked = o->mask_history && k > 0;
        total += p->keep_source + p->keep_target;
    }
    return total;
}

static void put_run(const encoding *s, int64_t from, int64_t n, bool train, int32_t *ids,
                    int32_t *labels)
{
    if (n > 0)
        memcpy(ids, (const int32_t *)s->ids.data + from, (size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++)
        labels[i] = train ? ids[i] : LT_IGNORE_LABEL;
}

static lt_status lay_out(encoding *s, lt_sample *out)
{
    const bool train_on_prompt = s->e->opts.train_on_prompt;
    const int64_t n = share_out(s);
    void *ids = NULL, *labels = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(int32_t), &ids));
    LT_TRY(lt_arena_take(s->arena, (size_t)n * sizeof(int32_t), &labels));
    int64_t at = 0;
    for (int64_t k = 0; k < s->pairs.n; k++) {
        const pair *p = &LT_AT(&s->pairs, pair, k);
        put_run(s, p->source, p->keep_source, train_on_prompt, (int32_t *)ids + at,
                (int32_t *)labels + at);
        at += p->keep_source;
        put_run(s, p->target, p->keep_target, !p->masked, (int32_t *)ids + at,
                (int32_t *)labels + at);
        at += p->keep_target;
    }
    LT_ASSERT(at == n);
    if (s->e->opts.mask_first && n > 0)
        *(int32_t *)labels = LT_IGNORE_LABEL;
    *out = (lt_sample){.ids = ids, .labels = labels, .n = n};
    return LT_OK;
}

// How many tokens of [from, from + n) of the rendering stay.
static int64_t kept(const encoding *s, int64_t from, int64_t n)
{
    for (int64_t k = 0; k < s->pairs.n; k++) {
        const pair *p = &LT_AT(&s->pairs, pair, k);
        if (from >= p->end)
            continue;
        const int64_t stop =
            from < p->target ? p->source + p->keep_source : p->target + p->keep_target;
        return lt_min_i64(lt_max_i64(stop - from, 0), n);
    }
    return 0;
}

// What cutoff_len left of a medium's places: from `at` on, those of one medium.
typedef struct remains {
    int64_t n_places, pads, kept_pads, kept_starts;
} remains;

static remains what_remains(const encoding *s, int64_t at)
{
    const lt_media_place *first = &LT_AT(&s->places, lt_media_place, at);
    remains r = {0};
    for (int64_t i = at; i < s->places.n; i++, r.n_places++) {
        const lt_media_place *p = &LT_AT(&s->places, lt_media_place, i);
        if (p->kind != first->kind || p->index != first->index)
            break;
        r.pads += p->n_pads;
        r.kept_pads += kept(s, p->start + 1, p->n_pads);
        r.kept_starts += kept(s, p->start, 1);
    }
    return r;
}

lt_status lt_refuse_cut(const lt_encode_opts *o, const lt_media *m, int64_t index, int64_t pads,
                        int64_t full_len)
{
    const char *lower = m->kind == LT_MEDIA_VIDEO ? "video_maxlen or video_max_pixels"
                        : o->render.chat->pictures == LT_PICTURES_QWEN ? "image_max_pixels"
                                                                       : "max_dynamic_patch";
    return LT_FAIL(LT_ERR_DATA,
                   "cutoff_len %lld cuts through %s %lld (%s, %lld tokens; the record has %lld in "
                   "all): raise cutoff_len, or lower %s",
                   (long long)o->cutoff_len, m->kind == LT_MEDIA_VIDEO ? "video" : "image",
                   (long long)index + 1, m->path, (long long)pads, (long long)full_len, lower);
}

static lt_status place_media(encoding *s, lt_sample *out, lt_cut *cut)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(s->arena, (size_t)s->places.n * sizeof(lt_media), &memory));
    lt_media *media = memory;
    *cut = (lt_cut){.full_len = s->ids.n};
    for (int64_t i = 0; i < s->places.n;) {
        const lt_media_place *p = &LT_AT(&s->places, lt_media_place, i);
        const lt_media *m = p->kind == LT_MEDIA_VIDEO ? &s->videos[p->index] : &s->images[p->index];
        const remains r = what_remains(s, i);
        i += r.n_places;
        if (r.kept_pads > 0)
            media[out->n_media++] = *m;
        if (r.kept_pads == r.pads)
            continue;
        if (r.kept_starts == 0) {
            cut->lost_images++;
            continue;
        }
        cut->cut_images++;
        if (s->e->opts.refuse_cut_images)
            return lt_refuse_cut(&s->e->opts, m, p->index, r.pads, s->ids.n);
    }
    out->media = media;
    out->n_images = s->c->n_images;
    return LT_OK;
}

static lt_status encode(encoding *s, lt_sample *out, lt_cut *cut)
{
    LT_ASSERT(!s->c->dropped);
    LT_TRY(check_counts(s->e, s->c));
    LT_TRY(count_images(s));
    LT_TRY(count_videos(s));
    if (s->e->opts.render.chat->segments && !s->e->opts.text_alone) {
        LT_TRY(check_literals(s->e, s->c));
        return lt_encode_segments(&s->e->opts, lt_encoder_ids(s->e), s->c, s->images, s->arena, out,
                                  cut);
    }
    LT_TRY(s->e->opts.text_alone ? render_text(s) : render(s));
    LT_TRY(lay_out(s, out));
    return place_media(s, out, cut);
}

lt_status lt_encode(const lt_encoder *e, const lt_conversation *c, lt_record_place place,
                    lt_arena *arena, lt_sample *out, lt_cut *cut)
{
    encoding s = {.e = e,
                  .c = c,
                  .arena = arena,
                  .ids = LT_VEC_OF(int32_t),
                  .places = LT_VEC_OF(lt_media_place),
                  .pairs = LT_VEC_OF(pair)};
    lt_sample sample = {0};
    lt_cut lost;
    const lt_status st = encode(&s, &sample, &lost);
    lt_vec_deinit(&s.ids);
    lt_vec_deinit(&s.places);
    lt_vec_deinit(&s.pairs);
    if (st != LT_OK) {
        lt_record_note(place);
        return st;
    }
    sample.file = place.file;
    sample.record = place.record;
    sample.line = place.line;
    *out = sample;
    if (cut)
        *cut = lost;
    return LT_OK;
}
