// SPDX-License-Identifier: Apache-2.0
// The loader: a ring of slots, filled by workers in the order in which the sampler names them,
// handed out in that order.
#include "data/loader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "data/dataset/dataset.h"

enum {
    MAX_WORKERS = 256,
    MAX_SLOTS = 4096,
    MESSAGE_BYTES = 1024,
    MAX_BAD_IN_A_ROW = 1000, // then the data set is not worth going on with
    MAX_SAID = 20,           // replaced rows that are named one by one
};

typedef enum slot_state { FREE, TAKEN, READY, HELD } slot_state;

/** One micro-batch on its way. Its worker owns all but `state` while it is TAKEN. */
typedef struct slot {
    slot_state state;
    lt_batch *batch;
    lt_arena *arena;  // of the samples
    lt_vec samples;   // lt_sample
    int64_t *rows;    // [micro_batch]
    int64_t consumed; // the sampler's cursor after this one
    lt_status st;
    char message[MESSAGE_BYTES];
} slot;

struct lt_loader {
    lt_loader_opts o;
    lt_sampler *sampler;
    int64_t micro_batch;
    slot *slots;
    int64_t n_slots;
    int64_t taken, given; // micro-batches begun, and handed out: slot number modulo n_slots
    int64_t consumed;
    double waited_s;
    int64_t held;
    _Atomic int64_t replaced;
    bool stop, failed;
    pthread_mutex_t lock;
    pthread_cond_t room, ready;
    pthread_t threads[MAX_WORKERS];
    int n_threads;
};

lt_loader_opts lt_loader_opts_default(void)
{
    return (lt_loader_opts){
        .n_workers = 2, .prefetch = 2, .max_held = 1, .collate = lt_collate_opts_default()};
}

// ---------------------------------------------------------------- one micro-batch

/** n rows as a micro-batch of their own. */
static lt_status make_batch(const lt_loader *l, slot *s, const int64_t *rows, int64_t n)
{
    lt_arena_reset(s->arena);
    lt_vec_clear(&s->samples);
    for (int64_t i = 0; i < n; i++)
        LT_TRY(l->o.encode(l->o.encode_ctx, rows[i], s->arena, &s->samples));
    return lt_batch_collate(s->batch, s->samples.data, s->samples.n, &l->o.collate);
}

static void say_replaced(lt_loader *l)
{
    const int64_t n = atomic_fetch_add(&l->replaced, 1) + 1;
    if (n <= MAX_SAID) {
        LT_WARN(l->o.log, "data", "skipped, the next record takes its place: %s",
                lt_error_message());
    } else if ((n & (n - 1)) == 0) {
        LT_WARN(l->o.log, "data", "%lld records were skipped so far; `lathe check` names them",
                (long long)n);
    }
    lt_error_clear();
}

/** Move each bad row on to the next good one, so that the same rows always come to the same. */
static lt_status replace_bad_rows(lt_loader *l, slot *s)
{
    for (int64_t i = 0; i < l->micro_batch; i++) {
        lt_status st = make_batch(l, s, &s->rows[i], 1);
        for (int64_t k = 0; lt_is_bad_record(st); k++) {
            if (k + 1 >= lt_min_i64(l->o.n_rows, MAX_BAD_IN_A_ROW)) {
                lt_error_note("%lld records in a row cannot be used", (long long)k + 1);
                return st;
            }
            say_replaced(l);
            s->rows[i] = (s->rows[i] + 1) % l->o.n_rows;
            st = make_batch(l, s, &s->rows[i], 1);
        }
        LT_TRY(st);
    }
    return LT_OK;
}

static lt_status encode_and_collate(lt_loader *l, slot *s)
{
    const lt_status st = make_batch(l, s, s->rows, l->micro_batch);
    if (!lt_is_bad_record(st) || l->o.n_rows == 0)
        return st;
    LT_TRY(replace_bad_rows(l, s));
    return make_batch(l, s, s->rows, l->micro_batch);
}

static void keep_message(slot *s)
{
    const size_t n = strnlen(lt_error_message(), MESSAGE_BYTES - 1);
    memcpy(s->message, lt_error_message(), n);
    s->message[n] = 0;
}

/**
 * The next rows of the sampler go to the next slot. Under the lock, so that slots follow the
 * sampler's order.
 */
static slot *take_slot(lt_loader *l)
{
    slot *s = &l->slots[l->taken++ % l->n_slots];
    s->state = TAKEN;
    s->st = lt_sampler_next(l->sampler, s->rows);
    s->consumed = lt_sampler_consumed(l->sampler);
    return s;
}

static void fill_slot(lt_loader *l, slot *s)
{
    if (s->st == LT_OK)
        s->st = encode_and_collate(l, s);
    if (s->st != LT_OK)
        keep_message(s);
}

// ---------------------------------------------------------------- workers

static bool may_take(const lt_loader *l)
{
    return l->slots[l->taken % l->n_slots].state == FREE && !l->failed;
}

