// SPDX-License-Identifier: Apache-2.0
// What a check found, for people and for scripts, and a record as the model will see it.
#include "train/check.h"

#include <math.h>
#include <string.h>

enum { MAX_BARS = 12, BAR_WIDTH = 40, MAX_PIECE = 16 };

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

// ---------------------------------------------------------------- histogram

typedef struct histogram {
    int64_t step, first, n, most; // bars of `step` tokens, first .. n - 1; the fullest
    int64_t bar[MAX_BARS];
} histogram;

/** 1, 2 or 5 times a power of ten, so that at most MAX_BARS bars are needed. */
static int64_t nice_step(int64_t longest)
{
    static const int64_t steps[] = {1, 2, 5};
    int64_t unit = 1;
    for (;; unit *= 10) {
        for (size_t i = 0; i < 3; i++)
            if (longest / (unit * steps[i]) < MAX_BARS)
                return unit * steps[i];
    }
}

static histogram histogram_of(const lt_check_report *r)
{
    histogram h = {.step = nice_step(r->longest)};
    h.first = r->shortest / h.step;
    h.n = r->longest / h.step + 1;
    for (int64_t i = 0; i < r->n_records; i++)
        if (r->lengths[i] > 0)
            h.bar[r->lengths[i] / h.step]++;
    for (int64_t b = 0; b < h.n; b++)
        h.most = lt_max_i64(h.most, h.bar[b]);
    return h;
}

static lt_status print_histogram(const lt_check_report *r, lt_buf *out)
{
    static const char bar[] = "########################################";
    const histogram h = histogram_of(r);
    for (int64_t b = h.first; b < h.n; b++) {
        const int64_t width =
            (int64_t)ceil((double)h.bar[b] * BAR_WIDTH / (double)lt_max_i64(1, h.most));
        LT_TRY(lt_buf_printf(out, "  %7lld - %-7lld %9lld %.*s\n", (long long)(b * h.step),
                             (long long)((b + 1) * h.step - 1), (long long)h.bar[b], (int)width,
                             bar));
    }
    return LT_OK;
}

// ---------------------------------------------------------------- the report

/** Faults of one kind with one outcome. */
typedef struct fault_kind {
    const lt_check_fault *first;
    int64_t n;
} fault_kind;

static const char *outcome(const lt_check_fault *f)
{
    return f->left_out ? "left out:" : "stops:   ";
}

static lt_status kind_of(lt_vec *kinds, const lt_check_fault *f, fault_kind **out)
{
    for (int64_t i = 0; i < kinds->n; i++) {
        *out = &LT_AT(kinds, fault_kind, i);
        if ((*out)->first->left_out == f->left_out && strcmp((*out)->first->kind, f->kind) == 0)
            return LT_OK;
    }
    const fault_kind one = {.first = f};
    LT_TRY(lt_vec_push(kinds, &one));
    *out = &LT_AT(kinds, fault_kind, kinds->n - 1);
    return LT_OK;
}

static lt_status print_each(const lt_check_report *r, int64_t most, lt_vec *kinds, lt_buf *out)
{
    for (int64_t i = 0; i < r->faults.n; i++) {
        const lt_check_fault *f = &LT_AT(&r->faults, lt_check_fault, i);
        fault_kind *kind = NULL;
        LT_TRY(kind_of(kinds, f, &kind));
        if (kind->n++ < most)
            LT_TRY(lt_buf_printf(out, "%s %s\n", outcome(f), f->message));
    }
    for (int64_t i = 0; i < kinds->n; i++) {
        const fault_kind *kind = &LT_AT(kinds, fault_kind, i);
        const lt_record_place at = kind->first->place;
        if (kind->n <= most)
            continue;
        LT_TRY(lt_buf_printf(out, "%s %lld more like %s:%lld: record %lld; --all names each\n",
                             outcome(kind->first), (long long)(kind->n - most), at.file,
                             (long long)at.line, (long long)at.record));
    }
    return LT_OK;
}

static lt_status print_faults(const lt_check_report *r, int64_t most, lt_buf *out)
{
    lt_vec kinds = LT_VEC_OF(fault_kind);
    const lt_status st = print_each(r, most, &kinds, out);
    lt_vec_deinit(&kinds);
    LT_TRY(st);
    return r->columns ? lt_buf_printf(out, "stops:    %s\n", r->columns) : LT_OK;
}

