// SPDX-License-Identifier: Apache-2.0
// Opening a data set: one pass over all records by the pool, then the list of rows that stay.
#include "data/dataset/dataset.h"
#include "data/dataset/convert_parts.h"
#include <stdatomic.h>
#include <string.h>

enum { SHARE = 64, MAX_WARNINGS = 5 };

struct lt_dataset {
    lt_dataset_opts opts;
    lt_records *records;
    lt_encoder *encoder;
    lt_vec rows; // int64_t: records that stay
    int64_t n_dropped;
    _Atomic int64_t encoded, tokens, cut, cut_images, lost_images;
};

typedef struct pass {
    lt_dataset *d;
    uint8_t *dropped; // [records]
    _Atomic unsigned seen;
} pass;

lt_dataset_opts lt_dataset_opts_default(void)
{
    return (lt_dataset_opts){.attr = lt_attr_default(), .encode = lt_encode_opts_default()};
}

static lt_status convert(const lt_dataset *d, int64_t record, lt_arena *arena, lt_conversation *out)
{
    json_t *json;
    LT_TRY(lt_records_parse(d->records, record, &json));
    const lt_status st = lt_convert_record(&d->opts.attr, json, arena, out);
    json_decref(json);
    if (st != LT_OK)
        lt_record_note(lt_records_place(d->records, record));
    return st;
}

static lt_status check_record(pass *p, int64_t i, lt_arena *arena)
{
    lt_conversation c;
    LT_TRY(convert(p->d, i, arena, &c));
    atomic_fetch_or(&p->seen, c.seen);
    p->dropped[i] = c.dropped != NULL;
    if (c.dropped)
        return LT_OK;
    return lt_encode_check(p->d->encoder, &c, lt_records_place(p->d->records, i), arena);
}

static lt_status check_share(void *ctx, int64_t share, int thread)
{
    pass *p = ctx;
    (void)thread;
    const int64_t n = lt_records_count(p->d->records), first = share * SHARE;
    lt_arena *arena;
    LT_TRY(lt_arena_create(&arena, "a record"));
    lt_status st = LT_OK;
    for (int64_t i = first; i < n && i < first + SHARE && st == LT_OK; i++) {
        st = check_record(p, i, arena);
        lt_arena_reset(arena);
    }
    lt_arena_destroy(arena);
    return st;
}

// A column that attr names has to be in some record, as in a table.
static lt_status check_columns(const lt_dataset *d, unsigned seen)
{
    const lt_attr *a = &d->opts.attr;
    const bool alpaca = strcmp(a->formatting, "alpaca") == 0;
    const struct {
        const char *key, *column;
        unsigned bit;
        bool wanted;
    } columns[] = {
        {"messages", a->messages, LT_SEEN_MESSAGES, !alpaca},
        {"content_tag", a->content_tag, LT_SEEN_CONTENT, !alpaca},
        {"prompt", a->prompt, LT_SEEN_PROMPT, alpaca},
        {"query", a->query, LT_SEEN_QUERY, alpaca},
        {"response", a->response, LT_SEEN_RESPONSE, alpaca},
        {"history", a->history, LT_SEEN_HISTORY, alpaca},
        {"images", a->images, LT_SEEN_IMAGES, true},
        {"videos", a->videos, LT_SEEN_VIDEOS, true},
        {"system", a->system, LT_SEEN_SYSTEM, true},
    };
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (!columns[i].wanted || !columns[i].column || (seen & columns[i].bit))
            continue;
        json_t *first;
        LT_TRY(lt_records_parse(d->records, 0, &first));
        const lt_keys_text keys = lt_json_keys(first);
        json_decref(first);
        return LT_FAIL(LT_ERR_CONFIG,
                       "attr.%s names \"%s\", which no record of the data set has (the first "
                       "record of %s has: %s)",
                       columns[i].key, columns[i].column, lt_records_place(d->records, 0).file,
                       keys.s);
    }
    return LT_OK;
}

static lt_status warn_dropped(const lt_dataset *d, int64_t record, const lt_log *log,
                              lt_arena *arena)
{
    lt_conversation c;
    const lt_record_place at = lt_records_place(d->records, record);
    LT_TRY(convert(d, record, arena, &c));
    LT_WARN(log, "data", "%s:%lld: record %lld is left out: %s", at.file, (long long)at.line,
            (long long)at.record, c.dropped ? c.dropped : "");
    return LT_OK;
}

