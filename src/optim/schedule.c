// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step: warm-up, then constant, linear or cosine.
#include "optim/schedule.h"
#include <math.h>

static const double linear_floor = 1e-7;
static const double pi = 3.14159265358979323846;

static double at_least_1(int64_t n)
{
    return n > 1 ? (double)n : 1.0;
}

static double cosine(const lt_schedule *s, int64_t k, int64_t warmup)
{
    const int64_t end = (int64_t)floor((double)s->steps * s->decay_ratio);
    if (k > end)
        return s->lr_min;
    const double done = (double)(k - warmup) / at_least_1(end - warmup);
    const double f = 0.5 * (1.0 + cos(pi * done)), low = s->lr_min / s->lr;
    return s->lr * (f * (1.0 - low) + low);
}

double lt_schedule_lr(const lt_schedule *s, int64_t k)
{
    const int64_t warmup = (int64_t)floor((double)s->steps * s->warmup_ratio);
    if (s->lr == 0)
        return 0;
    if (k < warmup)
        return s->lr_start + (s->lr - s->lr_start) * (double)k / at_least_1(warmup);
    switch (s->decay) {
    case LT_DECAY_CONSTANT:
        break;
    case LT_DECAY_LINEAR:
        return fmax(linear_floor, s->lr * (double)(s->steps - k) / at_least_1(s->steps - warmup));
    case LT_DECAY_COSINE:
        return cosine(s, k, warmup);
    }
    return s->lr;
}

double lt_schedule_factor(const lt_schedule *s, int64_t k)
{
    return s->lr == 0 ? 0 : lt_schedule_lr(s, k) / s->lr;
}
