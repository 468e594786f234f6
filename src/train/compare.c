// SPDX-License-Identifier: Apache-2.0
// Comparing runs: logs line by line, weights tensor by tensor.
#include "train/compare.h"
#include "base/file.h"
#include "base/memory.h"
#include "ckpt/run_folder.h"
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LOG_BYTES = 1 << 30, PIECE = 1 << 14, NAMED = 5 };

/** Figures of a step that are compared, where both lines have them. */
static const char *const figures[] = {"loss", "grad_norm", "lr", "tokens", "targets", "aux_loss"};
enum { N_FIGURES = sizeof figures / sizeof *figures };

typedef struct step {
    int64_t iteration;
    double figure[N_FIGURES]; // NaN: none
} step;

/** Two names, and what is found out about them. */
typedef struct comparing {
    const char *path[2];
    double within;
    const lt_log *log;
    lt_arena *arena;
    lt_comparison *out;
    lt_buf *text;
} comparing;

static double apart(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    const double most = fmax(fabs(a), fabs(b));
    return isfinite(a) && isfinite(b) ? fabs(a - b) / most : HUGE_VAL;
}

// ---------------------------------------------------------------- logs

/** The log of a run folder, or the file itself; *found is false where there is none. */
static lt_status read_log(const comparing *c, int side, lt_buf *out, bool *found)
{
    char *inside = NULL;
    LT_TRY(lt_path_join(c->arena, c->path[side], "metrics.jsonl", &inside));
    const bool is_file = lt_text_ends(c->path[side], ".jsonl");
    const char *path = is_file ? c->path[side] : inside;
    *found = lt_file_exists(path);
    return *found ? lt_file_read(path, MAX_LOG_BYTES, out) : LT_OK;
}

static double number_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int by_iteration(const void *a, const void *b)
{
    const step *x = a, *y = b;
    return (x->iteration > y->iteration) - (x->iteration < y->iteration);
}

/** Lines of validation have no loss of their own and are left out. */
static lt_status read_steps(const comparing *c, int side, lt_vec *steps, bool *found)
{
    lt_buf log = {0};
    lt_status st = read_log(c, side, &log, found);
    const char *at = log.len > 0 ? log.data : "";
    while (st == LT_OK && *at) {
        const size_t n = strcspn(at, "\n");
        json_t *line = json_loadb(at, n, 0, NULL);
        step s = {.iteration = json_integer_value(json_object_get(line, "iteration"))};
        for (int k = 0; k < N_FIGURES; k++)
            s.figure[k] = number_of(line, figures[k]);
        if (line && s.iteration > 0 && json_object_get(line, "loss"))
            st = lt_vec_push(steps, &s);
        json_decref(line);
        at += n + (at[n] == '\n');
    }
    lt_buf_deinit(&log);
    if (steps->n > 0)
        qsort(steps->data, (size_t)steps->n, sizeof(step), by_iteration);
    return st;
}

/** A line about a step with a figure apart; nothing for one that is the same. */
static lt_status compare_step(comparing *c, const step *a, const step *b)
{
    bool differs = false;
    c->out->n_steps++;
    for (int k = 0; k < N_FIGURES; k++)
        differs |= apart(a->figure[k], b->figure[k]) > c->within;
    if (!differs)
        return LT_OK;
    if (c->out->n_apart++ == 0)
        c->out->first_apart = a->iteration;
    if (c->out->n_apart > NAMED)
        return LT_OK;
    LT_TRY(lt_buf_printf(c->text, "step %lld:", (long long)a->iteration));
    for (int k = 0; k < N_FIGURES; k++) {
        const double d = apart(a->figure[k], b->figure[k]);
        if (d > c->within)
            LT_TRY(lt_buf_printf(c->text, " %s %.9g and %.9g (%.2g apart)", figures[k],
                                 a->figure[k], b->figure[k], d));
    }
    return lt_buf_text(c->text, "\n");
}

