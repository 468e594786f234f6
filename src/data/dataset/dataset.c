// SPDX-License-Identifier: Apache-2.0
// Opening a data set: one pass over all records by the pool, then the list of samples that stay,
// and with packing the rows that they are put into.
#include "data/dataset/dataset.h"
#include "data/dataset/convert_parts.h"
#include "data/pack.h"
#include <stdatomic.h>
#include <string.h>

enum { SHARE = 64, FORGET_SHARES = 64, MAX_WARNINGS = 5 };

struct lt_dataset {
    lt_dataset_opts opts;
    lt_records *records;
    lt_encoder *encoder;
    lt_vec kept; // int64_t: records that stay
    // Packing: row r is samples packed[first[r]] .. packed[first[r + 1] - 1].
    lt_vec first, packed; // int64_t
    // Packing for pretraining: row r begins skip[r] tokens inside sample packed[first[r]].
    lt_vec skip;     // int64_t
    int64_t row_len; // with packing
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
    return (lt_dataset_opts){.pack_batch = 1000,
                             .pack_shares = 1,
                             .attr = lt_attr_default(),
                             .encode = lt_encode_opts_default()};
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

bool lt_is_bad_record(lt_status st)
{
    return st == LT_ERR_DATA || st == LT_ERR_FORMAT || st == LT_ERR_NOT_FOUND ||
           st == LT_ERR_SHAPE || st == LT_ERR_UNSUPPORTED;
}

// *dropped: the record is of no use, as on_bad says; the thread's message then says why.
static lt_status check_record(const lt_dataset *d, int64_t i, lt_arena *arena, unsigned *seen,
                              bool *dropped)
{
    const lt_bad_records on_bad = d->opts.on_bad;
    const lt_record_place at = lt_records_place(d->records, i);
    lt_conversation c = {0};
    lt_status st = convert(d, i, arena, &c);
    *seen = c.seen;
    *dropped = false;
    if (st == LT_OK && c.dropped) {
        st = LT_FAIL(LT_ERR_DATA, "%s", c.dropped);
        lt_record_note(at);
        *dropped = on_bad != LT_BAD_STOP;
    } else if (st == LT_OK) {
        st = lt_encode_check(d->encoder, &c, at, arena);
    }
    *dropped |= on_bad == LT_BAD_SKIP && lt_is_bad_record(st);
    return *dropped ? LT_OK : st;
}

// Now and then what has been read is given back: a pass over a large file needs little memory.
static void forget(const lt_dataset *d, int64_t share)
{
    const int64_t n = lt_records_count(d->records);
    if (share % FORGET_SHARES == FORGET_SHARES - 1)
        lt_records_forget(d->records, (share + 1 - FORGET_SHARES) * SHARE,
                          lt_min_i64(n, (share + 1) * SHARE));
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
        unsigned seen = 0;
        bool dropped = false;
        st = check_record(p->d, i, arena, &seen, &dropped);
        atomic_fetch_or(&p->seen, seen);
        p->dropped[i] = dropped;
        if (dropped)
            lt_error_clear();
        lt_arena_reset(arena);
    }
    lt_arena_destroy(arena);
    forget(p->d, share);
    return st;
}

// A column that attr names has to be in some record, as in a table.
lt_status lt_dataset_check_columns(const lt_dataset *d, unsigned seen)
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

// The message of a dropped record is made again: few are shown.
static lt_status warn_dropped(const lt_dataset *d, int64_t record, const lt_log *log,
                              lt_arena *arena)
{
    unsigned seen;
    bool dropped;
    LT_TRY(check_record(d, record, arena, &seen, &dropped));
    LT_WARN(log, "data", "left out: %s", lt_error_message());
    lt_error_clear();
    return LT_OK;
}

static lt_status list_kept(lt_dataset *d, const uint8_t *dropped, const lt_log *log)
{
    lt_arena *arena;
    lt_status st = LT_OK;
    const int64_t n = lt_records_count(d->records);
    LT_TRY(lt_arena_create(&arena, "a record"));
    for (int64_t i = 0; i < n && st == LT_OK; i++) {
        if (!dropped[i])
            st = lt_vec_push(&d->kept, &i);
        else if (d->n_dropped++ < MAX_WARNINGS)
            st = warn_dropped(d, i, log, arena);
    }
    lt_arena_destroy(arena);
    return st;
}

