// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt. A product of one shape is prepared once (descriptors, the
// heuristic's first choice) and kept.
#include "device/cuda/impl.h"
#include <string.h>

enum { MAX_PLANS = 4096 }; // beyond it all are forgotten: shapes vary with the batch

// Whatever the choice of an algorithm depends on. Compared byte by byte, so it starts as zeros.
typedef struct plan_key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t ab_dtype, c_dtype, bias_dtype; // bias_dtype -1: none
    int32_t align_a, align_b, align_c;     // bytes
    int32_t trans_a, trans_b;
} plan_key;

static void drop_plan(const lt_cublaslt *lt, lt_cuda_plan *p)
{
    if (p->desc)
        (void)lt->desc_destroy(p->desc);
    if (p->a)
        (void)lt->layout_destroy(p->a);
    if (p->b)
        (void)lt->layout_destroy(p->b);
    if (p->c)
        (void)lt->layout_destroy(p->c);
    *p = (lt_cuda_plan){0};
}

void lt_cuda_drop_plans(lt_cuda_impl *impl)
{
    for (int64_t i = 0; i < impl->plans.n; i++)
        drop_plan(&impl->lt, &LT_AT(&impl->plans, lt_cuda_plan, i));
    lt_vec_clear(&impl->plans);
}

// The largest power of two, up to 256, that divides the address.
static int32_t alignment(const void *ptr)
{
    const uintptr_t at = (uintptr_t)ptr;
    int32_t bytes = 256;
    while (at % (uintptr_t)bytes != 0)
        bytes /= 2;
    return bytes;
}

static plan_key key_of(const lt_gemm *g)
{
    plan_key k;
    memset(&k, 0, sizeof k);
    k.m = g->m, k.n = g->n, k.k = g->k;
    k.lda = g->lda, k.ldb = g->ldb, k.ldc = g->ldc;
    k.ab_dtype = (int32_t)g->ab_dtype, k.c_dtype = (int32_t)g->c_dtype;
    k.bias_dtype = g->bias ? (int32_t)g->bias_dtype : -1;
    k.align_a = alignment(g->a), k.align_b = alignment(g->b), k.align_c = alignment(g->c);
    k.trans_a = g->trans_a, k.trans_b = g->trans_b;
    return k;
}

static cudaDataType_t type_of(lt_dtype dtype)
{
    return dtype == LT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

// cuBLASLt counts columns first, so it is given C' = B' A': what is a row here is a column there,
// and nothing is copied. Its first matrix is our B, [n, k] after its transposition, its second our
// A, [k, m].
static lt_status describe(const lt_cublaslt *lt, const lt_gemm *g, lt_cuda_plan *p)
{
    const cublasOperation_t first = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    const cudaDataType_t ab = type_of(g->ab_dtype);
    LT_TRY(lt_cublaslt_check(lt, lt->desc_create(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                             "cublasLtMatmulDescCreate"));
    LT_TRY(lt_cublaslt_check(
        lt, lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
        "cublasLt TRANSA"));
    LT_TRY(lt_cublaslt_check(
        lt, lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
        "cublasLt TRANSB"));
    if (g->bias) {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        const cudaDataType_t bias = type_of(g->bias_dtype);
        LT_TRY(lt_cublaslt_check(
            lt, lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
            "cublasLt EPILOGUE"));
        LT_TRY(lt_cublaslt_check(
            lt, lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias),
            "cublasLt BIAS_DATA_TYPE"));
    }
    LT_TRY(lt_cublaslt_check(
        lt, lt->layout_create(&p->a, ab, g->trans_b ? k : n, g->trans_b ? n : k, g->ldb),
        "cublasLtMatrixLayoutCreate"));
    LT_TRY(lt_cublaslt_check(
        lt, lt->layout_create(&p->b, ab, g->trans_a ? m : k, g->trans_a ? k : m, g->lda),
        "cublasLtMatrixLayoutCreate"));
    return lt_cublaslt_check(lt, lt->layout_create(&p->c, type_of(g->c_dtype), n, m, g->ldc),
                             "cublasLtMatrixLayoutCreate");
}

static lt_status set_preferences(const lt_cublaslt *lt, const plan_key *key,
                                 cublasLtMatmulPreference_t pref)
{
    // Partial sums only through the workspace, in a fixed order: two runs give the same bits.
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    const uint64_t workspace = LT_CUDA_WORKSPACE_BYTES;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attr;
        uint32_t value;
    } words[] = {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)key->align_b},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)key->align_a},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)key->align_c},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)key->align_c}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        LT_TRY(lt_cublaslt_check(
            lt, lt->preference_set(pref, words[i].attr, &words[i].value, sizeof words[i].value),
            "cublasLtMatmulPreferenceSetAttribute"));
    }
    return lt_cublaslt_check(lt,
                             lt->preference_set(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                &workspace, sizeof workspace),
                             "cublasLtMatmulPreferenceSetAttribute");
}

