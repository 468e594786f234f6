// SPDX-License-Identifier: Apache-2.0
// Drawing the memory timeline.
#include "train/plan_picture.h"

#include "plan/peak.h"

#include <math.h>

enum { WIDTH = 1030, HEIGHT = 520, LEFT = 70, RIGHT = 280, TOP = 48, BOTTOM = 48, TICKS = 6 };

// A layer of the picture: a part of the state, or what some kinds of buffers have alive.
typedef struct layer {
    const char *name, *colour;
    uint32_t parts, kinds; /* bits of lt_state_part, lt_buffer_kind */
} layer;

static const layer layers[] = {
    {"parameters", "#4c78a8", 1U << LT_STATE_VALUE | 1U << LT_STATE_LOW, 0},
    {"moments", "#72b7b2", 1U << LT_STATE_M | 1U << LT_STATE_V, 1U << LT_BUF_UNIT_MOMENTS},
    {"gradients", "#9ecae9", 1U << LT_STATE_GRAD, 1U << LT_BUF_UNIT_GRADS},
    {"gathered parameters", "#b279a2", 0, 1U << LT_BUF_UNIT_VALUES},
    {"batch", "#bab0ac", 0, 1U << LT_BUF_BATCH | 1U << LT_BUF_SCALARS | 1U << LT_BUF_NORM},
    {"saved values", "#f58518", 0, 1U << LT_BUF_SAVED},
    {"block outputs", "#eeca3b", 0, 1U << LT_BUF_EDGE},
    {"gradients of outputs", "#54a24b", 0, 1U << LT_BUF_GRAD},
    {"workspace", "#e45756", 0, 1U << LT_BUF_WORK},
};
enum { N_LAYERS = sizeof layers / sizeof *layers };

typedef struct canvas {
    const lt_plan_picture *p;
    double *x;    /* [actions + 1] pixels */
    double *tops; /* [N_LAYERS + 1][actions] bytes below the upper edge of a layer */
    int32_t n;
    double most; /* bytes at the upper end of the scale */
    double end_s;
} canvas;

static double y_of(const canvas *c, double bytes)
{
    return HEIGHT - BOTTOM - bytes / c->most * (HEIGHT - TOP - BOTTOM);
}

static double *top(const canvas *c, int l)
{
    return c->tops + (int64_t)l * c->n;
}

// Lives are counted in the list's order, so time must not run back along it.
static void place_times(canvas *c)
{
    double last = 0.0;
    for (int32_t i = 0; i < c->n; i++)
        c->end_s = fmax(c->end_s, c->p->begin_s[i]);
    c->end_s = c->end_s > 0.0 ? c->end_s : 1.0;
    for (int32_t i = 0; i < c->n; i++) {
        last = fmax(last, c->p->begin_s[i]);
        c->x[i] = LEFT + last / c->end_s * (WIDTH - LEFT - RIGHT);
    }
    c->x[c->n] = WIDTH - RIGHT;
}

static double state_bytes(const canvas *c, const layer *l)
{
    double bytes = l->kinds & 1U << LT_BUF_BATCH ? (double)c->p->batch : 0.0;
    for (int part = 0; part < LT_N_STATE_PARTS; part++)
        if (l->parts >> part & 1)
            bytes += (double)c->p->state_part[part];
    return bytes;
}

static void stack(canvas *c)
{
    const lt_program *p = c->p->program;
    for (int l = 0; l < N_LAYERS; l++) {
        double *here = top(c, l + 1);
        for (int32_t i = 0; i < c->n; i++)
            here[i] = state_bytes(c, &layers[l]);
        for (int64_t b = 0; b < p->buffers.n; b++) {
            const lt_buffer *x = lt_buffer_at(p, b);
            if (!lt_in_step_pool(p, x) || x->begin < 0 || !(layers[l].kinds >> x->kind & 1))
                continue;
            for (int32_t i = x->begin; i <= x->end; i++)
                here[i] += (double)x->bytes;
        }
        for (int32_t i = 0; i < c->n; i++) {
            here[i] += top(c, l)[i];
            c->most = fmax(c->most, here[i]);
        }
    }
}

static lt_status draw_layer(const canvas *c, int l, lt_buf *out)
{
    const double *low = top(c, l), *high = top(c, l + 1);
    LT_TRY(lt_buf_printf(out, "<path fill=\"%s\" d=\"M%.1f %.1f", layers[l].colour, c->x[0],
                         y_of(c, high[0])));
    for (int32_t i = 0; i < c->n; i++)
        LT_TRY(lt_buf_printf(out, "L%.1f %.1fH%.1f", c->x[i], y_of(c, high[i]), c->x[i + 1]));
    for (int32_t i = c->n - 1; i >= 0; i--)
        LT_TRY(lt_buf_printf(out, "L%.1f %.1fH%.1f", c->x[i + 1], y_of(c, low[i]), c->x[i]));
    return lt_buf_text(out, "Z\"/>\n");
}

static double most_of(const canvas *c, int l)
{
    double most = 0.0;
    for (int32_t i = 0; i < c->n; i++)
        most = fmax(most, top(c, l + 1)[i] - top(c, l)[i]);
    return most;
}

