// SPDX-License-Identifier: Apache-2.0
// The pass over all records: shares on the pool, each with a batch and an arena of its own.
#include "train/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE = 16 };
static const double progress_s = 0.1;

typedef struct check {
    lt_source *source;
    lt_dataset *d;
    const lt_check_opts *o;
    lt_check_report *out;
    pthread_mutex_t lock; // of all that follows, and of *out
    int64_t done;
    unsigned seen;
    double said;
} check;

/** What a worker works with. */
typedef struct worker {
    lt_arena *arena;
    lt_batch *batch;
} worker;

static bool stops(const check *k, bool dropped)
{
    if (k->o->skip_bad)
        return false;
    return !dropped || k->o->stop_bad;
}

/** What looking at a record finds. */
typedef struct finding {
    lt_sample s;
    lt_cut cut;
    unsigned seen;
    const char *dropped; // the kind of fault that the reference leaves a record out for by itself
    bool large_box;
} finding;

/** The thread's message becomes a fault. Called under the lock. */
static lt_status add_fault(check *k, int64_t index, const finding *f)
{
    char *copy = NULL;
    const char *message = lt_error_message();
    LT_TRY(lt_arena_text(k->out->arena, message, strlen(message), &copy));
    const bool stop = stops(k, f->dropped != NULL);
    const lt_check_fault fault = {.index = index,
                                  .place = lt_dataset_place(k->d, index),
                                  .left_out = !stop,
                                  .message = copy,
                                  .kind = f->dropped ? f->dropped : lt_error_kind()};
    *(stop ? &k->out->n_stopping : &k->out->n_left_out) += 1;
    lt_error_clear();
    return lt_vec_push(&k->out->faults, &fault);
}

static void add_sample(check *k, int64_t index, const lt_sample *s, const lt_cut *cut,
                       bool large_box)
{
    lt_check_report *r = k->out;
    int64_t labels = 0;
    for (int64_t i = 1; i < s->n; i++)
        labels += s->labels[i] > -1;
    for (int64_t i = 0; i < s->n_media; i++)
        r->visual_tokens +=
            lt_grid_tokens(s->media[i].grid, lt_source_collate(k->source)->processor.merge);
    r->n_usable++;
    r->tokens += s->n;
    r->labels += labels;
    r->no_labels += labels == 0;
    r->large_boxes += large_box;
    r->images += s->n_media;
    r->cut += cut->full_len > s->n;
    r->lost_images += cut->lost_images;
    r->lengths[index] = (int32_t)s->n;
}

/** A number above `most` among the first few behind `mark`. */
static bool number_above(lt_span text, const char *mark, int most)
{
    enum { VALUES = 4, REACH = 80 };
    const char *end = text.s + text.len;
    for (const char *at = text.s; text.len > 0;) {
        at = memmem(at, (size_t)(end - at), mark, strlen(mark));
        if (!at)
            return false;
        at += strlen(mark);
        int64_t value = 0, digits = 0, values = 0;
        for (const char *c = at; c < end && c - at < REACH && values < VALUES; c++) {
            if (*c >= '0' && *c <= '9') {
                value = lt_min_i64(value * 10 + (*c - '0'), INT32_MAX);
                digits++;
            } else if (digits > 0) {
                if (value > most)
                    return true;
                value = digits = 0;
                values += *c != '.'; // what follows a point is a fraction
            }
        }
    }
    return false;
}

/** BR-32: boxes of Qwen2-VL, Qwen3-VL and later go from 0 to 1000. */
static bool has_large_box(const lt_conversation *c)
{
    static const char *const marks[] = {"bbox_2d", "<|box_start|>"};
    enum { SCALE = 1000 };
    for (int64_t i = 0; i < c->n_turns; i++) {
        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++)
            if (number_above(c->turns[i].text, marks[k], SCALE))
                return true;
    }
    return false;
}

/** As training would. */
static lt_status look_at(const check *k, int64_t index, worker *w, finding *f)
{
    lt_conversation c = {0};
    lt_status st = lt_dataset_conversation(k->d, index, w->arena, &c);
    f->seen = c.seen;
    LT_TRY(st);
    f->dropped = c.dropped ? c.dropped_kind : NULL;
    if (c.dropped) {
        st = LT_FAIL(LT_ERR_DATA, "%s", c.dropped);
        lt_record_note(lt_dataset_place(k->d, index));
        return st;
    }
    const lt_encoder *e = lt_dataset_encoder(k->d);
    const lt_record_place at = lt_dataset_place(k->d, index);
    f->large_box = has_large_box(&c);
    LT_TRY(lt_encode_check(e, &c, at, w->arena));
    LT_TRY(lt_encode(e, &c, at, w->arena, &f->s, &f->cut));
    return lt_batch_collate(w->batch, &f->s, 1, lt_source_collate(k->source));
}

