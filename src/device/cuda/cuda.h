// SPDX-License-Identifier: Apache-2.0
// What the CUDA backend's own files share: the wrapper around runtime calls, streams and their
// workspace, matrix products.
#ifndef LT_DEVICE_CUDA_CUDA_H
#define LT_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "device/gemm.h"

/**
 * Every runtime call passes through here: LT_OK, or a sentence with what was tried and the
 * runtime's reason. Clears the code that the runtime keeps of its last failure, so that it is not
 * blamed on the next call.
 * errors   LT_ERR_MEMORY when the device or pinned memory is out; else LT_ERR_DEVICE
 */
LT_NODISCARD lt_status lt_cuda_check(cudaError_t error, const char *tried);

enum { LT_CUDA_LEAST_MAJOR = 8 }; /* of the compute capability: bf16 begins there */

/** A queue of the device. */
struct lt_stream {
    cudaStream_t queue;
    void *workspace; /* LT_CUDA_WORKSPACE_BYTES, made when first asked for */
};

/**
 * The calling thread works on this device from here on: a kernel goes to a stream of the current
 * device.
 */
LT_NODISCARD lt_status lt_cuda_use(lt_device *d);

/**
 * A line for the log: which way of computing something was chosen, and why. Once for each key.
 */
void lt_cuda_tell_once(lt_device *d, const void *key, size_t key_bytes, const char *fmt, ...)
    LT_PRINTF(4, 5);

enum { LT_CUDA_WORKSPACE_BYTES = 64 << 20 };
/**
 * The stream's own workspace: for what one kernel or product leaves to the next one of the same op,
 * no longer. 256-aligned.
 */
LT_NODISCARD lt_status lt_cuda_workspace(lt_device *d, lt_stream *s, void **out);

/**
 * The product of device/gemm.h on device memory, queued on `s`; fp32 sums, TF32 off. Zero m, n or k
 * are fine.
 * errors   LT_ERR_UNSUPPORTED when cuBLASLt has no algorithm for it; LT_ERR_DEVICE
 */
LT_NODISCARD lt_status lt_cuda_gemm(lt_device *d, lt_stream *s, const lt_gemm *g);

#ifdef __cplusplus
}
#endif
#endif
