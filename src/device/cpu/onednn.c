// SPDX-License-Identifier: Apache-2.0
// Matrix products through oneDNN, versions 2 and 3: B is brought into the library's own layout once
// per call, and C is cut into tiles of fixed size, each computed by one single-threaded call.
#include "device/cpu/onednn.h"
#include "base/memory.h"
#include "device/cpu/scratch.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <string.h>

enum {
    TILE_ROWS = 256,
    TILE_COLS = 1024,
    PACKED_MAX = 16 << 20, // bytes of A, and of B, in the library's layout at a time
    N_CACHED = 64,         // products that a thread keeps ready
};

// What oneDNN 2 and 3 spell differently.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;
typedef const_dnnl_memory_desc_t desc_ref;
#define REF(d) (d)
#define WITH_STRIDES dnnl_memory_desc_create_with_strides
#define WITH_TAG dnnl_memory_desc_create_with_tag
#define APPEND_SUM(ops, dtype) dnnl_post_ops_append_sum((ops), 1.0F, 0, (dtype))
#else
typedef dnnl_memory_desc_t desc;
typedef const dnnl_memory_desc_t *desc_ref;
#define REF(d) (&(d))
#define WITH_STRIDES dnnl_memory_desc_init_by_strides
#define WITH_TAG dnnl_memory_desc_init_by_tag
#define APPEND_SUM(ops, dtype) dnnl_post_ops_append_sum_v2((ops), 1.0F, (dtype))
#endif

// A tile of C, TILE_ROWS x cols, as the library sees it. Strides: of A [TILE_ROWS, k], of B as the
// caller has it, and of C.
typedef struct shape {
    int64_t cols, k, lda, ldb, ldc;
    bool trans_a, trans_b, accumulate, bias;
    lt_dtype ab_dtype, c_dtype;
} shape;

// What computes it: B's way into the library's layout, and the product.
typedef struct product {
    shape key;
    bool known, able; // able: the library has this product
    dnnl_primitive_t reorder, multiply;
    dnnl_memory_t b_plain, a, b, c, bias;
    size_t b_bytes; // of B in the library's layout
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
    dnnl_primitive_destroy(p->reorder);
    dnnl_primitive_destroy(p->multiply);
    dnnl_memory_t memory[] = {p->b_plain, p->a, p->b, p->c, p->bias};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        dnnl_memory_destroy(memory[i]);
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
// belongs to the asking thread.
// A build of oneDNN that knows no threads needs nothing; others (TBB, a given pool) are not used,
// since they can't be held to one.
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
    desc b_plain, a, b_any, c, bias;
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
    DNNL_TRY(WITH_STRIDES(&d->b_plain, 2, b_dims, ab, b_step), "describe B");
    DNNL_TRY(WITH_TAG(&d->b_any, 2, b_dims, ab, dnnl_format_tag_any), "describe B");
    DNNL_TRY(WITH_STRIDES(&d->c, 2, c_dims, type_of(s->c_dtype), c_step), "describe C");
    DNNL_TRY(WITH_STRIDES(&d->bias, 2, bias_dims, dnnl_f32, bias_step), "describe the bias");
    return LT_OK;
}

