// SPDX-License-Identifier: Apache-2.0
// Finding cuBLASLt at run time.
#include "device/cuda/impl.h"
#include <dlfcn.h>
#include <string.h>

// By the loader's own search path first, then where CUDA's installers put it.
static const char *const places[] = {
    "libcublasLt.so.13",
    "/usr/local/cuda/lib64/libcublasLt.so.13",
    "/usr/local/cuda-13/lib64/libcublasLt.so.13",
    "/usr/lib/x86_64-linux-gnu/libcublasLt.so.13",
    "/opt/cuda/lib64/libcublasLt.so.13",
};

typedef struct symbol {
    const char *name;
    size_t offset; // of the pointer in lt_cublaslt
} symbol;
static const symbol symbols[] = {
    {"cublasLtGetVersion", offsetof(lt_cublaslt, version)},
    {"cublasLtGetStatusString", offsetof(lt_cublaslt, status_text)},
    {"cublasLtCreate", offsetof(lt_cublaslt, create)},
    {"cublasLtDestroy", offsetof(lt_cublaslt, destroy)},
    {"cublasLtMatmulDescCreate", offsetof(lt_cublaslt, desc_create)},
    {"cublasLtMatmulDescDestroy", offsetof(lt_cublaslt, desc_destroy)},
    {"cublasLtMatmulDescSetAttribute", offsetof(lt_cublaslt, desc_set)},
    {"cublasLtMatrixLayoutCreate", offsetof(lt_cublaslt, layout_create)},
    {"cublasLtMatrixLayoutDestroy", offsetof(lt_cublaslt, layout_destroy)},
    {"cublasLtMatmulPreferenceCreate", offsetof(lt_cublaslt, preference_create)},
    {"cublasLtMatmulPreferenceDestroy", offsetof(lt_cublaslt, preference_destroy)},
    {"cublasLtMatmulPreferenceSetAttribute", offsetof(lt_cublaslt, preference_set)},
    {"cublasLtMatmulAlgoGetHeuristic", offsetof(lt_cublaslt, heuristic)},
    {"cublasLtMatmul", offsetof(lt_cublaslt, matmul)},
};

static lt_status find_symbols(lt_cublaslt *lt)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(lt->library, symbols[i].name);
        if (!at)
            return LT_FAIL(LT_ERR_DEVICE, "cuBLASLt has no function %s", symbols[i].name);
        memcpy((char *)lt + symbols[i].offset, &at,
               sizeof at); // C has no cast from data to function
    }
    return LT_OK;
}

lt_status lt_cublaslt_open(lt_cublaslt *out)
{
    lt_cublaslt lt = {0};
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !lt.library; i++)
        lt.library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (!lt.library) {
        return LT_FAIL(LT_ERR_DEVICE,
                       "matrix products on a GPU need cuBLASLt (libcublasLt.so.13 of CUDA 13), "
                       "which was neither on the "
                       "library path nor below /usr/local/cuda: %s",
                       dlerror()); // NOLINT(concurrency-mt-unsafe): its message is the thread's own
    }
    lt_status st = find_symbols(&lt);
    if (st == LT_OK)
        st = lt_cublaslt_check(&lt, lt.create(&lt.handle), "cublasLtCreate");
    if (st == LT_OK)
        *out = lt;
    else
        lt_cublaslt_close(&lt);
    return st;
}

void lt_cublaslt_close(lt_cublaslt *lt)
{
    if (lt->handle)
        (void)lt->destroy(lt->handle);
    if (lt->library)
        (void)dlclose(lt->library);
    *lt = (lt_cublaslt){0};
}

lt_status lt_cublaslt_check(const lt_cublaslt *lt, cublasStatus_t status, const char *tried)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return LT_OK;
    (void)cudaGetLastError();
    return LT_FAIL(status == CUBLAS_STATUS_ALLOC_FAILED ? LT_ERR_MEMORY : LT_ERR_DEVICE,
                   "%s failed: %s", tried, lt->status_text(status));
}
