// SPDX-License-Identifier: Apache-2.0
// The step program: a list of actions with streams, waits, bytes and FLOPs. It is data: printed,
// checked, executed.
#ifndef LT_PLAN_PROGRAM_H
#define LT_PLAN_PROGRAM_H

#include "graph/compile.h"
#include "plan/state.h"

#define LT_ACTION_LIST(X)                                                                          \
    X(AGREE)    /* ranks agree on token counts and loss weights; host */                           \
    X(COPY)     /* a batch value, or the step's scalars, to the device; a result to the host */    \
    X(GATHER)   /* a unit's parameters at hand in full; without shards they are */                 \
    X(FORWARD)  /* a block */                                                                      \
    X(BACKWARD) /* a block, with what it computes again */                                         \
    X(ADD)      /* two gradients of one edge */                                                    \
    X(REDUCE)   /* a unit's gradients summed over ranks; one rank: they are */                     \
    X(NORM)     /* the gradient norm and the clip factor; of one unit: its squares */              \
    X(UPDATE)   /* the optimizer on a unit */                                                      \
    X(OFFLOAD)  /* what the backward reads, to the host's pool */                                  \
    X(FETCH)    /* and back */                                                                     \
    X(FREE)     /* a buffer ends here; the test executor poisons it */
typedef enum lt_action_kind {
#define LT_ACTION_ENUM(name) LT_ACT_##name,
    LT_ACTION_LIST(LT_ACTION_ENUM)
#undef LT_ACTION_ENUM
        LT_N_ACTIONS
} lt_action_kind;
const char *lt_action_name(lt_action_kind kind);

/** Queues of work in order. */
typedef enum lt_queue {
    LT_QUEUE_COMPUTE,
    LT_QUEUE_GATHER,
    LT_QUEUE_REDUCE,
    LT_QUEUE_H2D,
    LT_QUEUE_D2H,
    LT_QUEUE_HOST,
    LT_N_QUEUES
} lt_queue;
const char *lt_queue_name(lt_queue queue);

/**
 * What an action's subject is: COPY a buffer; GATHER, REDUCE, UPDATE a unit; FORWARD, BACKWARD a
 * block; ADD, FREE buffers; OFFLOAD and FETCH the buffer on the device; NORM a unit, or LT_NONE
 * for the end of the sum.
 */
typedef struct lt_action {
    lt_action_kind kind;
    int32_t subject;
    /* ADD: the buffer added to `subject`; OFFLOAD, FETCH: the one on the host; NORM of a unit: 0
       for the first */
    int32_t other;
    lt_queue queue;
    int32_t wait, n_wait; /* into program->waits: actions of the same section, on other queues */
    int32_t access, n_access; /* into program->accesses */
    int64_t bytes, flops;
} lt_action;

typedef struct lt_access {
    int32_t buffer;
    bool write;
} lt_access;

typedef enum lt_buffer_kind {
    LT_BUF_BATCH, /* a: batch value */
    LT_BUF_EDGE,  /* a: block, b: output */
    LT_BUF_GRAD,  /* gradient that block a gives to its input b */
    LT_BUF_SAVED, /* a: block */
    LT_BUF_WORK,  /* a: block; of one FORWARD or BACKWARD */
    /* gradients of unit a in the step pool, from their first writer to UPDATE */
    LT_BUF_UNIT_GRADS,
    LT_BUF_UNIT_VALUES,  /* parameters of unit a, gathered from all shards */
    LT_BUF_UNIT_MOMENTS, /* moments of unit a, for its update */
    LT_BUF_UNIT_WORK,    /* of the UPDATE of unit a */
    LT_BUF_SCALARS,      /* f64 [LT_N_SCALARS] */
    LT_BUF_NORM,         /* f64 [1] */
    LT_BUF_RESULT,       /* host memory: what comes back (loss, logits): a: block, b: output */
    LT_BUF_HOST, /* the host's copy of output b of block a, or of its saved values (LT_NONE) */
    LT_BUF_HOST_GRADS,  /* on the host: gradients of unit a, come down */
    LT_BUF_HOST_VALUES, /* on the host: parameters of unit a, for its update */
    LT_BUF_VALUES,      /* the state's part of unit a: parameters */
    LT_BUF_GRADS,       /* ... gradients */
    LT_BUF_MOMENTS,     /* ... moments and remainders */
    LT_N_BUFFER_KINDS
} lt_buffer_kind;