static void release(descs *d)
{
#if DNNL_VERSION_MAJOR >= 3
    desc all[] = {d->b_plain, d->a, d->b_any, d->c, d->bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            dnnl_memory_desc_destroy(all[i]);
#else
    (void)d;
#endif
}

// dnnl_unimplemented where the library has no such product.
static dnnl_status_t describe_product(dnnl_engine_t engine, const shape *s, const descs *d,
                                      const product *base, dnnl_primitive_attr_t attr,
                                      dnnl_primitive_desc_t *out)
{
    desc_ref b = REF(d->b_any), bias = s->bias ? REF(d->bias) : NULL;
    if (base) {
        const dnnl_status_t st = dnnl_memory_get_memory_desc(base->b, &b);
        if (st != dnnl_success)
            return st;
    }
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, d->a, b, bias, d->c, attr);
#else
    dnnl_matmul_desc_t op;
    const dnnl_status_t st = dnnl_matmul_desc_init(&op, &d->a, b, bias, &d->c);
    return st != dnnl_success ? st : dnnl_primitive_desc_create(out, &op, attr, engine, NULL);
#endif
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

static lt_status make_memory(const library *lib, product *p, const descs *d, desc_ref b)
{
    const dnnl_engine_t e = lib->engine;
    DNNL_TRY(dnnl_memory_create(&p->a, REF(d->a), e, DNNL_MEMORY_NONE), "make A");
    DNNL_TRY(dnnl_memory_create(&p->b_plain, REF(d->b_plain), e, DNNL_MEMORY_NONE), "make B");
    DNNL_TRY(dnnl_memory_create(&p->b, b, e, DNNL_MEMORY_NONE), "make B");
    DNNL_TRY(dnnl_memory_create(&p->c, REF(d->c), e, DNNL_MEMORY_NONE), "make C");
    DNNL_TRY(dnnl_memory_create(&p->bias, REF(d->bias), e, DNNL_MEMORY_NONE), "make the bias");
    p->b_bytes = dnnl_memory_desc_get_size(b);
    return LT_OK;
}

static lt_status make_primitives(const library *lib, product *p, const descs *d,
                                 dnnl_primitive_desc_t multiply)
{
    const desc_ref b = dnnl_primitive_desc_query_md(multiply, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_t reorder;
    LT_TRY(make_memory(lib, p, d, b));
    DNNL_TRY(dnnl_primitive_create(&p->multiply, multiply), "make a matrix product");
    DNNL_TRY(dnnl_reorder_primitive_desc_create(&reorder, REF(d->b_plain), lib->engine, b,
                                                lib->engine, NULL),
             "describe a layout");
    const dnnl_status_t st = dnnl_primitive_create(&p->reorder, reorder);
    dnnl_primitive_desc_destroy(reorder);
    DNNL_TRY(st, "make a change of layout");
    return LT_OK;
}

// base: whose layout of B is to be used; NULL: the library's choice.
static lt_status make_product(const library *lib, const shape *s, const product *base, product *p)
{
    descs d = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t multiply = NULL;
    lt_status st;
    LT_TRY_GOTO(st, describe(s, &d), done);
    dnnl_status_t ds = sum_attr(s, &attr);
    if (ds == dnnl_success)
        ds = describe_product(lib->engine, s, &d, base, attr, &multiply);
    if (ds == dnnl_success)
        st = make_primitives(lib, p, &d, multiply);
    else if (ds != dnnl_unimplemented)
        st = fail(ds, "describe a matrix product");
    p->key = *s;
    p->known = st == LT_OK;
    p->able = ds == dnnl_success;
done:
    dnnl_primitive_desc_destroy(multiply);
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

// The product of that shape that all with other strides of A and C share B's layout with: padded
// tiles.
static shape base_of(const shape *s)
{
    shape base = *s;
    base.lda = s->trans_a ? TILE_ROWS : s->k;
    base.ldc = TILE_COLS;
    return base;
}

static product *look_up(library *lib, const shape *s)
{
    for (int i = 0; i < N_CACHED; i++)
        if (lib->products[i].known && same_shape(&lib->products[i].key, s))
            return &lib->products[i];
    return NULL;
}

// Make a product in the place of the oldest but `keep`.
static lt_status add_product(library *lib, const shape *s, const product *keep, product **out)
{
    if (&lib->products[lib->next] == keep)
        lib->next = (lib->next + 1) % N_CACHED;
    product *p = &lib->products[lib->next];
    lib->next = (lib->next + 1) % N_CACHED;
    forget(p);
    LT_TRY(make_product(lib, s, keep, p));
    *out = p;
    return LT_OK;
}

// This thread's product of that shape. (*out)->able may be false.
static lt_status find_product(const shape *s, library **lib, product **out)
{
    LT_TRY(my_library(lib));
    *out = look_up(*lib, s);
    if (*out)
        return LT_OK;
    const shape base_shape = base_of(s);
    product *base = look_up(*lib, &base_shape);
    if (!base)
        LT_TRY(add_product(*lib, &base_shape, NULL, &base));
    if (same_shape(s, &base_shape) || !base->able)
        *out = base;
    else
        LT_TRY(add_product(*lib, s, base, out));
    return LT_OK;
}

// One call: what is in the library's layout at present, and where.
typedef struct call {
    const lt_gemm *g;
    int64_t first_tile, n_tiles, rows_down; // column tiles of B that are packed
    size_t tile_bytes;                      // between two of them
    char *packed;
    float *bias; // as f32
} call;

static const char *at(const void *p, lt_dtype dtype, int64_t i)
{
    return (const char *)p + i * (int64_t)lt_dtype_bytes(dtype);
}

// The shape of a column tile, with padded A and C.
static shape padded_shape(const lt_gemm *g, int64_t tile)
{
    return (shape){.cols = lt_min_i64(TILE_COLS, g->n - tile * TILE_COLS),
                   .k = g->k,
                   .lda = g->trans_a ? TILE_ROWS : g->k,
                   .ldb = g->ldb,
                   .ldc = TILE_COLS,
                   .trans_a = g->trans_a,
                   .trans_b = g->trans_b,
                   .accumulate = g->accumulate,
                   .bias = g->bias != NULL,
                   .ab_dtype = g->ab_dtype,
                   .c_dtype = g->c_dtype};
}

static void point(dnnl_memory_t memory, const void *data)
{
    (void)dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data); // fails for no CPU memory
}

static lt_status pack_tile(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const call *c = ctx;
    const lt_gemm *g = c->g;
    const int64_t tile = c->first_tile + i, col = tile * TILE_COLS;
    const shape s = padded_shape(g, tile);
    library *lib;
    product *p;
    (void)stay_single();
    LT_TRY(find_product(&s, &lib, &p));
    point(p->b_plain, at(g->b, g->ab_dtype, g->trans_b ? col * g->ldb : col));
    point(p->b, c->packed + (size_t)i * c->tile_bytes);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, p->b_plain}, {DNNL_ARG_TO, p->b}};
    DNNL_TRY(dnnl_primitive_execute(p->reorder, lib->stream, 2, args), "change B's layout");
    return LT_OK;
}