static lt_status check_left(const lt_dataset *d, const lt_log *log)
{
    const int64_t n = lt_records_count(d->records);
    if (d->n_dropped > 0)
        LT_WARN(log, "data", "%lld of %lld records are left out; `lathe check` names each",
                (long long)d->n_dropped, (long long)n);
    if (d->kept.n == 0) {
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
    LT_TRY(lt_mem_alloc(&dropped, (size_t)n, "the list of dropped records"));
    pass p = {.d = d, .dropped = dropped};
    const bool look = d->opts.on_bad != LT_BAD_KEEP;
    lt_status st = look ? lt_pool_run(pool, lt_ceil_div(n, SHARE), check_share, &p) : LT_OK;
    if (st == LT_OK && look)
        st = lt_dataset_check_columns(d, atomic_load(&p.seen));
    if (st == LT_OK)
        st = list_kept(d, dropped, log);
    lt_mem_free(dropped);
    return st;
}

// ---------------------------------------------------------------- packing

static lt_status encode_sample(const lt_dataset *d, int64_t sample, lt_arena *arena, lt_sample *out,
                               lt_cut *cut)
{
    lt_conversation c;
    LT_TRY(lt_dataset_conversation(d, sample, arena, &c));
    if (c.dropped) { // LT_BAD_KEEP alone hands these out
        const lt_status st = LT_FAIL(LT_ERR_DATA, "%s", c.dropped);
        lt_record_note(lt_dataset_place(d, sample));
        return st;
    }
    return lt_encode(d->encoder, &c, lt_dataset_place(d, sample), arena, out, cut);
}

typedef struct measuring {
    const lt_dataset *d;
    int64_t *length; // [samples]; 0: of no use
} measuring;

static lt_status measure_share(void *ctx, int64_t share, int thread)
{
    const measuring *m = ctx;
    (void)thread;
    const int64_t first = share * SHARE;
    lt_arena *arena;
    LT_TRY(lt_arena_create(&arena, "a record"));
    lt_status st = LT_OK;
    for (int64_t i = first; i < m->d->kept.n && i < first + SHARE && st == LT_OK; i++) {
        lt_sample s = {0};
        lt_cut cut;
        st = encode_sample(m->d, i, arena, &s, &cut);
        if (m->d->opts.on_bad == LT_BAD_SKIP && lt_is_bad_record(st)) {
            lt_error_clear();
            st = LT_OK;
        }
        m->length[i] = s.n;
        lt_arena_reset(arena);
    }
    lt_arena_destroy(arena);
    return st;
}

// Samples kept[from .. to) of one group.
static lt_status pack_group(lt_dataset *d, const int64_t *length, int64_t from, int64_t to,
                            lt_arena *arena)
{
    void *memory = NULL;
    const size_t bytes = (size_t)(to - from) * sizeof(int64_t);
    LT_TRY(lt_arena_take(arena, bytes, &memory));
    int64_t *of = memory, n = 0;
    LT_TRY(lt_arena_take(arena, bytes, &memory));
    int64_t *lengths = memory;
    for (int64_t i = from; i < to; i++) {
        if (length[i] == 0)
            continue;
        of[n] = i;
        lengths[n++] = length[i];
    }
    lt_bins bins;
    LT_TRY(lt_pack_bins(lengths, n, d->opts.encode.cutoff_len, arena, &bins));
    for (int64_t b = 0; b < bins.n; b++) {
        for (int64_t k = bins.first[b]; k < bins.first[b + 1]; k++)
            LT_TRY(lt_vec_push(&d->packed, &of[bins.items[k]]));
        LT_TRY(lt_vec_push(&d->first, &d->packed.n));
    }
    return LT_OK;
}

// Samples packed[from ..] of one group end to end, cut into rows; what fills no row is left over.
static lt_status cut_group(lt_dataset *d, const int64_t *length, int64_t from)
{
    int64_t total = 0, skip = 0;
    for (int64_t i = from; i < d->packed.n; i++)
        total += length[LT_AT(&d->packed, int64_t, i)];
    for (int64_t rows = total / d->row_len; rows > 0; rows--) {
        LT_TRY(lt_vec_push(&d->first, &from));
        LT_TRY(lt_vec_push(&d->skip, &skip));
        for (skip += d->row_len; from < d->packed.n; from++) {
            const int64_t n = length[LT_AT(&d->packed, int64_t, from)];
            if (skip < n)
                break;
            skip -= n;
        }
    }
    return LT_OK;
}

static lt_status join_group(lt_dataset *d, const int64_t *length, int64_t from, int64_t to)
{
    const int64_t begin = d->packed.n;
    for (int64_t i = from; i < to; i++)
        if (length[i] > 0)
            LT_TRY(lt_vec_push(&d->packed, &i));
    return cut_group(d, length, begin);
}

// Groups are of records, dropped ones counted, as the reference maps them.
static lt_status pack_rows(lt_dataset *d, const int64_t *length, lt_arena *arena)
{
    const int64_t n = lt_records_count(d->records), shares = d->opts.pack_shares;
    const int64_t zero = 0;
    int64_t at = 0;
    if (!d->opts.pretrain)
        LT_TRY(lt_vec_push(&d->first, &zero));
    for (int64_t s = 0; s < shares; s++) {
        const int64_t end = lt_pack_share(n, shares, s + 1);
        for (int64_t from = lt_pack_share(n, shares, s); from < end; from += d->opts.pack_batch) {
            const int64_t to = lt_min_i64(end, from + d->opts.pack_batch), begin = at;
            while (at < d->kept.n && LT_AT(&d->kept, int64_t, at) < to)
                at++;
            lt_arena_reset(arena);
            LT_TRY(d->opts.pretrain ? join_group(d, length, begin, at)
                                    : pack_group(d, length, begin, at, arena));
        }
    }
    return LT_OK;
}

lt_status lt_dataset_pack(lt_dataset *d, const int64_t *lengths)
{
    lt_arena *arena = NULL;
    LT_ASSERT(d->opts.packing && d->first.n == 0);
    LT_TRY(lt_arena_create(&arena, "packing"));
    const lt_status st = pack_rows(d, lengths, arena);
    lt_arena_destroy(arena);
    return st;
}

static lt_status pack(lt_dataset *d, lt_pool *pool, const lt_log *log)
{
    void *length = NULL;
    lt_status st;
    LT_TRY(lt_mem_alloc(&length, (size_t)d->kept.n * sizeof(int64_t), "lengths of samples"));
    measuring m = {d, length};
    LT_TRY_GOTO(st, lt_pool_run(pool, lt_ceil_div(d->kept.n, SHARE), measure_share, &m), done);
    LT_TRY_GOTO(st, lt_dataset_pack(d, length), done);
    if (d->packed.n < d->kept.n)
        LT_WARN(log, "data", "%lld more records cannot be encoded and are left out",
                (long long)(d->kept.n - d->packed.n));
    d->n_dropped += d->kept.n - d->packed.n;
    if (d->packed.n == 0) {
        st = LT_FAIL(LT_ERR_DATA, "none of the %lld records can be encoded", (long long)d->kept.n);
    } else if (lt_dataset_rows(d) == 0) {
        st = LT_FAIL(LT_ERR_DATA,
                     "no group of preprocessing_batch_size records has the %lld tokens of a block "
                     "(cutoff_len)",
                     (long long)d->row_len);
    }
done:
    lt_mem_free(length);
    return st;
}

// ---------------------------------------------------------------- opening

// How long samples and rows are. As in the reference, the packer's bins, and the samples in them,
// are one token shorter than cutoff_len says; blocks of pretraining are not.
static lt_status set_lengths(lt_dataset *d)
{
    lt_dataset_opts *o = &d->opts;
    o->encode.text_alone = o->attr.no_answers = o->pretrain;
    o->attr.habits = o->habits;
    if (!o->packing)
        return LT_OK;
    if (o->encode.cutoff_len < 2 || o->pack_batch < 1 || o->pack_shares < 1) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "packing needs a cutoff_len of 2 or more, got %lld, and a "
                       "preprocessing_batch_size of 1 or more, got %lld",
                       (long long)o->encode.cutoff_len, (long long)o->pack_batch);
    }
    d->row_len = o->encode.cutoff_len - !o->pretrain;
    o->encode.cutoff_len = o->pretrain ? INT32_MAX : d->row_len;
    o->encode.mask_first = !o->pretrain && o->habits == LT_HABITS_MINDSPEED;
    return LT_OK;
}

