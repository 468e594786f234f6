// SPDX-License-Identifier: Apache-2.0
// What a step takes: seconds by cause, from a device's rates and the order that queues and waits
// allow.
#ifndef LT_PLAN_COST_H
#define LT_PLAN_COST_H

#include "plan/program.h"
#include "plan/rates.h"

/** What the time of a step goes into. */
#define LT_CAUSE_LIST(X)                                                                           \
    X(PRODUCTS, "matrix products")                                                                 \
    X(ATTENTION, "attention")                                                                      \
    X(OTHER, "norms, rotary, sums and other kernels")                                              \
    X(AGAIN, "computed again in the backward")                                                     \
    X(OPTIMIZER, "gradient norm and optimizer")                                                    \
    X(GATHER, "waiting for gathered parameters")                                                   \
    X(REDUCE, "waiting for gradients to be summed")                                                \
    X(COPIES, "waiting for copies from and to the host")                                           \
    X(HOST, "waiting for work on the host")
typedef enum lt_cause {
#define LT_CAUSE_ENUM(name, text) LT_CAUSE_##name,
    LT_CAUSE_LIST(LT_CAUSE_ENUM)
#undef LT_CAUSE_ENUM
        LT_N_CAUSES
} lt_cause;
const char *lt_cause_name(lt_cause cause);

typedef struct lt_cost_opts {
    const lt_rates *rates;
    int32_t ranks;           /* who share the work */
    int32_t shards;          /* pieces that parameters lie in; 1: whole */
    int64_t n_micro;         /* micro-batches of a step */
    int64_t samples, frames; /* of a micro-batch: attention stays within each */
} lt_cost_opts;

typedef struct lt_cost {
    double step_s;                      /* a step, with every queue at work at once */
    double cause[LT_N_CAUSES];          /* their sum is step_s */
    double gathered, reduced, down, up; /* bytes of a step: over the wire, to the host, from it */
} lt_cost;

/**
 * in       p: a program of a step; begin_s [actions] or NULL: filled with when each action begins,
 *          of a micro-batch in the last of them
 * errors   LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_program_cost(const lt_program *p, const lt_cost_opts *o, double *begin_s,
                                       lt_cost *out);
#endif
