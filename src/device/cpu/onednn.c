// SPDX-License-Identifier: Apache-2.0
// Matrix products through oneDNN, versions 2 and 3: C is cut into tiles of fixed size, each
// computed by one single-threaded call. Operands stay in the caller's layout: version 2.6 brings
// bf16 into its own by plain loops, at 100 ns a number.
#include "device/cpu/onednn.h"
#include "base/memory.h"
#include "device/cpu/scratch.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <string.h>

enum {
    TILE_ROWS = 256,
    TILE_COLS = 1024,
    N_CACHED = 128, // products that a thread keeps ready
    LEAST = 32,     // columns, and numbers to add
};

// What oneDNN 2 and 3 spell differently.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;
#define REF(d) (d)
#define WITH_STRIDES dnnl_memory_desc_create_with_strides
#define APPEND_SUM(ops, dtype) dnnl_post_ops_append_sum((ops), 1.0F, 0, (dtype))
#else
typedef dnnl_memory_desc_t desc;
#define REF(d) (&(d))
#define WITH_STRIDES dnnl_memory_desc_init_by_strides
#define APPEND_SUM(ops, dtype) dnnl_post_ops_append_sum_v2((ops), 1.0F, (dtype))
#endif

// A tile of C, TILE_ROWS x cols, as the library sees it.
typedef struct shape {
    int64_t cols, k, lda, ldb, ldc;
    bool trans_a, trans_b, accumulate, bias;
    lt_dtype ab_dtype, c_dtype;
} shape;

// What computes it. able: the library has this product.
typedef struct product {
    shape key;
    bool known, able;
    dnnl_primitive_t multiply;
    dnnl_memory_t a, b, c, bias;
} product;

// A thread's engine and products; ends with the thread.
typedef struct library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int next; // to be replaced when all are taken
    product products[N_CACHED];
} library;

static lt_status fail(dnnl_status_t st, const char *what)
{
    return LT_FAIL(st == dnnl_out_of_memory ? LT_ERR_MEMORY : LT_ERR_INTERNAL,
                   "oneDNN could not %s: %s", what, dnnl_status2str(st));
}

#define DNNL_TRY(call, what)                                                                       \
    do {                                                                                           \
        const dnnl_status_t dnnl_st_ = (call);                                                     \
        if (dnnl_st_ != dnnl_success)                                                              \
            return fail(dnnl_st_, (what));                                                         \
    } while (0)

static void forget(product *p)
{
    dnnl_primitive_destroy(p->multiply);
    dnnl_memory_destroy(p->a);
    dnnl_memory_destroy(p->b);
    dnnl_memory_destroy(p->c);
    dnnl_memory_destroy(p->bias);
    memset(p, 0, sizeof *p);
}

static void destroy_library(void *object)
{
    library *lib = object;
    for (int i = 0; i < N_CACHED; i++)
        forget(&lib->products[i]);
    dnnl_stream_destroy(lib->stream);
    dnnl_engine_destroy(lib->engine);
    lt_mem_free(lib);
}

// oneDNN's own threads are OpenMP's. Each of ours asks OpenMP for one thread, itself: the setting
// belongs to the asking thread. A build of oneDNN that knows no threads needs nothing; others (TBB,
// a given pool) are not used, since they can't be held to one.
static bool stay_single(void)
{
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_SEQ
    return true;
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
    void (*set_threads)(int);
    void *found =
        dlsym(RTLD_DEFAULT,
              "omp_set_num_threads"); // of the runtime that libdnnl is linked to, whichever that is
    if (!found)
        return false;
    memcpy(&set_threads, &found, sizeof found);
    set_threads(1);
    return true;
#else
    return false;
#endif
}

static lt_status my_library(library **out)
{
    void **place, *memory;
    LT_TRY(lt_thread_kept(destroy_library, &place));
    if (!*place) {
        LT_TRY(lt_mem_alloc(&memory, sizeof(library), "oneDNN's products"));
        *place = memory;
        library *lib = memory;
        DNNL_TRY(dnnl_engine_create(&lib->engine, dnnl_cpu, 0), "open the CPU");
        DNNL_TRY(dnnl_stream_create(&lib->stream, lib->engine, dnnl_stream_default_flags),
                 "make a stream");
    }
    *out = *place;
    return LT_OK;
}

