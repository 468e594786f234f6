// SPDX-License-Identifier: Apache-2.0
// The executor's inside, shared by exec.c (memory, state, programs) and run.c (actions).
#ifndef LT_EXEC_EXEC_IMPL_H
#define LT_EXEC_EXEC_IMPL_H

#include "comm/link.h"
#include "exec/exec.h"

#include <stdatomic.h>

typedef struct lt_loaded {
    lt_program *program;
    lt_event **events; /* [actions] NULL where nobody on another queue waits */
} lt_loaded;

/** A step that was begun and not ended: its place for results and scalars. */
typedef struct lt_flight {
    int64_t n_micro;
    lt_result_places places;
    lt_event *done; /* on the queue that brings the results */
} lt_flight;

/** Pinned memory that a micro-batch is copied through, so that its own may be used again. */
typedef struct lt_stage {
    unsigned char *memory;
    size_t bytes;
    unsigned char *device; /* where it is copied to: [e->batch_bytes] */
    lt_event *done;        /* the micro-batch has been worked through */
    bool in_use;
} lt_stage;

/** Pinned memory that pieces of the state go through: one is converted while another is copied. */
typedef struct lt_lane {
    unsigned char *memory;
    lt_event *done; /* its copy */
    bool in_use;
} lt_lane;

enum { LT_N_LANES = 2, LT_LANE_ELEMS = 1 << 21, LT_LANE_BYTES = LT_LANE_ELEMS * 8 };

enum { LT_N_STAGES = LT_BATCHES_APART }; /* micro-batches that the host is ahead of the device */

struct lt_exec {
    lt_exec_opts o;
    lt_policy *policy;
    bool *offload; /* NULL: none */
    double *lr_scale;
    lt_state_layout *layout;
    unsigned char *state, *step; /* the two parts of the device pool */
    unsigned char *host_state;   /* pinned: what of the state waits on the host */
    lt_device *host_device;      /* who works on the host: the device itself, or a CPU beside it */
    int64_t step_bytes, step_used;
    unsigned char *host; /* pinned: what programs keep outside the device */
    int64_t host_bytes, host_used;
    unsigned char *level; /* o.tree: sums of micro-batches, see sums.c */
    int64_t levels, level_bytes;
    lt_vec programs; /* lt_loaded */
    lt_stream *stream[LT_N_QUEUES];
    lt_event *meet[LT_N_QUEUES]; /* borders of sections */
    /* gathers and sums have a link each, so that one may overtake the other */
    lt_link *gathers, *sums, *copies; /* among sharers; the last among replicas */
    /* pinned: for each flight the scalars of its step, then what comes back */
    unsigned char *result;
    size_t result_bytes; /* of one flight */
    lt_flight flight[LT_EXEC_AHEAD];
    int64_t n_begun, n_ended; /* steps; the slot of number i is i % LT_EXEC_AHEAD */
    lt_stage stage[LT_N_STAGES];
    int64_t n_staged, batch_bytes;
    lt_lane lane[LT_N_LANES];
    double waited_s; /* for the device, inside calls that only queue */
    double seconds[LT_N_ACTIONS];
    _Atomic(const char *) now;
    uint64_t order_draws;
};

/** What a run of a program works on. */
typedef struct lt_pass_state {
    lt_exec *e;
    const lt_loaded *l;
    const lt_batch_view *batch; /* the present micro-batch */
    int64_t micro;              /* its number */
    int64_t n_micro;
    double scalars[LT_N_SCALARS];
    unsigned char *batch_at; /* device memory of the present micro-batch, where it lies apart */
    unsigned char *slot;     /* pinned: scalars, then results */
    lt_result_places places; /* of the results; stays when the run has been queued */
    bool update;             /* false: UPDATE is left out */
    const lt_agree *agree;
    lt_tensor *edge; /* [n_blocks][LT_MAX_OUT] real tensors */
} lt_pass_state;

