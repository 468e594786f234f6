// SPDX-License-Identifier: Apache-2.0
// Attention on the CPU: what forward and backward share. Queries and keys are taken in blocks of
// fixed size, counted from the start of their segment; products of blocks are made from packed
// panels.
#ifndef LT_OP_CPU_ATTENTION_H
#define LT_OP_CPU_ATTENTION_H

#include "device/cpu/gemm_core.h"
#include "op/cpu/run.h"

typedef struct lt_attend_job {
    const lt_op_args *a;
    const lt_gemm_core *core;
    const lt_row_kernels *rows;
    int64_t tokens, heads, kv_heads, group, d;
    int64_t d_room;        /* d up to whole panels: row stride of sums of D columns */
    int64_t queries, keys; /* rows of a block of queries, and of keys */
    int64_t stride;        /* of a tile of scores: a block's keys, and a gap between cache sets */
    float scale;
    bool causal, bf16;
    const int32_t *segments;
    int64_t n_segments;
    const int64_t *first_block; /* of each segment, and their number: filled by lt_attend_blocks */
    int64_t block_rows;
} lt_attend_job;

/** One block of rows of one key head. */
typedef struct lt_attend_task {
    int64_t kv_head, start, end; /* of the segment */
    int64_t row, n;              /* the block: absolute row, and how many */
} lt_attend_task;

lt_attend_job lt_attend_job_of(const lt_op_args *a);
/**
 * Call fn for each block of `block_rows` rows of each segment and key head. errors: LT_ERR_DATA for
 * a bad segment table
 */
LT_NODISCARD lt_status lt_attend_blocks(lt_attend_job *job, int64_t block_rows,
                                        lt_status (*fn)(const lt_attend_job *job,
                                                        const lt_attend_task *t));
/** Rows [from, to) that belong to no segment, in front of all and behind all. */
void lt_attend_outside(const lt_attend_job *job, int which, int64_t *from, int64_t *to);

/** The calling thread's scratch memory, handed out piece by piece. */
typedef struct lt_attend_memory {
    char *next, *end;
} lt_attend_memory;
LT_NODISCARD lt_status lt_attend_memory_open(lt_attend_memory *m, size_t bytes);
float *lt_attend_floats(lt_attend_memory *m, int64_t n);
/** Room for panels of n lanes of k numbers. */
void *lt_attend_panels(lt_attend_memory *m, const lt_attend_job *job, int64_t width, int64_t n,
                       int64_t k);
/**
 * Enough for `panels` sets of panels and `tiles` tiles, none larger than a block, or a block by d.
 */
size_t lt_attend_bytes(const lt_attend_job *job, int64_t panels, int64_t tiles);

/** Rows as lanes (A's or B's), their d numbers as k: of head `head` of `heads` side by side. */
void lt_attend_pack_rows(const lt_attend_job *job, void *panels, bool is_b, const lt_tensor *t,
                         int64_t heads, int64_t head, int64_t row, int64_t n);
/** Columns as lanes (B's width), n rows as k. */
void lt_attend_pack_columns(const lt_attend_job *job, void *panels, const lt_tensor *t,
                            int64_t heads, int64_t head, int64_t row, int64_t n);
/**
 * What a causal mask leaves to do of a product of blocks, where query i sees the first seen + i
 * keys. SCORES: query rows times key columns, of which those not seen may stay unwritten. QUERIES:
 * query rows, summed over the keys they see. KEYS: key rows, summed over the queries that see them.
 */
typedef enum lt_attend_kind {
    LT_ATTEND_SCORES,
    LT_ATTEND_QUERIES,
    LT_ATTEND_KEYS_OF
} lt_attend_kind;
enum { LT_ATTEND_ALL = 1 << 30 }; /* seen, without a mask */
/** c[m, n] = a b from panels, or c += a b (QUERIES and KEYS_OF). */
void lt_attend_multiply(const lt_attend_job *job, lt_attend_kind kind, int64_t seen, int64_t m,
                        int64_t n, int64_t k, const void *a, const void *b, float *c, int64_t ldc);
#endif