static lt_status draw_legend(const canvas *c, lt_buf *out)
{
    int row = 0;
    for (int l = N_LAYERS - 1; l >= 0; l--) {
        const double most = most_of(c, l);
        const int y = TOP + 8 + 22 * row;
        if (most <= 0.0)
            continue;
        row++;
        LT_TRY(lt_buf_printf(out,
                             "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>"
                             "<text x=\"%d\" y=\"%d\">%s, up to %s</text>\n",
                             WIDTH - RIGHT + 16, y, layers[l].colour, WIDTH - RIGHT + 34, y + 11,
                             layers[l].name, lt_bytes_text((int64_t)most).s));
    }
    return LT_OK;
}

// 1, 2 or 5 times a power of ten, such that at most TICKS steps cover the range.
static double tick_step(double range)
{
    const double power = pow(10.0, floor(log10(range / TICKS)));
    const double factors[] = {1.0, 2.0, 5.0};
    for (int i = 0; i < 3; i++)
        if (range / (factors[i] * power) <= TICKS)
            return factors[i] * power;
    return 10.0 * power;
}

static lt_status draw_axes(const canvas *c, lt_buf *out)
{
    const double unit = c->most > 2e9 ? (double)(1 << 30) : (double)(1 << 20);
    const double dy = tick_step(c->most / unit), dx = tick_step(c->end_s * 1e3);
    LT_TRY(lt_buf_printf(out, "<text x=\"8\" y=\"%d\" fill=\"#555555\">%s</text>\n", TOP - 8,
                         unit > 1e9 ? "GiB" : "MiB"));
    for (int i = 0; i * dy * unit <= c->most; i++) {
        const double v = i * dy, y = y_of(c, v * unit);
        LT_TRY(
            lt_buf_printf(out,
                          "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" y=\"%.1f\" "
                          "text-anchor=\"end\">%g</text>\n",
                          LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, v));
    }
    for (int i = 0; i * dx <= c->end_s * 1e3; i++) {
        const double v = i * dx;
        LT_TRY(lt_buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                             LEFT + v / c->end_s * 1e-3 * (WIDTH - LEFT - RIGHT),
                             HEIGHT - BOTTOM + 20, v));
    }
    return lt_buf_printf(out,
                         "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#555555\">"
                         "estimated ms</text>\n",
                         WIDTH - RIGHT, HEIGHT - 8);
}

static lt_status draw_line(const canvas *c, double bytes, const char *text, lt_buf *out)
{
    const double y = y_of(c, bytes);
    return lt_buf_printf(out,
                         "<path d=\"M%d %.1fH%d\" stroke=\"#222222\" stroke-dasharray=\"6 4\"/>"
                         "<text x=\"%d\" y=\"%.1f\">%s %s</text>\n",
                         LEFT, y, WIDTH - RIGHT, LEFT + 6, y - 5, text,
                         lt_bytes_text((int64_t)bytes).s);
}

// The highest moment, and what is at work there.
static lt_status draw_peak(const canvas *c, lt_buf *out)
{
    const lt_program *p = c->p->program;
    const double *all = top(c, N_LAYERS);
    int32_t at = 0;
    for (int32_t i = 1; i < c->n; i++)
        at = all[i] > all[at] ? i : at;
    const lt_action *a = lt_action_at(p, at);
    const bool block = a->kind == LT_ACT_FORWARD || a->kind == LT_ACT_BACKWARD;
    const double x = (c->x[at] + c->x[at + 1]) / 2, y = y_of(c, all[at]);
    const char *anchor = x > (LEFT + WIDTH - RIGHT) / 2.0 ? "end" : "start";
    return lt_buf_printf(
        out,
        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"none\" stroke=\"#000000\"/>"
        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">peak %s: %s %s</text>\n",
        x, y, x, HEIGHT - BOTTOM + 36, anchor, lt_bytes_text((int64_t)all[at]).s,
        lt_action_name(a->kind), block ? p->opts.model->blocks[a->subject].name : "");
}

static lt_status draw(canvas *c, lt_buf *out)
{
    const lt_plan_picture *p = c->p;
    double pool = (double)(p->program->step_bytes + p->batch);
    for (int part = 0; part < LT_N_STATE_PARTS; part++)
        pool += (double)p->state_part[part];
    place_times(c);
    stack(c);
    c->most = fmax(c->most, pool);
    // A limit far above the run would press it flat.
    const bool limit = p->limit > 0 && (double)p->limit < 2.5 * c->most;
    c->most = 1.06 * (limit ? fmax(c->most, (double)p->limit) : c->most);
    LT_TRY(lt_buf_printf(out,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                         "font-family=\"sans-serif\" font-size=\"12\">\n"
                         "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n"
                         "<text x=\"%d\" y=\"24\" font-size=\"16\">%s</text>\n",
                         WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, p->title));
    LT_TRY(draw_axes(c, out));
    for (int l = 0; l < N_LAYERS; l++)
        LT_TRY(draw_layer(c, l, out));
    LT_TRY(draw_line(c, pool, "allocated", out));
    if (limit)
        LT_TRY(draw_line(c, (double)p->limit, "the device has", out));
    LT_TRY(draw_peak(c, out));
    LT_TRY(draw_legend(c, out));
    return lt_buf_text(out, "</svg>\n");
}

lt_status lt_plan_picture_svg(const lt_plan_picture *p, lt_buf *out)
{
    void *memory = NULL;
    canvas c = {.p = p, .n = lt_int(p->program->actions.n)};
    const size_t n = (size_t)c.n * (N_LAYERS + 2) + 1;
    LT_TRY(lt_mem_alloc(&memory, n * sizeof(double), "the picture of a plan"));
    c.x = memory;
    c.tops = c.x + c.n + 1;
    const lt_status st = draw(&c, out);
    lt_mem_free(memory);
    return st;
}