static lt_status list_rows(lt_dataset *d, const uint8_t *dropped, const lt_log *log)
{
    lt_arena *arena;
    lt_status st = LT_OK;
    const int64_t n = lt_records_count(d->records);
    LT_TRY(lt_arena_create(&arena, "a record"));
    for (int64_t i = 0; i < n && st == LT_OK; i++) {
        if (!dropped[i])
            st = lt_vec_push(&d->rows, &i);
        else if (d->n_dropped++ < MAX_WARNINGS)
            st = warn_dropped(d, i, log, arena);
    }
    lt_arena_destroy(arena);
    LT_TRY(st);
    if (d->n_dropped > 0)
        LT_WARN(log, "data", "%lld of %lld records are left out", (long long)d->n_dropped,
                (long long)n);
    if (d->rows.n == 0) {
        return LT_FAIL(LT_ERR_DATA,
                       "%s: none of the %lld records can be used: their roles don't alternate, or "
                       "they have no answer",
                       lt_records_place(d->records, 0).file, (long long)n);
    }
    return LT_OK;
}

static lt_status check_all(lt_dataset *d, lt_pool *pool, const lt_log *log)
{
    const int64_t n = lt_records_count(d->records);
    void *dropped = NULL;
    if (n == 0)
        return LT_FAIL(LT_ERR_DATA, "the data set has no records");
    LT_TRY(lt_mem_alloc(&dropped, (size_t)n, "the list of dropped records"));
    pass p = {.d = d, .dropped = dropped};
    lt_status st = lt_pool_run(pool, lt_ceil_div(n, SHARE), check_share, &p);
    if (st == LT_OK)
        st = check_columns(d, atomic_load(&p.seen));
    if (st == LT_OK)
        st = list_rows(d, dropped, log);
    lt_mem_free(dropped);
    return st;
}

static lt_status fill(lt_dataset *d, lt_pool *pool, const lt_log *log)
{
    lt_dataset_opts *o = &d->opts;
    LT_TRY(lt_attr_check(&o->attr));
    LT_TRY(lt_encoder_create(&o->encode, &d->encoder));
    LT_TRY(lt_records_open(o->files, o->n_files, o->max_samples, &d->records));
    o->files = NULL; // not kept
    if (o->max_samples > lt_records_total(d->records))
        LT_NOTE(log, "data", "max_samples is %lld, and there are only %lld records",
                (long long)o->max_samples, (long long)lt_records_total(d->records));
    return check_all(d, pool, log);
}

lt_status lt_dataset_open(const lt_dataset_opts *opts, lt_pool *pool, const lt_log *log,
                          lt_dataset **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_dataset), "the data set"));
    lt_dataset *d = memory;
    d->opts = *opts;
    d->rows = LT_VEC_OF(int64_t);
    const lt_status st = fill(d, pool, log);
    if (st != LT_OK) {
        lt_dataset_close(d);
        return st;
    }
    *out = d;
    return LT_OK;
}

void lt_dataset_close(lt_dataset *d)
{
    if (!d)
        return;
    lt_encoder_destroy(d->encoder);
    lt_records_close(d->records);
    lt_vec_deinit(&d->rows);
    lt_mem_free(d);
}

int64_t lt_dataset_rows(const lt_dataset *d)
{
    return d->rows.n;
}

int64_t lt_dataset_dropped(const lt_dataset *d)
{
    return d->n_dropped;
}

static int64_t record_of(const lt_dataset *d, int64_t row)
{
    LT_ASSERT(row >= 0 && row < d->rows.n);
    return LT_AT(&d->rows, int64_t, row);
}

lt_record_place lt_dataset_place(const lt_dataset *d, int64_t row)
{
    return lt_records_place(d->records, record_of(d, row));
}

const lt_encoder *lt_dataset_encoder(const lt_dataset *d)
{
    return d->encoder;
}

lt_status lt_dataset_conversation(const lt_dataset *d, int64_t row, lt_arena *arena,
                                  lt_conversation *out)
{
    return convert(d, record_of(d, row), arena, out);
}

lt_status lt_dataset_encode(void *dataset, int64_t row, lt_arena *arena, lt_sample *out)
{
    lt_dataset *d = dataset;
    lt_conversation c;
    lt_cut cut;
    LT_TRY(lt_dataset_conversation(d, row, arena, &c));
    LT_TRY(lt_encode(d->encoder, &c, lt_dataset_place(d, row), arena, out, &cut));
    atomic_fetch_add(&d->encoded, 1);
    atomic_fetch_add(&d->tokens, out->n);
    atomic_fetch_add(&d->cut, cut.full_len > out->n);
    atomic_fetch_add(&d->cut_images, cut.cut_images);
    atomic_fetch_add(&d->lost_images, cut.lost_images);
    return LT_OK;
}

lt_dataset_counts lt_dataset_counted(const lt_dataset *d)
{
    return (lt_dataset_counts){.encoded = atomic_load(&d->encoded),
                               .tokens = atomic_load(&d->tokens),
                               .cut = atomic_load(&d->cut),
                               .cut_images = atomic_load(&d->cut_images),
                               .lost_images = atomic_load(&d->lost_images)};
}