/**
 * A piece of memory with a life. Kinds up to NORM lie in the step pool at `offset`, those of the
 * host in the host's pool; so do SCALARS and NORM where the host updates. Of a RESULT the offset is
 * the place among those of a micro-batch.
 */
typedef struct lt_buffer {
    lt_buffer_kind kind;
    int32_t a, b;
    int64_t bytes, offset;
    int32_t begin, end; /* first and last action that touches it */
} lt_buffer;

/** Actions [begin, end). Between two sections all queues meet, and no activation is alive. */
typedef struct lt_section {
    const char *name;
    int32_t begin, end;
} lt_section;
enum { LT_SECTION_PROLOGUE, LT_SECTION_MICRO, LT_SECTION_EPILOGUE, LT_N_SECTIONS };

typedef enum lt_program_mode {
    LT_MODE_TRAIN, /* forward, backward, update */
    LT_MODE_LOSS,  /* the loss alone */
    LT_MODE_LOGITS /* logits of the target rows */
} lt_program_mode;

/**
 * Where the results of a micro-batch lie: bytes from the beginning of its own. The next micro-batch
 * has the next `bytes`; the norm stands behind all of them.
 */
typedef struct lt_result_places {
    int64_t bytes;   /* a multiple of 8 */
    int64_t first;   /* the loss, or logits */
    int64_t next;    /* the loss of the token after next; -1: none */
    int64_t balance; /* the balance loss, its value and its table (model/moe.h); -1: none */
    int64_t value, table;
    int64_t layers, experts; /* of the table [layers, 2, experts] */
} lt_result_places;

typedef struct lt_program_opts {
    const lt_model *model;
    const lt_units *units;
    const lt_state_layout *state; /* without gradients: UPDATE follows each unit's REDUCE */
    lt_program_mode mode;
    lt_dtype compute;
    lt_backend backend; /* whose kernels will run */
    lt_extents capacity;
    const lt_policy *policy; /* [n_blocks] */
    bool keep_attention, keep_scans;
    /* [n_blocks]; NULL: none. Blocks whose first input (with LT_FULL what they save besides, too)
       waits for the backward in host memory; the last of them is left out */
    const bool *offload;
    /* Batch values lie outside the step pool, so that those of the next micro-batch can come while
       this one is worked on; who runs the program sees to their place. */
    bool batch_apart;
    /* units gathered ahead, in execution order, which is another one in the backward */
    int32_t forward_prefetch, backward_prefetch;
    int32_t muon_steps; /* of its iteration: only counted */
    bool reshard_after_forward;
    bool reduced; /* gradients are summed over ranks: a unit's, in the step pool, after its last
                     writer, into the state */
} lt_program_opts;

enum { LT_BATCHES_APART = 2 }; /* micro-batches on the device with batch_apart */

/**
 * A step: PROLOGUE once, MICRO once per micro-batch, EPILOGUE once. Micro-batches of a step run the
 * same actions; only the
 * gradient's first writer differs: in the first it overwrites, later all add.
 */
typedef struct lt_program {
    lt_program_opts opts; /* policy and offload are not kept */
    lt_compiled **
        /* [n_blocks]; NULL where the mode leaves a block out; shared between equal blocks */
        compiled;
    bool *grad_add; /* [actions][max params]: see lt_program_grad_add */
    int32_t max_params;
    lt_vec actions, waits, accesses, buffers; /* lt_action, int32_t, lt_access, lt_buffer */
    lt_section section[LT_N_SECTIONS];
    int32_t *edge_buffer;  /* [n_blocks][LT_MAX_OUT] buffer of an output, or LT_NONE */
    int32_t *grad_buffer;  /* [n_blocks][LT_MAX_IN] buffer of the gradient given to an input */
    int32_t *grad_from;    /* [n_blocks][LT_MAX_OUT] buffer with the summed gradient of an output */
    int32_t *saved_buffer; /* [n_blocks] */
    /* what came back from the host for the backward; LT_NONE: it never left */
    int32_t *edge_fetched;  /* [n_blocks][LT_MAX_OUT] */
    int32_t *saved_fetched; /* [n_blocks] */
    int32_t *work_buffer;   /* [actions] */
    /*
     * Every unit is updated as soon as its gradients are complete, which then lie in the step pool:
     * all of them never exist at once. For steps of one micro-batch whose update needs no norm.
     */
    bool update_early;
    /* update_early, reduced or host_update: units' gradients are in the step pool */
    bool pooled;
    bool host_update; /* the state lies on the host, and so does the optimizer's work */
    /* [n_units] buffers of an update, or LT_NONE: moments on the device; gradients and parameters
       on the host */
    int32_t *unit_moments, *host_grads, *host_values;
    int32_t *unit_grads;  /* [n_units] the buffer that backwards write its gradients to */
    int64_t *grad_offset; /* [n_params] in that buffer, when pooled; else LT_NONE */
    int64_t *full_offset; /* [n_params] in its unit's gathered values; LT_NONE: not kept */
    int32_t batch_buffer[LT_N_BATCH_VALUES];
    int32_t scalars_buffer, norm_buffer;
    lt_result_places results;
    int64_t step_bytes;  /* the step pool: the exact peak */
    int64_t host_bytes;  /* the host's pool */
    int64_t batch_bytes; /* batch_apart: of one micro-batch; buffers have offsets in it */
    lt_vec owned;        /* lt_compiled * */
} lt_program;