static dnnl_data_type_t type_of(lt_dtype dtype)
{
    return dtype == LT_BF16 ? dnnl_bf16 : dnnl_f32;
}

// The descriptions that a product is made from.
typedef struct descs {
    desc a, b, c, bias;
} descs;

static lt_status describe(const shape *s, descs *d)
{
    const dnnl_data_type_t ab = type_of(s->ab_dtype);
    const dnnl_dims_t a_dims = {TILE_ROWS, s->k}, b_dims = {s->k, s->cols},
                      c_dims = {TILE_ROWS, s->cols}, bias_dims = {1, s->cols};
    const dnnl_dims_t a_step = {s->trans_a ? 1 : s->lda, s->trans_a ? s->lda : 1},
                      c_step = {s->ldc, 1}, bias_step = {s->cols, 1};
    const dnnl_dims_t b_step = {s->trans_b ? 1 : s->ldb, s->trans_b ? s->ldb : 1};
    DNNL_TRY(WITH_STRIDES(&d->a, 2, a_dims, ab, a_step), "describe A");
    DNNL_TRY(WITH_STRIDES(&d->b, 2, b_dims, ab, b_step), "describe B");
    DNNL_TRY(WITH_STRIDES(&d->c, 2, c_dims, type_of(s->c_dtype), c_step), "describe C");
    DNNL_TRY(WITH_STRIDES(&d->bias, 2, bias_dims, dnnl_f32, bias_step), "describe the bias");
    return LT_OK;
}

static void release(descs *d)
{
#if DNNL_VERSION_MAJOR >= 3
    desc all[] = {d->a, d->b, d->c, d->bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            dnnl_memory_desc_destroy(all[i]);
#else
    (void)d;
#endif
}

// dnnl_unimplemented where the library has no such product.
static dnnl_status_t describe_product(dnnl_engine_t engine, const shape *s, const descs *d,
                                      dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, d->a, d->b, s->bias ? d->bias : NULL,
                                             d->c, attr);
#else
    dnnl_matmul_desc_t op;
    const dnnl_status_t st =
        dnnl_matmul_desc_init(&op, &d->a, &d->b, s->bias ? &d->bias : NULL, &d->c);
    return st != dnnl_success ? st : dnnl_primitive_desc_create(out, &op, attr, engine, NULL);
#endif
}

// The library's plain loops are no way to compute anything: as if it had no such product.
static bool is_plain(const_dnnl_primitive_desc_t plan)
{
    const char *name = NULL;
    const dnnl_status_t st =
        dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, (void *)&name);
    return st == dnnl_success && name && strncmp(name, "ref", 3) == 0;
}

static dnnl_status_t sum_attr(const shape *s, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(out);
    if (st != dnnl_success || !s->accumulate)
        return st;
    st = dnnl_post_ops_create(&ops);
    if (st == dnnl_success)
        st = APPEND_SUM(ops, type_of(s->c_dtype));
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_post_ops(*out, ops);
    dnnl_post_ops_destroy(ops);
    return st;
}

static lt_status make_primitive(const library *lib, product *p, const descs *d,
                                dnnl_primitive_desc_t plan)
{
    const dnnl_engine_t e = lib->engine;
    DNNL_TRY(dnnl_memory_create(&p->a, REF(d->a), e, DNNL_MEMORY_NONE), "make A");
    DNNL_TRY(dnnl_memory_create(&p->b, REF(d->b), e, DNNL_MEMORY_NONE), "make B");
    DNNL_TRY(dnnl_memory_create(&p->c, REF(d->c), e, DNNL_MEMORY_NONE), "make C");
    DNNL_TRY(dnnl_memory_create(&p->bias, REF(d->bias), e, DNNL_MEMORY_NONE), "make the bias");
    DNNL_TRY(dnnl_primitive_create(&p->multiply, plan), "make a matrix product");
    return LT_OK;
}

