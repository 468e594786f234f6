// SPDX-License-Identifier: Apache-2.0
// What a micro-batch brings to the graphs, and the counts that all shapes follow from.
#ifndef LT_GRAPH_BATCH_H
#define LT_GRAPH_BATCH_H

#include "tensor/tensor.h"

/**
 * The counts that vary from batch to batch. Padding never enters: tokens are those of all samples,
 * one after another.
 */
#define LT_EXTENT_LIST(X)                                                                          \
    X(TOKENS, "tokens")   /* T: tokens of all samples */                                           \
    X(SAMPLES, "samples") /* S */                                                                  \
    X(PATCHES, "patches") /* N: vision patches of all images and video frames */                   \
    X(MERGED, "merged")   /* M: visual tokens after merging, = placeholder tokens */               \
    X(FRAMES, "frames") /* F: vision attention segments: images, and temporal slices of videos */  \
    X(TARGETS, "targets") /* n: tokens that carry loss (or rows whose logits are asked for) */
typedef enum lt_extent {
#define LT_EXTENT_ENUM(name, text) LT_EXT_##name,
    LT_EXTENT_LIST(LT_EXTENT_ENUM)
#undef LT_EXTENT_ENUM
        LT_N_EXTENTS
} lt_extent;
typedef struct lt_extents {
    int64_t n[LT_N_EXTENTS];
} lt_extents;
bool lt_extents_equal(const lt_extents *a, const lt_extents *b);
/** Every count of `real` is at most that of `capacity`. */
bool lt_extents_fit(const lt_extents *real, const lt_extents *capacity);
/**
 * Counts rounded up to a bucket (at most an eighth more, in steps of at least 16), so that programs
 * are few. 0 stays 0; patches keep their ratio to merged.
 */
lt_extents lt_extents_bucket(const lt_extents *real);
/** The larger of each count. */
lt_extents lt_extents_max(const lt_extents *a, const lt_extents *b);
const char *lt_extent_name(lt_extent e);

/**
 * The values of a micro-batch. All but PIXELS, CORNER_WEIGHTS, both KAPPAs and BALANCE are index
 * tensors with a host twin.
 */
typedef enum lt_batch_value {
    LT_BATCH_IDS,       /* i32 [T] token ids */
    LT_BATCH_POSITIONS, /* i32 [3, T] rotary positions: temporal, height, width */
    LT_BATCH_SEGMENTS,  /* i32 [S + 1] where each sample starts, and T */
    LT_BATCH_VIS_ROWS,  /* i32 [M] token rows that visual features replace, ascending */
    LT_BATCH_PIXELS,    /* f32 [N, pixel width] patch rows, in token order, merge groups together */
    LT_BATCH_FRAME_SEGMENTS, /* i32 [F + 1] where each frame's patches start, and N */
    LT_BATCH_TILE_SEGMENTS,  /* i32 [F + 1] the same with a class token before each: entry i + i */
    LT_BATCH_PATCH_POS,      /* i32 [2, N] row and column of each patch in its frame */
    LT_BATCH_CORNERS,        /* i32 [N, 4] rows of the position table to blend */
    LT_BATCH_CORNER_WEIGHTS, /* f32 [N, 4] */
    LT_BATCH_TARGET_ROWS,    /* i32 [n] token rows that carry loss, ascending */
    LT_BATCH_TARGETS,        /* i32 [n] the token to predict there */
    LT_BATCH_KAPPA,          /* f32 [n] weight of each target in the loss */
    LT_BATCH_NEXT_KAPPA,     /* f32 [n] weight of the same target as the token after next */
    LT_BATCH_BALANCE, /* f32 [1] weight of the experts' balance loss; 0: it is only measured */
    LT_N_BATCH_VALUES
} lt_batch_value;

/** A micro-batch as the executor takes it: host tensors. */
typedef struct lt_batch_view {
    lt_extents extents;
    lt_tensor value[LT_N_BATCH_VALUES];
} lt_batch_view;

const char *lt_batch_value_name(lt_batch_value v);
/** The planned tensor of a batch value. pixel_width: channels * temporal patch * patch^2 */
lt_tensor lt_batch_tensor(lt_batch_value v, const lt_extents *e, int64_t pixel_width);
/**
 * Shapes, dtypes and contents before a batch goes in: rows in bounds and ascending, segments
 * monotone, ids below vocab.
 */
LT_NODISCARD lt_status lt_batch_check(const lt_batch_view *b, int64_t pixel_width, int64_t vocab);
#endif
