// SPDX-License-Identifier: Apache-2.0
// The inner loops of the CPU's kernels: one table for each instruction set. A row is computed alike
// wherever it stands.
#ifndef LT_OP_CPU_ROWS_H
#define LT_OP_CPU_ROWS_H

#include "device/cpu/isa.h"
#include "tensor/tensor.h"

/* Where a gradient goes: f32 or bf16, overwritten or added to. data NULL: nobody asks. */
typedef struct lt_sink {
    void *data;
    bool bf16, add;
} lt_sink;

/*
 * rms_norm, add_rms_norm, layer_norm, gated_rms_norm: rows [from, to) of [rows, width]. Activations
 * are all f32 or all bf16.
 */
typedef struct lt_norm_args {
    bool bf16, plus_one; /* plus_one: the scale is 1 + w */
    int64_t width;
    double eps;
    const void *x, *plus, *w, *bias; /* plus: x + plus is normalised, and kept in sum; NULL: x */
    void *sum, *y;
    const void *gate;         /* of gated_rms_norm, like x */
    const void *dy, *through; /* backward: NULL counts as zeros. through: added to dx */
    lt_sink dx[2];            /* both get the same */
    lt_sink dgate;
    float *dw, *dbias; /* this piece's sums [width], overwritten; NULL: nobody asks */
} lt_norm_args;

/*
 * qk_norm_rope: tokens [from, to) of [tokens, heads * d]; table [tokens, turned]: the first
 * `turned` of d are rotated.
 */
typedef struct lt_qk_args {
    bool bf16, plus_one;
    int64_t heads, d, turned;
    double eps;
    const void *x, *w;
    const float *table;
    void *y;
    const void *dy;
    lt_sink dx;
    float *dw; /* this piece's sums [d], overwritten; NULL: nobody asks */
} lt_qk_args;

/*
 * Row by row: heads of width d, turned as a whole by table [rows, d]; back: by the opposite angle.
 */
typedef struct lt_rotate_args {
    bool bf16, back;
    int64_t heads, d, ld_in, ld_out; /* row strides */
    const void *in;                  /* NULL counts as zeros */
    const float *table;
    lt_sink out;
} lt_rotate_args;

/*
 * conv_silu: columns [from, to) of all rows, at most LT_CONV_COLUMNS. w [columns, taps].
 */
enum { LT_CONV_COLUMNS = 64, LT_CONV_TAPS = 16 };
typedef struct lt_conv_args {
    bool bf16;
    int64_t columns, taps;
    const void *x, *w;
    const int32_t *segments;
    int64_t n_segments;
    void *y;
    const void *dy;
    lt_sink dx, dw;
} lt_conv_args;

typedef struct lt_adamw_args {
    float beta1, rest1, beta2, rest2;                       /* rest: 1 - beta, rounded once */
    float eps, decay, lr, clip, m_correction, v_correction; /* decay: what p is multiplied by */
    const float *grad;
    float *p, *m, *v;
    uint16_t *hi; /* instead of p */
    int16_t *lo;
} lt_adamw_args;