static lt_status make_product(const library *lib, const shape *s, product *p)
{
    descs d = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t plan = NULL;
    lt_status st;
    LT_TRY_GOTO(st, describe(s, &d), done);
    dnnl_status_t ds = sum_attr(s, &attr);
    if (ds == dnnl_success)
        ds = describe_product(lib->engine, s, &d, attr, &plan);
    if (ds == dnnl_success && is_plain(plan))
        ds = dnnl_unimplemented;
    if (ds == dnnl_success)
        st = make_primitive(lib, p, &d, plan);
    else if (ds != dnnl_unimplemented)
        st = fail(ds, "describe a matrix product");
    p->key = *s;
    p->known = st == LT_OK;
    p->able = ds == dnnl_success;
done:
    dnnl_primitive_desc_destroy(plan);
    dnnl_primitive_attr_destroy(attr);
    release(&d);
    if (st != LT_OK)
        forget(p);
    return st;
}

static bool same_shape(const shape *a, const shape *b)
{
    return a->cols == b->cols && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->trans_a == b->trans_a && a->trans_b == b->trans_b &&
           a->accumulate == b->accumulate && a->bias == b->bias && a->ab_dtype == b->ab_dtype &&
           a->c_dtype == b->c_dtype;
}

// This thread's product of that shape. (*out)->able may be false.
static lt_status find_product(const shape *s, library **lib, product **out)
{
    LT_TRY(my_library(lib));
    library *l = *lib;
    for (int i = 0; i < N_CACHED; i++) {
        if (l->products[i].known && same_shape(&l->products[i].key, s)) {
            *out = &l->products[i];
            return LT_OK;
        }
    }
    product *p = &l->products[l->next];
    l->next = (l->next + 1) % N_CACHED;
    forget(p);
    LT_TRY(make_product(l, s, p));
    *out = p;
    return LT_OK;
}

typedef struct call {
    const lt_gemm *g;
    int64_t rows_down;
    float *bias; // as f32
} call;

static const char *at(const void *p, lt_dtype dtype, int64_t i)
{
    return (const char *)p + i * (int64_t)lt_dtype_bytes(dtype);
}

// A transposed A of few rows has no room for a tile between its lines.
static shape shape_of(const lt_gemm *g, int64_t tile)
{
    return (shape){.cols = lt_min_i64(TILE_COLS, g->n - tile * TILE_COLS),
                   .k = g->k,
                   .lda = g->trans_a ? lt_max_i64(g->lda, TILE_ROWS) : g->lda,
                   .ldb = g->ldb,
                   .ldc = g->ldc,
                   .trans_a = g->trans_a,
                   .trans_b = g->trans_b,
                   .accumulate = g->accumulate,
                   .bias = g->bias != NULL,
                   .ab_dtype = g->ab_dtype,
                   .c_dtype = g->c_dtype};
}

static void point(dnnl_memory_t memory, const void *data)
{
    void *handle; // the library takes inputs and outputs alike
    memcpy(&handle, &data, sizeof handle);
    (void)dnnl_memory_set_data_handle(memory, handle); // fails for no CPU memory
}

static lt_status execute(const library *lib, const product *p, const void *a, const void *b,
                         const float *bias, void *c)
{
    point(p->a, a);
    point(p->b, b);
    point(p->c, c);
    point(p->bias, bias);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->a},
                                    {DNNL_ARG_WEIGHTS, p->b},
                                    {DNNL_ARG_DST, p->c},
                                    {DNNL_ARG_BIAS, p->bias}};
    DNNL_TRY(dnnl_primitive_execute(p->multiply, lib->stream, p->key.bias ? 4 : 3, args),
             "multiply matrices");
    return LT_OK;
}

// The last rows of A, with zeros behind them, as a whole tile with the same strides.
static lt_status pad_a(const lt_gemm *g, const shape *s, int64_t row, int64_t rows,
                       const void **out)
{
    const size_t elem = lt_dtype_bytes(g->ab_dtype);
    const int64_t all_lines = g->trans_a ? g->k : TILE_ROWS, lines = g->trans_a ? g->k : rows,
                  width = g->trans_a ? rows : g->k;
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PAD_A, (size_t)(all_lines * s->lda) * elem, &memory));
    memset(memory, 0, (size_t)(all_lines * s->lda) * elem);
    for (int64_t i = 0; i < lines; i++) {
        memcpy((char *)memory + (size_t)(i * s->lda) * elem,
               at(g->a, g->ab_dtype, g->trans_a ? i * g->lda + row : (row + i) * g->lda),
               (size_t)width * elem);
    }
    *out = memory;
    return LT_OK;
}

