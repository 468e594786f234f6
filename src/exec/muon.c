// SPDX-License-Identifier: Apache-2.0
// UPDATE of a matrix by muon: momentum on this rank's piece, the iteration on the whole, a step on
// the piece.
#include "plan/muon.h"
#include "exec/exec_impl.h"

#include <string.h>

static int32_t work_of(const lt_pass_state *s, const lt_action *a)
{
    for (int32_t k = 0; k < a->n_access; k++) {
        const int32_t number = LT_AT(&s->l->program->accesses, lt_access, a->access + k).buffer;
        if (lt_buffer_at(s->l->program, number)->kind == LT_BUF_UNIT_WORK)
            return number;
    }
    return LT_NONE;
}

static lt_tensor flat(lt_tensor t, void *data)
{
    lt_tensor f = lt_tensor_1d(t.dtype, lt_n_elems(&t));
    f.data = data;
    return f;
}

// Every rank has the whole of what is to be applied.
static lt_status make_whole(const lt_pass_state *s, int32_t param, const lt_muon_places *m,
                            unsigned char *work)
{
    const lt_param *p = &s->e->o.model->params[param];
    const lt_pieces cut = {work + m->whole, work + m->piece, p->n_elems,
                           lt_shard_chunk(p, lt_exec_shard(s->e))};
    return lt_is_cut(lt_exec_shard(s->e)) ? lt_all_gather(s->e->o.ranks->sharers, &cut, 1, LT_BF16)
                                          : LT_OK;
}

lt_status lt_run_muon(lt_pass_state *s, const lt_action *a, int32_t param)
{
    const lt_param *p = &s->e->o.model->params[param];
    const lt_muon_places m = lt_muon_place(p, lt_exec_shard(s->e));
    unsigned char *work = lt_pass_at(s, work_of(s, a));
    const lt_tensor g = lt_pass_gradient(s, param),
                    v = lt_pass_state_part(s, param, LT_STATE_VALUE),
                    b = lt_pass_state_part(s, param, LT_STATE_M),
                    l = lt_pass_state_part(s, param, LT_STATE_LOW);
    lt_tensor grad = flat(g, g.data), value = flat(v, v.data), buf = flat(b, b.data),
              low = flat(l, l.data), piece = lt_tensor_1d(LT_BF16, lt_n_elems(&g)),
              whole = lt_tensor_2d(LT_BF16, p->dim[0], p->dim[1]),
              scalars = lt_tensor_1d(LT_F64, LT_N_SCALARS);
    lt_muon_attr attr = s->e->o.muon;
    attr.lr_scale = s->e->lr_scale[param];
    attr.longer = lt_max_i64(p->dim[0], p->dim[1]);
    piece.data = work + m.piece;
    whole.data = work + m.whole;
    scalars.data = lt_pass_at(s, s->l->program->scalars_buffer);
    lt_op_args first = {
        .def = &lt_op_muon_momentum, .attr = &attr, .in = {&grad, &scalars}, .out = {&buf, &piece}};
    LT_TRY(lt_pass_launch(s, a, &first));
    LT_TRY(make_whole(s, param, &m, work));
    if (piece.dim[0] == 0)
        return LT_OK; // a late rank without rows
    lt_op_args middle = {.def = &lt_op_orthogonalize, .attr = &attr, .out = {&whole}};
    LT_TRY(lt_pass_launch_in(s, a, &middle, work + m.scratch, (size_t)m.scratch_bytes));
    piece.data = work + m.whole + (size_t)lt_exec_owned(s->e, param).first * 2;
    lt_op_args last = {.def = &lt_op_muon_apply,
                       .attr = &attr,
                       .in = {&piece, &scalars},
                       .out = {&value, low.data ? &low : NULL}};
    return lt_pass_launch(s, a, &last);
}
