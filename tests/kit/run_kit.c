// SPDX-License-Identifier: Apache-2.0
// Child processes: start, read both outputs, send a signal, sample memory, wait.
#include "tests/kit/run_kit.h"
#include "base/file.h"
#include "base/log.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef LATHE_PROGRAM
#error "the build names the program under test"
#endif
enum { MAX_ARGS = 64, SAMPLE_MS = 1, RANKS_MS = 20, MOST_SECONDS = 60 };
static const char mpirun[] = LATHE_MPIRUN; // with its options, a blank between each

typedef struct child {
    pid_t pid;
    int fd[2]; // what it prints: standard output, standard error; -1 once closed
    lt_buf text[2];
    double begin;
    int64_t anonymous;
    bool signalled;
    const char *dir; // of ranks that write to files, and how much of them has been read
    long at[2];
} child;

// Between fork and exec: only calls that are safe there.
static void become_lathe(const char *dir, const lt_run_opts *opts, const int *fd, char **argv)
{
    const struct rlimit limit = {(rlim_t)opts->file_bytes, (rlim_t)opts->file_bytes};
    if (dup2(fd[0], STDOUT_FILENO) < 0 || dup2(fd[1], STDERR_FILENO) < 0 || chdir(dir) != 0)
        _exit(120);
    if (opts->file_bytes > 0 &&
        (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0))
        _exit(121);
    execv(argv[0], argv);
    _exit(122);
}

// Ranks write to files: what goes through mpirun may be lost when it ends a job.
static const char *const rank_files[] = {"ranks.out", "ranks.err"};
#define TO_FILES "exec >>ranks.out 2>>ranks.err; "

// A command line as it grows. `words` has mpirun's, cut at their blanks.
typedef struct command {
    char words[sizeof mpirun], count[2][16], last[512];
    const char *argv[MAX_ARGS + 1];
    int n;
} command;

static void add(command *c, const char *word)
{
    assert_true(c->n < MAX_ARGS);
    c->argv[c->n++] = word;
}

static void add_all(command *c, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        add(c, words[i]);
}

static void add_ranks(command *c, int k, int n)
{
    (void)snprintf(c->count[k], sizeof c->count[k], "%d", n);
    add(c, "-n");
    add(c, c->count[k]);
}

static void write_command(command *c, const lt_run_opts *opts, const char *const *args)
{
    char *at = c->words;
    c->n = 0;
    memcpy(c->words, mpirun, sizeof mpirun);
    while (opts->ranks > 0 && *at) {
        const size_t n = strcspn(at, " ");
        const bool more = at[n] == ' ';
        at[n] = '\0';
        add(c, at);
        at += n + more;
    }
    if (opts->ranks > 0) {
        add_ranks(c, 0, opts->ranks - (opts->last_rank != NULL));
        add_all(c, (const char *const[]){"sh", "-c", TO_FILES "exec \"$0\" \"$@\"", NULL});
    }
    add(c, LATHE_PROGRAM);
    add_all(c, args);
    if (opts->last_rank) {
        const int n = snprintf(c->last, sizeof c->last, TO_FILES "%s", opts->last_rank);
        assert_true(n > 0 && (size_t)n < sizeof c->last);
        add(c, ":");
        add_ranks(c, 1, 1);
        add_all(c, (const char *const[]){"sh", "-c", c->last, LATHE_PROGRAM, NULL});
        add_all(c, args);
    }
    c->argv[c->n] = NULL;
}

static child start(const char *dir, const lt_run_opts *opts, const char *const *args)
{
    command line;
    union {
        const char **in;
        char **out;
    } argv = {.in = line.argv};
    int out[2], err[2];
    child c = {.begin = lt_clock_now(), .dir = dir};
    write_command(&line, opts, args);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(err), 0);
    (void)fflush(NULL);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        const int fd[2] = {out[1], err[1]};
        (void)close(out[0]);
        (void)close(err[0]);
        become_lathe(dir, opts, fd, argv.out);
    }
    (void)close(out[1]);
    (void)close(err[1]);
    c.fd[0] = out[0];
    c.fd[1] = err[0];
    return c;
}

static void read_some(child *c, int k)
{
    char piece[4096];
    const ssize_t n = read(c->fd[k], piece, sizeof piece);
    if (n > 0) {
        assert_ok(lt_buf_append(&c->text[k], piece, (size_t)n));
        return;
    }
    if (n < 0 && errno == EINTR)
        return;
    (void)close(c->fd[k]);
    c->fd[k] = -1;
}

// RssAnon of /proc/PID/status, which is gone once the process has ended.
static void sample_memory(child *c)
{
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)c->pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return;
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    (void)fclose(f);
    const char *at = strstr(text, "RssAnon:");
    if (at)
        c->anonymous = lt_max_i64(c->anonymous, 1024 * strtoll(at + 8, NULL, 10));
}

// What ranks have written so far comes behind what mpirun has.
static void read_files(child *c)
{
    for (int k = 0; k < 2; k++) {
        char path[4096], piece[4096];
        (void)snprintf(path, sizeof path, "%s/%s", c->dir, rank_files[k]);
        FILE *f = fopen(path, "rb");
        if (!f)
            continue;
        (void)fseek(f, c->at[k], SEEK_SET);
        for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0; c->at[k] += (long)n)
            assert_ok(lt_buf_append(&c->text[k], piece, n));
        (void)fclose(f);
    }
}

