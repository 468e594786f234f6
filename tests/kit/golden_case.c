// SPDX-License-Identifier: Apache-2.0
// Golden model folders: weights into an executor, padded cases into packed micro-batches.
#include "tests/kit/golden_case.h"

#include "train/feed.h"

#include <stdio.h>
#include <string.h>

static lt_status reset_param(golden_model *g, lt_arena *arena, const lt_param *p)
{
    lt_hf_weight w;
    const char *name = p->name;
    for (int32_t i = 0; !lt_hf_has_weight(g->weights, name) && i < p->n_aliases; i++)
        name = p->aliases[i];
    if (!lt_hf_has_weight(g->weights, name))
        name = p->name;
    LT_TRY(lt_hf_find_weight(g->weights, arena, name, p->rank, p->dim,
                             lt_model_experts_transposed(&g->model->config), &w));
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)p->n_elems * sizeof(float), "a weight"));
    lt_status st = lt_hf_weight_read(&w, 0, p->n_elems, LT_F32, memory);
    if (st == LT_OK)
        st = lt_exec_write(g->exec, p->id, LT_STATE_VALUE, 0, p->n_elems, LT_F32, memory);
    memset(memory, 0, (size_t)p->n_elems * sizeof(float));
    for (int part = LT_STATE_M; st == LT_OK && part <= LT_STATE_V; part++)
        if (lt_exec_has(g->exec, p->id, (lt_state_part)part))
            st = lt_exec_write(g->exec, p->id, (lt_state_part)part, 0, p->n_elems, LT_F32, memory);
    lt_mem_free(memory);
    return st;
}

lt_status golden_reset(golden_model *g)
{
    lt_arena *arena = NULL;
    lt_status st = lt_arena_create(&arena, "golden weights");
    for (int32_t i = 0; st == LT_OK && i < g->model->n_params; i++)
        st = reset_param(g, arena, &g->model->params[i]);
    lt_arena_destroy(arena);
    return st;
}

static lt_status open_exec(const golden_opts *o, golden_model *g)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, (size_t)g->model->n_blocks * sizeof(lt_policy), "policies"));
    lt_policy *policy = memory;
    for (int32_t b = 0; b < g->model->n_blocks; b++)
        policy[b] = o->policy;
    const lt_exec_opts opts = {.device = o->device,
                               .model = g->model,
                               .units = g->units,
                               .compute = o->compute,
                               .training = true,
                               .policy = policy,
                               .forward_prefetch = 1,
                               .reshard_after_forward = o->ranks != NULL,
                               .ranks = o->ranks,
                               .adamw = o->adamw,
                               .poison = o->poison,
                               .order_seed = o->order_seed};
    const lt_status st = lt_exec_create(&opts, &g->exec);
    lt_mem_free(policy);
    return st;
}

lt_status golden_open(const char *dir, const golden_opts *opts, golden_model *g)
{
    *g = (golden_model){0};
    (void)snprintf(g->dir, sizeof g->dir, "%s", dir);
    lt_model_config config;
    LT_TRY(lt_model_config_load(dir, NULL, &config));
    config.text.gdn.chunk = opts->chunk;
    LT_TRY(lt_hf_open(dir, NULL, &g->weights));
    config.text.mtp = lt_hf_find(g->weights, "mtp.fc.weight") != NULL;
    const char *old_head = lt_model_old_head_name(&config);
    const bool no_head = !lt_hf_find(g->weights, lt_model_head_name(&config)) &&
                         !(old_head && lt_hf_find(g->weights, old_head));
    LT_TRY(lt_model_create(&config, no_head ? LT_HEAD_TIED : LT_HEAD_AS_CONFIG, &g->model));
    g->ranks = opts->ranks;
    static const char *const layers[] = {"model.language_model.layers.{*}",
                                         "model.visual.blocks.{*}"};
    LT_TRY(lt_units_create(g->model, layers, opts->ranks ? 2 : 0, NULL, &g->units));
    LT_TRY(open_exec(opts, g));
    return golden_reset(g);
}

void golden_close(golden_model *g)
{
    lt_exec_destroy(g->exec);
    lt_units_destroy(g->units);
    lt_model_destroy(g->model);
    lt_hf_close(g->weights);
}

