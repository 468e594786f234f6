// SPDX-License-Identifier: Apache-2.0
// The watchdog's thread.
#include "train/watchdog.h"

#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { TIMES_THE_LONGEST = 10, LOOKS = 8 /* in the shortest silence */ };

struct lt_watchdog {
    lt_watchdog_opts o;
    pthread_t thread;
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t wake;
    bool stop;
    const char *stage;
    int64_t step;
    double since_s, longest_s; /* this stage's begin; the longest that has ended */
    double reported_s;         /* the silence that was reported last; 0: none */
};

static void look(lt_watchdog *w)
{
    const double silence = lt_clock_now() - w->since_s;
    const double enough = w->longest_s * TIMES_THE_LONGEST;
    if (silence < w->o.patience_s || silence < enough || silence < 2.0 * w->reported_s)
        return;
    w->reported_s = silence;
    LT_WARN(w->o.log, "watchdog", "%s%snothing has moved for %.0f s: step %lld is at %s",
            w->o.who ? w->o.who : "", w->o.who ? ": " : "", silence, (long long)w->step,
            w->stage ? w->stage : w->o.now(w->o.ctx));
}

// The moment until which to sleep.
static struct timespec next_look(double patience_s)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    const double sleep_s = patience_s / LOOKS;
    const double ns = (double)t.tv_nsec + (sleep_s - (double)(time_t)sleep_s) * 1e9;
    t.tv_sec += (time_t)sleep_s + (ns >= 1e9);
    t.tv_nsec = (long)(ns >= 1e9 ? ns - 1e9 : ns);
    return t;
}

static void *watch(void *arg)
{
    lt_watchdog *w = arg;
    (void)pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        const struct timespec until = next_look(w->o.patience_s);
        if (pthread_cond_timedwait(&w->wake, &w->mutex, &until) == ETIMEDOUT)
            look(w);
    }
    (void)pthread_mutex_unlock(&w->mutex);
    return NULL;
}

lt_status lt_watchdog_create(const lt_watchdog_opts *opts, lt_watchdog **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_watchdog), "watchdog"));
    lt_watchdog *w = memory;
    w->o = *opts;
    w->stage = "the start";
    w->since_s = lt_clock_now();
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&w->mutex, NULL);
    (void)pthread_cond_init(&w->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    const int why = pthread_create(&w->thread, NULL, watch, w);
    if (why == 0) {
        *out = w;
        return LT_OK;
    }
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->mutex);
    lt_mem_free(w);
    return LT_FAIL(LT_ERR_IO, "cannot start the watchdog's thread: %s", lt_errno_text(why));
}

void lt_watchdog_destroy(lt_watchdog *w)
{
    if (!w)
        return;
    (void)pthread_mutex_lock(&w->mutex);
    w->stop = true;
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->mutex);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->mutex);
    lt_mem_free(w);
}

void lt_watchdog_stage(lt_watchdog *w, int64_t step, const char *stage)
{
    if (!w)
        return;
    const double now = lt_clock_now();
    (void)pthread_mutex_lock(&w->mutex);
    if (now - w->since_s > w->longest_s)
        w->longest_s = now - w->since_s;
    w->stage = stage;
    w->step = step;
    w->since_s = now;
    w->reported_s = 0.0;
    (void)pthread_mutex_unlock(&w->mutex);
}
