// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl, the loss curve, and the events that TensorBoard reads.
#include "train/metrics.h"

#include "base/file.h"
#include "base/number.h"
#include "ckpt/publish.h"
#include "train/curve.h"
#include "train/events.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct lt_metrics {
    lt_arena *arena;
    char *path, *picture;
    FILE *file;
    lt_events *events;
    lt_vec points; /* lt_curve_point */
};

// Lines of an earlier part of the run up to `iteration` stay; what came after its checkpoint is
// done again.
static lt_status keep_earlier(lt_metrics *m, int64_t iteration)
{
    lt_buf old = {0}, kept = {0};
    const lt_status found = lt_file_read(m->path, 0, &old);
    if (found == LT_ERR_NOT_FOUND || iteration == 0) {
        lt_error_clear();
        lt_buf_deinit(&old);
        return lt_file_replace(m->path, "", 0);
    }
    lt_status st = found;
    for (char *line = old.data; st == LT_OK && line && *line;) {
        char *end = strchr(line, '\n');
        const size_t len = end ? (size_t)(end - line) : strlen(line);
        json_t *o = json_loadb(line, len, 0, NULL);
        const int64_t at = json_integer_value(json_object_get(o, "iteration"));
        const json_t *loss = json_object_get(o, "loss");
        if (o && at >= 1 && at <= iteration) {
            st = lt_buf_append(&kept, line, len);
            if (st == LT_OK)
                st = lt_buf_text(&kept, "\n");
            const lt_curve_point p = {(double)at, json_number_value(loss)};
            if (st == LT_OK && json_is_number(loss))
                st = lt_vec_push(&m->points, &p);
        }
        json_decref(o);
        line = end ? end + 1 : NULL;
    }
    if (st == LT_OK)
        st = lt_file_replace(m->path, kept.data ? kept.data : "", kept.len);
    lt_buf_deinit(&old);
    lt_buf_deinit(&kept);
    return st;
}

static lt_status open_file(lt_metrics *m, const char *dir, int64_t iteration)
{
    LT_TRY(lt_arena_create(&m->arena, "metrics"));
    LT_TRY(lt_dir_make(dir));
    LT_TRY(lt_publish_clean(dir, "metrics.jsonl.", NULL)); // what a killed run left
    LT_TRY(lt_publish_clean(dir, "loss.svg.", NULL));
    LT_TRY(lt_path_join(m->arena, dir, "metrics.jsonl", &m->path));
    LT_TRY(lt_path_join(m->arena, dir, "loss.svg", &m->picture));
    LT_TRY(keep_earlier(m, iteration));
    char *events = NULL;
    LT_TRY(lt_path_join(m->arena, dir, "tensorboard", &events));
    LT_TRY(lt_events_open(events, &m->events));
    m->file = fopen(m->path, "a");
    return m->file ? LT_OK : LT_FAIL(LT_ERR_IO, "cannot open %s for writing", m->path);
}

lt_status lt_metrics_open(const char *dir, int64_t iteration, lt_metrics **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_metrics), "metrics"));
    lt_metrics *m = memory;
    m->points = LT_VEC_OF(lt_curve_point);
    const lt_status st = open_file(m, dir, iteration);
    if (st == LT_OK) {
        *out = m;
        return LT_OK;
    }
    if (lt_events_close(m->events) != LT_OK)
        lt_error_clear();
    lt_vec_deinit(&m->points);
    lt_arena_destroy(m->arena);
    lt_mem_free(m);
    return st;
}

// The shortest text that reads back as the same number, so that runs can be compared to the bit.
// JSON has no NaN.
static void put(FILE *f, const char *key, double v)
{
    if (isfinite(v))
        (void)fprintf(f, ", \"%s\": %s", key, lt_double_text(v).s);
    else
        (void)fprintf(f, ", \"%s\": null", key);
}

static lt_status end_line(lt_metrics *m)
{
    (void)fputs("}\n", m->file);
    if (fflush(m->file) != 0 || ferror(m->file))
        return LT_FAIL(LT_ERR_IO, "%s: cannot write a line of metrics: the disk may be full",
                       m->path);
    return LT_OK;
}

double lt_layer_balance(const lt_step_metrics *s, int64_t layer)
{
    const lt_expert_use *u = &s->use;
    const double tokens = (double)s->own_tokens;
    double sum = 0.0;
    for (int64_t e = 0; e < u->experts; e++)
        sum += lt_expert_picks(u, layer, e) * lt_expert_probability(u, layer, e);
    return tokens > 0.0 ? (double)u->experts * sum / tokens / tokens : 0.0;
}