/** Where a buffer of the program lies; NULL for LT_NONE. */
unsigned char *lt_pass_at(const lt_pass_state *s, int32_t buffer);
/** What a backward writes: a whole gradient, in the state or in the step pool. No data: frozen. */
lt_tensor lt_pass_written(const lt_pass_state *s, int32_t param);
/** What NORM and UPDATE read: the summed gradient of what this rank owns. No data: frozen. */
lt_tensor lt_pass_gradient(const lt_pass_state *s, int32_t param);
/** A forward kernel on the action's queue, without scratch. */
LT_NODISCARD lt_status lt_pass_launch(const lt_pass_state *s, const lt_action *a, lt_op_args *args);
/** What a part of the state lies in. */
unsigned char *lt_exec_part_memory(const lt_exec *e, lt_state_part part);
/** A part of a parameter where UPDATE finds it: in the state, or brought for it. */
lt_tensor lt_pass_state_part(const lt_pass_state *s, int32_t param, lt_state_part part);
/** A gradient that has come down to the host. No data: frozen, or it has not. */
lt_tensor lt_pass_come_down(const lt_pass_state *s, int32_t param);
/** OFFLOAD and FETCH of a unit's part of the state, and ADD on the host. */
LT_NODISCARD lt_status lt_run_state_way(lt_pass_state *s, const lt_action *a);
LT_NODISCARD lt_status lt_run_host_sum(lt_pass_state *s, const lt_action *a);
/** Who does an action's work. */
static inline lt_device *lt_doer(const lt_exec *e, const lt_action *a)
{
    return a->queue == LT_QUEUE_HOST ? e->host_device : e->o.device;
}
/** Muon's part of UPDATE: one matrix. */
LT_NODISCARD lt_status lt_run_muon(lt_pass_state *s, const lt_action *a, int32_t param);
/** A forward kernel with scratch. */
LT_NODISCARD lt_status lt_pass_launch_in(const lt_pass_state *s, const lt_action *a,
                                         lt_op_args *args, void *scratch, size_t bytes);
/** The actions GATHER and REDUCE, where there are several ranks. */
LT_NODISCARD lt_status lt_run_gather(lt_pass_state *s, const lt_action *a);
LT_NODISCARD lt_status lt_run_reduce(lt_pass_state *s, const lt_action *a);
/** The sum over ranks of a micro-batch's gradient joins those before it. */
LT_NODISCARD lt_status lt_keep_sum(lt_pass_state *s, const lt_action *a, int32_t param);
/** The buffer that an action reads a unit's gathered values from, or writes them to. */
int32_t lt_gathered_buffer(const lt_program *p, const lt_action *a, int32_t unit);
/** The actions NORM and UPDATE. */
LT_NODISCARD lt_status lt_run_norm(lt_pass_state *s, const lt_action *a);
LT_NODISCARD lt_status lt_run_update(lt_pass_state *s, const lt_action *a);

enum { LT_SLOT_RESULTS = LT_N_SCALARS * 8 }; /* where results begin in a slot */

/** Queue all sections. */
LT_NODISCARD lt_status lt_run_program(lt_pass_state *s, const lt_batch_view *batches);
/**
 * The view of a micro-batch in pinned memory, on devices whose copies are queued; elsewhere the
 * batch itself. The memory is given up by lt_unstage, and used again once the device is there.
 */
LT_NODISCARD lt_status lt_stage_batch(lt_exec *e, const lt_program *p, const lt_batch_view *batch,
                                      lt_batch_view *out);
LT_NODISCARD lt_status lt_unstage(lt_exec *e);
void lt_stages_free(lt_exec *e);
void lt_lanes_free(lt_exec *e);
static inline lt_shard lt_exec_shard(const lt_exec *e)
{
    return e->layout->shard;
}
/** Tensor of a parameter's part in the state pool: the rows that this rank owns. */
lt_tensor lt_exec_part(const lt_exec *e, int32_t param, lt_state_part part);
#endif