/**
 * errors   those of compiling; LT_ERR_INTERNAL for a trainable parameter that no backward writes
 */
LT_NODISCARD lt_status lt_program_create(const lt_program_opts *opts, lt_program **out);
void lt_program_destroy(lt_program *p);
/**
 * Whether BACKWARD action `a` adds to parameter k of its block's list also in the first micro-batch
 * (a tied head wrote before).
 */
static inline bool lt_program_grad_add(const lt_program *p, int32_t action, int32_t k)
{
    return p->grad_add[(int64_t)action * p->max_params + k];
}
static inline const lt_action *lt_action_at(const lt_program *p, int64_t i)
{
    return &LT_AT(&p->actions, lt_action, i);
}
static inline const lt_buffer *lt_buffer_at(const lt_program *p, int64_t i)
{
    return &LT_AT(&p->buffers, lt_buffer, i);
}
/**
 * The program as text, one action a line: number, queue, kind, subject, bytes, FLOPs, waits.
 * Stable: kept under test.
 */
LT_NODISCARD lt_status lt_program_print(const lt_program *p, lt_buf *out);
/** What the backward reads as an output, or as saved values: as made, or as come back. */
static inline int32_t lt_edge_again(const lt_program *p, lt_edge e)
{
    const int64_t at = e.block * LT_MAX_OUT + e.output;
    return p->edge_fetched[at] != LT_NONE ? p->edge_fetched[at] : p->edge_buffer[at];
}
static inline int32_t lt_saved_again(const lt_program *p, int32_t block)
{
    return p->saved_fetched[block] != LT_NONE ? p->saved_fetched[block] : p->saved_buffer[block];
}
static inline bool lt_in_step_pool(const lt_program *p, const lt_buffer *b)
{
    const bool apart = b->kind == LT_BUF_BATCH && p->opts.batch_apart;
    const bool away = b->kind >= LT_BUF_UNIT_WORK && p->host_update;
    return b->kind <= LT_BUF_NORM && !apart && !away;
}
/** Pools have addresses that buffers share; other memory is a buffer's own. */
typedef enum lt_room { LT_ROOM_STEP, LT_ROOM_HOST, LT_ROOM_OWN } lt_room;
static inline lt_room lt_room_of(const lt_program *p, const lt_buffer *b)
{
    const bool host = (b->kind >= LT_BUF_HOST && b->kind <= LT_BUF_HOST_VALUES) ||
                      (p->host_update && b->kind >= LT_BUF_UNIT_WORK && b->kind <= LT_BUF_NORM);
    return lt_in_step_pool(p, b) ? LT_ROOM_STEP : host ? LT_ROOM_HOST : LT_ROOM_OWN;
}
/** The name of a buffer for messages. */
typedef struct lt_buffer_text {
    char s[160];
} lt_buffer_text;
lt_buffer_text lt_buffer_name(const lt_program *p, int32_t buffer);

/**
 * Happens-before over queues and waits, not list order: two accesses to common bytes, one of them a
 * write, must be ordered.
 * It does not trust what built the program: it looks at offsets, accesses and waits alone.
 * errors   LT_ERR_INTERNAL: the two actions, the buffers, the bytes
 */
LT_NODISCARD lt_status lt_program_check(const lt_program *p);
#endif
