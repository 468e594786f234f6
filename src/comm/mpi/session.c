// SPDX-License-Identifier: Apache-2.0
// Joining, waiting, reporting and leaving.
#include "comm/mpi/session.h"

#include "base/log.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 1 << 30 }; // bytes of a message: MPI counts in int

lt_status lt_mpi_check(const lt_mpi *m, int code, const char *call)
{
    char text[512] = ""; // MPI_MAX_ERROR_STRING is 256
    int length = 0;
    if (code == 0)
        return LT_OK;
    (void)m->lib.error_string(code, text, &length);
    return LT_FAIL(LT_ERR_IO, "%s: %s", call, text);
}

/* ---- waiting ---- */

// Ranks may share cores: who waits soon leaves them to others.
static void rest(int64_t times)
{
    enum { YIELDS = 200 };
    static const long naps_ns[] = {20000, 50000, 100000, 200000, 500000};
    enum { NAPS = (int)(sizeof naps_ns / sizeof naps_ns[0]), EACH = 20 };
    if (times < YIELDS) {
        (void)sched_yield();
        return;
    }
    const int64_t nap = lt_min_i64((times - YIELDS) / EACH, NAPS - 1);
    (void)nanosleep(&(struct timespec){.tv_nsec = naps_ns[nap]}, NULL);
}

static bool is_failure(int32_t status)
{
    return status != LT_OK && status != LT_ERR_CANCELLED;
}

static lt_status expect_report(lt_mpi *m)
{
    return lt_mpi_check(m,
                        m->lib.irecv(&m->mail, (int)sizeof m->mail, m->lib.byte, LT_MPI_ANY_SOURCE,
                                     LT_MPI_TAG_REPORT, m->lib.world, &m->mail_request),
                        "MPI_Irecv");
}

// On the first rank: has a report come?
static lt_status look_for_report(lt_mpi *m)
{
    int come = 0;
    if (!lt_mpi_is_first(m))
        return LT_OK;
    LT_TRY(lt_mpi_check(m, m->lib.testall(1, &m->mail_request, &come, NULL), "MPI_Testall"));
    if (!come)
        return LT_OK;
    m->n_reports++;
    m->mail.text[sizeof m->mail.text - 1] = '\0';
    if (is_failure(m->mail.status) && !m->failed) {
        m->failed = true;
        m->cause = m->mail;
    }
    return expect_report(m);
}

static lt_status cancelled(const lt_mpi *m)
{
    return LT_FAIL(LT_ERR_CANCELLED, "another rank has failed: %s", m->cause.text);
}

// A rank that fails behind the last call that all took part in may be heard of before that call is
// over here: what is under way has some time to come to its end.
lt_status lt_mpi_wait(lt_mpi *m)
{
    static const double patience_s = 2.0;
    double until = INFINITY;
    int done = 0;
    for (int64_t times = 0; !done; times++) {
        const int code = m->lib.testall((int)m->requests.n, m->requests.data, &done, NULL);
        LT_TRY(lt_mpi_check(m, code, "MPI_Testall"));
        if (done || lt_clock_now() > until)
            break;
        LT_TRY(look_for_report(m));
        if (m->failed && isinf(until))
            until = lt_clock_now() + patience_s;
        rest(times);
    }
    m->requests.n = 0;
    return done ? LT_OK : cancelled(m);
}

/* ---- transfers ---- */

static int tag_of(const lt_mpi_group *g, bool header)
{
    return LT_MPI_TAG_FIRST_GROUP + 2 * g->id + header;
}

static lt_status keep(lt_mpi *m, int code, const char *call, lt_mpi_handle request)
{
    LT_TRY(lt_mpi_check(m, code, call));
    return lt_vec_push(&m->requests, &request);
}

lt_status lt_mpi_send(lt_mpi_group *g, int32_t peer, bool header, const void *data, size_t bytes)
{
    lt_mpi *m = g->m;
    if (m->failed)
        return cancelled(m);
    for (size_t at = 0; at < bytes; at += MOST_AT_ONCE) {
        const size_t some = bytes - at < MOST_AT_ONCE ? bytes - at : MOST_AT_ONCE;
        lt_mpi_handle request = NULL;
        const int code = m->lib.isend((const char *)data + at, (int)some, m->lib.byte,
                                      g->world[peer], tag_of(g, header), m->lib.world, &request);
        LT_TRY(keep(m, code, "MPI_Isend", request));
    }
    return LT_OK;
}

lt_status lt_mpi_receive(lt_mpi_group *g, int32_t peer, bool header, void *data, size_t bytes)
{
    lt_mpi *m = g->m;
    if (m->failed)
        return cancelled(m);
    for (size_t at = 0; at < bytes; at += MOST_AT_ONCE) {
        const size_t some = bytes - at < MOST_AT_ONCE ? bytes - at : MOST_AT_ONCE;
        lt_mpi_handle request = NULL;
        const int code = m->lib.irecv((char *)data + at, (int)some, m->lib.byte, g->world[peer],
                                      tag_of(g, header), m->lib.world, &request);
        LT_TRY(keep(m, code, "MPI_Irecv", request));
    }
    return LT_OK;
}

/* ---- joining ---- */

static lt_status open_world(lt_mpi *m)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)m->launch.size * sizeof(int32_t), "ranks"));
    int32_t *ranks = memory;
    for (int32_t i = 0; i < m->launch.size; i++)
        ranks[i] = i;
    LT_TRY(lt_mpi_group_create(m, ranks, m->launch.size, m->launch.rank, m->next_id++, &m->world));
    (void)snprintf(m->world->name, sizeof m->world->name, "rank %d of %d on %s", m->launch.rank,
                   m->launch.size, m->host);
    return lt_mpi_compare_hosts(m->world);
}

