// SPDX-License-Identifier: Apache-2.0
// How gradients of micro-batches are added up, each of which is the sum over ranks already: one
// behind the other, or by the tree that ranks are summed by.
#include "exec/exec_impl.h"
#include "op/add.h"

// out = a + b
static lt_status add(const lt_pass_state *s, const lt_action *a, lt_tensor *x, lt_tensor *y,
                     lt_tensor *out)
{
    lt_op_args args = {.def = &lt_op_add, .in = {x, y}, .out = {out}};
    return lt_pass_launch(s, a, &args);
}

static lt_status copy(const lt_pass_state *s, const lt_action *a, const lt_tensor *from,
                      lt_tensor *to)
{
    lt_device *d = s->e->o.device;
    return d->copy(d, s->e->stream[a->queue], to->data, from->data, lt_tensor_bytes(from),
                   LT_COPY_ON_DEVICE);
}

/* ---- the tree ---- */

// Sums of 1, 2, 4, ... micro-batches of all parameters, each a level.
static lt_status want_levels(lt_exec *e, int64_t n_micro)
{
    lt_device *d = e->o.device;
    void *memory = NULL;
    int64_t levels = 0, bytes = 0;
    while (INT64_C(1) << levels <= n_micro)
        levels++;
    if (levels <= e->levels)
        return LT_OK;
    for (int32_t i = 0; i < e->o.model->n_params; i++) {
        const lt_tensor t = lt_exec_part(e, i, LT_STATE_GRAD);
        bytes += (int64_t)(t.data ? lt_tensor_bytes(&t) : 0);
    }
    LT_TRY(lt_exec_sync(e));
    d->free(d, e->level);
    e->level = NULL;
    e->levels = 0;
    LT_TRY(d->alloc(d, (size_t)(levels * bytes), "sums of micro-batches", &memory));
    e->level = memory;
    e->levels = levels;
    e->level_bytes = bytes;
    return LT_OK;
}

static lt_tensor at_level(const lt_exec *e, int32_t param, int64_t level)
{
    lt_tensor t = lt_exec_part(e, param, LT_STATE_GRAD);
    int64_t at = level * e->level_bytes;
    for (int32_t i = 0; i < param; i++) {
        const lt_tensor before = lt_exec_part(e, i, LT_STATE_GRAD);
        at += (int64_t)(before.data ? lt_tensor_bytes(&before) : 0);
    }
    t.data = e->level + at;
    return t;
}

// A binary counter: while the last two sums are of equally many micro-batches, they become one; at
// the end all are added from the smallest on. `sum` is overwritten.
static lt_status join_tree(lt_pass_state *s, const lt_action *a, int32_t param, lt_tensor *total,
                           lt_tensor *sum)
{
    const int64_t count = s->micro + 1;
    int64_t level = 0;
    LT_TRY(want_levels(s->e, s->n_micro));
    for (; s->micro >> level & 1; level++) {
        lt_tensor older = at_level(s->e, param, level);
        LT_TRY(add(s, a, sum, &older, sum));
    }
    if (count < s->n_micro) {
        lt_tensor place = at_level(s->e, param, level);
        return copy(s, a, sum, &place);
    }
    for (level++; count >> level; level++) {
        lt_tensor older = at_level(s->e, param, level);
        if (count >> level & 1)
            LT_TRY(add(s, a, sum, &older, sum));
    }
    return copy(s, a, sum, total);
}

lt_status lt_keep_sum(lt_pass_state *s, const lt_action *a, int32_t param)
{
    const lt_tensor written = lt_pass_written(s, param);
    lt_tensor total = lt_pass_gradient(s, param), sum = total;
    sum.data = (unsigned char *)written.data +
               (size_t)lt_exec_owned(s->e, param).first * lt_dtype_bytes(written.dtype);
    if (lt_n_elems(&total) == 0)
        return LT_OK;
    if (s->e->o.tree)
        return join_tree(s, a, param, &total, &sum);
    return s->micro == 0 ? copy(s, a, &sum, &total) : add(s, a, &total, &sum, &total);
}
