// SPDX-License-Identifier: Apache-2.0
// The state behind an open CUDA device: cuBLASLt as it was found at run time, and the products
// prepared so far.
#ifndef LT_DEVICE_CUDA_IMPL_H
#define LT_DEVICE_CUDA_IMPL_H

#include <cublasLt.h>

#include "base/memory.h"
#include "base/text.h"
#include "device/cuda/cuda.h"
#include "device/cuda/sdpa.h"

/**
 * cuBLASLt's functions. The library is opened by name when a device is, so that a program starts
 * without it.
 */
typedef struct lt_cublaslt {
    void *library;
    cublasLtHandle_t handle;
    size_t (*version)(void);
    const char *(*status_text)(cublasStatus_t status);
    cublasStatus_t (*create)(cublasLtHandle_t *handle);
    cublasStatus_t (*destroy)(cublasLtHandle_t handle);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                  cudaDataType_t scale);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t desc);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                               const void *value, size_t bytes);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                    uint64_t rows, uint64_t cols, int64_t ld);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t layout);
    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *preference);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t preference);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attr, const void *value,
                                     size_t bytes);
    cublasStatus_t (*heuristic)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t preference, int n_wanted,
                                cublasLtMatmulHeuristicResult_t *results, int *n_found);
    cublasStatus_t (*matmul)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                             cublasLtMatrixLayout_t c_layout, void *d,
                             cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                             void *workspace, size_t workspace_bytes, cudaStream_t stream);
} lt_cublaslt;

/** errors   LT_ERR_DEVICE: where it was looked for, and why that failed */
LT_NODISCARD lt_status lt_cublaslt_open(lt_cublaslt *out);
void lt_cublaslt_close(lt_cublaslt *lt);
/** Like lt_cuda_check. */
LT_NODISCARD lt_status lt_cublaslt_check(const lt_cublaslt *lt, cublasStatus_t status,
                                         const char *tried);

/** A prepared product: its matrices described, and the algorithm chosen. */
typedef struct lt_cuda_plan {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; // as cuBLASLt calls them
    cublasLtMatmulAlgo_t algo;
} lt_cuda_plan;

typedef struct lt_cuda_impl {
    int index;
    char name[16];
    lt_cublaslt lt;
    lt_vec plans;    /* lt_cuda_plan */
    lt_map *plan_of; /* key -> place in plans */
    lt_map *told;    /* keys of lines that were logged */
    lt_sdpa *sdpa;   /* NULL until attention is asked for */
} lt_cuda_impl;

static inline lt_cuda_impl *lt_cuda_impl_of(const lt_device *d)
{
    return (lt_cuda_impl *)d->impl;
}
/** Forget all prepared products. */
void lt_cuda_drop_plans(lt_cuda_impl *impl);
#endif
