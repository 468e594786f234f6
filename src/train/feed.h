// SPDX-License-Identifier: Apache-2.0
// From collated micro-batches to what the executor takes: loss weights and views.
#ifndef LT_TRAIN_FEED_H
#define LT_TRAIN_FEED_H

#include "data/collate.h"
#include "graph/batch.h"
#include "model/config.h"

/** features.loss_cfg.loss_type */
typedef enum lt_loss_type {
    LT_LOSS_RAW,
    LT_LOSS_DEFAULT,
    LT_LOSS_PER_SAMPLE,
    LT_LOSS_PER_TOKEN
} lt_loss_type;

/** Counts behind the weights of a step: its micro-batches. */
typedef struct lt_loss_counts {
    int64_t targets; /* tokens that carry loss */
    int64_t labels;  /* unshifted labels > -1: what per_token_loss divides by */
} lt_loss_counts;
lt_loss_counts lt_count_losses(const lt_batch *const *batches, int64_t n);

/**
 * The weight kappa_t of each target of batches[i], such that the step's loss is the sum of kappa_t
 * l_t over all micro-batches:
 *   raw, default     1 / (targets of the micro-batch * n)
 *   per_sample_loss  1 / (samples of the micro-batch * targets of the sample * n)
 *   per_token_loss   1 / labels of the step
 * source   spec/models.md 7.2, spec/config-trainer-checkpoint.md 1.6.5; a micro-batch or sample
 *          without targets adds nothing
 * in       n micro-batches of the step, of all ranks; counts summed over ranks
 * out      kappa f32 [batches[i]->n_targets]
 */
void lt_loss_weights(lt_loss_type type, const lt_batch *const *batches, int64_t n,
                     const lt_loss_counts *counts, int64_t i, float *kappa);

/**
 * The same for the token after next, times `scale`: the weight of each target of batches[i] as that
 * of the row before it, 0 where that row is another sample's. What is divided by are those that
 * count, and with per_token_loss the targets of the step.
 * source   spec/models.md 6.3; spec/parallelism-memory.md 2.4
 * out      kappa f32 [batches[i]->n_targets]
 */
void lt_next_weights(lt_loss_type type, const lt_batch *const *batches, int64_t n,
                     const lt_loss_counts *counts, int64_t i, double scale, float *kappa);

/**
 * The weight of the balance loss in each of n micro-batches: `asked`
 * (features.loss_cfg.router_aux_loss_coef), or without it what config.json says where its
 * output_router_logits is on; over n. source: spec/models.md 5.6
 */
float lt_balance_weight(double asked, const lt_moe_config *moe, int64_t n);

/**
 * The executor's view of a micro-batch. Keeps pointers into both. The balance loss has the weight 0
 * in it: who trains experts puts its own into value[LT_BATCH_BALANCE].data, and who trains a
 * prediction module its weights into value[LT_BATCH_NEXT_KAPPA].data.
 */
lt_batch_view lt_feed_view(const lt_batch *batch, float *kappa);
/**
 * The same with the logits of rows [n] (ascending) asked for instead of the targets'; `zeros` holds
 * n i32 and n f32 zeros.
 */
lt_batch_view lt_feed_rows(const lt_batch *batch, int32_t *rows, int64_t n, void *zeros);
#endif