static lt_status check_size(lt_mpi *m)
{
    int rank = 0, size = 0;
    LT_TRY(lt_mpi_check(m, m->lib.comm_size(m->lib.world, &size), "MPI_Comm_size"));
    LT_TRY(lt_mpi_check(m, m->lib.comm_rank(m->lib.world, &rank), "MPI_Comm_rank"));
    if (size != m->launch.size) {
        m->joined = false; // each would be the first
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s started %d processes, but Open MPI knows of %d: they are not joined. "
                       "Slurm wants srun --mpi=pmix (srun --mpi=list says what it has); the mpirun "
                       "has to be Open MPI's own",
                       m->launch.by, m->launch.size, size);
    }
    m->launch.rank = rank;
    return LT_OK;
}

static lt_status join(lt_mpi *m)
{
    int provided = 0;
    if (lt_mpi_library_open(&m->lib) != LT_OK) {
        lt_error_note("%s started this process as one of %d ranks, for which Open MPI is needed "
                      "(Debian: libopenmpi3; without it lathe train -n %d runs ranks on one host)",
                      m->launch.by, m->launch.size, m->launch.size);
        return LT_ERR_NOT_FOUND;
    }
    LT_TRY(lt_mpi_check(m, m->lib.init_thread(NULL, NULL, LT_MPI_FUNNELED, &provided),
                        "MPI_Init_thread"));
    m->joined = true;
    m->mail_request = m->lib.no_request;
    LT_TRY(lt_mpi_check(m, m->lib.set_errhandler(m->lib.world, m->lib.errors_return),
                        "MPI_Comm_set_errhandler"));
    LT_TRY(check_size(m));
    if (lt_mpi_is_first(m))
        LT_TRY(expect_report(m));
    return open_world(m);
}

lt_status lt_mpi_open(lt_mpi **out)
{
    void *memory = NULL;
    const lt_launch launch = lt_launch_read(getenv);
    *out = NULL;
    if (!launch.by)
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_mpi), "ranks as processes"));
    lt_mpi *m = *out = memory;
    m->launch = launch;
    m->requests = LT_VEC_OF(lt_mpi_handle);
    if (gethostname(m->host, sizeof m->host - 1) != 0)
        (void)snprintf(m->host, sizeof m->host, "an unnamed host");
    return join(m);
}

lt_group *lt_mpi_world(lt_mpi *m)
{
    return m ? m->world : NULL;
}

bool lt_mpi_is_first(const lt_mpi *m)
{
    return !m || m->launch.rank == 0;
}

/* ---- leaving ---- */

static void wait_for_reports(lt_mpi *m)
{
    for (int64_t times = 0; !m->failed && m->n_reports < m->launch.size - 1; times++) {
        if (look_for_report(m) != LT_OK)
            return;
        rest(times);
    }
}

static lt_status report(lt_mpi *m, lt_status st)
{
    m->mail = (lt_report){.rank = m->launch.rank, .status = (int32_t)st};
    (void)snprintf(m->mail.text, sizeof m->mail.text, "%s", lt_error_message());
    return lt_mpi_check(m,
                        m->lib.isend(&m->mail, (int)sizeof m->mail, m->lib.byte, 0,
                                     LT_MPI_TAG_REPORT, m->lib.world, &m->mail_request),
                        "MPI_Isend");
}

// The first rank ends all when it learns of a failure. Ranks give it time one after another, so
// that one of them speaks.
static void wait_for_the_end(lt_mpi *m)
{
    static const double patience_s = 5.0, more_s = 0.1;
    enum { STEPS = 30 };
    const double until = lt_clock_now() + patience_s +
                         more_s * (double)(m->launch.rank < STEPS ? m->launch.rank : STEPS);
    int sent = 0;
    for (int64_t times = 0; lt_clock_now() < until; times++) {
        if (m->lib.testall(1, &m->mail_request, &sent, NULL) != 0)
            return;
        rest(times);
    }
}

bool lt_mpi_settle(lt_mpi *m, lt_status *st)
{
    char message[sizeof m->mail.text];
    if (!m || !m->joined)
        return lt_mpi_is_first(m);
    if (lt_mpi_is_first(m)) {
        if (!is_failure((int32_t)*st))
            wait_for_reports(m);
        if (!is_failure((int32_t)*st) && m->failed)
            *st = lt_error_adopt((lt_status)m->cause.status, m->cause.text);
        return true;
    }
    if (*st != LT_OK)
        lt_error_note("%s", lt_group_name(m->world));
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    const bool told = report(m, *st) == LT_OK;
    if (!is_failure((int32_t)*st))
        return false;
    if (told)
        wait_for_the_end(m);
    *st = lt_error_adopt(*st, message);
    return true;
}

void lt_mpi_close(lt_mpi *m, lt_status st, int exit_code)
{
    if (!m)
        return;
    if (m->joined && (is_failure((int32_t)st) || m->failed)) {
        // mpirun may lose what it has not read by then
        (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        (void)m->lib.abort(m->lib.world, exit_code);
    }
    if (m->joined && lt_mpi_is_first(m) && m->mail_request != m->lib.no_request) {
        (void)m->lib.cancel(&m->mail_request);
        (void)m->lib.request_free(&m->mail_request);
    }
    if (m->joined)
        (void)m->lib.finalize();
    lt_group_close(m->world);
    lt_vec_deinit(&m->requests);
    lt_mem_free(m->scratch);
    lt_mem_free(m->source);
    lt_mem_free(m);
}
