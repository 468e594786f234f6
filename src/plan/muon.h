// SPDX-License-Identifier: Apache-2.0
// What muon's update of a matrix needs beside the state.
#ifndef LT_PLAN_MUON_H
#define LT_PLAN_MUON_H

#include "graph/pack.h"
#include "op/muon.h"
#include "parallel/shard.h"

/**
 * Places in an update's workspace: this rank's piece of what is to be applied, the whole of it, the
 * iteration's scratch. Without pieces the first two are one.
 */
typedef struct lt_muon_places {
    int64_t piece, whole, scratch, scratch_bytes, bytes;
} lt_muon_places;

static inline lt_muon_places lt_muon_place(const lt_param *p, lt_shard shard)
{
    enum { SIZE = 2 }; /* bf16 */
    lt_muon_places m = {0};
    m.whole = lt_is_cut(shard) ? lt_round_up(lt_shard_chunk(p, shard) * SIZE, LT_ALIGN) : 0;
    m.scratch = m.whole + lt_round_up(lt_shard_room(p, shard) * SIZE, LT_ALIGN);
    m.scratch_bytes = (int64_t)lt_orthogonalize_bytes(p->dim[0], p->dim[1]);
    m.bytes = m.scratch + lt_round_up(m.scratch_bytes, LT_ALIGN);
    return m;
}

static inline int64_t lt_muon_flops(const lt_param *p, int32_t steps)
{
    return lt_orthogonalize_flops(p->dim[0], p->dim[1], steps);
}
#endif
