// SPDX-License-Identifier: Apache-2.0
// A model as data: parameters, and blocks in forward order with the edges between them.
#ifndef LT_MODEL_MODEL_H
#define LT_MODEL_MODEL_H

#include "graph/builder.h"
#include "model/config.h"

/**
 * One parameter. `id` is its place in model->params, which is the order of the published model's
 * named_parameters().
 */
typedef struct lt_param {
    const char *name;           /* the full published name: "model.language_model.norm.weight" */
    const char *const *aliases; /* of the same buffer: "lm_head.weight" of a tied model */
    int32_t n_aliases;
    int32_t id;
    int32_t rank;
    int64_t dim[LT_MAX_DIMS];
    int64_t n_elems;
    lt_init init;
    /* of LT_INIT_NORMAL: the initializer_range of its part of the model; of LT_INIT_VALUE: that */
    double std;
    bool trainable; /* false once frozen, and for a parameter that no block reads */
    /* updated by muon, as a whole matrix: it has no second moments */
    bool muon;
    bool in_use; /* some block reads it; a deepstack merger beyond the last layer is only stored */
} lt_param;

enum { LT_MAX_BLOCKS = 4096 };

/** Output `output` of block `block`. */
typedef struct lt_edge {
    int32_t block, output;
} lt_edge;

/**
 * What a block is for. Training leaves LOGITS out; looking at logits (eval, generate) leaves LOSS
 * out.
 */
typedef enum lt_block_role {
    LT_BLOCK_BODY,
    LT_BLOCK_LOSS,
    LT_BLOCK_LOGITS,
    LT_BLOCK_SIDE /* on the way to next_block alone: training has it, nobody else */
} lt_block_role;

/**
 * Which line of lt_flops a block's products go to. NONE: look-ups and elementwise work, not
 * counted.
 */
typedef enum lt_part {
    LT_PART_NONE,
    LT_PART_TEXT,
    LT_PART_HEAD,
    LT_PART_VISION,
    LT_PART_PATCH_EMBED,
    LT_PART_MERGERS
} lt_part;

/**
 * What the FLOPs of a block kind are counted from: every matrix among its parameters, once per row,
 * and attention.
 */
typedef struct lt_kind_cost {
    lt_part part;
    lt_extent rows;          /* TOKENS, PATCHES or MERGED */
    int64_t attention_width; /* heads * head_dim; 0: no attention */
    bool causal;
    bool class_rows;   /* one row more for each frame, in products and in attention */
    int64_t scan;      /* FLOPs of a row beside matrices and attention: a recurrence */
    const char *table; /* the parameter that rows are not multiplied with: looked up, or a
                          convolution's; NULL: none */
    /* parameters of 3 dims are [experts, ...], and a row meets `picked` of them; 0: none are */
    int64_t experts, picked;
} lt_kind_cost;

/** One block: a kind, the parameters bound to it and where its inputs come from. */
typedef struct lt_block {
    const char *name;          /* module path: "model.language_model.layers.7" */
    const lt_block_kind *kind; /* shared by all blocks that differ in parameters alone */
    const lt_kind_cost *cost;
    const int32_t *params; /* [kind->n_params] ids, in the order of kind->params */
    const lt_edge *inputs; /* [kind->n_in]; each names an earlier block */
    lt_block_role role;
} lt_block;

typedef struct lt_model {
    lt_model_config config;
    lt_param *params;
    int32_t n_params;
    const lt_block *blocks; /* each after those it reads */
    int32_t n_blocks;
    const lt_block_kind *const *kinds;
    int32_t n_kinds;
    int32_t loss_block, logits_block; /* both read the head and the final norm's output */
    int32_t balance_block; /* the loss of uneven experts (moe.h); -1: a model without experts */
    int32_t next_block;    /* the loss of the token after next (mtp.h); -1: it is not predicted */
    int32_t embed_param, head_param; /* one id when the head is tied */
    /* the head is the embedding: as the model was built, whatever the file's flag says */
    bool tied;
    int64_t pixel_width, vocab;
    struct lt_model_store *store; /* the model's own memory and name map */
} lt_model;

/**
 * Whether the head has a weight of its own. A checkpoint without a head tensor means TIED, whatever
 * its config.json says.
 */