// One row of the case, cut at its mask, with the media whose placeholders it holds.
typedef struct reader {
    const golden_model *g;
    golden_case *c;
    int64_t image, video;         /* grids used so far */
    int64_t image_row, video_row; /* patch rows used so far */
    lt_vec media;                 /* lt_media, all rows */
    lt_vec first_row;             /* int64_t, by medium: its first patch row in its own tensor */
} reader;

static lt_status read_ints(const reader *r, const char *name, int64_t first, int64_t n,
                           int64_t *out)
{
    const lt_st_tensor *t = lt_st_find(r->c->file, name);
    if (!t)
        return LT_FAIL(LT_ERR_FORMAT, "%s: tensor %s is missing", lt_st_path(r->c->file), name);
    return lt_st_read(t, first, n, LT_I64, out);
}

// A medium begins at a placeholder that no medium before it covers. A video covers its slices, with
// text between them.
static lt_status take_medium(reader *r, bool video, int64_t *tokens)
{
    const lt_vision_config *v = &r->g->model->config.vision;
    int64_t grid[3] = {1, v->grid, v->grid}; // a tile
    int64_t *number = video ? &r->video : &r->image, *row = video ? &r->video_row : &r->image_row;
    if (!v->intern.class_token)
        LT_TRY(
            read_ints(r, video ? "in.video_grid_thw" : "in.image_grid_thw", *number * 3, 3, grid));
    const lt_media m = {video ? LT_MEDIA_VIDEO : LT_MEDIA_IMAGE,
                        lt_st_path(r->c->file),
                        {grid[0], grid[1], grid[2]},
                        NULL};
    LT_TRY(lt_vec_push(&r->media, &m));
    LT_TRY(lt_vec_push(&r->first_row, row));
    *number += 1;
    *row += lt_grid_patches(m.grid);
    *tokens = lt_grid_tokens(m.grid, v->merge);
    return LT_OK;
}

static lt_status find_media(reader *r, const int64_t *ids, int64_t n)
{
    int64_t left_image = 0, left_video = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] == r->g->model->config.image_token) {
            if (left_image == 0)
                LT_TRY(take_medium(r, false, &left_image));
            left_image--;
        } else if (ids[i] == r->g->model->config.video_token) {
            if (left_video == 0)
                LT_TRY(take_medium(r, true, &left_video));
            left_video--;
        }
    }
    return LT_OK;
}

static lt_status take_ints(lt_arena *arena, int64_t n, int64_t **wide, int32_t **narrow)
{
    void *memory = NULL;
    if (wide) {
        LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int64_t), &memory));
        *wide = memory;
    }
    if (narrow) {
        LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(int32_t), &memory));
        *narrow = memory;
    }
    return LT_OK;
}

static lt_status read_row(reader *r, int64_t row, lt_sample *s)
{
    golden_case *c = r->c;
    int64_t *mask = NULL, *ids = NULL, *labels = NULL;
    int32_t *ids32 = NULL, *labels32 = NULL;
    LT_TRY(take_ints(c->arena, c->padded, &mask, NULL));
    LT_TRY(take_ints(c->arena, c->padded, &ids, &ids32));
    LT_TRY(take_ints(c->arena, c->padded, &labels, &labels32));
    LT_TRY(read_ints(r, "in.attention_mask", row * c->padded, c->padded, mask));
    LT_TRY(read_ints(r, "in.input_ids", row * c->padded, c->padded, ids));
    LT_TRY(read_ints(r, "in.labels", row * c->padded, c->padded, labels));
    int64_t n = 0;
    while (n < c->padded && mask[n] == 1)
        n++;
    for (int64_t i = 0; i < n; i++) {
        ids32[i] = (int32_t)ids[i];
        labels32[i] = (int32_t)labels[i];
    }
    c->lengths[row] = n;
    const int64_t media = r->media.n;
    LT_TRY(find_media(r, ids, n));
    *s = (lt_sample){.ids = ids32,
                     .labels = labels32,
                     .n = n,
                     .n_media = r->media.n - media,
                     .file = lt_st_path(c->file),
                     .record = row};
    return LT_OK;
}