static bool has_printed(const child *c, const char *text)
{
    return (c->text[0].data && strstr(c->text[0].data, text)) ||
           (c->text[1].data && strstr(c->text[1].data, text));
}

static void maybe_signal(child *c, const lt_run_opts *opts)
{
    const double passed = lt_clock_now() - c->begin;
    if (passed > MOST_SECONDS) {
        (void)kill(c->pid, SIGKILL);
        fail_msg("lathe was still running after %d seconds", MOST_SECONDS);
    }
    if (!opts->signal || c->signalled)
        return;
    if ((opts->until && has_printed(c, opts->until)) ||
        (opts->after_s > 0 && passed >= opts->after_s)) {
        (void)kill(c->pid, opts->signal);
        c->signalled = true;
    }
}

static int follow(child *c, const lt_run_opts *opts)
{
    int status = 0;
    while (c->fd[0] >= 0 || c->fd[1] >= 0) {
        struct pollfd p[2] = {{.fd = c->fd[0], .events = POLLIN},
                              {.fd = c->fd[1], .events = POLLIN}};
        (void)poll(p, 2, opts->ranks > 0 ? RANKS_MS : SAMPLE_MS);
        for (int k = 0; k < 2; k++)
            if (c->fd[k] >= 0 && p[k].revents)
                read_some(c, k);
        sample_memory(c);
        if (opts->ranks > 0)
            read_files(c);
        maybe_signal(c, opts);
    }
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    if (opts->ranks > 0)
        read_files(c);
    return status;
}

lt_run_result lt_run(void *state, const char *dir, const lt_run_opts *opts, const char *const *args)
{
    child c = start(dir, opts, args);
    const int status = follow(&c, opts);
    lt_run_result r = {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                       .seconds = lt_clock_now() - c.begin,
                       .anonymous = c.anonymous};
    const char **texts[] = {&r.out, &r.err};
    for (int k = 0; k < 2; k++) {
        char *copy = NULL;
        assert_ok(lt_arena_text(state, c.text[k].data ? c.text[k].data : "", c.text[k].len, &copy));
        *texts[k] = copy;
        lt_buf_deinit(&c.text[k]);
    }
    return r;
}

void lt_run_exit(const lt_run_result *r, int code, const char *file, int line)
{
    if (r->exit_code == code)
        return;
    print_error("lathe ended with %d, not with %d. It printed\n%s%s\n", r->exit_code, code, r->out,
                r->err);
    _fail(file, line);
}

/* ---- what runs leave ---- */

const char *lt_run_metrics(void *state, const char *dir)
{
    return lt_test_read(state, lt_test_path(state, dir, "metrics.jsonl"), NULL);
}

double lt_run_metric(const char *metrics, int64_t iteration, const char *key)
{
    char step[64], name[64];
    (void)snprintf(step, sizeof step, "{\"iteration\": %lld,", (long long)iteration);
    (void)snprintf(name, sizeof name, "\"%s\": ", key);
    const char *line = strstr(metrics, step);
    const char *at = line ? strstr(line, name) : NULL;
    if (line && at && at < line + strcspn(line, "\n")) {
        at += strlen(name);
        return strncmp(at, "null", 4) == 0 ? (double)NAN : strtod(at, NULL);
    }
    fail_msg("metrics.jsonl has no %s for step %lld", key, (long long)iteration);
    return 0.0;
}

void lt_run_same_file(void *state, const char *a, const char *b)
{
    size_t na = 0, nb = 0;
    const char *x = lt_test_read(state, a, &na), *y = lt_test_read(state, b, &nb);
    if (na == nb && memcmp(x, y, na) == 0)
        return;
    size_t at = 0;
    while (at < na && at < nb && x[at] == y[at])
        at++;
    fail_msg("%s (%zu bytes) and %s (%zu bytes) differ from byte %zu on", a, na, b, nb, at);
}

void lt_run_same_folder(void *state, const char *a, const char *b)
{
    lt_vec names_a = LT_VEC_OF(char *), names_b = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(a, state, &names_a));
    assert_ok(lt_dir_list(b, state, &names_b));
    assert_int_equal(names_a.n, names_b.n);
    for (int64_t i = 0; i < names_a.n; i++) {
        const char *name = LT_AT(&names_a, char *, i);
        assert_string_equal(name, LT_AT(&names_b, char *, i));
        const char *x = lt_test_path(state, a, name), *y = lt_test_path(state, b, name);
        if (lt_file_is_dir(x))
            lt_run_same_folder(state, x, y);
        else
            lt_run_same_file(state, x, y);
    }
    lt_vec_deinit(&names_a);
    lt_vec_deinit(&names_b);
}

void lt_run_same_steps(void *state, const char *a, const char *b, int64_t first, int64_t last)
{
    static const char *const keys[] = {"loss",   "grad_norm", "lr",     "consumed_samples",
                                       "tokens", "targets",   "patches"};
    const char *x = lt_run_metrics(state, a), *y = lt_run_metrics(state, b);
    for (int64_t step = first; step <= last; step++) {
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const double u = lt_run_metric(x, step, keys[k]), v = lt_run_metric(y, step, keys[k]);
            if (u != v)
                fail_msg("step %lld: %s is %.17g in %s and %.17g in %s", (long long)step, keys[k],
                         u, a, v, b);
        }
    }
}

bool lt_run_has_mpirun(void)
{
    return mpirun[0] != '\0';
}

bool lt_run_sanitized(void)
{
    return LATHE_SANITIZER[0] != '\0';
}