typedef enum lt_head { LT_HEAD_AS_CONFIG, LT_HEAD_TIED, LT_HEAD_OWN } lt_head;

/**
 * Build the model of a config (which is copied). errors LT_ERR_UNSUPPORTED, LT_ERR_MEMORY. End with
 * lt_model_destroy.
 */
LT_NODISCARD lt_status lt_model_create(const lt_model_config *config, lt_head head, lt_model **out);
/** Accepts NULL. */
void lt_model_destroy(lt_model *model);
/** The parameter of that name or alias; NULL when there is none. */
lt_param *lt_model_param(const lt_model *model, const char *name);
/** The shape of a parameter in a dtype, no data. */
lt_tensor lt_param_tensor(const lt_param *param, lt_dtype dtype);
/**
 * Whether published checkpoints of this family hold expert matrices as [E, in, out]; lathe has them
 * as [E, out, in].
 */
bool lt_model_experts_transposed(const lt_model_config *config);
/** The name under which checkpoints of this family store the head; for the test behind lt_head. */
const char *lt_model_head_name(const lt_model_config *config);

/**
 * Freeze all parameters under the modules that a pattern matches. A module path is any dotted
 * prefix of a parameter's name or of an alias (the root is ""), so that "lm_head" freezes a tied
 * embedding too. Patterns as in spec config-trainer-checkpoint 1.2.
 * out      hits (may be NULL): [n] how many parameters lie under modules that pattern i matches; 0
 *          is a dead pattern
 * errors   LT_ERR_CONFIG: a pattern that is malformed
 */
LT_NODISCARD lt_status lt_model_freeze(lt_model *model, const char *const *patterns, int64_t n,
                                       int64_t *hits);
/**
 * All module paths in order of first appearance, the root left out: pushes const char * (they live
 * as long as the model).
 */
LT_NODISCARD lt_status lt_model_modules(const lt_model *model, lt_vec *paths);

/** Parameter counts below one module, for the print at the start of a run. */
typedef struct lt_param_count {
    const char *module; /* "model.visual", "model.language_model", "lm_head" */
    int64_t trainable, frozen;
} lt_param_count;
/**
 * One row per top module (name up to the second dot below "model", else up to the first), in order;
 * pushes lt_param_count.
 */
LT_NODISCARD lt_status lt_model_count(const lt_model *model, lt_vec *rows);
/** Elements of all parameters; of the trainable ones alone. A tied head counts once. */
int64_t lt_model_total(const lt_model *model, bool trainable_only);

/**
 * Which blocks have something trainable in them or below them: their outputs need a gradient, and
 * they a backward. Input i of block b needs a gradient exactly when
 * needs[blocks[b].inputs[i].block]. out: needs [n_blocks]
 */
void lt_model_needs_grad(const lt_model *model, bool *needs);

/**
 * Initial values of elements [first, first + n) of a parameter: normal with mean 0 and deviation
 * param->std, or 0, or 1, or param->std itself, or ln of a uniform number up to param->std.
 * A value depends on (seed, name, index) alone. source: spec/models.md 11
 */
void lt_model_init_values(const lt_param *param, uint64_t seed, int64_t first, int64_t n,
                          float *out);

/**
 * The work of one step: counts of a batch, summed over micro-batches. Squares are per segment: the
 * sum of n_s * n_s.
 */
typedef struct lt_work {
    double tokens, patches, merged, frames;
    double token_squares, patch_squares;
} lt_work;
/** Adds a micro-batch. It reads the extents and the host's segment tables. */
void lt_work_add(lt_work *work, const lt_batch_view *batch);

/**
 * Model FLOPs (multiply and add apart) of a step; never recompute. source: spec/models.md 10.1; the
 * head counts all tokens.
 */
typedef struct lt_flops {
    double text, text_attention, head; /* forward; causal attention at one half of the square */
    double vision, vision_attention, patch_embed, mergers; /* forward; mergers per merged token */
    double forward;                                        /* their sum */
    double step;  /* forward, and a product more for each weight or input gradient that is needed */
    double plain; /* what common scripts print: 3 text parts + vision blocks (x 3 unless frozen) */
} lt_flops;
lt_flops lt_model_flops(const lt_model *model, const lt_work *work);
#endif