// The patch rows of tile `number` from [tiles, channels, side, side]: merge groups together, a
// patch as (channel, y, x).
static lt_status give_tile(const reader *r, const lt_st_tensor *t, int64_t number, float *rows)
{
    const lt_vision_config *v = &r->g->model->config.vision;
    const int64_t side = v->grid * v->patch, n = v->channels * side * side, m = v->merge;
    void *memory = NULL;
    LT_TRY(lt_arena_take(r->c->arena, (size_t)n * sizeof(float), &memory));
    LT_TRY(lt_st_read(t, number * n, n, LT_F32, memory));
    for (int64_t k = 0; k < v->grid * v->grid; k++) {
        const int64_t group = k / (m * m), inside = k % (m * m);
        const int64_t row = group / (v->grid / m) * m + inside / m,
                      col = group % (v->grid / m) * m + inside % m;
        for (int64_t i = 0; i < v->channels * v->patch; i++) {
            memcpy(rows + (k * v->channels * v->patch + i) * v->patch,
                   (float *)memory +
                       ((i / v->patch) * side + row * v->patch + i % v->patch) * side +
                       col * v->patch,
                   (size_t)v->patch * sizeof(float));
        }
    }
    return LT_OK;
}

static lt_status give_pixels(void *ctx, const lt_media *media, void *rows)
{
    const reader *r = ctx;
    const char *name = media->kind == LT_MEDIA_VIDEO ? "in.pixel_values_videos" : "in.pixel_values";
    const lt_st_tensor *t = lt_st_find(r->c->file, name);
    if (!t)
        return LT_FAIL(LT_ERR_FORMAT, "%s: tensor %s is missing", lt_st_path(r->c->file), name);
    const int64_t width = r->g->model->pixel_width, i = media - (const lt_media *)r->media.data;
    if (r->g->model->config.vision.intern.class_token)
        return give_tile(r, t, LT_AT(&r->first_row, int64_t, i) / lt_grid_patches(media->grid),
                         rows);
    return lt_st_read(t, LT_AT(&r->first_row, int64_t, i) * width,
                      lt_grid_patches(media->grid) * width, LT_F32, rows);
}

static lt_status check_positions(reader *r)
{
    golden_case *c = r->c;
    int64_t *theirs = NULL;
    c->positions_equal = true;
    if (!lt_st_find(c->file, "in.position_ids"))
        return LT_OK; // 0, 1, 2, ... in every row
    LT_TRY(take_ints(c->arena, 3 * c->rows * c->padded, &theirs, NULL));
    LT_TRY(read_ints(r, "in.position_ids", 0, 3 * c->rows * c->padded, theirs));
    int64_t t = 0;
    for (int64_t row = 0; row < c->rows; row++) {
        for (int64_t i = 0; c->taken[row] && i < c->lengths[row]; i++, t++) {
            for (int64_t axis = 0; axis < 3; axis++) {
                if (c->batch->positions[axis * c->batch->n_tokens + t] !=
                    theirs[(axis * c->rows + row) * c->padded + i])
                    c->positions_equal = false;
            }
        }
    }
    return LT_OK;
}

// 1 / targets of all ranks; 0 where the row is another rank's.
static lt_status weigh(const golden_model *g, golden_case *c)
{
    const lt_batch *b = c->batch;
    const lt_loss_counts none = {0};
    lt_next_weights(LT_LOSS_RAW, (const lt_batch *const[]){b}, 1, &none, 0, 1.0, c->next_kappa);
    double targets[] = {0.0, 0.0};
    for (int64_t i = 0; i < b->n_targets && !c->idle; i++) {
        targets[0] += 1.0;
        targets[1] += c->next_kappa[i] > 0.0F;
    }
    LT_TRY(lt_all_reduce_f64(g->ranks ? g->ranks->world : NULL, targets, 2));
    for (int64_t i = 0; i < b->n_targets; i++) {
        const bool next = c->next_kappa[i] > 0.0F && !c->idle;
        c->kappa[i] = c->idle ? 0.0F : (float)(1.0 / targets[0]);
        c->next_kappa[i] = next ? (float)(GOLDEN_NEXT_SCALE / targets[1]) : 0.0F;
    }
    return LT_OK;
}

