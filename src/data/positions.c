// SPDX-License-Identifier: Apache-2.0
// The walk over a row that gives every token its three positions.
#include "data/positions.h"

typedef struct walk {
    const int32_t *ids;
    int64_t n, at;
    int64_t next; // position that comes next
    const lt_vision_ids *vision;
    int64_t merge;
    lt_grid_cursor *cursor;
    int32_t *pos[3];
} walk;

static bool is_pad(const walk *w, int64_t i)
{
    return i < w->n && (w->ids[i] == w->vision->image_pad || w->ids[i] == w->vision->video_pad) &&
           w->ids[i] >= 0;
}

static void put_text(walk *w)
{
    for (int axis = 0; axis < 3; axis++)
        w->pos[axis][w->at] = (int32_t)w->next;
    w->next++;
    w->at++;
}

/** The grid of the run that begins here; steps the cursor. */
static lt_status take_grid(walk *w, bool video, lt_vision_run *run, lt_grid *grid)
{
    lt_grid_cursor *c = w->cursor;
    const int64_t next = video ? c->next_video : c->next_image,
                  have = video ? c->n_videos : c->n_images;
    if (next >= have) {
        return LT_FAIL(LT_ERR_DATA, "token %lld begins %s number %lld, but only %lld %s",
                       (long long)w->at, video ? "video" : "picture", (long long)next + 1,
                       (long long)have, have == 1 ? "is there" : "are there");
    }
    *grid = video ? c->videos[next] : c->images[next];
    *run = (lt_vision_run){.first = w->at, .video = video, .index = next};
    if (!video) {
        c->next_image++;
        return LT_OK;
    }
    run->slice = c->next_slice;
    grid->t = 1; // every slice has its own start token and time stamp
    if (++c->next_slice == c->videos[next].t) {
        c->next_video++;
        c->next_slice = 0;
    }
    return LT_OK;
}

static lt_status check_run(const walk *w, const lt_vision_run *run)
{
    const int32_t pad = w->ids[run->first];
    int64_t n = 0;
    while (run->first + n < w->n && w->ids[run->first + n] == pad)
        n++;
    if (n == run->n)
        return LT_OK;
    return LT_FAIL(LT_ERR_DATA,
                   "%s %lld has %lld placeholder tokens where its grid asks for %lld%s",
                   run->video ? "video" : "picture", (long long)run->index + 1, (long long)n,
                   (long long)run->n,
                   run->first + n == w->n && n < run->n ? " (the row ends there: it was cut)" : "");
}

static lt_status put_run(walk *w, lt_vision_run *run)
{
    lt_grid g;
    LT_TRY(take_grid(w, w->ids[w->at] == w->vision->video_pad, run, &g));
    const int64_t h = g.h / w->merge, width = g.w / w->merge;
    run->n = g.t * h * width;
    LT_TRY(check_run(w, run));
    for (int64_t i = 0; i < run->n; i++, w->at++) {
        w->pos[0][w->at] = (int32_t)(w->next + i / (h * width));
        w->pos[1][w->at] = (int32_t)(w->next + i / width % h);
        w->pos[2][w->at] = (int32_t)(w->next + i % width);
    }
    w->next += lt_max_i64(g.t, lt_max_i64(h, width));
    return LT_OK;
}

lt_status lt_positions_mrope(const int32_t *ids, int64_t n, const lt_vision_ids *vision,
                             int64_t merge, lt_grid_cursor *cursor, int32_t *pos, int64_t stride,
                             lt_vision_run_fn on_run, void *ctx)
{
    walk w = {.ids = ids,
              .n = n,
              .vision = vision,
              .merge = merge,
              .cursor = cursor,
              .pos = {pos, pos + stride, pos + 2 * stride}};
    LT_ASSERT(n <= INT32_MAX && merge >= 1);
    while (w.at < n) {
        const bool start = ids[w.at] == vision->vision_start && ids[w.at] >= 0;
        if (is_pad(&w, w.at)) {
            return LT_FAIL(
                LT_ERR_DATA,
                "token %lld is a placeholder (id %d) without a vision start token before it",
                (long long)w.at, (int)ids[w.at]);
        }
        if (start && w.at + 1 == n) {
            return LT_FAIL(LT_ERR_DATA,
                           "the row ends right after a vision start token (token %lld): its "
                           "picture was cut off",
                           (long long)w.at);
        }
        put_text(&w);
        if (start && is_pad(&w, w.at)) {
            lt_vision_run run;
            LT_TRY(put_run(&w, &run));
            if (on_run != NULL)
                LT_TRY(on_run(ctx, &run));
        }
    }
    return LT_OK;
}

void lt_positions_plain(int64_t n, int32_t *pos, int64_t stride)
{
    for (int64_t i = 0; i < n; i++)
        pos[i] = pos[stride + i] = pos[2 * stride + i] = (int32_t)i;
}