// aux_loss over all layers and of each; expert_load: how many tokens each expert of each layer got.
static void put_experts(FILE *f, const lt_step_metrics *s)
{
    const lt_expert_use *u = &s->use;
    put(f, "aux_loss", s->aux_loss);
    for (int64_t l = 0; l < u->layers; l++)
        (void)fprintf(f, "%s%s", l > 0 ? ", " : ", \"aux_loss_layers\": [",
                      lt_double_text(lt_layer_balance(s, l)).s);
    for (int64_t l = 0; l < u->layers; l++) {
        (void)fputs(l > 0 ? "], [" : "], \"expert_load\": [[", f);
        for (int64_t e = 0; e < u->experts; e++)
            (void)fprintf(f, "%s%.0f", e > 0 ? ", " : "", lt_expert_picks(u, l, e));
    }
    (void)fputs("]]", f);
}

static lt_status put_event(lt_metrics *m, const lt_step_metrics *s)
{
    const lt_event_scalar scalars[] = {
        {"train/loss", s->loss},
        {"train/grad_norm", s->grad_norm},
        {"train/lr", s->lr},
        {"train/mtp_loss", s->predicts_next ? s->mtp_loss : (double)NAN},
        {"train/aux_loss", s->use.layers > 0 ? s->aux_loss : (double)NAN},
        {"speed/step_s", s->step_s},
        {"speed/data_wait_s", s->wait_s},
        {"speed/tokens_per_s", s->tokens_per_s},
        {"speed/mfu", s->mfu}};
    return lt_events_put(m->events, (double)time(NULL), s->iteration, scalars,
                         (int64_t)(sizeof scalars / sizeof *scalars));
}

lt_status lt_metrics_step(lt_metrics *m, const lt_step_metrics *s)
{
    (void)fprintf(m->file,
                  "{\"iteration\": %lld, \"consumed_samples\": %lld, \"tokens\": %lld, "
                  "\"targets\": %lld, \"patches\": %lld",
                  (long long)s->iteration, (long long)s->consumed_samples, (long long)s->tokens,
                  (long long)s->targets, (long long)s->patches);
    const struct {
        const char *key;
        double value;
    } rows[] = {{"loss", s->loss},
                {"grad_norm", s->grad_norm},
                {"lr", s->lr},
                {"step_s", s->step_s},
                {"data_wait_s", s->wait_s},
                {"update_s", s->update_s},
                {"tokens_per_s", s->tokens_per_s},
                {"model_flops", s->model_flops},
                {"mfu", s->mfu}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put(m->file, rows[i].key, rows[i].value);
    (void)fprintf(m->file, ", \"memory_bytes\": %lld, \"host_bytes\": %lld",
                  (long long)s->memory_bytes, (long long)s->host_bytes);
    if (s->ranks > 1) {
        put(m->file, "comm_s", s->comm_s);
        (void)fprintf(m->file, ", \"most_memory_bytes\": %lld", (long long)s->most_bytes);
    }
    if (s->predicts_next)
        put(m->file, "mtp_loss", s->mtp_loss);
    if (s->use.layers > 0)
        put_experts(m->file, s);
    const lt_curve_point p = {(double)s->iteration, s->loss};
    LT_TRY(lt_vec_push(&m->points, &p));
    LT_TRY(end_line(m));
    return put_event(m, s);
}

lt_status lt_metrics_validation(lt_metrics *m, int64_t iteration, double loss)
{
    (void)fprintf(m->file, "{\"iteration\": %lld", (long long)iteration);
    put(m->file, "validation_loss", loss);
    LT_TRY(end_line(m));
    const lt_event_scalar scalar = {"validation/loss", loss};
    return lt_events_put(m->events, (double)time(NULL), iteration, &scalar, 1);
}

lt_status lt_metrics_close(lt_metrics *m)
{
    if (!m)
        return LT_OK;
    lt_status st =
        fclose(m->file) == 0 ? LT_OK : LT_FAIL(LT_ERR_IO, "%s: cannot finish writing", m->path);
    const lt_status closed = lt_events_close(m->events);
    st = st == LT_OK ? closed : st;
    lt_buf svg = {0};
    if (st == LT_OK)
        st = lt_curve_svg(m->points.data, m->points.n, "loss", &svg);
    if (st == LT_OK)
        st = lt_file_replace(m->picture, svg.data, svg.len);
    lt_buf_deinit(&svg);
    lt_vec_deinit(&m->points);
    lt_arena_destroy(m->arena);
    lt_mem_free(m);
    return st;
}
