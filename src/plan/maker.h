// SPDX-License-Identifier: Apache-2.0
// The program under construction, shared by the files that make its parts.
#ifndef LT_PLAN_MAKER_H
#define LT_PLAN_MAKER_H

#include "plan/program.h"

/** Units in order of first use. */
typedef struct lt_unit_order {
    int32_t *unit, n;
    int32_t ahead; /* how many are gathered before their turn */
} lt_unit_order;

typedef struct lt_maker {
    lt_program *p;
    const lt_model *m;
    const lt_policy *policy; /* [n_blocks] */
    bool *needs;             /* [n_blocks] */
    int32_t *values;         /* [n_units] buffers of the state */
    int32_t *moments;
    int32_t *grads; /* [n_units] what NORM and UPDATE read */
    int32_t *full;  /* [n_units] the gathered values at hand; without shards those of the state */
    int64_t *full_bytes; /* [n_units] of gathered values */
    bool *gathered;      /* [n_units] in this micro-batch */
    int32_t *writer;     /* [n_units] the block whose backward is the last to write its gradients */
    bool *updated;       /* [n_units] UPDATE has been placed */
    bool *offload;       /* [n_blocks] what the block reads again waits on the host */
    int32_t *edge_host;  /* [n_blocks][LT_MAX_OUT] the host's copies, or LT_NONE */
    int32_t *saved_host; /* [n_blocks] */
    lt_unit_order forward, backward;
} lt_maker;

LT_NODISCARD lt_status lt_make_buffer(lt_maker *k, lt_buffer_kind kind, int32_t a, int32_t b,
                                      int64_t bytes, int32_t *out);
/** A new action, which lt_last_action then is. */
LT_NODISCARD lt_status lt_make_action(lt_maker *k, lt_action_kind kind, int32_t subject,
                                      lt_queue queue);
lt_action *lt_last_action(const lt_maker *k);
/** The last action touches a buffer. LT_NONE is nothing. */
LT_NODISCARD lt_status lt_make_access(lt_maker *k, int32_t buffer, bool write);
static inline int64_t lt_buffer_bytes(const lt_maker *k, int32_t buffer)
{
    return LT_AT(&k->p->buffers, lt_buffer, buffer).bytes;
}
static inline int32_t *lt_edge_buffer(const lt_program *p, lt_edge e)
{
    return &p->edge_buffer[e.block * LT_MAX_OUT + e.output];
}

/* Accesses and buffers of a block's action. */
LT_NODISCARD lt_status lt_make_param_accesses(lt_maker *k, int32_t block);
LT_NODISCARD lt_status lt_make_batch_accesses(lt_maker *k, int32_t block);
LT_NODISCARD lt_status lt_make_work(lt_maker *k, int32_t block, int64_t bytes);
LT_NODISCARD lt_status lt_make_edge(lt_maker *k, int32_t block, int32_t output);
/** COPY of a loss or logits block's outputs to the host. */
LT_NODISCARD lt_status lt_make_result(lt_maker *k, int32_t block);
/** Where a unit stands in an order; order->n: nowhere. */
int32_t lt_place_in_order(const lt_unit_order *order, int32_t unit);
/** GATHER of the units of a block, and of those that come next in the order, where not at hand. */
LT_NODISCARD lt_status lt_make_gathers(lt_maker *k, int32_t block, const lt_unit_order *order);
/** Bytes of a part of a unit in the state. */
int64_t lt_unit_part_bytes(const lt_maker *k, int32_t unit, lt_state_part part);
/** Elements of a unit's parameters, of those that are trained or of all. */
int64_t lt_unit_elems(const lt_maker *k, int32_t unit, bool trained);
bool lt_unit_trains(const lt_maker *k, int32_t unit);

/** Which blocks do offload: k->offload, from what the options ask for. */
void lt_choose_offloads(lt_maker *k);
/** Right before the FORWARD of a block, and right after it. */
LT_NODISCARD lt_status lt_make_offload(lt_maker *k, int32_t block);
LT_NODISCARD lt_status lt_make_offload_saved(lt_maker *k, int32_t block);
/** FETCH of what the BACKWARD of a block reads, and of what the next offloaded block will. */
LT_NODISCARD lt_status lt_make_fetches(lt_maker *k, int32_t block);

/** Where the state lies on the host: gradients down; parameters down for an update, and back. */
LT_NODISCARD lt_status lt_make_gradients_down(lt_maker *k, int32_t unit);
LT_NODISCARD lt_status lt_make_values_down(lt_maker *k, int32_t unit);
LT_NODISCARD lt_status lt_make_values_up(lt_maker *k, int32_t unit);
/** Where moments do: up for an update, and back. */
LT_NODISCARD lt_status lt_make_moments_up(lt_maker *k, int32_t unit);
LT_NODISCARD lt_status lt_make_moments_down(lt_maker *k, int32_t unit);

/** All BACKWARD actions with their ADD and REDUCE, and with UPDATE where it comes early. */
LT_NODISCARD lt_status lt_make_backward(lt_maker *k);
/** NORM and UPDATE of what has not been updated yet, and the norm's way to the host. */
LT_NODISCARD lt_status lt_make_update(lt_maker *k);
#endif
