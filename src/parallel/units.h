// SPDX-License-Identifier: Apache-2.0
// Units: parameters that are gathered, reduced and updated together, as the YAML's module patterns
// say.
#ifndef LT_PARALLEL_UNITS_H
#define LT_PARALLEL_UNITS_H

#include "base/log.h"
#include "model/model.h"

typedef struct lt_unit {
    const char *name;      /* the module path that it covers; "" for the root unit */
    const int32_t *params; /* ids, rising */
    int32_t n_params;
} lt_unit;

typedef struct lt_units {
    lt_unit *units; /* in order of the model's parameters; the root unit, if any, last */
    int32_t n_units;
    int32_t *of_param; /* [model->n_params] */
    lt_arena *arena;
} lt_units;

/**
 * Each parameter belongs to the longest module path that holds it and that a pattern matches; the
 * rest to the root unit.
 * Frozen and unused parameters are in units too.
 * source   spec/parallelism-memory.md 2.1
 * in       patterns[0..n), ignored[0..n_ignored) of fsdp_plan; both may be empty; log may be NULL
 * errors   LT_ERR_CONFIG when patterns are given and none matches
 */
LT_NODISCARD lt_status lt_units_create(const lt_model *model, const char *const *patterns,
                                       int64_t n, const lt_log *log, lt_units **out);
void lt_units_destroy(lt_units *units);
#endif