static lt_status one_record(check *k, int64_t index, worker *w)
{
    finding f = {0};
    lt_arena_reset(w->arena);
    lt_status st = look_at(k, index, w, &f);
    if (st != LT_OK && !lt_is_bad_record(st))
        return st;
    pthread_mutex_lock(&k->lock);
    k->seen |= f.seen;
    k->done++;
    if (st == LT_OK)
        add_sample(k, index, &f.s, &f.cut, f.large_box);
    else
        st = add_fault(k, index, &f);
    const double now = lt_clock_now();
    if (k->o->progress && (now - k->said >= progress_s || k->done == k->out->n_records)) {
        k->o->progress(k->o->ctx, k->done, k->out->n_records, k->out->faults.n);
        k->said = now;
    }
    pthread_mutex_unlock(&k->lock);
    return st;
}

static lt_status one_share(void *ctx, int64_t share, int thread)
{
    check *k = ctx;
    worker w = {0};
    (void)thread;
    lt_status st = lt_arena_create(&w.arena, "a record");
    if (st == LT_OK)
        st = lt_batch_create(&w.batch);
    const int64_t end = lt_min_i64(k->out->n_records, (share + 1) * SHARE);
    for (int64_t i = share * SHARE; i < end && st == LT_OK; i++)
        st = one_record(k, i, &w);
    lt_batch_destroy(w.batch);
    lt_arena_destroy(w.arena);
    return st;
}

static int by_index(const void *a, const void *b)
{
    const lt_check_fault *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int by_value(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/** Shortest, longest and middle length of the usable records. */
static lt_status sum_up(lt_check_report *r)
{
    void *memory = NULL;
    if (r->n_usable == 0)
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, (size_t)r->n_records * sizeof(int32_t), "lengths"));
    int32_t *sorted = memory;
    memcpy(sorted, r->lengths, (size_t)r->n_records * sizeof *sorted);
    qsort(sorted, (size_t)r->n_records, sizeof *sorted, by_value);
    const int64_t first = r->n_records - r->n_usable;
    r->shortest = sorted[first];
    r->longest = sorted[r->n_records - 1];
    r->middle = sorted[first + r->n_usable / 2];
    lt_mem_free(sorted);
    return LT_OK;
}

/** What is wrong with no record, but with all of them. */
static lt_status check_columns(check *k)
{
    char *copy = NULL;
    const lt_status st = lt_dataset_check_columns(k->d, k->seen);
    if (st == LT_ERR_CONFIG) {
        LT_TRY(lt_arena_text(k->out->arena, lt_error_message(), strlen(lt_error_message()), &copy));
        k->out->columns = copy;
        lt_error_clear();
        return LT_OK;
    }
    return st;
}

/** How many rows packing makes of the usable records. */
static lt_status count_rows(check *k)
{
    lt_check_report *r = k->out;
    void *memory = NULL;
    r->row_len = lt_dataset_row_len(k->d);
    if (r->row_len == 0)
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, (size_t)r->n_records * sizeof(int64_t), "lengths"));
    int64_t *lengths = memory;
    for (int64_t i = 0; i < r->n_records; i++)
        lengths[i] = r->lengths[i];
    const lt_status st = lt_dataset_pack(k->d, lengths);
    lt_mem_free(lengths);
    r->n_rows = lt_dataset_rows(k->d);
    return st;
}

static lt_status run(check *k, lt_pool *pool)
{
    lt_check_report *r = k->out;
    void *memory = NULL;
    const double begin = lt_clock_now();
    LT_TRY(lt_arena_create(&r->arena, "faults of records"));
    LT_TRY(lt_arena_take(r->arena, (size_t)r->n_records * sizeof(int32_t), &memory));
    r->lengths = memory;
    LT_TRY(lt_pool_run(pool, lt_ceil_div(r->n_records, SHARE), one_share, k));
    if (r->faults.n > 0)
        qsort(r->faults.data, (size_t)r->faults.n, sizeof(lt_check_fault), by_index);
    LT_TRY(check_columns(k));
    LT_TRY(sum_up(r));
    LT_TRY(count_rows(k));
    r->seconds = lt_clock_now() - begin;
    return LT_OK;
}

lt_status lt_check(lt_source *source, lt_pool *pool, const lt_check_opts *opts,
                   lt_check_report *out)
{
    check k = {.source = source, .d = lt_source_dataset(source), .o = opts, .out = out};
    *out = (lt_check_report){.n_records = lt_dataset_samples(k.d),
                             .faults = LT_VEC_OF(lt_check_fault)};
    pthread_mutex_init(&k.lock, NULL);
    const lt_status st = run(&k, pool);
    pthread_mutex_destroy(&k.lock);
    return st;
}

void lt_check_deinit(lt_check_report *r)
{
    lt_vec_deinit(&r->faults);
    lt_arena_destroy(r->arena);
}