static lt_status align(comparing *c, const lt_vec *a, const lt_vec *b)
{
    for (int64_t i = 0, k = 0; i < a->n && k < b->n;) {
        const step *x = &LT_AT(a, step, i), *y = &LT_AT(b, step, k);
        if (x->iteration == y->iteration)
            LT_TRY(compare_step(c, x, y));
        i += x->iteration <= y->iteration;
        k += y->iteration <= x->iteration;
    }
    if (c->out->n_apart > NAMED)
        LT_TRY(
            lt_buf_printf(c->text, "and %lld more steps\n", (long long)(c->out->n_apart - NAMED)));
    return lt_buf_printf(c->text, "%lld steps in both logs, %lld of them the same\n",
                         (long long)c->out->n_steps,
                         (long long)(c->out->n_steps - c->out->n_apart));
}

static lt_status compare_logs(comparing *c)
{
    lt_vec steps[2] = {LT_VEC_OF(step), LT_VEC_OF(step)};
    bool found[2] = {false, false};
    lt_status st = LT_OK;
    for (int side = 0; side < 2 && st == LT_OK; side++)
        st = read_steps(c, side, &steps[side], &found[side]);
    c->out->have_steps = found[0] && found[1];
    if (st == LT_OK && c->out->have_steps)
        st = align(c, &steps[0], &steps[1]);
    lt_vec_deinit(&steps[0]);
    lt_vec_deinit(&steps[1]);
    return st;
}

// ---------------------------------------------------------------- weights

static int part_of(const char *name)
{
    if (strstr(name, "visual.") || strstr(name, "vision"))
        return 0;
    if (strstr(name, "embed"))
        return 1;
    return strstr(name, "layers.") ? 2 : 3;
}

/** Names as a reader would order them: layers.9 before layers.10. */
static int by_name(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            char *end_a, *end_b;
            const unsigned long long x = strtoull(a, &end_a, 10), y = strtoull(b, &end_b, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a = end_a;
            b = end_b;
        } else if (*a != *b) {
            return *a < *b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

typedef struct item {
    const lt_st_tensor *tensor;
} item;

static int by_place(const void *a, const void *b)
{
    const char *x = ((const item *)a)->tensor->name, *y = ((const item *)b)->tensor->name;
    const int p = part_of(x), q = part_of(y);
    return p != q ? p - q : by_name(x, y);
}

/** How far two tensors of one shape are from each other. */
typedef struct distance {
    int64_t n;          // elements that differ
    double most, large; // the largest difference; the largest element
} distance;

static lt_status measure(const lt_st_tensor *a, const lt_st_tensor *b, distance *d)
{
    static _Thread_local double x[PIECE], y[PIECE];
    const int64_t n = lt_st_elems(a);
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = lt_min_i64(PIECE, n - at);
        LT_TRY(lt_st_read(a, at, m, LT_F64, x));
        LT_TRY(lt_st_read(b, at, m, LT_F64, y));
        for (int64_t i = 0; i < m; i++) {
            const bool same = x[i] == y[i] || (isnan(x[i]) && isnan(y[i]));
            d->n += !same;
            d->large = fmax(d->large, fmax(fabs(x[i]), fabs(y[i])));
            if (!same) // fmax would pass over a NaN
                d->most = isfinite(x[i] - y[i]) ? fmax(d->most, fabs(x[i] - y[i])) : HUGE_VAL;
        }
    }
    return LT_OK;
}

static lt_status note_difference(comparing *c, const char *sentence)
{
    if (c->out->n_differ++ == 0)
        (void)snprintf(c->out->first, sizeof c->out->first, "%s", sentence);
    return c->out->n_differ <= NAMED ? lt_buf_printf(c->text, "%s\n", sentence) : LT_OK;
}

static bool same_shape(const lt_st_tensor *a, const lt_st_tensor *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0);
}

