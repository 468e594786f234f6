// SPDX-License-Identifier: Apache-2.0
// Segments of a conversation, images spread out, labels on answers.
#include "data/template/intern.h"
#include <string.h>

const char lt_intern_system[] =
    "\u4f60\u662f\u4e66\u751f\u00b7\u4e07\u8c61\uff0c\u82f1\u6587\u540d\u662fInternVL\uff0c"
    "\u662f\u7531\u4e0a\u6d77\u4eba\u5de5\u667a\u80fd\u5b9e\u9a8c\u5ba4\u3001\u6e05\u534e"
    "\u5927\u5b66\u53ca\u591a\u5bb6\u5408\u4f5c\u5355\u4f4d\u8054\u5408\u5f00\u53d1\u7684"
    "\u591a\u6a21\u6001\u5927\u8bed\u8a00\u6a21\u578b\u3002";

typedef struct writer {
    const lt_intern_opts *o;
    const int64_t *n_tokens;
    int64_t n_images, next_image;
    const char *tag;
    lt_vec *ids;
    lt_buf text; // of the segment, not tokenised yet
} writer;

static lt_status put_text(writer *w)
{
    LT_TRY(lt_tokenizer_encode(w->o->tokenizer, w->text.len > 0 ? w->text.data : "", w->text.len, 0,
                               w->ids));
    lt_buf_clear(&w->text);
    return LT_OK;
}

static lt_status put_image(writer *w)
{
    const int64_t n = w->n_tokens[w->next_image++];
    LT_TRY(put_text(w));
    LT_TRY(lt_vec_push(w->ids, &w->o->image_start));
    for (int64_t i = 0; i < n; i++)
        LT_TRY(lt_vec_push(w->ids, &w->o->image_context));
    return lt_vec_push(w->ids, &w->o->image_end);
}

/** What is said; with images while there are some left. */
static lt_status put_said(writer *w, lt_span text, bool images)
{
    while (images && w->next_image < w->n_images && text.len > 0) {
        const char *at = memmem(text.s, text.len, w->tag, strlen(w->tag));
        if (!at)
            break;
        LT_TRY(lt_buf_append(&w->text, text.s, (size_t)(at - text.s)));
        LT_TRY(put_image(w));
        text.len -= (size_t)(at - text.s) + strlen(w->tag);
        text.s = at + strlen(w->tag);
    }
    return lt_buf_append(&w->text, text.s, text.len);
}

static lt_status put_segment(writer *w, const char *name, lt_span text, bool images)
{
    LT_TRY(lt_buf_printf(&w->text, "<|im_start|>%s\n", name));
    LT_TRY(put_said(w, text, images));
    LT_TRY(lt_buf_text(&w->text, "<|im_end|>\n"));
    return put_text(w);
}

/** How many ids an answer's head has: 3 with a vocabulary that has the word, as the real one. */
static lt_status count_head(const lt_intern_opts *o, int64_t *n)
{
    static const char head[] = "<|im_start|>assistant\n";
    lt_vec ids = LT_VEC_OF(int32_t);
    const lt_status st = lt_tokenizer_encode(o->tokenizer, head, strlen(head), 0, &ids);
    *n = ids.n;
    lt_vec_deinit(&ids);
    return st;
}

/** Labels of ids [from, n): none, or those of an answer behind its head. */
static lt_status put_labels(const lt_vec *ids, int64_t from, int64_t head, bool answer,
                            lt_vec *labels)
{
    for (int64_t i = from; i < ids->n; i++) {
        const bool trained = answer && i >= from + head && i + 1 < ids->n;
        const int32_t label = trained ? LT_AT(ids, int32_t, i) : LT_IGNORE_LABEL;
        LT_TRY(lt_vec_push(labels, &label));
    }
    return LT_OK;
}

static lt_status put_all(writer *w, const lt_intern_turn *turns, int64_t n, lt_vec *labels)
{
    static const char *const names[] = {"system", "user", "assistant"};
    const bool own = n > 0 && turns[0].role == LT_INTERN_SYSTEM;
    const lt_span standard = {lt_intern_system, strlen(lt_intern_system)};
    int64_t from = w->ids->n, head = 0;
    LT_TRY(count_head(w->o, &head));
    LT_TRY(put_segment(w, names[0], own ? turns[0].text : standard, false));
    LT_TRY(put_labels(w->ids, from, head, false, labels));
    for (int64_t i = own; i < n; i++) {
        if (turns[i].role == LT_INTERN_SYSTEM)
            return LT_FAIL(LT_ERR_DATA, "entry %lld is a system text, which only the first may be",
                           (long long)i + 1);
        from = w->ids->n;
        LT_TRY(
            put_segment(w, names[turns[i].role], turns[i].text, turns[i].role == LT_INTERN_HUMAN));
        LT_TRY(put_labels(w->ids, from, head, turns[i].role == LT_INTERN_GPT, labels));
    }
    if (w->next_image < w->n_images) {
        return LT_FAIL(LT_ERR_DATA, "there are %lld %s tags for %lld images",
                       (long long)w->next_image, w->tag, (long long)w->n_images);
    }
    return LT_OK;
}

/** The end is cut off. Of several images none may lose its end token. */
static lt_status cut(const writer *w, int64_t from, lt_vec *labels)
{
    const int64_t most = from + w->o->max_length;
    int64_t ends = 0;
    if (w->ids->n <= most)
        return LT_OK;
    for (int64_t i = from; i < most; i++)
        ends += LT_AT(w->ids, int32_t, i) == w->o->image_end;
    if (w->n_images > 1 && ends < w->n_images) {
        return LT_FAIL(LT_ERR_DATA, "cutoff_len %lld cuts through image %lld of %lld",
                       (long long)w->o->max_length, (long long)ends + 1, (long long)w->n_images);
    }
    labels->n -= w->ids->n - most;
    w->ids->n = most;
    return LT_OK;
}

lt_status lt_intern_encode(const lt_intern_opts *opts, const lt_intern_turn *turns, int64_t n_turns,
                           const int64_t *n_tokens, int64_t n_images, lt_vec *ids, lt_vec *labels,
                           int64_t *full_len)
{
    LT_ASSERT(opts->max_length > 0);
    const int64_t from = ids->n;
    writer w = {.o = opts,
                .n_tokens = n_tokens,
                .n_images = n_images,
                .tag = opts->tag ? opts->tag : "<image>",
                .ids = ids};
    lt_status st = put_all(&w, turns, n_turns, labels);
    if (st == LT_OK && full_len)
        *full_len = ids->n - from;
    if (st == LT_OK)
        st = cut(&w, from, labels);
    lt_buf_deinit(&w.text);
    return st;
}
