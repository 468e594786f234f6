// SPDX-License-Identifier: Apache-2.0
// adamw and sum_squares on the CPU.
#include "device/cpu/scratch.h"
#include "op/adamw.h"
#include "op/cpu/kernels.h"
#include "op/cpu/run.h"

enum { P, M, V, LO }; // the in-out tensors

typedef struct update {
    lt_adamw_args args;
    const lt_row_kernels *rows;
} update;

static lt_status update_piece(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const update *u = ctx;
    u->rows->adamw(&u->args, from, to);
    return LT_OK;
}

lt_status lt_adamw_fwd_cpu(const lt_op_args *a)
{
    enum { PIECE = 65536 };
    if (a->in[0]->dtype != LT_F32)
        return lt_cpu_reference(a, LT_FORWARD);
    const lt_adamw_attr *c = a->attr;
    const double *scalars = a->in[1]->data, lr = scalars[LT_SCALAR_LR] * c->lr_scale;
    update u = {.rows = lt_cpu_rows(a)};
    u.args = (lt_adamw_args){.beta1 = (float)c->beta1,
                             .rest1 = (float)(1.0 - c->beta1),
                             .beta2 = (float)c->beta2,
                             .rest2 = (float)(1.0 - c->beta2),
                             .eps = (float)c->eps,
                             .decay = (float)(1.0 - lr * c->weight_decay),
                             .lr = (float)lr,
                             .clip = (float)scalars[LT_SCALAR_CLIP],
                             .m_correction = (float)scalars[LT_SCALAR_M_CORRECTION],
                             .v_correction = (float)scalars[LT_SCALAR_V_CORRECTION],
                             .grad = a->in[0]->data,
                             .m = a->out[M]->data,
                             .v = a->out[V]->data};
    if (a->out[P]->dtype == LT_BF16) {
        u.args.hi = a->out[P]->data;
        u.args.lo = a->out[LO]->data;
    } else {
        u.args.p = a->out[P]->data;
    }
    return lt_cpu_pieces(a, lt_n_elems(a->in[0]), PIECE, update_piece, &u);
}

typedef struct squares {
    const lt_tensor *g;
    const lt_row_kernels *rows;
    double *blocks;
} squares;

static lt_status square_blocks(void *ctx, int64_t piece, int64_t from, int64_t to)
{
    (void)piece;
    const squares *s = ctx;
    for (int64_t i = from; i < to; i += LT_SUM_BLOCK)
        s->blocks[i / LT_SUM_BLOCK] = s->rows->sum_squares(lt_at(s->g, i), s->g->dtype == LT_BF16,
                                                           lt_min_i64(LT_SUM_BLOCK, to - i));
    return LT_OK;
}

lt_status lt_sum_squares_fwd_cpu(const lt_op_args *a)
{
    enum { PIECE = 16 * LT_SUM_BLOCK };
    if (a->in[0]->dtype != LT_F32 && a->in[0]->dtype != LT_BF16)
        return lt_cpu_reference(a, LT_FORWARD);
    const int64_t n = lt_n_elems(a->in[0]), n_blocks = lt_ceil_div(n, LT_SUM_BLOCK);
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_SUMS, (size_t)n_blocks * sizeof(double), &memory));
    squares s = {.g = a->in[0], .rows = lt_cpu_rows(a), .blocks = memory};
    LT_TRY(lt_cpu_pieces(a, n, PIECE, square_blocks, &s));
    double all = 0.0, *out = a->out[0]->data;
    for (int64_t i = 0; i < n_blocks; i++)
        all += s.blocks[i];
    *out = a->add & LT_IN(0) ? *out + all : all;
    return LT_OK;
}
