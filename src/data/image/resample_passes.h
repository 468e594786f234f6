// SPDX-License-Identifier: Apache-2.0
// The two inner loops of resampling, which each machine may have its own of. Internal to image/.
#ifndef LT_DATA_IMAGE_RESAMPLE_PASSES_H
#define LT_DATA_IMAGE_RESAMPLE_PASSES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LT_RESAMPLE_LANES = 16,  // int32 sums carried together in the horizontal pass
    LT_RESAMPLE_STRIPE = 32, // columns summed together in the vertical pass
};

/**
 * Weights of one axis: output i is the sum over j < count[i] of in[first[i] + j] * weight[i*taps +
 * j].
 */
typedef struct lt_resample_axis {
    int64_t n_in, n_out, taps;
    int64_t *first, *count; // [n_out]
    double *weight;         // [n_out, taps]
    int32_t *fixed;         // [n_out, taps] weight * 2^shift
    int shift;
    int64_t n_pairs; // (largest count + 1) / 2
    int32_t *pairs;  // [n_out, n_pairs, 2], of lt_resample_fill_pairs
    bool split;      // some weight needs more than 16 bits
} lt_resample_axis;

enum { LT_RESAMPLE_LOW_BITS = 12 };
/**
 * Weights of neighbouring taps side by side, for machines that multiply pairs of int16: the low
 * halves of two weights in one int32, the high halves in the next, weight = high *
 * 2^LT_RESAMPLE_LOW_BITS + low. Without `split` the low half is the weight itself. What lies
 * beyond `count` is zero.
 * in       a->fixed; weights below 2^27; pairs with room for (taps + 1) / 2 an output
 * out      a->n_pairs, a->pairs, a->split
 */
void lt_resample_fill_pairs(lt_resample_axis *a);

/** A group of rows side by side: lane = row * pitch + channel. */
typedef struct lt_resample_rows {
    const uint8_t
        *lanes;   // [n_in + 2 * n_pairs, LT_RESAMPLE_LANES]; those behind n_in count nothing
    uint8_t *out; // first row of the group
    int64_t out_stride;
    int n_rows, pitch, channels;
} lt_resample_rows;

/**
 * byte = clip((2^(shift-1) + sum of pixel * fixed) >> shift), int32 throughout: the same bits on
 * every machine.
 */
typedef struct lt_resample_passes {
    void (*horizontal)(const lt_resample_axis *a, const lt_resample_rows *r);
    /** LT_RESAMPLE_STRIPE columns of output row y; input rows are `stride` bytes apart. */
    void (*stripe)(const lt_resample_axis *a, int64_t y, const uint8_t *px, int64_t stride,
                   uint8_t *out);
} lt_resample_passes;

extern const lt_resample_passes lt_resample_passes_portable;
/** What this machine runs. */
const lt_resample_passes *lt_resample_passes_best(void);
#if defined(__x86_64__)
extern const lt_resample_passes lt_resample_passes_avx2;
#endif

static inline int32_t lt_resample_half(const lt_resample_axis *a)
{
    return a->shift > 0 ? 1 << (a->shift - 1) : 0;
}

/** The bytes of one output column, lane by lane, to their rows. */
static inline void lt_resample_scatter(const lt_resample_rows *r, const uint8_t *lane, int64_t x)
{
    uint8_t *out = r->out + x * r->channels;
    for (int y = 0; y < r->n_rows; y++, out += r->out_stride, lane += r->pitch)
        for (int c = 0; c < r->channels; c++)
            out[c] = lane[c];
}
#endif
