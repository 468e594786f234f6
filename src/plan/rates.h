// SPDX-License-Identifier: Apache-2.0
// How fast devices are: what a plan's seconds are made from.
#ifndef LT_PLAN_RATES_H
#define LT_PLAN_RATES_H

#include "device/device.h"

/** Rates that a step keeps up, not those of a data sheet. */
typedef struct lt_rates {
    const char *name; /* "h200" */
    lt_backend backend;
    int64_t memory_bytes; /* what a run can have */
    double product[2];    /* FLOP/s of matrix products: f32, bf16 */
    double
        attention[2]; /* of attention in bf16: forward, backward (causal counts half the square) */
    double stream;    /* bytes/s of kernels that do little per number */
    double link;      /* bytes/s to and from host memory, each way */
    double inside, between;     /* bytes/s of a rank in collectives: in one machine, over several */
    int32_t ranks_inside;       /* ranks of one machine */
    double launch_s;            /* a kernel's least time on the device */
    double update, host_update; /* bytes/s of the optimizer, on the device and on the host */
} lt_rates;

/** The row of that name; NULL: none. */
const lt_rates *lt_rates_find(const char *name);
/** "h200, a100, cpu" */
const char *lt_rates_names(void);
#endif