static lt_status compare_tensor(comparing *c, const lt_st_tensor *a, const lt_st_tensor *b)
{
    char line[1024];
    distance d = {0};
    c->out->n_tensors++;
    if (!b) {
        (void)snprintf(line, sizeof line, "%s is in %s alone", a->name, a->file);
        return note_difference(c, line);
    }
    const bool alike = same_shape(a, b), same_dtype = strcmp(a->dtype_text, b->dtype_text) == 0;
    if (alike && same_dtype && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0)
        return LT_OK;
    if (!alike || a->dtype == LT_N_DTYPES || b->dtype == LT_N_DTYPES) {
        (void)snprintf(line, sizeof line, "%s is %s and %s", a->name, lt_st_shape_text(a).s,
                       lt_st_shape_text(b).s);
        return note_difference(c, alike && same_dtype ? a->name : line);
    }
    LT_TRY(measure(a, b, &d));
    if (d.n == 0 || d.most <= c->within * d.large)
        return LT_OK;
    (void)snprintf(line, sizeof line,
                   "%s: %lld of %lld elements differ, by at most %.3g, %.2g of the largest element",
                   a->name, (long long)d.n, (long long)lt_st_elems(a), d.most, d.most / d.large);
    return note_difference(c, line);
}

static lt_status compare_tensors(comparing *c, const lt_hf *a, const lt_hf *b)
{
    void *memory = NULL;
    const int64_t n = lt_hf_count(a), more = lt_hf_count(b);
    LT_TRY(lt_arena_take(c->arena, (size_t)(n + more) * sizeof(item), &memory));
    item *all = memory;
    int64_t n_all = 0;
    for (int64_t i = 0; i < n; i++)
        all[n_all++].tensor = lt_hf_at(a, i);
    for (int64_t i = 0; i < more; i++) // those that a lacks
        if (!lt_hf_find(a, lt_hf_at(b, i)->name))
            all[n_all++].tensor = lt_hf_at(b, i);
    if (n_all > 0)
        qsort(all, (size_t)n_all, sizeof(item), by_place);
    for (int64_t i = 0; i < n_all; i++) {
        const lt_st_tensor *t = all[i].tensor;
        LT_TRY(compare_tensor(c, t, lt_hf_find(a, t->name) ? lt_hf_find(b, t->name) : NULL));
    }
    if (c->out->n_differ > NAMED)
        LT_TRY(lt_buf_printf(c->text, "and %lld more tensors\n",
                             (long long)(c->out->n_differ - NAMED)));
    return lt_buf_printf(c->text, "%lld tensors, %lld of them the same\n",
                         (long long)c->out->n_tensors,
                         (long long)(c->out->n_tensors - c->out->n_differ));
}

/** The weights that a run or a folder leads to; *out stays NULL where it has none. */
static lt_status open_weights(const comparing *c, int side, lt_hf **out)
{
    lt_run_found found;
    if (lt_text_ends(c->path[side], ".jsonl"))
        return LT_OK;
    const lt_status st = lt_run_resolve(c->path[side], c->log, c->arena, &found);
    if (st == LT_ERR_NOT_FOUND) {
        lt_error_clear();
        return LT_OK;
    }
    LT_TRY(st);
    return found.kind == LT_RUN_DCP ? LT_OK : lt_hf_open(found.dir, c->log, out);
}

static lt_status compare_weights(comparing *c)
{
    lt_hf *hf[2] = {NULL, NULL};
    lt_status st = open_weights(c, 0, &hf[0]);
    if (st == LT_OK)
        st = open_weights(c, 1, &hf[1]);
    c->out->have_weights = st == LT_OK && hf[0] && hf[1];
    if (c->out->have_weights)
        st = compare_tensors(c, hf[0], hf[1]);
    for (int side = 0; side < 2; side++)
        if (hf[side])
            lt_hf_close(hf[side]);
    return st;
}

lt_status lt_compare_runs(const char *a, const char *b, double within, const lt_log *log,
                          lt_comparison *out, lt_buf *text)
{
    comparing c = {.path = {a, b}, .within = within, .log = log, .out = out, .text = text};
    *out = (lt_comparison){0};
    LT_TRY(lt_arena_create(&c.arena, "comparing runs"));
    lt_status st = compare_logs(&c);
    if (st == LT_OK)
        st = compare_weights(&c);
    lt_arena_destroy(c.arena);
    if (st == LT_OK && !out->have_steps && !out->have_weights) {
        return LT_FAIL(LT_ERR_NOT_FOUND,
                       "%s and %s have neither a metrics.jsonl nor weights to compare: name two "
                       "folders of runs or checkpoints",
                       a, b);
    }
    return st;
}
