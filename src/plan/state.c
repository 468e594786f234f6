// SPDX-License-Identifier: Apache-2.0
// Offsets of parameters, gradients and moments.
#include "plan/state.h"

#include "graph/pack.h"

const char *lt_state_part_name(lt_state_part part)
{
    static const char *const names[] = {[LT_STATE_VALUE] = "parameters",
                                        [LT_STATE_LOW] = "master remainders",
                                        [LT_STATE_GRAD] = "gradients",
                                        [LT_STATE_M] = "first moments",
                                        [LT_STATE_V] = "second moments"};
    return names[part];
}

lt_dtype lt_state_dtype(lt_dtype compute, lt_state_part part)
{
    switch (part) {
    case LT_STATE_VALUE:
        return compute;
    case LT_STATE_LOW:
        return LT_I16;
    case LT_STATE_GRAD:
    case LT_STATE_M:
    case LT_STATE_V:
    case LT_N_STATE_PARTS:
        break;
    }
    return compute == LT_F64 ? LT_F64 : LT_F32;
}

static bool kept(const lt_param *p, lt_dtype compute, lt_state_part part, lt_state_mode mode)
{
    const bool training = mode != LT_STATE_VALUES_ONLY;
    if (part == LT_STATE_VALUE)
        return p->in_use || training; // an unused parameter is still saved with the rest
    if (!training || !p->trainable || (part == LT_STATE_GRAD && mode == LT_STATE_WITHOUT_GRADS))
        return false;
    if (part == LT_STATE_V && p->muon)
        return false;
    return part != LT_STATE_LOW || compute == LT_BF16;
}

lt_status lt_state_layout_create(const lt_model *model, const lt_units *units, lt_dtype compute,
                                 lt_state_mode mode, lt_state_home home, lt_shard shard,
                                 lt_state_layout **out)
{
    void *memory = NULL;
    const size_t table = (size_t)model->n_params * LT_N_STATE_PARTS * sizeof(int64_t);
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_state_layout) + table, "state layout"));
    lt_state_layout *l = memory;
    l->mode = mode;
    l->home = home;
    l->compute = compute;
    l->shard = shard;
    l->n_params = model->n_params;
    l->offset = (int64_t *)(l + 1);
    for (int part = 0; part < LT_N_STATE_PARTS; part++) {
        const size_t size = lt_dtype_bytes(lt_state_dtype(compute, (lt_state_part)part));
        int64_t *bytes = lt_state_on_host(home, (lt_state_part)part) ? &l->host_bytes : &l->bytes;
        const int64_t begin = *bytes;
        for (int32_t u = 0; u < units->n_units; u++) {
            for (int32_t k = 0; k < units->units[u].n_params; k++) {
                const lt_param *p = &model->params[units->units[u].params[k]];
                int64_t *offset = &l->offset[p->id * LT_N_STATE_PARTS + part];
                *offset = -1;
                if (!kept(p, compute, (lt_state_part)part, mode))
                    continue;
                *offset = *bytes;
                *bytes += lt_round_up(lt_shard_chunk(p, shard) * (int64_t)size, LT_ALIGN);
            }
        }
        l->part_bytes[part] = *bytes - begin;
    }
    *out = l;
    return LT_OK;
}

lt_state_range lt_state_span(const lt_state_layout *l, const lt_model *model, const lt_unit *unit,
                             lt_state_part part)
{
    const int64_t size = (int64_t)lt_dtype_bytes(lt_state_dtype(l->compute, part));
    int64_t first = INT64_MAX, end = 0;
    for (int32_t i = 0; i < unit->n_params; i++) {
        const int64_t at = lt_state_offset(l, unit->params[i], part);
        if (at < 0)
            continue;
        const int64_t n = lt_shard_chunk(&model->params[unit->params[i]], l->shard);
        first = lt_min_i64(first, at);
        end = lt_max_i64(end, at + lt_round_up(n * size, LT_ALIGN));
    }
    return end > 0 ? (lt_state_range){first, end - first} : (lt_state_range){0};
}

void lt_state_layout_destroy(lt_state_layout *layout)
{
    lt_mem_free(layout);
}
