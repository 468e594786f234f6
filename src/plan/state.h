// SPDX-License-Identifier: Apache-2.0
// Where parameters, gradients and moments lie: the part of the device pool that lives as long as
// the run.
#ifndef LT_PLAN_STATE_H
#define LT_PLAN_STATE_H

#include "parallel/shard.h"
#include "parallel/units.h"

/**
 * What is kept of a parameter, by the compute dtype: f32 or f64 itself, or an fp32 master as bf16
 * `hi` and 16-bit `lo`.
 */
typedef enum lt_state_part {
    LT_STATE_VALUE, /* what graphs read: f32, f64, or bf16 (hi) */
    LT_STATE_LOW,   /* i16 remainder of the fp32 master; bf16 compute, trainable */
    LT_STATE_GRAD,  /* f32 (f64 in f64 compute); trainable */
    LT_STATE_M,
    LT_STATE_V,
    LT_N_STATE_PARTS
} lt_state_part;
const char *lt_state_part_name(lt_state_part part);

/** Which parts are kept at all. */
typedef enum lt_state_mode {
    LT_STATE_VALUES_ONLY,   /* generate, eval */
    LT_STATE_WITHOUT_GRADS, /* a unit's gradients live in the step pool until its update */
    LT_STATE_WHOLE
} lt_state_mode;

/** Which parts wait in host memory. */
typedef enum lt_state_home {
    LT_HOME_DEVICE, /* none */
    LT_HOME_SWAP,   /* moments, which come to the device for each update */
    LT_HOME_HOST    /* all but what graphs read: the optimizer works on the host */
} lt_state_home;
static inline bool lt_state_on_host(lt_state_home home, lt_state_part part)
{
    return home == LT_HOME_HOST
               ? part != LT_STATE_VALUE
               : home == LT_HOME_SWAP && (part == LT_STATE_M || part == LT_STATE_V);
}

typedef struct lt_state_layout {
    lt_state_mode mode;
    lt_state_home home;
    lt_dtype compute;
    lt_shard shard; /* the pieces of parameters that are kept here */
    int32_t n_params;
    int64_t *offset; /* [n_params][LT_N_STATE_PARTS] in the memory of its part, -1: not kept */
    int64_t bytes, host_bytes; /* on the device, on the host */
    int64_t part_bytes[LT_N_STATE_PARTS];
} lt_state_layout;

/** dtype of a part under a compute dtype. */
lt_dtype lt_state_dtype(lt_dtype compute, lt_state_part part);
/**
 * Lay the state out: part by part, in a part unit by unit, so that a unit's parameters are
 * neighbours. Of each parameter the piece of `shard`; its room is that of the largest piece.
 */
LT_NODISCARD lt_status lt_state_layout_create(const lt_model *model, const lt_units *units,
                                              lt_dtype compute, lt_state_mode mode,
                                              lt_state_home home, lt_shard shard,
                                              lt_state_layout **out);
void lt_state_layout_destroy(lt_state_layout *layout);
/** Bytes [first, first + bytes) of a part: all of a unit's parameters, with the gaps between. */
typedef struct lt_state_range {
    int64_t first, bytes;
} lt_state_range;
lt_state_range lt_state_span(const lt_state_layout *l, const lt_model *model, const lt_unit *unit,
                             lt_state_part part);
static inline int64_t lt_state_offset(const lt_state_layout *l, int32_t param, lt_state_part part)
{
    return l->offset[param * LT_N_STATE_PARTS + (int32_t)part];
}
#endif
