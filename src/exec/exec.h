// SPDX-License-Identifier: Apache-2.0
// The executor: owns the device's memory, keeps programs by shape, and runs them action by action.
// It knows nothing of models.
#ifndef LT_EXEC_EXEC_H
#define LT_EXEC_EXEC_H

#include "op/adamw.h"
#include "op/muon.h"
#include "plan/program.h"

/**
 * Who looks on, for measuring. Right before and right after every action and every kernel is issued
 * to its stream.
 */
typedef struct lt_watch {
    void (*action)(void *ctx, const lt_program *p, int32_t number, lt_stream *s, bool after);
    void (*kernel)(void *ctx, const lt_op_args *a, lt_pass pass, bool after);
    void *ctx;
} lt_watch;

typedef struct lt_exec_opts {
    lt_device *device;
    const lt_model *model;   /* kept */
    const lt_units *units;   /* kept */
    lt_dtype compute;        /* f32, bf16; f64 on the reference device */
    bool training;           /* false: no gradients and moments, no lt_exec_step */
    const lt_policy *policy; /* [n_blocks], copied; NULL: keep */
    bool keep_attention, keep_scans;
    const bool *offload; /* [n_blocks], copied; NULL: none. As of lt_program_opts */
    int32_t forward_prefetch, backward_prefetch;
    bool reshard_after_forward;
    const lt_ranks *ranks;  /* kept; NULL: one. All run the same steps with batches of their own */
    bool through_host;      /* tests: ranks exchange tensors as those that share a GPU do */
    lt_adamw_attr adamw;    /* lr_scale apart */
    lt_muon_attr muon;      /* of parameters that are updated so; lr_scale and longer apart */
    const double *lr_scale; /* [n_params], copied; NULL: 1 */
    double clip_grad;       /* 0: measure only */
    /* Steps are of one micro-batch and nothing is clipped: a unit is updated as soon as its
       gradients are complete, and all gradients never exist at once. No lt_exec_gradients then. */
    bool update_early;
    lt_state_home home;    /* what of the state waits on the host */
    int64_t memory_budget; /* bytes of the device pool; 0: what the device has */
    const lt_log *log;
    const lt_tap *tap; /* kept; NULL: none */
    lt_watch watch;    /* its functions may be NULL */
    /* Tests: gradients of micro-batches are added up by the tree that ranks are summed by, so that
       N micro-batches have the same bits on any power of two of ranks
       (spec/parallelism-memory.md 7.2). Takes memory beside the pools: a copy of the gradients for
       each power of two. */
    bool tree;
    /* Tests: poison what is free, and run actions in a random order that the queues and waits
       allow (0: list order). */
    bool poison;
    uint64_t order_seed;
} lt_exec_opts;

typedef struct lt_exec lt_exec;

/**
 * errors   LT_ERR_MEMORY when the state does not fit; LT_ERR_UNSUPPORTED for a dtype that the
 * device lacks
 */
LT_NODISCARD lt_status lt_exec_create(const lt_exec_opts *opts, lt_exec **out);
void lt_exec_destroy(lt_exec *e);

/**
 * Elements [first, first + n) of a part of a parameter's state, converted from and to dtype `as`
 * (f32 or f64).
 * LT_STATE_VALUE is the fp32 master (hi and lo joined); LT_STATE_LOW itself cannot be asked for.
 *
 * Where parameters lie in pieces on several ranks, each rank writes what it owns of the elements
 * and leaves the rest alone. Only the first rank reads, whatever it likes, while all others are in
 * lt_exec_serve, until it calls lt_exec_release; with one rank both do nothing.
 */
LT_NODISCARD lt_status lt_exec_write(lt_exec *e, int32_t param, lt_state_part part, int64_t first,
                                     int64_t n, lt_dtype as, const void *values);
LT_NODISCARD lt_status lt_exec_read(lt_exec *e, int32_t param, lt_state_part part, int64_t first,
                                    int64_t n, lt_dtype as, void *values);
/** What this rank owns itself: [first, first + n) lies in lt_exec_owned. Nobody else takes part. */
LT_NODISCARD lt_status lt_exec_read_own(lt_exec *e, int32_t param, lt_state_part part,
                                        int64_t first, int64_t n, lt_dtype as, void *values);
LT_NODISCARD lt_status lt_exec_serve(lt_exec *e);
LT_NODISCARD lt_status lt_exec_release(lt_exec *e);
/** What this rank owns of a parameter: all of it without pieces. */
lt_owned lt_exec_owned(const lt_exec *e, int32_t param);
/** Gradients are left undefined, moments zero, values undefined by lt_exec_create. */
bool lt_exec_has(const lt_exec *e, int32_t param, lt_state_part part);