// Through padded copies of A and C: for the last, incomplete tile of rows.
static lt_status multiply_padded(const lt_gemm *g, const library *lib, const product *p,
                                 int64_t tile, int64_t row, int64_t rows, const void *b,
                                 const float *bias)
{
    const size_t elem = lt_dtype_bytes(g->c_dtype), line = (size_t)g->ldc * elem;
    const size_t pad_line = TILE_COLS * elem, used = (size_t)p->key.cols * elem;
    const void *a;
    void *sums;
    LT_TRY(pad_a(g, &p->key, row, rows, &a));
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PAD_C, TILE_ROWS * pad_line, &sums));
    char *to = (char *)g->c + (size_t)(row * g->ldc + tile * TILE_COLS) * elem;
    for (size_t i = 0; i < (size_t)rows && g->accumulate; i++)
        memcpy((char *)sums + i * pad_line, to + i * line, used);
    LT_TRY(execute(lib, p, a, b, bias, sums));
    for (size_t i = 0; i < (size_t)rows; i++)
        memcpy(to + i * line, (char *)sums + i * pad_line, used);
    return LT_OK;
}

static lt_status multiply_tile(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const call *c = ctx;
    const lt_gemm *g = c->g;
    const int64_t tile = i / c->rows_down, row = i % c->rows_down * TILE_ROWS,
                  rows = lt_min_i64(TILE_ROWS, g->m - row);
    const char *b =
        at(g->b, g->ab_dtype, g->trans_b ? tile * TILE_COLS * g->ldb : tile * TILE_COLS);
    const float *bias = c->bias ? c->bias + tile * TILE_COLS : NULL;
    shape s = shape_of(g, tile);
    if (rows < TILE_ROWS)
        s.ldc = TILE_COLS; // of the padded copy; where a sum goes does not change it
    library *lib;
    product *p;
    (void)stay_single();
    LT_TRY(find_product(&s, &lib, &p));
    if (rows < TILE_ROWS)
        return multiply_padded(g, lib, p, tile, row, rows, b, bias);
    return execute(lib, p, at(g->a, g->ab_dtype, g->trans_a ? row : row * g->lda), b, bias,
                   (char *)g->c +
                       (size_t)(row * g->ldc + tile * TILE_COLS) * lt_dtype_bytes(g->c_dtype));
}

// Whether the library has both kinds of tiles, whole and cut at n.
static lt_status ask(const lt_gemm *g, bool *able)
{
    library *lib;
    product *p;
    *able = true;
    const int64_t last = (g->n - 1) / TILE_COLS;
    for (int64_t tile = 0; tile <= last && *able; tile += lt_max_i64(last, 1)) {
        const shape s = shape_of(g, tile);
        LT_TRY(find_product(&s, &lib, &p));
        *able = p->able;
    }
    return LT_OK;
}

static lt_status widen_bias(const lt_gemm *g, float **out)
{
    *out = NULL;
    if (!g->bias)
        return LT_OK;
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_TILE, (size_t)g->n * sizeof(float), &memory));
    lt_convert(memory, LT_F32, g->bias, g->bias_dtype, g->n);
    *out = memory;
    return LT_OK;
}

// Version 2.6.3 makes bf16 products that are added to a bf16 C, or are very narrow, and then
// refuses to execute some of them.
static bool is_dependable(const lt_gemm *g)
{
    const int64_t last_cols = (g->n - 1) % TILE_COLS + 1;
    return g->ab_dtype == LT_F32 ? g->k > 0 : g->k >= LEAST && last_cols >= LEAST && !g->accumulate;
}

lt_status lt_onednn_gemm(lt_pool *pool, const lt_gemm *g, bool *done)
{
    call c = {.g = g, .rows_down = lt_ceil_div(g->m, TILE_ROWS)};
    *done = false;
    if (!is_dependable(g) || !stay_single())
        return LT_OK;
    LT_TRY(ask(g, done));
    if (!*done)
        return LT_OK;
    LT_TRY(widen_bias(g, &c.bias));
    return lt_pool_run(pool, lt_ceil_div(g->n, TILE_COLS) * c.rows_down, multiply_tile, &c);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define NAME                                                                                       \
    "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH)

const char *lt_onednn_name(void)
{
    return NAME;
}
