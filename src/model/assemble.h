// SPDX-License-Identifier: Apache-2.0
// Putting a model together: kinds, then parameters in published order, then blocks in forward
// order. Internal to src/model.
#ifndef LT_MODEL_ASSEMBLE_H
#define LT_MODEL_ASSEMBLE_H

#include "base/text.h"
#include "model/model.h"

/**
 * A model under construction, and later its store. The first failure sticks; all calls after it do
 * nothing.
 */
typedef struct lt_model_store lt_assembly;
struct lt_model_store {
    lt_model *model; /* its config and `tied` are set before the family's build runs */
    lt_arena *arena;
    lt_map *names;  /* parameter names and aliases -> id */
    lt_vec params;  /* lt_param */
    lt_vec blocks;  /* lt_block */
    lt_vec kinds;   /* const lt_block_kind * */
    lt_vec modules; /* const char *: every module path once */
    lt_status status;
};

/* Rows of a kind's parameter list. */
#define LT_MATRIX(n, rows, cols)                                                                   \
    {                                                                                              \
        .name = (n), .rank = 2, .dim = {(rows), (cols)}, .init = LT_INIT_NORMAL                    \
    }
#define LT_EXPERTS(n, experts, rows, cols)                                                         \
    {                                                                                              \
        .name = (n), .rank = 3, .dim = {(experts), (rows), (cols)}, .init = LT_INIT_NORMAL         \
    }
#define LT_SCALE(n, width)                                                                         \
    {                                                                                              \
        .name = (n), .rank = 1, .dim = {(width)}, .init = LT_INIT_ONE                              \
    }
#define LT_BIAS(n, width)                                                                          \
    {                                                                                              \
        .name = (n), .rank = 1, .dim = {(width)}, .init = LT_INIT_ZERO                             \
    }

/**
 * Copies kind, its list and cost into the model. Names in them must be literals. NULL once the
 * assembly has failed.
 */
const lt_block_kind *lt_assemble_kind(lt_assembly *a, const lt_block_kind *kind,
                                      const lt_kind_cost *cost);
/**
 * A parameter for each of the kind's, named PREFIX.NAME. std: deviation of those that start normal.
 */
void lt_assemble_params(lt_assembly *a, const char *prefix, const lt_block_kind *kind, double std);
/** Another name for a parameter that is there. */
void lt_assemble_alias(lt_assembly *a, const char *name, const char *alias);
/**
 * A block of that kind with the parameters PREFIX.NAME, which must be there. inputs: [kind->n_in].
 * Returns its output 0.
 */
lt_edge lt_assemble_block(lt_assembly *a, const char *name, const char *prefix,
                          const lt_block_kind *kind, const lt_edge *inputs, lt_block_role role);

/** The id of a parameter by name or alias, which must be there; -1 once the assembly has failed. */
int32_t lt_assemble_find(const lt_assembly *a, const char *name);

/** A formatted path: "model.visual.blocks.7". */
typedef struct lt_path_text {
    char s[128];
} lt_path_text;
lt_path_text lt_path_of(const char *fmt, ...) LT_PRINTF(1, 2);
#endif
