// SPDX-License-Identifier: Apache-2.0
// Softmax attention by cuDNN's fused kernels: which forms there are, their plans, a call.
#ifndef LT_DEVICE_CUDA_SDPA_H
#define LT_DEVICE_CUDA_SDPA_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What a plan is made for; compared byte by byte, so it starts as zeros. bf16, q and k of one
 * length. Tensors are [tokens, all heads, head_dim]; a call may take some of the heads.
 */
typedef struct lt_sdpa_shape {
    int64_t batch, length;   /* sequences, and the tokens of each; of the longest where packed */
    int64_t heads, kv_heads; /* of a call */
    int64_t head_dim;
    int64_t row_q, row_kv;   /* numbers from a token to the next */
    int64_t lse_heads;       /* packed: lse is [tokens, lse_heads] */
    int64_t lse_head_stride; /* else it is [lse heads, this many tokens] */
    uint8_t backward, causal;
    uint8_t packed;        /* sequences of any length, each where its offset says */
    uint8_t deterministic; /* backward, not packed: the same bits each time, for 2 bytes a score */
    uint8_t padded_sums;   /* packed backward: row_sum and dq_sum [batch, heads, length, ..] */
    uint8_t reserved[3];
} lt_sdpa_shape;

/** The tensors of a call. Those that a form does not have are ignored. */
typedef enum lt_sdpa_tensor {
    LT_SDPA_Q,
    LT_SDPA_K,
    LT_SDPA_V,
    LT_SDPA_O,
    LT_SDPA_LSE, /* f32 */
    LT_SDPA_DO,  /* what follows is of the backward pass */
    LT_SDPA_DQ,
    LT_SDPA_DK,
    LT_SDPA_DV,
    LT_SDPA_ROW_SUM,  /* f32, scratch: like lse where packed, else [batch, heads, length] */
    LT_SDPA_DQ_SUM,   /* f32, scratch: like q where packed, else [batch, heads, length, head_dim];
                         not where deterministic */
    LT_SDPA_DK_HEADS, /* scratch, packed with fewer kv_heads: [tokens, heads, head_dim] */
    LT_SDPA_DV_HEADS,
    LT_SDPA_AT_Q, /* packed: i32 [batch + 1], where each sequence begins in q, in elements */
    LT_SDPA_AT_KV,
    LT_SDPA_AT_LSE,
    LT_SDPA_LENGTH, /* packed: i32 [batch] tokens of each */
    LT_SDPA_N_TENSORS
} lt_sdpa_tensor;

typedef struct lt_sdpa_plan lt_sdpa_plan;
/** What the device knows about attention: the library, and the plans so far. */
typedef struct lt_sdpa lt_sdpa;

/**
 * The plan for a shape: made, read from the cache on disk, or at hand. Valid until the next call.
 * errors   LT_ERR_UNSUPPORTED or LT_ERR_DEVICE with the library's reason; asked again, the same
 *          answer comes at once
 */
LT_NODISCARD lt_status lt_sdpa_plan_for(lt_device *d, const lt_sdpa_shape *shape,
                                        const lt_sdpa_plan **out);
/** The library's own scratch for a run, in bytes. */
int64_t lt_sdpa_workspace(const lt_sdpa_plan *plan);
/** Queue a call. tensor: by lt_sdpa_tensor, all 16-aligned. */
LT_NODISCARD lt_status lt_sdpa_run(lt_device *d, lt_stream *s, const lt_sdpa_plan *plan,
                                   void *const tensor[LT_SDPA_N_TENSORS], float scale,
                                   void *workspace);
/** Accepts NULL. */
void lt_sdpa_destroy(lt_sdpa *s);

/**
 * Without a device: whether the library has a plan for a shape on a device that is described as
 * it describes them, and the scratch of its runs. keep: plans go to and come from the user's cache.
 */
LT_NODISCARD lt_status lt_sdpa_try(const char *device_json, const lt_sdpa_shape *shape, bool keep,
                                   int64_t *workspace);
/** Whether the library is there. The thread's message says where it was looked for. */
bool lt_sdpa_can_try(void);

#ifdef __cplusplus
}
#endif
#endif