static lt_status fill(lt_dataset *d, lt_pool *pool, const lt_log *log)
{
    lt_dataset_opts *o = &d->opts;
    LT_TRY(set_lengths(d));
    LT_TRY(lt_attr_check(&o->attr));
    LT_TRY(lt_encoder_create(&o->encode, &d->encoder));
    LT_TRY(lt_records_open(o->files, o->n_files, o->max_samples, &d->records));
    o->files = NULL; // not kept
    if (o->max_samples > lt_records_total(d->records))
        LT_NOTE(log, "data", "max_samples is %lld, and there are only %lld records",
                (long long)o->max_samples, (long long)lt_records_total(d->records));
    if (lt_records_count(d->records) == 0)
        return LT_FAIL(LT_ERR_DATA, "the data set has no records");
    LT_TRY(check_all(d, pool, log));
    LT_TRY(check_left(d, log));
    return o->packing && o->on_bad != LT_BAD_KEEP ? pack(d, pool, log) : LT_OK;
}

lt_status lt_dataset_open(const lt_dataset_opts *opts, lt_pool *pool, const lt_log *log,
                          lt_dataset **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_dataset), "the data set"));
    lt_dataset *d = memory;
    d->opts = *opts;
    d->kept = d->first = d->packed = d->skip = LT_VEC_OF(int64_t);
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
    lt_vec_deinit(&d->kept);
    lt_vec_deinit(&d->first);
    lt_vec_deinit(&d->packed);
    lt_vec_deinit(&d->skip);
    lt_mem_free(d);
}

