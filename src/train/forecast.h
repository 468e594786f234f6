// SPDX-License-Identifier: Apache-2.0
// What a run will need before it starts: the counts of its batches, and the programs and memory
// that follow.
#ifndef LT_TRAIN_FORECAST_H
#define LT_TRAIN_FORECAST_H

#include "plan/peak.h"
#include "train/engine.h"
#include "train/source.h"
#include "train/weights.h"

/** What is to be looked at. */
typedef struct lt_forecast_opts {
    lt_source *source;     /* NULL: the largest batch that the configuration allows */
    lt_source *validation; /* NULL: the run has none */
    int64_t n_steps;       /* optimizer steps */
    lt_progress from;      /* where a resumed run goes on */
    int64_t memory;        /* lathe.policy auto: what the run may have; 0: as lt_forecast_fits */
    double seconds;        /* look at no further steps when so many have passed; 0: look at all */
} lt_forecast_opts;

typedef struct lt_forecast {
    int64_t state, state_part[LT_N_STATE_PARTS]; /* bytes */
    int64_t step;        /* the step pool's size at the end of the run: its largest program */
    int64_t batch;       /* a GPU's: batches outside the step pool */
    int64_t validation;  /* bytes of the largest program of a validation; 0: none */
    int64_t host;        /* collated micro-batches in host memory, about */
    int64_t host_pool;   /* bytes of what programs keep on the host; exact */
    int64_t host_state;  /* of `state_part`, what lies on the host */
    lt_extents largest;  /* counts of the largest batch that is trained on */
    lt_program *program; /* its program; the caller's */
    lt_peak peak;        /* of that program */
    int64_t n_steps, n_programs; /* looked at */
    int64_t n_rows, n_cut;       /* records looked at; those longer than cutoff_len */
    bool worst_case; /* no data was read: cutoff_len and the pixel limits at their most */
} lt_forecast;

/**
 * Walk the run's batches in the sampler's order (counts only: no picture is decoded) and compile
 * every program that it will use.
 *
 * With lathe.policy auto it chooses the engine's policy: everything is kept where that fits, else
 * layers become lean, from the first on, then full, as few as will do.
 * in       engine: opened with training = true
 * errors   those of encoding, with file and record; those of compiling
 */
LT_NODISCARD lt_status lt_forecast_run(lt_engine *engine, const lt_forecast_opts *opts,
                                       lt_forecast *out);
/** errors   LT_ERR_MEMORY: the run needs more than lathe.memory_budget, or the device, allows */
LT_NODISCARD lt_status lt_forecast_fits(const lt_engine *engine, const lt_forecast *f);
void lt_forecast_deinit(lt_forecast *f);
#endif