static lt_status print_sums(const lt_check_report *r, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out,
                         "%lld records in %.1f s: %lld can be used, %lld are left out, %lld would "
                         "stop training\n",
                         (long long)r->n_records, r->seconds, (long long)r->n_usable,
                         (long long)r->n_left_out, (long long)r->n_stopping));
    if (r->n_usable == 0)
        return LT_OK;
    LT_TRY(lt_buf_printf(out, "tokens    %lld, of them %lld with labels (%.1f %%)\n",
                         (long long)r->tokens, (long long)r->labels,
                         percent(r->labels, r->tokens)));
    LT_TRY(lt_buf_printf(out, "images    %lld, with %lld tokens (%.1f %%)\n", (long long)r->images,
                         (long long)r->visual_tokens, percent(r->visual_tokens, r->tokens)));
    LT_TRY(lt_buf_printf(out, "cut       %lld records are longer than cutoff_len (%.1f %%)",
                         (long long)r->cut, percent(r->cut, r->n_usable)));
    if (r->lost_images > 0)
        LT_TRY(lt_buf_printf(out, ", which loses %lld images", (long long)r->lost_images));
    if (r->no_labels > 0)
        LT_TRY(lt_buf_printf(out, "\nempty     %lld records have no label left: they teach nothing",
                             (long long)r->no_labels));
    if (r->row_len > 0) {
        LT_TRY(lt_buf_printf(out, "\npacked    %lld rows of at most %lld tokens, %.1f %% full",
                             (long long)r->n_rows, (long long)r->row_len,
                             percent(r->tokens, r->n_rows * r->row_len)));
    }
    if (r->large_boxes > 0) {
        LT_TRY(
            lt_buf_printf(out,
                          "\nboxes     %lld records have values above 1000: Qwen2-VL, Qwen3-VL and "
                          "later take boxes as thousandths of the picture, Qwen2.5-VL as pixels",
                          (long long)r->large_boxes));
    }
    LT_TRY(lt_buf_printf(out, "\nlengths   %lld to %lld tokens, half of them up to %lld\n",
                         (long long)r->shortest, (long long)r->longest, (long long)r->middle));
    return print_histogram(r, out);
}

lt_status lt_check_print(const lt_check_report *r, int64_t most, lt_buf *out)
{
    LT_TRY(print_faults(r, most, out));
    return print_sums(r, out);
}

static lt_status add_faults(const lt_check_report *r, json_t *root)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < r->faults.n; i++) {
        const lt_check_fault *f = &LT_AT(&r->faults, lt_check_fault, i);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:b, s:s}", "file", f->place.file,
                                              "record", (json_int_t)f->place.record, "line",
                                              (json_int_t)f->place.line, "left_out", f->left_out,
                                              "message", f->message));
    }
    if (r->columns)
        json_array_append_new(list, json_pack("{s:b, s:s}", "left_out", 0, "message", r->columns));
    return json_object_set_new(root, "faults", list) == 0
               ? LT_OK
               : LT_FAIL(LT_ERR_MEMORY, "out of memory: a report");
}

static lt_status add_histogram(const lt_check_report *r, json_t *root)
{
    const histogram h = histogram_of(r);
    json_t *list = json_array();
    for (int64_t b = h.first; b < h.n && r->n_usable > 0; b++) {
        const json_int_t from = b * h.step, to = from + h.step - 1, n = h.bar[b];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I}", "from", from, "to", to, "records", n));
    }
    return json_object_set_new(root, "lengths", list) == 0
               ? LT_OK
               : LT_FAIL(LT_ERR_MEMORY, "out of memory: a report");
}

static int append(const char *text, size_t len, void *out)
{
    return lt_buf_append(out, text, len) == LT_OK ? 0 : -1;
}

