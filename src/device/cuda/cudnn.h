// SPDX-License-Identifier: Apache-2.0
// cuDNN as it was found at run time, and the few calls that graphs are made of.
#ifndef LT_DEVICE_CUDA_CUDNN_H
#define LT_DEVICE_CUDA_CUDNN_H

#include <cudnn.h>

#include "base/memory.h"
#include "base/text.h"

/** cuDNN's functions. A program starts and trains without the library. */
typedef struct lt_cudnn {
    void *library;
    cudnnHandle_t handle;              /* of the device that was current; NULL where described */
    cudnnBackendDescriptor_t describe; /* of a device that is only described: plans, no runs */
    char *folder; /* where plans are kept from run to run; NULL: nowhere. An lt_mem_alloc */
    size_t (*version)(void);
    const char *(*status_text)(cudnnStatus_t status);
    void (*last_error)(char *message, size_t max_size);
    cudnnStatus_t (*create)(cudnnHandle_t *handle);
    cudnnStatus_t (*destroy)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    cudnnStatus_t (*desc_create)(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *desc);
    cudnnStatus_t (*desc_destroy)(cudnnBackendDescriptor_t desc);
    cudnnStatus_t (*desc_set)(cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t n, const void *values);
    cudnnStatus_t (*desc_get)(cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t room, int64_t *n,
                              void *values);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t desc);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack);
} lt_cudnn;

/**
 * For the current device, or (device_json) for one that is described as cuDNN describes them, or
 * ("") for none.
 * errors   LT_ERR_DEVICE: where it was looked for, and why that failed
 */
LT_NODISCARD lt_status lt_cudnn_open(const char *device_json, lt_cudnn *out);
/** Plans go to and come from this folder from here on. device: its name, for the folder's name. */
void lt_cudnn_keep_plans(lt_cudnn *c, const char *device);
void lt_cudnn_close(lt_cudnn *c);
/** LT_OK, or a sentence with what was tried and which rule was broken. */
LT_NODISCARD lt_status lt_cudnn_check(const lt_cudnn *c, cudnnStatus_t status, const char *tried);

/**
 * A graph while it is written down. The first failure stays, and later calls do nothing: they may
 * be chained without a look at each. Start from {.dnn, .made and .ops as LT_VEC_OF
 * (cudnnBackendDescriptor_t), .ids as LT_VEC_OF(int64_t)}.
 */
typedef struct lt_dnn_graph {
    const lt_cudnn *dnn;
    lt_status status;
    lt_vec made, ops; /* descriptors: all of them, and the operations in order */
    lt_vec ids;       /* int64_t: of the tensors that have memory */
    int64_t n_virtual;
} lt_dnn_graph;
typedef cudnnBackendDescriptor_t lt_dnn; /* NULL after a failure */

typedef struct lt_dnn_tensor {
    int64_t id; /* 0: virtual, it gets one of its own */
    cudnnDataType_t type;
    int64_t dim[4], stride[4]; /* strides all 0: packed in the order of dims */
    lt_dnn ragged;             /* offsets of the sequences, in elements; NULL: none */
    int64_t alignment;         /* of its address in bytes; 0: 16 */
    bool by_value;
} lt_dnn_tensor;

lt_dnn lt_dnn_tensor_of(lt_dnn_graph *g, const lt_dnn_tensor *t);
/** A virtual tensor of these dims, packed. */
lt_dnn lt_dnn_virtual(lt_dnn_graph *g, cudnnDataType_t type, const int64_t dim[4]);

/** y = mode(x, b, t); b and t may be NULL. */
typedef struct lt_dnn_pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
    lt_dnn x, b, t, y;
    int64_t axis; /* of GEN_INDEX */
} lt_dnn_pointwise;
void lt_dnn_add_pointwise(lt_dnn_graph *g, const lt_dnn_pointwise *p);
/** c = a b; m, n, k: true sizes of each batch entry, NULL: the tensors' own. */
typedef struct lt_dnn_matmul {
    lt_dnn a, b, c, m, n, k;
} lt_dnn_matmul;
void lt_dnn_add_matmul(lt_dnn_graph *g, const lt_dnn_matmul *p);
void lt_dnn_add_reduction(lt_dnn_graph *g, cudnnReduceTensorOp_t op, lt_dnn x, lt_dnn y);
void lt_dnn_add_reshape(lt_dnn_graph *g, lt_dnn x, lt_dnn y);
/**
 * The first of the library's choices that can run.
 * errors   LT_ERR_UNSUPPORTED when it has none
 */
LT_NODISCARD lt_status lt_dnn_plan(lt_dnn_graph *g, lt_dnn *plan);
void lt_dnn_graph_deinit(lt_dnn_graph *g);

/* ---- plans */

LT_NODISCARD lt_status lt_dnn_workspace(const lt_cudnn *c, lt_dnn plan, int64_t *bytes);
/**
 * A plan from a file of the folder, and into one. Nothing happens where there is no folder, and a
 * file that is missing or broken in any way leaves *plan NULL.
 */
void lt_dnn_load_plan(const lt_cudnn *c, const char *name, lt_dnn *plan);
void lt_dnn_save_plan(const lt_cudnn *c, const char *name, lt_dnn plan);
#endif