// The last rows of A, with zeros behind them, as a whole tile: [TILE_ROWS, k] or [k, TILE_ROWS].
static lt_status pad_a(const lt_gemm *g, int64_t row, int64_t rows, const void **out)
{
    const size_t elem = lt_dtype_bytes(g->ab_dtype);
    const int64_t lines = g->trans_a ? g->k : rows, width = g->trans_a ? rows : g->k,
                  stride = g->trans_a ? TILE_ROWS : g->k;
    void *memory;
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PAD_A, (size_t)(TILE_ROWS * g->k) * elem, &memory));
    memset(memory, 0, (size_t)(TILE_ROWS * g->k) * elem);
    for (int64_t i = 0; i < lines; i++)
        memcpy((char *)memory + (size_t)(i * stride) * elem,
               at(g->a, g->ab_dtype, g->trans_a ? i * g->lda + row : (row + i) * g->lda),
               (size_t)width * elem);
    *out = memory;
    return LT_OK;
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

// Through padded copies of A and C: for the last, incomplete tile of rows.
static lt_status multiply_padded(const lt_gemm *g, int64_t tile, int64_t row, int64_t rows,
                                 const void *b, const float *bias)
{
    const size_t elem = lt_dtype_bytes(g->c_dtype);
    const shape s = padded_shape(g, tile);
    library *lib;
    product *p;
    const void *a;
    void *sums;
    LT_TRY(find_product(&s, &lib, &p));
    LT_TRY(pad_a(g, row, rows, &a));
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PAD_C, (size_t)TILE_ROWS * TILE_COLS * elem, &sums));
    char *to = (char *)g->c + (size_t)(row * g->ldc + tile * TILE_COLS) * elem;
    for (int64_t i = 0; i < rows && g->accumulate; i++)
        memcpy((char *)sums + (size_t)(i * TILE_COLS) * elem, to + (size_t)(i * g->ldc) * elem,
               (size_t)s.cols * elem);
    LT_TRY(execute(lib, p, a, b, bias, sums));
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + (size_t)(i * g->ldc) * elem, (char *)sums + (size_t)(i * TILE_COLS) * elem,
               (size_t)s.cols * elem);
    return LT_OK;
}

