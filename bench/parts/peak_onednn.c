// SPDX-License-Identifier: Apache-2.0
// A square product by oneDNN alone, on its own threads and in its own layouts: the bar that lathe's
// step is held to.
#include "bench/parts/peak.h"

#include "base/memory.h"
#include "base/rng.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

// What oneDNN 2 and 3 spell differently.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;
#define REF(d) (d)
#define WITH_TAG dnnl_memory_desc_create_with_tag
#else
typedef dnnl_memory_desc_t desc;
#define REF(d) (&(d))
#define WITH_TAG dnnl_memory_desc_init_by_tag
#endif

enum { A, B, C, N_MATRICES };

typedef struct product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t plan;
    dnnl_primitive_t multiply;
    desc described[N_MATRICES];
    dnnl_memory_t memory[N_MATRICES];
    void *data[N_MATRICES];
} product;

// The OpenMP runtime that oneDNN uses, if it uses one.
static void use_threads(int threads)
{
    void (*set_threads)(int);
    void *found = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!found)
        return;
    memcpy(&set_threads, &found, sizeof found);
    set_threads(threads);
}

static dnnl_status_t plan(product *p, dnnl_data_type_t type, int64_t n)
{
    const dnnl_dims_t dims = {n, n};
    dnnl_status_t st = dnnl_engine_create(&p->engine, dnnl_cpu, 0);
    if (st == dnnl_success)
        st = dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags);
    for (int i = 0; st == dnnl_success && i < N_MATRICES; i++)
        st = WITH_TAG(&p->described[i], 2, dims, type, i == B ? dnnl_format_tag_any : dnnl_ab);
    if (st != dnnl_success)
        return st;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(&p->plan, p->engine, p->described[A], p->described[B],
                                             NULL, p->described[C], NULL);
#else
    dnnl_matmul_desc_t op;
    st = dnnl_matmul_desc_init(&op, &p->described[A], &p->described[B], NULL, &p->described[C]);
    return st != dnnl_success ? st
                              : dnnl_primitive_desc_create(&p->plan, &op, NULL, p->engine, NULL);
#endif
}

// Small numbers of either dtype: a weight in the library's own layout needs no order to be random.
static void fill(void *data, dnnl_data_type_t type, size_t bytes)
{
    const size_t n = bytes / (type == dnnl_bf16 ? sizeof(uint16_t) : sizeof(float));
    for (size_t i = 0; i < n; i++) {
        const float x = (float)(lt_uniform(1, i) - 0.5);
        if (type == dnnl_bf16)
            ((uint16_t *)data)[i] = lt_f32_to_bf16(x);
        else
            ((float *)data)[i] = x;
    }
}

static lt_status take_memory(product *p, dnnl_data_type_t type)
{
    static const dnnl_query_t what[N_MATRICES] = {dnnl_query_src_md, dnnl_query_weights_md,
                                                  dnnl_query_dst_md};
    for (int i = 0; i < N_MATRICES; i++) {
#if DNNL_VERSION_MAJOR >= 3
        const const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(p->plan, what[i], 0);
#else
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(p->plan, what[i], 0);
#endif
        const size_t bytes = dnnl_memory_desc_get_size(md);
        LT_TRY(lt_mem_alloc(&p->data[i], bytes, "a square matrix"));
        fill(p->data[i], type, bytes);
        if (dnnl_memory_create(&p->memory[i], md, p->engine, p->data[i]) != dnnl_success)
            return LT_FAIL(LT_ERR_INTERNAL, "oneDNN could not describe memory");
    }
    return LT_OK;
}

static lt_status time_product(product *p, int runs, int threads, double flops, bench_rate *best)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->memory[A]},
                                    {DNNL_ARG_WEIGHTS, p->memory[B]},
                                    {DNNL_ARG_DST, p->memory[C]}};
    if (dnnl_primitive_create(&p->multiply, p->plan) != dnnl_success)
        return LT_FAIL(LT_ERR_INTERNAL, "oneDNN could not make a matrix product");
    *best = (bench_rate){0};
    for (int i = 0; i <= runs; i++) {
        const bench_watch begin = bench_watch_start();
        if (dnnl_primitive_execute(p->multiply, p->stream, N_MATRICES, args) != dnnl_success ||
            dnnl_stream_wait(p->stream) != dnnl_success)
            return LT_FAIL(LT_ERR_INTERNAL, "oneDNN could not multiply matrices");
        if (i > 0)
            *best = bench_rate_max(*best, bench_watch_rate(begin, flops, threads));
    }
    return LT_OK;
}

static void release(product *p)
{
    for (int i = 0; i < N_MATRICES; i++) {
        dnnl_memory_destroy(p->memory[i]);
        lt_mem_free(p->data[i]);
#if DNNL_VERSION_MAJOR >= 3
        dnnl_memory_desc_destroy(p->described[i]);
#endif
    }
    dnnl_primitive_destroy(p->multiply);
    dnnl_primitive_desc_destroy(p->plan);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

// Products that the library would compute by plain loops (bf16 on a machine without it) are no bar.
static bool is_plain(const product *p)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(p->plan, dnnl_query_impl_info_str, 0, (void *)&name) ==
               dnnl_success &&
           name && strncmp(name, "ref", 3) == 0;
}

lt_status bench_library_peak(lt_dtype dtype, int threads, int64_t n, int runs, bench_rate *out)
{
    const dnnl_data_type_t type = dtype == LT_BF16 ? dnnl_bf16 : dnnl_f32;
    product p = {0};
    use_threads(threads);
    const dnnl_status_t ds = plan(&p, type, n);
    lt_status st = LT_OK;
    *out = (bench_rate){0};
    if (ds == dnnl_success && !is_plain(&p)) {
        st = take_memory(&p, type);
        if (st == LT_OK)
            st = time_product(&p, runs, threads, 2.0 * (double)n * (double)n * (double)n, out);
    } else if (ds != dnnl_success && ds != dnnl_unimplemented) {
        st = LT_FAIL(LT_ERR_INTERNAL, "oneDNN could not describe a matrix product (status %d)",
                     (int)ds);
    }
    release(&p);
    return st;
}
