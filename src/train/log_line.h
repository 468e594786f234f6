// SPDX-License-Identifier: Apache-2.0
// The lines that tools read from a run's standard output, to the character.
#ifndef LT_TRAIN_LOG_LINE_H
#define LT_TRAIN_LOG_LINE_H

#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What one line says about a step. */
typedef struct lt_step_line {
    int64_t unix_seconds; /* printed as local time */
    int64_t iteration, n_iterations;
    int64_t consumed_samples;
    double elapsed_ms; /* of one step, averaged over log_interval */
    double lr;         /* that this step used */
    int64_t global_batch;
    double loss;              /* without mtp_losses; the balance loss, weighed, is in it */
    const double *mtp_losses; /* [n_mtp] */
    int64_t n_mtp;
    double aux_loss;  /* left out when 0 */
    double grad_norm; /* before clipping */
} lt_step_line;

/**
 * Append " [YYYY-MM-DD HH:MM:SS] iteration ...| grad norm: X.XXX |", without a line feed; NaN
 * prints NAN, infinities INF, -INF.
 *
 * source   spec/config-trainer-checkpoint.md, section 2.8
 */
LT_NODISCARD lt_status lt_step_line_text(const lt_step_line *line, lt_buf *out);

/**
 * " aux loss of layers: 1.0021 1.3400 ... | busiest: expert 3 of layer 1, 2.41 times an even share
 * |", sparse layers counted from 0.
 */
enum { LT_LAYERS_SHOWN = 1024 };
typedef struct lt_experts_line {
    const double *layers; /* [n] the balance loss of each by itself */
    int64_t n;
    int64_t layer, expert; /* the busiest */
    double share;          /* its tokens over what it would have if all had as many */
} lt_experts_line;
LT_NODISCARD lt_status lt_experts_line_text(const lt_experts_line *line, lt_buf *out);

/**
 * " ranks: 12.3 ms a step, 8.1 %, between them, hidden by nothing | pool of the fullest: 1.5 GiB |"
 */
typedef struct lt_ranks_line {
    int64_t steps;
    double comm_s, step_s; /* gathers, sums and waits for others in these steps; first rank */
    int64_t memory;        /* bytes */
} lt_ranks_line;
LT_NODISCARD lt_status lt_ranks_line_text(const lt_ranks_line *line, lt_buf *out);

/** " [time] ** validation after iteration N ** | validation steps: K | validation loss:
 * X.XXXXXXE+XX |" */
LT_NODISCARD lt_status lt_validation_line_text(int64_t unix_seconds, int64_t iteration,
                                               int64_t n_steps, double loss, lt_buf *out);

/**
 * "[Rank R] (after 2 iterations) memory (MB) | allocated: F | max allocated: F | reserved: F | max
 * reserved: F": MiB with all their digits, as Python prints a float.
 */
typedef struct lt_memory_line {
    int64_t rank, iterations;
    int64_t allocated, max_allocated, reserved, max_reserved; /* bytes */
} lt_memory_line;
LT_NODISCARD lt_status lt_memory_line_text(const lt_memory_line *line, lt_buf *out);

/** "Saved checkpoint to DIR" and "Loaded checkpoint from DIR" */
LT_NODISCARD lt_status lt_saved_line_text(const char *dir, lt_buf *out);
LT_NODISCARD lt_status lt_loaded_line_text(const char *dir, lt_buf *out);

#ifdef __cplusplus
}
#endif
#endif