static lt_status multiply_tile(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const call *c = ctx;
    const lt_gemm *g = c->g;
    const int64_t across = i / c->rows_down, tile = c->first_tile + across,
                  row = i % c->rows_down * TILE_ROWS;
    const int64_t rows = lt_min_i64(TILE_ROWS, g->m - row);
    const char *b = c->packed + (size_t)across * c->tile_bytes;
    const float *bias = c->bias ? c->bias + tile * TILE_COLS : NULL;
    library *lib;
    product *p;
    (void)stay_single();
    if (rows < TILE_ROWS)
        return multiply_padded(g, tile, row, rows, b, bias);
    shape s = padded_shape(g, tile);
    s.lda = g->lda;
    s.ldc = g->ldc;
    LT_TRY(find_product(&s, &lib, &p));
    if (!p->able) // not with these strides
        return multiply_padded(g, tile, row, rows, b, bias);
    return execute(lib, p, at(g->a, g->ab_dtype, g->trans_a ? row : row * g->lda), b, bias,
                   (char *)g->c +
                       (size_t)(row * g->ldc + tile * TILE_COLS) * lt_dtype_bytes(g->c_dtype));
}

// Whether the library has both kinds of tiles, whole and cut at n; how many bytes one takes in its
// layout.
static lt_status ask(const lt_gemm *g, bool *able, size_t *bytes)
{
    library *lib;
    product *p;
    *able = true;
    *bytes = 0;
    const int64_t last = (g->n - 1) / TILE_COLS;
    for (int64_t tile = 0; tile <= last && *able; tile += lt_max_i64(last, 1)) {
        const shape s = padded_shape(g, tile);
        LT_TRY(find_product(&s, &lib, &p));
        *able = p->able;
        *bytes = p->b_bytes > *bytes ? p->b_bytes : *bytes;
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

lt_status lt_onednn_gemm(lt_pool *pool, const lt_gemm *g, bool *done)
{
    call c = {.g = g, .rows_down = lt_ceil_div(g->m, TILE_ROWS)};
    *done = false;
    if (g->k == 0 || !stay_single())
        return LT_OK;
    LT_TRY(ask(g, done, &c.tile_bytes));
    if (!*done)
        return LT_OK;
    void *memory;
    c.tile_bytes = (size_t)lt_round_up((int64_t)c.tile_bytes, 64);
    const int64_t tiles = lt_ceil_div(g->n, TILE_COLS),
                  step = lt_max_i64(PACKED_MAX / (int64_t)c.tile_bytes, 1);
    LT_TRY(lt_thread_scratch(LT_SCRATCH_PACK_B, c.tile_bytes * (size_t)lt_min_i64(step, tiles),
                             &memory));
    LT_TRY(widen_bias(g, &c.bias));
    c.packed = memory;
    for (; c.first_tile < tiles; c.first_tile += step) {
        c.n_tiles = lt_min_i64(step, tiles - c.first_tile);
        LT_TRY(lt_pool_run(pool, c.n_tiles, pack_tile, &c));
        LT_TRY(lt_pool_run(pool, c.n_tiles * c.rows_down, multiply_tile, &c));
    }
    return LT_OK;
}

static bool has(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

bool lt_onednn_wants(lt_dtype ab_dtype)
{
    // With AVX2 alone the packed kernels are as fast for f32, and oneDNN has none for bf16.
    return has(ab_dtype == LT_BF16 ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define NAME                                                                                       \
    "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH)

const char *lt_onednn_name(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_avx512_core_amx, NAME " avx512_core_amx"},
        {dnnl_cpu_isa_avx512_core_bf16, NAME " avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core, NAME " avx512_core (f32), portable (bf16)"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has(names[i].isa))
            return names[i].name;
    return NULL;
}
