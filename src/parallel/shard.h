// SPDX-License-Identifier: Apache-2.0
// Which rows of a parameter a rank owns.
#ifndef LT_PARALLEL_SHARD_H
#define LT_PARALLEL_SHARD_H

#include "model/model.h"
#include "parallel/mesh.h"

static inline bool lt_is_cut(lt_shard s)
{
    return s.size > 1;
}
/** Elements of a piece: rows of the first dimension, as many as fit, rounded up. */
static inline int64_t lt_shard_chunk(const lt_param *p, lt_shard s)
{
    const int64_t rows = p->rank > 0 ? p->dim[0] : 1;
    if (!lt_is_cut(s) || rows == 0)
        return p->n_elems;
    return lt_ceil_div(rows, s.size) * (p->n_elems / rows);
}
/** The parameter's elements [first, first + n) are this rank's; n is 0 on late ranks. */
typedef struct lt_owned {
    int64_t first, n;
} lt_owned;
static inline lt_owned lt_shard_owned(const lt_param *p, lt_shard s)
{
    const int64_t chunk = lt_shard_chunk(p, s), first = lt_min_i64(p->n_elems, s.index * chunk);
    return (lt_owned){first, lt_min_i64(chunk, p->n_elems - first)};
}
/** Elements that a tensor of all pieces has room for: the last ones may be short. */
static inline int64_t lt_shard_room(const lt_param *p, lt_shard s)
{
    return lt_is_cut(s) ? s.size * lt_shard_chunk(p, s) : p->n_elems;
}
#endif