static lt_status choose(const lt_cublaslt *lt, const lt_gemm *g, const plan_key *key,
                        lt_cuda_plan *p)
{
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    LT_TRY(lt_cublaslt_check(lt, lt->preference_create(&pref), "cublasLtMatmulPreferenceCreate"));
    lt_status st = set_preferences(lt, key, pref);
    if (st == LT_OK) {
        const cublasStatus_t status =
            lt->heuristic(lt->handle, p->desc, p->a, p->b, p->c, p->c, pref, 1, &best, &found);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
            (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
            st = LT_FAIL(
                LT_ERR_UNSUPPORTED,
                "cuBLASLt has no algorithm for a product [%lld,%lld] x [%lld,%lld] of %s into %s",
                (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n,
                lt_dtype_name(g->ab_dtype), lt_dtype_name(g->c_dtype));
        } else {
            st = lt_cublaslt_check(lt, status, "cublasLtMatmulAlgoGetHeuristic");
        }
    }
    if (st == LT_OK)
        p->algo = best.algo;
    (void)lt->preference_destroy(pref);
    return st;
}

static lt_status keep(lt_cuda_impl *impl, const plan_key *key, const lt_cuda_plan *p)
{
    if (impl->plans.n == MAX_PLANS) {
        lt_cuda_drop_plans(impl);
        lt_map_destroy(impl->plan_of);
        impl->plan_of = NULL;
        LT_TRY(lt_map_create(&impl->plan_of));
    }
    LT_TRY(lt_map_put(impl->plan_of, key, sizeof *key, impl->plans.n));
    return lt_vec_push(&impl->plans, p);
}

static lt_status plan_for(lt_cuda_impl *impl, const lt_gemm *g, lt_cuda_plan *out)
{
    const plan_key key = key_of(g);
    int64_t at;
    if (lt_map_get(impl->plan_of, &key, sizeof key, &at)) {
        *out = LT_AT(&impl->plans, lt_cuda_plan, at);
        return LT_OK;
    }
    lt_cuda_plan p = {0};
    lt_status st = describe(&impl->lt, g, &p);
    if (st == LT_OK)
        st = choose(&impl->lt, g, &key, &p);
    if (st == LT_OK)
        st = keep(impl, &key, &p);
    if (st == LT_OK)
        *out = p;
    else
        drop_plan(&impl->lt, &p);
    return st;
}

// A sum over nothing.
static lt_status empty_product(lt_device *d, lt_stream *s, const lt_gemm *g)
{
    LT_ASSERT(!g->bias);
    if (g->accumulate)
        return LT_OK;
    const size_t size = lt_dtype_bytes(g->c_dtype);
    LT_TRY(lt_cuda_use(d));
    return lt_cuda_check(cudaMemset2DAsync(g->c, (size_t)g->ldc * size, 0, (size_t)g->n * size,
                                           (size_t)g->m, s->queue),
                         "cudaMemset2DAsync");
}

lt_status lt_cuda_gemm(lt_device *d, lt_stream *s, const lt_gemm *g)
{
    lt_cuda_impl *impl = lt_cuda_impl_of(d);
    const lt_cublaslt *lt = &impl->lt;
    if (g->m == 0 || g->n == 0)
        return LT_OK;
    if (g->k == 0)
        return empty_product(d, s, g);
    lt_cuda_plan p;
    void *workspace;
    const float alpha = 1.0F, beta = g->accumulate ? 1.0F : 0.0F;
    LT_TRY(lt_cuda_use(d));
    LT_TRY(plan_for(impl, g, &p));
    LT_TRY(lt_cuda_workspace(d, s, &workspace));
    if (g->bias) {
        LT_TRY(lt_cublaslt_check(
            lt, lt->desc_set(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias),
            "cublasLt BIAS_POINTER"));
    }
    return lt_cublaslt_check(lt,
                             lt->matmul(lt->handle, p.desc, &alpha, g->b, p.a, g->a, p.b, &beta,
                                        g->c, p.c, g->c, p.c, &p.algo, workspace,
                                        LT_CUDA_WORKSPACE_BYTES, s->queue),
                             "cublasLtMatmul");
}
