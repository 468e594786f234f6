// SPDX-License-Identifier: Apache-2.0
// The actions GATHER and REDUCE over several ranks: a dim-0 piece is a contiguous range of its
// tensor, so that gathers land in place and sums are taken where backwards wrote.
#include "exec/exec_impl.h"

// A unit's parameters as cuts of their tensors.
typedef struct cuts {
    lt_pieces *cut; /* [n] */
    int32_t *param; /* [n] */
    int64_t n;
    void *memory;
} cuts;

static lt_status cuts_create(const lt_unit *unit, cuts *out)
{
    *out = (cuts){0};
    LT_TRY(lt_mem_alloc(&out->memory,
                        (size_t)unit->n_params * (sizeof(lt_pieces) + sizeof(int32_t)),
                        "parameters of a unit"));
    out->cut = out->memory;
    out->param = (int32_t *)(out->cut + unit->n_params);
    return LT_OK;
}

static void cuts_add(const lt_exec *e, cuts *c, int32_t param, void *full, const void *shard)
{
    const lt_param *p = &e->o.model->params[param];
    c->param[c->n] = param;
    c->cut[c->n++] = (lt_pieces){full, shard, p->n_elems, lt_shard_chunk(p, lt_exec_shard(e))};
}

lt_status lt_run_gather(lt_pass_state *s, const lt_action *a)
{
    const lt_exec *e = s->e;
    const lt_program *p = s->l->program;
    const lt_unit *unit = &e->o.units->units[a->subject];
    cuts c;
    if (!lt_is_cut(lt_exec_shard(e)))
        return LT_OK; // at hand in full
    unsigned char *full = lt_pass_at(s, lt_gathered_buffer(p, a, a->subject));
    LT_TRY(cuts_create(unit, &c));
    for (int32_t k = 0; k < unit->n_params; k++) {
        const int32_t param = unit->params[k];
        if (p->full_offset[param] != LT_NONE)
            cuts_add(e, &c, param, full + p->full_offset[param],
                     lt_exec_part(e, param, LT_STATE_VALUE).data);
    }
    const lt_status st =
        lt_link_all_gather(e->gathers, e->stream[a->queue], c.cut, c.n, e->o.compute);
    lt_mem_free(c.memory);
    return st;
}

static lt_status sum_over_ranks(const lt_exec *e, lt_stream *s, cuts *c)
{
    const lt_dtype dtype = lt_state_dtype(e->o.compute, LT_STATE_GRAD);
    LT_TRY(lt_link_reduce_scatter(e->sums, s, c->cut, c->n, dtype));
    for (int64_t i = 0; i < c->n; i++) { // copies of the model add up this rank's pieces
        const lt_owned mine = lt_exec_owned(e, c->param[i]);
        c->cut[i].full =
            (unsigned char *)c->cut[i].full + (size_t)mine.first * lt_dtype_bytes(dtype);
        c->cut[i].total = mine.n;
    }
    return lt_link_all_reduce(e->copies, s, c->cut, c->n, dtype);
}

lt_status lt_run_reduce(lt_pass_state *s, const lt_action *a)
{
    const lt_exec *e = s->e;
    const lt_unit *unit = &e->o.units->units[a->subject];
    cuts c;
    if (!s->l->program->opts.reduced)
        return LT_OK; // one rank: the gradients are written where they are kept
    LT_TRY(cuts_create(unit, &c));
    for (int32_t k = 0; k < unit->n_params; k++) {
        const lt_tensor grad = lt_pass_written(s, unit->params[k]);
        if (grad.data)
            cuts_add(e, &c, unit->params[k], grad.data, NULL);
    }
    lt_status st = sum_over_ranks(e, e->stream[a->queue], &c);
    const bool keep = !s->l->program->update_early && !s->l->program->host_update;
    for (int64_t i = 0; st == LT_OK && i < c.n && keep; i++)
        st = lt_keep_sum(s, a, c.param[i]);
    lt_mem_free(c.memory);
    return st;
}
