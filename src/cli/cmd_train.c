// SPDX-License-Identifier: Apache-2.0
// lathe train: train as a configuration says.
#include "cli/ranks.h"
#include "cli/with_config.h"
#include "comm/local.h"
#include "train/trainer.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

extern const lt_command lt_command_train;

// Set by the signal handler, read between steps. A handler can reach nothing but a global.
static atomic_bool stop_wanted;
static _Atomic int64_t asked_ms; // when that was

static const int64_t SAME_PRESS_MS = 300;

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// The first Ctrl-C asks for a stop after the step; the second ends the program at once. What
// comes right behind the first is the same one: launchers send it to the process and to its group.
static void on_interrupt(int number)
{
    if (!atomic_exchange(&stop_wanted, true)) {
        atomic_store(&asked_ms, now_ms());
    } else if (now_ms() - atomic_load(&asked_ms) > SAME_PRESS_MS) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

static void catch_interrupts(void)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = on_interrupt;
    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
    (void)sigaction(SIGUSR1, &a, NULL); // mpirun hands this one on to all ranks
}

typedef struct screen {
    bool bar; /* a progress bar on standard error */
    int64_t first;
    double first_s;
} screen;

static void clear_bar(const screen *s)
{
    if (s->bar)
        (void)fputs("\r\033[K", stderr);
}

static void put_line(void *ctx, const char *text)
{
    clear_bar(ctx);
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

enum { BAR = 30 };

static void put_status(void *ctx, const lt_train_status *s)
{
    screen *view = ctx;
    if (!view->bar)
        return;
    if (view->first == 0) {
        view->first = s->iteration;
        view->first_s = s->seconds;
    }
    const int64_t done = s->iteration - view->first;
    const double each = done > 0 ? (s->seconds - view->first_s) / (double)done : s->seconds;
    const int64_t left_s = (int64_t)(each * (double)(s->n_iterations - s->iteration));
    char bar[BAR + 1];
    const int64_t full = s->n_iterations > 0 ? s->iteration * BAR / s->n_iterations : 0;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = 0;
    (void)fprintf(stderr, "\r\033[K[%s] %lld/%lld loss %.4f, %.0f tokens/s", bar,
                  (long long)s->iteration, (long long)s->n_iterations, s->loss, s->tokens_per_s);
    if (isfinite(s->mfu))
        (void)fprintf(stderr, ", MFU %.0f %%", s->mfu * 100.0);
    (void)fprintf(stderr, ", data wait %.0f %%, ETA %lld:%02lld:%02lld", s->wait_share * 100.0,
                  (long long)(left_s / 3600), (long long)(left_s / 60 % 60),
                  (long long)(left_s % 60));
    (void)fflush(stderr);
}

// The message, and the exit code of an interruption.
static lt_status stopped(const lt_config *cfg, const lt_train_summary *done)
{
    if (done->saved[0]) {
        return LT_FAIL(LT_ERR_CANCELLED,
                       "stopped after step %lld, saved %s; training.load=%s goes on from there",
                       (long long)done->iterations, done->saved, cfg->training.save);
    }
    if (isnan(done->last_loss))
        return LT_FAIL(LT_ERR_CANCELLED, "stopped before the first step; there is nothing to save");
    return LT_FAIL(LT_ERR_CANCELLED,
                   "stopped after step %lld; nothing is saved, since training.save is not set",
                   (long long)done->iterations);
}

static lt_status train(const lt_config *cfg, void *options, const lt_log *log)
{
    (void)options;
    catch_interrupts();
    screen view = {.bar = lt_cli_is_terminal(stderr)};
    const lt_train_sinks sinks = {.ctx = &view,
                                  .line = put_line,
                                  .status = put_status,
                                  .log = log,
                                  .stop = &stop_wanted,
                                  .world = lt_cli_world()};
    lt_train_summary done;
    const lt_status st = lt_train(cfg, &sinks, &done);
    clear_bar(&view);
    LT_TRY(st);
    if (!lt_cli_is_first()) // which says the rest
        return done.stopped ? LT_ERR_CANCELLED : LT_OK;
    if (!isnan(done.last_loss)) {
        LT_NOTE(
            log, "train",
            "%lld steps; loss %.4f at first, %.4f at last; see %s/metrics.jsonl and %s/loss.svg",
            (long long)done.iterations, done.first_loss, done.last_loss, done.run_dir,
            done.run_dir);
    }
    if (isnan(done.last_loss) && !done.stopped)
        LT_NOTE(log, "train", "nothing is left to be done after step %lld",
                (long long)done.iterations);
    return done.stopped ? stopped(cfg, &done) : LT_OK;
}

typedef struct options {
    int64_t ranks;
} options;

static const lt_arg args[] = {
    {"--ranks", 'n', LT_ARG_INT, offsetof(options, ranks), "N",
     "ranks, as threads that share this machine's CPU; section parallel says how they divide the "
     "work. For processes leave it away: mpirun -n N lathe train CONFIG.yaml",
     1, LT_MAX_LOCAL_RANKS},
};

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {0};
    return lt_cli_with_ranks(self, argc, argv, &o, &o.ranks, LT_USE_TRAIN, train);
}

const lt_command lt_command_train = {
    .name = "train",
    .summary = "Train as a configuration says",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .on_ranks = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "Log lines go to standard output; notes and, on a terminal, a progress bar to "
               "standard error.\n"
               "Ctrl-C, SIGTERM or SIGUSR1 finishes the step, saves and stops; a second one ends "
               "at once.\nmetrics.jsonl, loss.svg "
               "and tensorboard/ go to lathe.run_dir, else training.save, else runs/.\n",
    .run = run,
};
