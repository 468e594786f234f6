// SPDX-License-Identifier: Apache-2.0
// The thread pool: sleeping workers join an open loop; the caller never waits for one that has not
// joined.
#include "base/pool.h"
#include "base/memory.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, SPINS = 2000, MESSAGE_BYTES = 4096 };

typedef struct worker {
    lt_pool *pool;
    pthread_t id;
    int thread;
} worker;

struct lt_pool {
    int n_threads; // with the caller
    int n_started;
    worker *workers;

    // The loop that is open. Written only while nobody is inside; read by whoever went inside and
    // found it open.
    lt_pool_fn fn;
    void *ctx;
    int64_t n;
    atomic_int_fast64_t next;
    atomic_int_fast64_t lowest; // lowest failing index, INT64_MAX when all went well
    lt_status status;           // of that index, under `mutex`
    char message[MESSAGE_BYTES];

    atomic_bool open;
    atomic_int inside;     // workers that may be looking at the loop
    atomic_uint round;     // counts loops, and the end
    atomic_int sleepers;   // workers in `wake`
    atomic_bool waiting;   // the caller is in `left`
    atomic_bool stop;      // the pool ends
    pthread_mutex_t mutex; // for the condition variables and the failure
    pthread_cond_t wake, left;
    pthread_mutex_t owner; // held by the thread whose loop it is
};

static _Thread_local bool in_loop;

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void note_failure(lt_pool *pool, int64_t i, lt_status st)
{
    pthread_mutex_lock(&pool->mutex);
    if (i < atomic_load(&pool->lowest)) {
        atomic_store(&pool->lowest, i);
        pool->status = st;
        snprintf(pool->message, sizeof pool->message, "%s", lt_error_message());
    }
    pthread_mutex_unlock(&pool->mutex);
}

// Indices are handed out in order, so when one fails all lower ones are done or under way: what is
// skipped is higher.
static void take_indices(lt_pool *pool, int thread)
{
    for (;;) {
        const int64_t i = atomic_fetch_add(&pool->next, 1);
        if (i >= pool->n || i > atomic_load(&pool->lowest))
            return;
        const lt_status st = pool->fn(pool->ctx, i, thread);
        if (st != LT_OK)
            note_failure(pool, i, st);
    }
}

static void join_loop(lt_pool *pool, int thread)
{
    atomic_fetch_add(&pool->inside, 1);
    if (atomic_load(&pool->open))
        take_indices(pool, thread);
    if (atomic_fetch_sub(&pool->inside, 1) == 1 && atomic_load(&pool->waiting)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->left);
        pthread_mutex_unlock(&pool->mutex);
    }
}

// Returns the round after `seen`: spins a little, since the next loop often comes at once, then
// sleeps.
static unsigned next_round(lt_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        const unsigned round = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (round != seen)
            return round;
        pause_cpu();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->round) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return atomic_load(&pool->round);
}

static void *work(void *arg)
{
    const worker *me = arg;
    in_loop = true; // a loop inside a loop runs where it is
    unsigned seen = 0;
    while (!atomic_load(&me->pool->stop)) {
        seen = next_round(me->pool, seen);
        join_loop(me->pool, me->thread);
    }
    return NULL;
}

// CPUs' worth of time that the container grants (cgroup v2: "QUOTA PERIOD" or "max PERIOD");
// INT_MAX without a limit.
static int granted_cpus(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return INT_MAX;
    char line[64] = "", *end;
    const bool have = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const long long quota = strtoll(line, &end, 10);
    const long long period = strtoll(end, NULL, 10);
    if (!have || quota <= 0 || period <= 0)
        return INT_MAX;
    return (int)lt_min_i64(lt_ceil_div(quota, period), INT_MAX);
}

static int usable_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (int)lt_max_i64(1, lt_min_i64(CPU_COUNT(&set), granted_cpus()));
}

lt_status lt_pool_create(int n_threads, lt_pool **out)
{
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return LT_FAIL(LT_ERR_CONFIG, "a thread pool takes 1 to %d threads, 0 for all CPUs, got %d",
                       MAX_THREADS, n_threads);
    const int n = n_threads == 0 ? usable_cpus() : n_threads;
    void *ptr;
    LT_TRY(lt_mem_alloc(&ptr, sizeof(lt_pool) + (size_t)n * sizeof(worker), "a thread pool"));
    lt_pool *pool = ptr;
    pool->n_threads = n;
    pool->workers = (worker *)(pool + 1);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_mutex_init(&pool->owner, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->left, NULL);
    for (int i = 1; i < n; i++) {
        worker *w = &pool->workers[pool->n_started];
        *w = (worker){.pool = pool, .thread = i};
        const int why = pthread_create(&w->id, NULL, work, w);
        if (why != 0) {
            lt_pool_destroy(pool);
            return LT_FAIL(LT_ERR_IO, "cannot start thread %d of %d: %s", i + 1, n,
                           lt_errno_text(why));
        }
        pool->n_started++;
    }
    *out = pool;
    return LT_OK;
}

static void new_round(lt_pool *pool, int64_t n_wanted)
{
    atomic_fetch_add(&pool->round, 1);
    const int sleepers = atomic_load(&pool->sleepers);
    if (sleepers == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    if (n_wanted >= sleepers)
        pthread_cond_broadcast(&pool->wake);
    for (int64_t i = 0; n_wanted < sleepers && i < n_wanted; i++)
        pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

void lt_pool_destroy(lt_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    new_round(pool, INT64_MAX);
    for (int i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].id, NULL);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->owner);
    pthread_mutex_destroy(&pool->mutex);
    lt_mem_free(pool);
}

int lt_pool_threads(const lt_pool *pool)
{
    return pool ? pool->n_threads : 1;
}

static lt_status run_alone(int64_t n, lt_pool_fn fn, void *ctx)
{
    for (int64_t i = 0; i < n; i++)
        LT_TRY(fn(ctx, i, 0));
    return LT_OK;
}

static void wait_until_empty(lt_pool *pool)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&pool->inside) == 0)
            return;
        pause_cpu();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->waiting, true);
    while (atomic_load(&pool->inside) != 0)
        pthread_cond_wait(&pool->left, &pool->mutex);
    atomic_store(&pool->waiting, false);
    pthread_mutex_unlock(&pool->mutex);
}

lt_status lt_pool_run(lt_pool *pool, int64_t n, lt_pool_fn fn, void *ctx)
{
    // A loop of one index leaves the pool to the loops inside it; while another thread's loop runs,
    // ours needs no turn.
    if (!pool || pool->n_threads == 1 || n <= 1 || in_loop ||
        pthread_mutex_trylock(&pool->owner) != 0)
        return run_alone(n, fn, ctx);
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n = n;
    pool->status = LT_OK;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->lowest, INT64_MAX);
    atomic_store(&pool->open, true);
    new_round(pool, n - 1);
    in_loop = true;
    take_indices(pool, 0);
    in_loop = false;
    atomic_store(&pool->open, false);
    wait_until_empty(pool);
    lt_status st = pool->status;
    if (st != LT_OK)
        st = lt_error_adopt(st, pool->message);
    pthread_mutex_unlock(&pool->owner);
    return st;
}