int64_t lt_dataset_samples(const lt_dataset *d)
{
    return d->kept.n;
}

int64_t lt_dataset_rows(const lt_dataset *d)
{
    if (!d->opts.packing)
        return d->kept.n;
    return d->opts.pretrain ? d->skip.n : lt_max_i64(0, d->first.n - 1);
}

int64_t lt_dataset_row_len(const lt_dataset *d)
{
    return d->row_len;
}

int64_t lt_dataset_dropped(const lt_dataset *d)
{
    return d->n_dropped;
}

static int64_t record_of(const lt_dataset *d, int64_t sample)
{
    LT_ASSERT(sample >= 0 && sample < d->kept.n);
    return LT_AT(&d->kept, int64_t, sample);
}

lt_record_place lt_dataset_place(const lt_dataset *d, int64_t sample)
{
    return lt_records_place(d->records, record_of(d, sample));
}

const lt_encoder *lt_dataset_encoder(const lt_dataset *d)
{
    return d->encoder;
}

lt_status lt_dataset_conversation(const lt_dataset *d, int64_t sample, lt_arena *arena,
                                  lt_conversation *out)
{
    return convert(d, record_of(d, sample), arena, out);
}

lt_status lt_dataset_encode(lt_dataset *d, int64_t sample, lt_arena *arena, lt_sample *out)
{
    lt_cut cut;
    LT_TRY(encode_sample(d, sample, arena, out, &cut));
    atomic_fetch_add(&d->encoded, 1);
    atomic_fetch_add(&d->tokens, out->n);
    atomic_fetch_add(&d->cut, cut.full_len > out->n);
    atomic_fetch_add(&d->cut_images, cut.cut_images);
    atomic_fetch_add(&d->lost_images, cut.lost_images);
    return LT_OK;
}

// A block of pretraining: one sample, of parts of those that it reaches into.
static lt_status encode_block(lt_dataset *d, int64_t row, lt_arena *arena, lt_sample *out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)d->row_len * sizeof(int32_t), &memory));
    int32_t *ids = memory;
    int64_t at = LT_AT(&d->first, int64_t, row), skip = LT_AT(&d->skip, int64_t, row);
    for (int64_t have = 0; have < d->row_len; skip = 0, at++) {
        lt_sample s = {0};
        if (at < d->packed.n)
            LT_TRY(lt_dataset_encode(d, LT_AT(&d->packed, int64_t, at), arena, &s));
        if (!s.ids || s.n <= skip)
            return LT_FAIL(LT_ERR_DATA,
                           "the texts of a block have changed since they were counted");
        const int64_t n = lt_min_i64(s.n - skip, d->row_len - have);
        memcpy(ids + have, s.ids + skip, (size_t)n * sizeof *ids);
        if (have == 0)
            *out = s; // it is named by its first record
        have += n;
    }
    out->ids = out->labels = ids;
    out->n = d->row_len;
    return LT_OK;
}

lt_status lt_dataset_encode_row(void *dataset, int64_t row, lt_arena *arena, lt_vec *samples)
{
    lt_dataset *d = dataset;
    LT_ASSERT(row >= 0 && row < lt_dataset_rows(d));
    if (d->opts.packing && d->opts.pretrain) {
        lt_sample block;
        LT_TRY(encode_block(d, row, arena, &block));
        return lt_vec_push(samples, &block);
    }
    const bool packed = d->first.n > 0;
    const int64_t from = packed ? LT_AT(&d->first, int64_t, row) : row,
                  to = packed ? LT_AT(&d->first, int64_t, row + 1) : row + 1;
    for (int64_t i = from; i < to; i++) {
        lt_sample s;
        LT_TRY(lt_dataset_encode(d, packed ? LT_AT(&d->packed, int64_t, i) : i, arena, &s));
        LT_TRY(lt_vec_push(samples, &s));
    }
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
