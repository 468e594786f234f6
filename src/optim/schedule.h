// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step.
#ifndef LT_OPTIM_SCHEDULE_H
#define LT_OPTIM_SCHEDULE_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lt_decay { LT_DECAY_CONSTANT, LT_DECAY_LINEAR, LT_DECAY_COSINE } lt_decay;

/**
 * With W = floor(steps * warmup_ratio), T = steps, D = floor(T * decay_ratio), after k updates:
 *
 *     k < W      lr_start + (lr - lr_start) * k / max(1, W)
 *     constant   lr
 *     linear     max(1e-7, lr * (T - k) / max(1, T - W))
 *     cosine     lr_min for k > D, else lr * (f * (1 - lr_min / lr) + lr_min / lr),
 *                f = (1 + cos(pi * (k - W) / max(1, D - W))) / 2
 *
 * A peak of 0 is 0 everywhere. A function of k alone: a resumed run needs no state of it.
 *
 * source   spec/config-trainer-checkpoint.md, sections 2.7 and 7.3
 */
typedef struct lt_schedule {
    lt_decay decay;
    double lr, lr_min, lr_start; // peak, floor of cosine, first rate of warm-up
    double warmup_ratio;         // share of the steps that warm up
    double decay_ratio;          // cosine: share of the steps after which lr_min stays
    int64_t steps;               // of the whole run
} lt_schedule;

/** The rate of update number k + 1, where k updates are done (0 for the first): what the log prints
 * for it. */
double lt_schedule_lr(const lt_schedule *s, int64_t k);

/** The same over the peak rate, 0 when that is 0: a group with a peak of its own multiplies it by
 * this. */
double lt_schedule_factor(const lt_schedule *s, int64_t k);

#ifdef __cplusplus
}
#endif
#endif