/**
 * How the experts of a step were used, layer by layer. It lies in the executor's memory until the
 * next call that runs something.
 */
typedef struct lt_expert_use {
    int64_t layers, experts; /* 0: a model without experts */
    int64_t n, stride;       /* micro-batches, and the bytes from one's table to the next one's */
    lt_dtype dtype;
    const unsigned char *tables;
} lt_expert_use;
/** Tokens of all micro-batches that went to an expert; layers as they follow each other. */
double lt_expert_picks(const lt_expert_use *u, int64_t layer, int64_t expert);
/** The sum over those tokens of the router's probability for it. */
double lt_expert_probability(const lt_expert_use *u, int64_t layer, int64_t expert);

typedef struct lt_step_result {
    /* sum over micro-batches, and ranks, of sum kappa_t l_t and of the weighed balance loss */
    double loss;
    double grad_norm;  /* before clipping */
    double next_loss;  /* the same sum for the token after next, which `loss` is without */
    double balance;    /* the balance loss itself, mean over all micro-batches; 0 without experts */
    lt_expert_use use; /* of this rank */
} lt_step_result;

/** Called by AGREE, before anything runs: ranks agree on counts and loss weights. */
typedef struct lt_agree {
    lt_status (*fn)(void *ctx);
    void *ctx;
} lt_agree;

/**
 * One optimizer step over n micro-batches. step: number of this update, from 1 (bias corrections);
 * lr: learning rate.
 * errors   LT_ERR_MEMORY when the batch does not fit the budget; a kernel's own
 */
LT_NODISCARD lt_status lt_exec_step(lt_exec *e, const lt_batch_view *batches, int64_t n,
                                    int64_t step, double lr, const lt_agree *agree,
                                    lt_step_result *out);
/**
 * The same in two calls. Begin queues a step on the device and returns; the batches may be used
 * again then. End waits for the oldest step begun, and gives its result. At most LT_EXEC_AHEAD
 * steps are in flight: the host prepares one while the device works on the one before. All other
 * calls that run something need all steps to have ended.
 */
enum { LT_EXEC_AHEAD = 2 };
LT_NODISCARD lt_status lt_exec_begin(lt_exec *e, const lt_batch_view *batches, int64_t n,
                                     int64_t step, double lr, const lt_agree *agree);
LT_NODISCARD lt_status lt_exec_end(lt_exec *e, lt_step_result *out);
/** The host waits until the device has done all that was queued. */
LT_NODISCARD lt_status lt_exec_sync(lt_exec *e);
/** Steps begun and not ended. */
int64_t lt_exec_in_flight(const lt_exec *e);
/** Seconds that lt_exec_begin has waited for the device, all together: its memory was in use. */
double lt_exec_waited_s(const lt_exec *e);
/** Gradients without an update: the same program, UPDATE left out. */
LT_NODISCARD lt_status lt_exec_gradients(lt_exec *e, const lt_batch_view *batches, int64_t n,
                                         lt_step_result *out);
/** sum kappa_t l_t of a batch, no gradients. Of this rank alone; but all ranks call it. */
LT_NODISCARD lt_status lt_exec_loss(lt_exec *e, const lt_batch_view *batch, double *loss);
/**
 * Logits of the target rows [targets, vocabulary] in the compute dtype, in host memory that the
 * next call overwrites.
 */
LT_NODISCARD lt_status lt_exec_logits(lt_exec *e, const lt_batch_view *batch, lt_tensor *logits);

/** Pools of the run, in bytes. */
typedef struct lt_exec_memory {
    int64_t state, state_part[LT_N_STATE_PARTS];
    int64_t step;            /* the step pool as allocated: the largest program so far */
    int64_t step_used;       /* high-water mark of bytes that actions touched */
    int64_t batch;           /* batches that lie apart: one worked on, one on its way */
    int64_t host, host_used; /* the pool in host memory: as allocated, as touched */
    int64_t host_state;      /* the state's part there; state_part has it, `state` has not */
} lt_exec_memory;
lt_exec_memory lt_exec_memory_of(const lt_exec *e);
/**
 * Seconds by action kind since the executor was made (the CPU's wall clock; a GPU's issue time).
 */
const double *lt_exec_seconds(const lt_exec *e);
/** The program for batches of these counts (compiled if it is new). Borrowed. */
LT_NODISCARD lt_status lt_exec_program(lt_exec *e, lt_program_mode mode, const lt_extents *real,
                                       const lt_program **out);
/**
 * What the executor does now, for a watchdog: a static text, and the subject's name. threads: any
 */
const char *lt_exec_now(const lt_exec *e);
#endif