lt_status lt_check_json(const lt_check_report *r, const char *name, lt_buf *out)
{
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"records", r->n_records},
        {"usable", r->n_usable},
        {"left_out", r->n_left_out},
        {"stopping", r->n_stopping},
        {"tokens", r->tokens},
        {"labels", r->labels},
        {"images", r->images},
        {"image_tokens", r->visual_tokens},
        {"cut", r->cut},
        {"lost_images", r->lost_images},
        {"without_labels", r->no_labels},
        {"large_boxes", r->large_boxes},
        {"packed_rows", r->n_rows},
        {"shortest", r->shortest},
        {"longest", r->longest},
        {"median", r->middle},
    };
    json_t *root = json_object();
    json_object_set_new(root, "set", json_string(name));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_object_set_new(root, numbers[i].key, json_integer(numbers[i].value));
    json_object_set_new(root, "seconds", json_real(r->seconds));
    lt_status st = add_histogram(r, root);
    if (st == LT_OK)
        st = add_faults(r, root);
    if (st == LT_OK && json_dump_callback(root, append, out, JSON_COMPACT) != 0)
        st = LT_FAIL(LT_ERR_MEMORY, "out of memory: a report");
    if (st == LT_OK)
        st = lt_buf_text(out, "\n");
    json_decref(root);
    return st;
}

// ---------------------------------------------------------------- one record

typedef struct pen {
    const lt_tokenizer *tokenizer;
    lt_buf *out;
    bool colour, trained; // trained: what has been written last
} pen;

static lt_status set_trained(pen *p, bool trained)
{
    if (trained == p->trained)
        return LT_OK;
    p->trained = trained;
    if (p->colour)
        return lt_buf_text(p->out, trained ? "\033[32m" : "\033[0m");
    return lt_buf_text(p->out, trained ? "[" : "]");
}

/** Control characters by their names, so that each token can be seen. */
static lt_status put_visible(pen *p, const lt_buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        const unsigned char c = (unsigned char)text->data[i];
        if (c == '\n')
            LT_TRY(lt_buf_text(p->out, "\\n\n"));
        else if (c == '\t')
            LT_TRY(lt_buf_text(p->out, "\\t"));
        else if (c < ' ' || c == 0x7f)
            LT_TRY(lt_buf_printf(p->out, "\\x%02x", c));
        else
            LT_TRY(lt_buf_append(p->out, &text->data[i], 1));
    }
    return LT_OK;
}

/** How many tokens belong to the next piece: parts of one character stay together. */
static lt_status take_piece(const pen *p, const lt_sample *s, int64_t at, lt_buf *text, int64_t *n)
{
    static const char broken[] = "\xef\xbf\xbd";
    for (*n = 1; *n < MAX_PIECE; ++*n) {
        lt_buf_clear(text);
        LT_TRY(lt_tokenizer_decode(p->tokenizer, s->ids + at, *n, 0, text));
        if (text->len < 3 || memcmp(text->data + text->len - 3, broken, 3) != 0 ||
            at + *n >= s->n || (s->labels[at + *n] > -1) != (s->labels[at] > -1))
            return LT_OK;
    }
    lt_buf_clear(text);
    *n = 1;
    return lt_tokenizer_decode(p->tokenizer, s->ids + at, 1, 0, text);
}

static lt_status put_tokens(pen *p, const lt_sample *s)
{
    lt_buf text = {0};
    lt_status st = LT_OK;
    for (int64_t at = 0, n = 1; at < s->n && st == LT_OK; at += n) {
        int64_t same = 1;
        while (at + same < s->n && s->ids[at + same] == s->ids[at] &&
               (s->labels[at + same] > -1) == (s->labels[at] > -1))
            same++;
        st = set_trained(p, s->labels[at] > -1);
        if (st == LT_OK)
            st = take_piece(p, s, at, &text, &n);
        if (st == LT_OK)
            st = put_visible(p, &text);
        if (st == LT_OK && same > 3 && n == 1) {
            st = lt_buf_printf(p->out, " x %lld", (long long)same);
            n = same;
        }
        if (st == LT_OK && at + n < s->n)
            st = lt_buf_text(p->out, "|");
    }
    lt_buf_deinit(&text);
    LT_TRY(st);
    LT_TRY(set_trained(p, false));
    return lt_buf_text(p->out, "\n");
}

