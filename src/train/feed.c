// SPDX-License-Identifier: Apache-2.0
// Loss weights of the four loss types, and views of batches.
#include "train/feed.h"

lt_loss_counts lt_count_losses(const lt_batch *const *batches, int64_t n)
{
    lt_loss_counts c = {0};
    for (int64_t i = 0; i < n; i++) {
        c.targets += batches[i]->n_targets;
        c.labels += batches[i]->n_labels;
    }
    return c;
}

// 1 / d, or 0 where there is nothing to divide by.
static double inverse(double d)
{
    return d > 0.0 ? 1.0 / d : 0.0;
}

void lt_loss_weights(lt_loss_type type, const lt_batch *const *batches, int64_t n,
                     const lt_loss_counts *counts, int64_t i, float *kappa)
{
    const lt_batch *b = batches[i];
    for (int64_t t = 0; t < b->n_targets; t++) {
        double k = 0.0;
        switch (type) {
        case LT_LOSS_RAW:
        case LT_LOSS_DEFAULT:
            k = inverse((double)b->n_targets * (double)n);
            break;
        case LT_LOSS_PER_SAMPLE:
            k = inverse((double)b->n_samples * (double)b->sample_targets[b->target_sample[t]] *
                        (double)n);
            break;
        case LT_LOSS_PER_TOKEN:
            k = inverse((double)counts->labels);
            break;
        }
        kappa[t] = (float)k;
    }
}

// Whether target t is there for the row before, in the same sample.
static bool is_next(const lt_batch *b, int64_t t)
{
    return b->target_rows[t] > b->segments[b->target_sample[t]];
}

// How many targets of the sample from target t on are.
static int64_t next_of_sample(const lt_batch *b, int64_t t)
{
    const int32_t sample = b->target_sample[t];
    int64_t n = 0;
    for (int64_t k = t; k < b->n_targets && b->target_sample[k] == sample; k++)
        n += is_next(b, k);
    return n;
}

void lt_next_weights(lt_loss_type type, const lt_batch *const *batches, int64_t n,
                     const lt_loss_counts *counts, int64_t i, double scale, float *kappa)
{
    const lt_batch *b = batches[i];
    int64_t all = 0, of_sample = 0;
    for (int64_t t = 0; t < b->n_targets; t++)
        all += is_next(b, t);
    for (int64_t t = 0; t < b->n_targets; t++) {
        if (t == 0 || b->target_sample[t] != b->target_sample[t - 1])
            of_sample = next_of_sample(b, t);
        double k = 0.0;
        switch (type) {
        case LT_LOSS_RAW:
        case LT_LOSS_DEFAULT:
            k = inverse((double)all * (double)n);
            break;
        case LT_LOSS_PER_SAMPLE:
            k = inverse((double)b->n_samples * (double)of_sample * (double)n);
            break;
        case LT_LOSS_PER_TOKEN:
            k = inverse((double)counts->targets);
            break;
        }
        kappa[t] = is_next(b, t) ? (float)(scale * k) : 0.0F;
    }
}

float lt_balance_weight(double asked, const lt_moe_config *moe, int64_t n)
{
    const double of_file = moe->router_logits ? moe->aux_coef : 0.0;
    return moe->experts > 0 ? (float)((asked > 0.0 ? asked : of_file) / (double)n) : 0.0F;
}

// The weight of the balance loss until somebody sets one.
static void *no_weight(void)
{
    static const float zero = 0.0F;
    const union {
        const float *in;
        void *out;
    } view = {.in = &zero};
    return view.out;
}

static lt_tensor with_data(lt_batch_value v, const lt_extents *e, const lt_batch *b, void *data)
{
    lt_tensor t = lt_batch_tensor(v, e, b->row_width);
    t.data = data;
    return t;
}

lt_batch_view lt_feed_view(const lt_batch *b, float *kappa)
{
    lt_batch_view v = {.extents = {{[LT_EXT_TOKENS] = b->n_tokens,
                                    [LT_EXT_SAMPLES] = b->n_samples,
                                    [LT_EXT_PATCHES] = b->n_patches,
                                    [LT_EXT_MERGED] = b->n_visual,
                                    [LT_EXT_FRAMES] = b->n_frames,
                                    [LT_EXT_TARGETS] = b->n_targets}}};
    void *const data[LT_N_BATCH_VALUES] = {
        [LT_BATCH_IDS] = b->ids,
        [LT_BATCH_POSITIONS] = b->positions,
        [LT_BATCH_SEGMENTS] = b->segments,
        [LT_BATCH_VIS_ROWS] = b->visual_rows,
        [LT_BATCH_PIXELS] = b->pixels,
        [LT_BATCH_FRAME_SEGMENTS] = b->geometry.segments,
        [LT_BATCH_TILE_SEGMENTS] = b->geometry.tiles,
        [LT_BATCH_PATCH_POS] = b->geometry.row_col,
        [LT_BATCH_CORNERS] = b->geometry.corner,
        [LT_BATCH_CORNER_WEIGHTS] = b->geometry.corner_weight,
        [LT_BATCH_TARGET_ROWS] = b->target_rows,
        [LT_BATCH_TARGETS] = b->targets,
        [LT_BATCH_KAPPA] = kappa,
        [LT_BATCH_NEXT_KAPPA] = kappa,
        [LT_BATCH_BALANCE] = no_weight(),
    };
    for (int i = 0; i < LT_N_BATCH_VALUES; i++)
        v.value[i] = with_data((lt_batch_value)i, &v.extents, b, data[i]);
    return v;
}

lt_batch_view lt_feed_rows(const lt_batch *b, int32_t *rows, int64_t n, void *zeros)
{
    lt_batch_view v = lt_feed_view(b, NULL);
    v.extents.n[LT_EXT_TARGETS] = n;
    v.value[LT_BATCH_TARGET_ROWS] = with_data(LT_BATCH_TARGET_ROWS, &v.extents, b, rows);
    v.value[LT_BATCH_TARGETS] = with_data(LT_BATCH_TARGETS, &v.extents, b, zeros);
    v.value[LT_BATCH_KAPPA] = with_data(LT_BATCH_KAPPA, &v.extents, b, (int32_t *)zeros + n);
    v.value[LT_BATCH_NEXT_KAPPA] =
        with_data(LT_BATCH_NEXT_KAPPA, &v.extents, b, (int32_t *)zeros + n);
    return v;
}
