// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for machines without a GPU: enough of the driver that cuDNN compiles and "loads"
// its kernels, so that the support for a graph can be tested. Nothing can be run with it.
#define MISSING 34 // CUDA_ERROR_STUB_LIBRARY

#define REFUSES(name)                                                                              \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return MISSING;                                                                            \
    }
#define ACCEPTS(name)                                                                              \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }
// Hands out something that is not NULL.
#define GIVES(name)                                                                                \
    int name(void **out);                                                                          \
    int name(void **out)                                                                           \
    {                                                                                              \
        static char something;                                                                     \
        *out = &something;                                                                         \
        return 0;                                                                                  \
    }
#define COUNTS_ONE(name)                                                                           \
    int name(int *out);                                                                            \
    int name(int *out)                                                                             \
    {                                                                                              \
        *out = 1;                                                                                  \
        return 0;                                                                                  \
    }

GIVES(cuLibraryLoadData)
GIVES(cuLibraryGetKernel)
GIVES(cuKernelGetFunction)
ACCEPTS(cuLibraryUnload)
ACCEPTS(cuFuncSetAttribute)
ACCEPTS(cuKernelSetAttribute)
COUNTS_ONE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
COUNTS_ONE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
COUNTS_ONE(cuOccupancyMaxActiveClusters)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuStreamGetCtx)
REFUSES(cuDriverGetVersion)
REFUSES(cuDeviceGetCount)
REFUSES(cuDeviceGet)
REFUSES(cuLinkCreate)
REFUSES(cuLinkAddData)
REFUSES(cuLinkComplete)
REFUSES(cuLinkDestroy)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuKernelGetAttribute)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLaunchCooperativeKernel)