static lt_status put_video(const lt_collate_opts *c, const lt_media *m, int64_t number, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out,
                         "  video %lld: %s, %lld frames; budget %lld x %lld; model %lld x %lld; "
                         "grid %lld x %lld x %lld, %lld tokens; seconds",
                         (long long)number, m->path, (long long)m->clip->n, (long long)m->clip->w,
                         (long long)m->clip->h, (long long)(m->grid.w * c->processor.patch),
                         (long long)(m->grid.h * c->processor.patch), (long long)m->grid.t,
                         (long long)m->grid.h, (long long)m->grid.w,
                         (long long)lt_grid_tokens(m->grid, c->processor.merge)));
    for (int64_t t = 0; t < m->grid.t; t++)
        LT_TRY(lt_buf_printf(out, " %.1f", m->clip->stamps[t]));
    return lt_buf_text(out, "\n");
}

static lt_status put_tiles(const lt_collate_opts *c, const lt_media *m, const lt_image_info *info,
                           int64_t number, lt_buf *out)
{
    return lt_buf_printf(
        out, "  image %lld: %s, %s, %lld x %lld pixels; %lld tile%s of %lld x %lld, %lld tokens\n",
        (long long)number, m->path, lt_image_format_name(info->format), (long long)info->w,
        (long long)info->h, (long long)m->grid.t, m->grid.t == 1 ? "" : "s",
        (long long)c->tiling.tile, (long long)c->tiling.tile,
        (long long)lt_grid_tokens(m->grid, c->processor.merge));
}

static lt_status put_images(const lt_source *source, const lt_sample *s, lt_buf *out)
{
    const lt_collate_opts *c = lt_source_collate(source);
    for (int64_t i = 0; i < s->n_media; i++) {
        const lt_media *m = &s->media[i];
        if (m->kind == LT_MEDIA_VIDEO) {
            LT_TRY(put_video(c, m, i + 1, out));
            continue;
        }
        lt_image_info info;
        int64_t h = 0, w = 0;
        LT_TRY(lt_image_probe(m->path, &info));
        if (c->tiles) {
            LT_TRY(put_tiles(c, m, &info, i + 1, out));
            continue;
        }
        LT_TRY(lt_image_budget_size(&c->budget, info.h, info.w, &h, &w));
        LT_TRY(lt_buf_printf(
            out,
            "  image %lld: %s, %s, %lld x %lld pixels; budget %lld x %lld; model %lld x %lld; grid "
            "%lld x %lld x %lld, %lld tokens\n",
            (long long)i + 1, m->path, lt_image_format_name(info.format), (long long)info.w,
            (long long)info.h, (long long)w, (long long)h,
            (long long)(m->grid.w * c->processor.patch),
            (long long)(m->grid.h * c->processor.patch), (long long)m->grid.t, (long long)m->grid.h,
            (long long)m->grid.w, (long long)lt_grid_tokens(m->grid, c->processor.merge)));
    }
    return LT_OK;
}

static lt_status show(lt_source *source, int64_t index, bool colour, lt_arena *arena, lt_buf *out)
{
    lt_dataset *d = lt_source_dataset(source);
    lt_sample s;
    LT_TRY(lt_dataset_encode(d, index, arena, &s));
    const lt_record_place at = lt_dataset_place(d, index);
    int64_t labels = 0;
    for (int64_t i = 1; i < s.n; i++)
        labels += s.labels[i] > -1;
    LT_TRY(lt_buf_printf(out, "%s:%lld: record %lld: %lld tokens, %lld with labels, %lld images\n",
                         at.file, (long long)at.line, (long long)at.record, (long long)s.n,
                         (long long)labels, (long long)s.n_media));
    LT_TRY(put_images(source, &s, out));
    pen p = {.tokenizer = lt_source_tokenizer(source), .out = out, .colour = colour};
    return put_tokens(&p, &s);
}

lt_status lt_check_show(lt_source *source, int64_t index, bool colour, lt_buf *out)
{
    const int64_t n = lt_dataset_samples(lt_source_dataset(source));
    if (index < 0 || index >= n)
        return LT_FAIL(LT_ERR_CONFIG, "there is no record %lld: the data set has %lld",
                       (long long)index + 1, (long long)n);
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "a record"));
    const lt_status st = show(source, index, colour, arena, out);
    lt_arena_destroy(arena);
    return st;
}
