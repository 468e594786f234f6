// SPDX-License-Identifier: Apache-2.0
// training.lr_scaling_plan: rates of their own for parameters whose names match a regular
// expression at their start.
#ifndef LT_OPTIM_LR_SCALE_H
#define LT_OPTIM_LR_SCALE_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Limits: bytes of an expression, entries of a plan. */
enum { LT_LR_SCALE_MAX_BYTES = 4096, LT_LR_SCALE_MAX_ENTRIES = 256 };

/** errors  LT_ERR_CONFIG: what is wrong with the expression, and where in it */
LT_NODISCARD lt_status lt_lr_scale_check(const char *match);

typedef struct lt_lr_scale lt_lr_scale;
/** The plan: entries (match[i], scale[i]), in order. No entries give 1 for every name. */
LT_NODISCARD lt_status lt_lr_scale_create(const char *const *match, const double *scale, int64_t n,
                                          lt_lr_scale **out);
void lt_lr_scale_destroy(lt_lr_scale *plan);
/**
 * The factor of a parameter: that of the first entry whose expression matches at the start of
 * `name` (Python's re.match), 1 when none does.
 *
 * out      *index, when asked for: the entry's, -1 for none
 * errors   LT_ERR_CONFIG: an expression takes too many steps on this name
 */
LT_NODISCARD lt_status lt_lr_scale_of(const lt_lr_scale *plan, const char *name, double *factor,
                                      int64_t *index);

#ifdef __cplusplus
}
#endif
#endif