static void *work(void *arg)
{
    lt_loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (!may_take(l)) {
            pthread_cond_wait(&l->room, &l->lock);
            continue;
        }
        slot *s = take_slot(l);
        pthread_mutex_unlock(&l->lock);
        fill_slot(l, s);
        pthread_mutex_lock(&l->lock);
        s->state = READY;
        if (s->st != LT_OK)
            l->failed = true; // nobody asks for what comes after it
        pthread_cond_broadcast(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static lt_status start_workers(lt_loader *l)
{
    for (; l->n_threads < l->o.n_workers; l->n_threads++) {
        const int rc = pthread_create(&l->threads[l->n_threads], NULL, work, l);
        if (rc != 0) {
            return LT_FAIL(LT_ERR_MEMORY, "cannot start data worker %d of %d: %s", l->n_threads + 1,
                           l->o.n_workers, lt_errno_text(rc));
        }
    }
    return LT_OK;
}

// ---------------------------------------------------------------- life

static lt_status make_slots(lt_loader *l)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)l->n_slots * sizeof(slot), "data loader"));
    l->slots = memory;
    for (int64_t i = 0; i < l->n_slots; i++) {
        slot *s = &l->slots[i];
        s->samples = LT_VEC_OF(lt_sample);
        LT_TRY(lt_batch_create(&s->batch));
        LT_TRY(lt_arena_create(&s->arena, "samples of a micro-batch"));
        LT_TRY(lt_mem_alloc(&memory, (size_t)l->micro_batch * sizeof(int64_t), "data loader"));
        s->rows = memory;
    }
    return LT_OK;
}

lt_status lt_loader_create(const lt_loader_opts *opts, lt_sampler *sampler, lt_loader **out)
{
    void *memory = NULL;
    if (opts->n_workers < 0 || opts->n_workers > MAX_WORKERS || opts->prefetch < 1 ||
        opts->max_held < 1 || opts->prefetch > MAX_SLOTS / 2 || opts->max_held > MAX_SLOTS / 2) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "data loader: %d workers, %lld batches ahead and %lld held are out of "
                       "range: 0 to %d, and 1 to %d",
                       opts->n_workers, (long long)opts->prefetch, (long long)opts->max_held,
                       MAX_WORKERS, MAX_SLOTS / 2);
    }
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_loader), "data loader"));
    lt_loader *l = memory;
    l->o = *opts;
    l->sampler = sampler;
    l->micro_batch = lt_sampler_micro_batch(sampler);
    l->consumed = lt_sampler_consumed(sampler);
    l->n_slots = opts->max_held + (opts->n_workers > 0 ? opts->prefetch : 1);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->room, NULL);
    pthread_cond_init(&l->ready, NULL);
    lt_status st = make_slots(l);
    if (st == LT_OK)
        st = start_workers(l);
    if (st != LT_OK) {
        lt_loader_destroy(l);
        return st;
    }
    *out = l;
    return LT_OK;
}

void lt_loader_destroy(lt_loader *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    for (int64_t i = 0; l->slots != NULL && i < l->n_slots; i++) {
        lt_batch_destroy(l->slots[i].batch);
        lt_arena_destroy(l->slots[i].arena);
        lt_vec_deinit(&l->slots[i].samples);
        lt_mem_free(l->slots[i].rows);
    }
    lt_mem_free(l->slots);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->room);
    pthread_mutex_destroy(&l->lock);
    lt_mem_free(l);
}

// ---------------------------------------------------------------- the consumer

/**
 * The slot whose turn it is, filled: by a worker, or here when there is none. Called under the
 * lock.
 */
static slot *wait_for_turn(lt_loader *l)
{
    slot *s = &l->slots[l->given % l->n_slots];
    if (l->n_threads == 0) {
        if (s->state == FREE) // else it failed before
            fill_slot(l, take_slot(l));
        s->state = READY;
        return s;
    }
    while (s->state != READY)
        pthread_cond_wait(&l->ready, &l->lock);
    return s;
}

lt_status lt_loader_acquire(lt_loader *l, const lt_batch **out)
{
    const double start = lt_clock_now();
    lt_status st = LT_OK;
    pthread_mutex_lock(&l->lock);
    LT_ASSERT(l->held < l->o.max_held);
    slot *s = wait_for_turn(l);
    l->waited_s += lt_clock_now() - start;
    if (s->st != LT_OK) { // it stays where it is, and so do we
        st = lt_error_adopt(s->st, s->message);
    } else {
        s->state = HELD;
        l->given++;
        l->held++;
        l->consumed = s->consumed;
        *out = s->batch;
    }
    pthread_mutex_unlock(&l->lock);
    return st;
}

void lt_loader_release(lt_loader *l, const lt_batch *batch)
{
    pthread_mutex_lock(&l->lock);
    slot *s = NULL;
    for (int64_t i = 0; i < l->n_slots && s == NULL; i++)
        if (l->slots[i].state == HELD && l->slots[i].batch == batch)
            s = &l->slots[i];
    LT_ASSERT(s != NULL);
    s->state = FREE;
    l->held--;
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
}

int64_t lt_loader_consumed(const lt_loader *l)
{
    return l->consumed;
}

int64_t lt_loader_replaced(const lt_loader *l)
{
    return atomic_load(&l->replaced);
}

double lt_loader_waited_s(const lt_loader *l)
{
    return l->waited_s;
}