static lt_status collate(reader *r, lt_sample *samples)
{
    golden_case *c = r->c;
    const lt_media *media = r->media.data;
    int64_t n = 0;
    for (int64_t row = 0; row < c->rows; row++) { // the array is complete now
        samples[row].media = media;
        media += samples[row].n_media;
        if (c->taken[row])
            samples[n++] = samples[row];
    }
    const lt_model_config *m = &r->g->model->config;
    lt_collate_opts o = lt_collate_opts_default();
    o.tiles = m->vision.intern.class_token;
    o.mrope = !o.tiles;
    o.vision = (lt_vision_ids){m->image_token, m->video_token, m->vision_start};
    o.vocab_size = m->text.vocab;
    o.table_side = m->vision.grid;
    o.processor.patch = m->vision.patch;
    o.processor.merge = m->vision.merge;
    o.processor.temporal = m->vision.temporal_patch;
    o.pixel_dtype = LT_F32;
    o.pixels = give_pixels;
    o.pixels_ctx = r;
    LT_TRY(lt_batch_create(&c->batch));
    LT_TRY(lt_batch_collate(c->batch, samples, n, &o));
    LT_TRY(check_positions(r));
    void *memory = NULL;
    LT_TRY(lt_arena_take(c->arena, (size_t)c->batch->n_targets * 2 * sizeof(float), &memory));
    c->kappa = memory;
    c->next_kappa = c->kappa + c->batch->n_targets;
    return weigh(r->g, c);
}

// Rows of this rank; false when there are none, and it takes one of another's. A balance loss is of
// all rows together, which are the first rank's then.
static bool take_rows(const golden_model *g, golden_case *c)
{
    const int64_t n = g->ranks ? g->ranks->dp_size : 1, mine = g->ranks ? g->ranks->dp_rank : 0;
    const bool together = c->balance > 0.0F;
    for (int64_t row = 0; row < c->rows; row++)
        c->taken[row] = together ? mine == 0 : row % n == mine;
    c->taken[mine % c->rows] = true;
    return together ? mine == 0 : mine < c->rows;
}

lt_status golden_case_open(const golden_model *g, const char *path, golden_case *c)
{
    *c = (golden_case){0};
    const char *base = strrchr(path, '/');
    (void)snprintf(c->name, sizeof c->name, "%s", base ? base + 1 : path);
    LT_TRY(lt_st_open(path, &c->file));
    if (lt_st_find(c->file, "out.aux_loss"))
        c->balance = (float)g->model->config.text.moe.aux_coef;
    LT_TRY(lt_arena_create(&c->arena, "golden case"));
    const lt_st_tensor *ids = lt_st_find(c->file, "in.input_ids");
    if (!ids || ids->rank != 2)
        return LT_FAIL(LT_ERR_FORMAT, "%s: tensor in.input_ids is missing or not [rows, length]",
                       path);
    c->rows = ids->dim[0];
    c->padded = ids->dim[1];
    LT_TRY(take_ints(c->arena, c->rows, &c->lengths, NULL));
    void *memory = NULL;
    LT_TRY(lt_arena_take(c->arena, (size_t)c->rows * sizeof(bool), &memory));
    c->taken = memory;
    c->idle = !take_rows(g, c);
    if (c->idle)
        c->balance = 0.0F;
    LT_TRY(lt_arena_take(c->arena, (size_t)c->rows * sizeof(lt_sample), &memory));
    reader r = {.g = g, .c = c, .media = LT_VEC_OF(lt_media), .first_row = LT_VEC_OF(int64_t)};
    lt_status st = LT_OK;
    for (int64_t row = 0; st == LT_OK && row < c->rows; row++)
        st = read_row(&r, row, (lt_sample *)memory + row);
    if (st == LT_OK)
        st = collate(&r, memory);
    lt_vec_deinit(&r.media);
    lt_vec_deinit(&r.first_row);
    return st;
}

void golden_case_close(golden_case *c)
{
    lt_batch_destroy(c->batch);
    lt_arena_destroy(c->arena);
    lt_st_close(c->file);
}