typedef struct lt_row_kernels {
    void (*add)(void *y, const void *a, const void *b, bool bf16, int64_t n);
    /* out = in, or out += in */
    void (*convert)(lt_sink out, const void *in, bool bf16, int64_t n);
    void (*swiglu_fwd)(void *y, const void *gate, const void *up, bool bf16, int64_t n);
    void (*swiglu_bwd)(lt_sink dgate, lt_sink dup, const void *gate, const void *up, const void *dy,
                       bool bf16, int64_t n);
    void (*gelu_fwd)(void *y, const void *x, bool bf16, bool by_tanh, int64_t n);
    void (*gelu_bwd)(lt_sink dx, const void *x, const void *dy, bool bf16, bool by_tanh, int64_t n);
    /* y = x + s f */
    void (*scale_add)(void *y, const void *x, const void *s, const void *f, bool bf16, int64_t n);
    /* df = s dy; sums += dy f, where anybody asks */
    void (*scale_grad)(lt_sink df, float *sums, const void *s, const void *f, const void *dy,
                       bool bf16, int64_t n);
    /* y[width] = z + w_0 p_0 + .. + w_3 p_3, from left to right */
    void (*blend)(void *y, const void *z, const void *const p[4], const float w[4], bool bf16,
                  int64_t width);
    void (*rms_fwd)(const lt_norm_args *a, int64_t from, int64_t to);
    void (*rms_bwd)(const lt_norm_args *a, int64_t from, int64_t to);
    void (*layer_fwd)(const lt_norm_args *a, int64_t from, int64_t to);
    void (*layer_bwd)(const lt_norm_args *a, int64_t from, int64_t to);
    /* out[n] = the sum of n_parts rows of `parts`, in order */
    void (*gated_fwd)(const lt_norm_args *a, int64_t from, int64_t to);
    void (*gated_bwd)(const lt_norm_args *a, int64_t from, int64_t to);
    /* y = x sigmoid(gate); one: a single gate for all n */
    void (*gate_fwd)(void *y, const void *x, const void *gate, bool one, bool bf16, int64_t n);
    void (*gate_bwd)(lt_sink dx, lt_sink dgate, const void *x, const void *gate, const void *dy,
                     bool one, bool bf16, int64_t n);
    void (*conv_fwd)(const lt_conv_args *a, int64_t from, int64_t to);
    void (*conv_bwd)(const lt_conv_args *a, int64_t from, int64_t to);
    /* y = x / (sum x^2 + eps)^1/2; gives what x was multiplied by */
    float (*unit)(float *y, const void *x, bool bf16, float eps, int64_t n);
    /* dx of that: by (dy - y (y . dy)) */
    void (*unit_grad)(lt_sink dx, const float *y, const float *dy, float by, int64_t n);
    /* d[i, j] = exp(g_i - g_j) for j <= i, else 0; g in double and falling, n at most 64 */
    void (*decays)(float *d, const double *g, int64_t n);
    /* y = by a b */
    void (*product)(float *y, const float *a, const float *b, float by, int64_t n);
    /* y = by x, and y += by x */
    void (*scaled)(float *y, const float *x, float by, int64_t n);
    void (*add_scaled)(float *y, const float *x, float by, int64_t n);
    /* x[n, width] becomes (I + L)^-1 x, or with `back` (I + L)^-T x; L[n, n] strictly lower */
    void (*solve)(float *x, const float *l, bool back, int64_t n, int64_t width);
    void (*sum_parts)(lt_sink out, const float *parts, int64_t ld, int64_t n_parts, int64_t n);
    void (*qk_fwd)(const lt_qk_args *a, int64_t from, int64_t to);
    void (*qk_bwd)(const lt_qk_args *a, int64_t from, int64_t to);
    void (*rotate)(const lt_rotate_args *a, int64_t from, int64_t to);
    /* Go on with a running maximum and sum of exp(z - maximum): start with -infinity and 0. */
    void (*lse)(const void *z, bool bf16, int64_t n, float *top, double *sum);
    /* z = kappa exp(z - lse), in place */
    void (*delta)(void *z, bool bf16, float lse, float kappa, int64_t n);
    /*
     * Scores s[n] of a query times `scale`, of which the first `seen` are visible, become p =
     * exp(scale s - new maximum), zeros behind. *top and *sum run on; what was added up before has
     * to be multiplied by the result.
     */
    float (*attend)(float *s, float scale, int64_t seen, int64_t n, float *top, float *sum);
    /* s becomes p = exp(scale s - lse), ds becomes scale p (ds - mean); zeros behind `seen` */
    void (*attend_grad)(float *s, float *ds, float scale, float lse, float mean, int64_t seen,
                        int64_t n);
    void (*multiply)(float *x, float by, int64_t n);
    double (*dot)(const void *a, const void *b, bool bf16, int64_t n);
    void (*adamw)(const lt_adamw_args *a, int64_t from, int64_t to);
    /* in double */
    double (*sum_squares)(const void *g, bool bf16, int64_t n);
} lt_row_kernels;

const lt_row_kernels *lt_row_kernels_of(lt_isa isa);

extern const lt_row_kernels lt_row_kernels_plain, lt_row_kernels_avx2, lt_row_kernels_avx512;
#endif
