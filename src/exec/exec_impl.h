// SPDX-License-Identifier: Apache-2.0
// The executor's inside, shared by exec.c (memory, state, programs) and run.c (actions).
#ifndef LT_EXEC_EXEC_IMPL_H
#define LT_EXEC_EXEC_IMPL_H

#include "exec/exec.h"

#include <stdatomic.h>

typedef struct lt_loaded {
    lt_program *program;
    lt_event **events; /* [actions] NULL where nobody on another queue waits */
} lt_loaded;

struct lt_exec {
    lt_exec_opts o;
    lt_policy *policy;
    double *lr_scale;
    lt_state_layout *layout;
    unsigned char *state, *step; /* the two parts of the device pool */
    int64_t step_bytes, step_used;
    lt_vec programs; /* lt_loaded */
    lt_stream *stream[LT_N_QUEUES];
    lt_event *meet[LT_N_QUEUES]; /* borders of sections */
    void *result;                /* pinned host memory for what comes back */
    size_t result_bytes;
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
    bool update; /* false: UPDATE is left out */
    const lt_agree *agree;
    lt_tensor *edge; /* [n_blocks][LT_MAX_OUT] real tensors */
} lt_pass_state;

/** Run all sections. */
LT_NODISCARD lt_status lt_run_program(lt_pass_state *s, const lt_batch_view *batches);
/** Tensor of a parameter's part in the state pool. */
lt_tensor lt_exec_part(const lt_exec *e, int32_t param, lt_state_part part);
#endif
