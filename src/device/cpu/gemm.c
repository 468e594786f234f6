// SPDX-License-Identifier: Apache-2.0
// The one entry for matrix products on the CPU: checks, and the choice between oneDNN and the
// portable kernels.
#include "device/gemm.h"
#include "device/cpu/gemm_core.h"
#include "device/cpu/onednn.h"
#include <stdatomic.h>

static atomic_int chosen = LT_GEMM_OWN;

void lt_cpu_gemm_by(lt_gemm_by by)
{
    atomic_store(&chosen, (int)by);
}

static bool through_onednn(void)
{
    return atomic_load_explicit(&chosen, memory_order_relaxed) == LT_GEMM_ONEDNN;
}

const lt_gemm_core *lt_gemm_core_of(lt_isa isa, lt_dtype ab_dtype)
{
#if defined(__x86_64__)
    static const struct {
        const lt_gemm_core *f32, *bf16;
    } cores[LT_N_ISAS] = {
        [LT_ISA_PLAIN] = {&lt_gemm_core_plain, &lt_gemm_core_plain},
        [LT_ISA_AVX2] = {&lt_gemm_core_avx2, &lt_gemm_core_avx2},
        [LT_ISA_AVX512] = {&lt_gemm_core_avx512, &lt_gemm_core_avx512},
        [LT_ISA_AVX512_BF16] = {&lt_gemm_core_avx512, &lt_gemm_core_avx512bf16},
        [LT_ISA_AMX] = {&lt_gemm_core_avx512, &lt_gemm_core_amx},
    };
    return ab_dtype == LT_BF16 ? cores[isa].bf16 : cores[isa].f32;
#else
    (void)isa, (void)ab_dtype;
    return &lt_gemm_core_plain;
#endif
}

static bool is_fast_dtype(lt_dtype t)
{
    return t == LT_F32 || t == LT_BF16;
}

static lt_status check(const lt_gemm *g)
{
    if (!is_fast_dtype(g->ab_dtype) || !is_fast_dtype(g->c_dtype) ||
        (g->bias && !lt_dtype_is_float(g->bias_dtype))) {
        return LT_FAIL(
            LT_ERR_DTYPE, "a matrix product on the CPU takes f32 and bf16, got %s times %s into %s",
            lt_dtype_name(g->ab_dtype), lt_dtype_name(g->ab_dtype), lt_dtype_name(g->c_dtype));
    }
    if (g->m < 0 || g->n < 0 || g->k < 0 || g->lda < (g->trans_a ? g->m : g->k) ||
        g->ldb < (g->trans_b ? g->k : g->n) || g->ldc < g->n) {
        return LT_FAIL(
            LT_ERR_SHAPE,
            "a matrix product of m %lld, n %lld, k %lld got row strides %lld, %lld, %lld",
            (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->lda, (long long)g->ldb,
            (long long)g->ldc);
    }
    return LT_OK;
}

lt_status lt_cpu_gemm(lt_pool *pool, const lt_gemm *g)
{
    LT_TRY(check(g));
    if (g->m == 0 || g->n == 0)
        return LT_OK;
    bool done = false;
    if (g->k > 0 && through_onednn())
        LT_TRY(lt_onednn_gemm(pool, g, &done));
    if (done)
        return LT_OK;
    return lt_gemm_portable(pool, g, lt_cpu_isa());
}

const char *lt_cpu_gemm_name(void)
{
    static const char *const portable[LT_N_ISAS] = {
        [LT_ISA_PLAIN] = "packed plain",
        [LT_ISA_AVX2] = "packed avx2",
        [LT_ISA_AVX512] = "packed avx512",
        [LT_ISA_AVX512_BF16] = "packed avx512 (f32), avx512_bf16 (bf16)",
        [LT_ISA_AMX] = "packed avx512 (f32), amx (bf16)",
    };
    const char *library = through_onednn() ? lt_onednn_name() : NULL;
    return library ? library : portable[lt_cpu_isa()];
}
