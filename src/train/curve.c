// SPDX-License-Identifier: Apache-2.0
// Drawing a curve.
#include "train/curve.h"

#include <math.h>

enum { WIDTH = 800, HEIGHT = 420, LEFT = 64, RIGHT = 20, TOP = 40, BOTTOM = 44, TICKS = 6 };

// The picture's coordinates for a range of values.
typedef struct frame {
    double x0, x1, y0, y1;
} frame;

static double px(const frame *f, double x)
{
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double py(const frame *f, double y)
{
    return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

static frame range_of(const lt_curve_point *p, int64_t n)
{
    const double far = (double)INFINITY;
    frame f = {far, -far, 0.0, -far};
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(p[i].y))
            continue;
        f.x0 = fmin(f.x0, p[i].x);
        f.x1 = fmax(f.x1, p[i].x);
        f.y0 = fmin(f.y0, p[i].y);
        f.y1 = fmax(f.y1, p[i].y);
    }
    if (!(f.x1 >= f.x0))
        return (frame){0.0, 1.0, 0.0, 1.0};
    if (f.x1 <= f.x0)
        f.x1 = f.x0 + 1.0;
    if (f.y1 <= f.y0)
        f.y1 = f.y0 + 1.0;
    return f;
}

// 1, 2 or 5 times a power of ten, such that at most TICKS steps cover the range.
static double tick_step(double range)
{
    const double power = pow(10.0, floor(log10(range / TICKS)));
    const double factors[] = {1.0, 2.0, 5.0, 10.0};
    for (int i = 0; i < 4; i++)
        if (range / (factors[i] * power) <= TICKS)
            return factors[i] * power;
    return 10.0 * power;
}

static lt_status draw_axes(const frame *f, const char *title, lt_buf *out)
{
    LT_TRY(lt_buf_printf(out,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                         "font-family=\"sans-serif\" font-size=\"12\">\n"
                         "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n<text x=\"%d\" "
                         "y=\"24\" font-size=\"16\">%s</text>\n",
                         WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, title));
    const double dy = tick_step(f->y1 - f->y0), dx = tick_step(f->x1 - f->x0);
    for (int64_t i = (int64_t)ceil(f->y0 / dy); (double)i * dy <= f->y1; i++) {
        const double y = (double)i * dy;
        LT_TRY(lt_buf_printf(out,
                             "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" "
                             "y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                             LEFT, py(f, y), WIDTH - RIGHT, LEFT - 8, py(f, y) + 4, y));
    }
    for (int64_t i = (int64_t)ceil(f->x0 / dx); (double)i * dx <= f->x1; i++) {
        const double x = (double)i * dx;
        LT_TRY(lt_buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                             px(f, x), HEIGHT - BOTTOM + 20, x));
    }
    return lt_buf_printf(
        out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#555555\">step</text>\n",
        WIDTH - RIGHT, HEIGHT - 8);
}

static lt_status draw_line(const frame *f, const lt_curve_point *p, int64_t n, int64_t window,
                           const char *style, lt_buf *out)
{
    LT_TRY(lt_buf_text(out, "<path fill=\"none\" "));
    LT_TRY(lt_buf_printf(out, "%s d=\"", style));
    bool pen = false;
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += isfinite(p[i].y) ? p[i].y : 0.0;
        count += isfinite(p[i].y);
        if (i >= window && isfinite(p[i - window].y)) {
            sum -= p[i - window].y;
            count--;
        }
        if (!isfinite(p[i].y) || count == 0) {
            pen = false;
            continue;
        }
        LT_TRY(lt_buf_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', px(f, p[i].x),
                             py(f, sum / (double)count)));
        pen = true;
    }
    return lt_buf_text(out, "\"/>\n");
}

lt_status lt_curve_svg(const lt_curve_point *points, int64_t n, const char *title, lt_buf *out)
{
    const frame f = range_of(points, n);
    LT_TRY(draw_axes(&f, title, out));
    LT_TRY(draw_line(&f, points, n, 1, "stroke=\"#9ecae1\" stroke-width=\"1\"", out));
    LT_TRY(draw_line(&f, points, n, lt_max_i64(n / 40, 1), "stroke=\"#08519c\" stroke-width=\"2\"",
                     out));
    return lt_buf_text(out, "</svg>\n");
}
