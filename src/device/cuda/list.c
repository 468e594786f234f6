// SPDX-License-Identifier: Apache-2.0
// What NVIDIA GPUs the machine has, without opening one.
#include "device/cuda/cuda.h"

#include <stdio.h>

static lt_gpu look_at(int index)
{
    lt_gpu g = {.index = index};
    struct cudaDeviceProp p;
    size_t left = 0, all = 0;
    if (cudaGetDeviceProperties(&p, index) != cudaSuccess) {
        (void)snprintf(g.why_not, sizeof g.why_not, "its properties cannot be read: %s",
                       cudaGetErrorString(cudaGetLastError()));
        return g;
    }
    (void)snprintf(g.name, sizeof g.name, "%.63s", p.name);
    g.major = p.major;
    g.minor = p.minor;
    g.processors = p.multiProcessorCount;
    g.memory_bytes = (int64_t)p.totalGlobalMem;
    if (p.major < LT_CUDA_LEAST_MAJOR) {
        (void)snprintf(g.why_not, sizeof g.why_not, "lathe needs compute capability %d.0 or later",
                       LT_CUDA_LEAST_MAJOR);
        return g;
    }
    // This makes a context, which fails where others hold the GPU for themselves.
    if (cudaSetDevice(index) != cudaSuccess || cudaMemGetInfo(&left, &all) != cudaSuccess) {
        (void)snprintf(g.why_not, sizeof g.why_not, "it cannot be opened: %s",
                       cudaGetErrorString(cudaGetLastError()));
        return g;
    }
    g.left_bytes = (int64_t)left;
    return g;
}

lt_gpu_list lt_gpus(void)
{
    lt_gpu_list list = {0};
    int n = 0, driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver > 0)
        (void)snprintf(list.versions, sizeof list.versions,
                       "driver for CUDA %d.%d, built with %d.%d", driver / 1000, driver % 1000 / 10,
                       runtime / 1000, runtime % 1000 / 10);
    else
        (void)snprintf(list.versions, sizeof list.versions, "no driver, built with CUDA %d.%d",
                       runtime / 1000, runtime % 1000 / 10);
    const cudaError_t error = cudaGetDeviceCount(&n);
    if (error != cudaSuccess || n == 0) {
        (void)cudaGetLastError();
        (void)snprintf(list.why_none, sizeof list.why_none, "no GPU can be used here: %s",
                       error != cudaSuccess ? cudaGetErrorString(error) : "there is none");
        return list;
    }
    list.n = n < LT_MAX_GPUS ? n : LT_MAX_GPUS;
    for (int i = 0; i < list.n; i++)
        list.gpu[i] = look_at(i);
    return list;
}
