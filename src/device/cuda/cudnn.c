// SPDX-License-Identifier: Apache-2.0
// Finding cuDNN at run time, and its descriptors.
#include "device/cuda/cudnn.h"
#include "device/cuda/cuda.h"
#include <dlfcn.h>
#include <string.h>

// By the loader's own search path first, then where installers put it.
static const char *const places[] = {
    "libcudnn.so.9",
    "/usr/local/cuda/lib64/libcudnn.so.9",
    "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
    "/usr/local/lib/libcudnn.so.9",
    "/opt/cuda/lib64/libcudnn.so.9",
};

typedef struct symbol {
    const char *name;
    size_t offset; // of the pointer in lt_cudnn
} symbol;
static const symbol symbols[] = {
    {"cudnnGetVersion", offsetof(lt_cudnn, version)},
    {"cudnnGetErrorString", offsetof(lt_cudnn, status_text)},
    {"cudnnGetLastErrorString", offsetof(lt_cudnn, last_error)},
    {"cudnnCreate", offsetof(lt_cudnn, create)},
    {"cudnnDestroy", offsetof(lt_cudnn, destroy)},
    {"cudnnSetStream", offsetof(lt_cudnn, set_stream)},
    {"cudnnBackendCreateDescriptor", offsetof(lt_cudnn, desc_create)},
    {"cudnnBackendDestroyDescriptor", offsetof(lt_cudnn, desc_destroy)},
    {"cudnnBackendSetAttribute", offsetof(lt_cudnn, desc_set)},
    {"cudnnBackendGetAttribute", offsetof(lt_cudnn, desc_get)},
    {"cudnnBackendFinalize", offsetof(lt_cudnn, finalize)},
    {"cudnnBackendExecute", offsetof(lt_cudnn, execute)},
};
enum { LEAST_VERSION = 91000 }; // from 9.10 on a mask of -inf gives right sums

static lt_status find_symbols(lt_cudnn *c)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(c->library, symbols[i].name);
        if (!at)
            return LT_FAIL(LT_ERR_DEVICE, "cuDNN has no function %s", symbols[i].name);
        memcpy((char *)c + symbols[i].offset, &at, sizeof at); // C has no cast to a function
    }
    if (c->version() < LEAST_VERSION) {
        return LT_FAIL(LT_ERR_DEVICE, "cuDNN is version %zu, and 9.10 is the first that is used",
                       c->version());
    }
    return LT_OK;
}

static lt_status describe(lt_cudnn *c, const char *json)
{
    const int64_t bytes = (int64_t)strlen(json) + 1;
    LT_TRY(lt_cudnn_check(c, c->desc_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &c->describe),
                          "describing a device"));
    LT_TRY(lt_cudnn_check(c,
                          c->desc_set(c->describe, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                      CUDNN_TYPE_CHAR, bytes, json),
                          "describing a device"));
    return lt_cudnn_check(c, c->finalize(c->describe), "describing a device");
}

lt_status lt_cudnn_open(const char *device_json, lt_cudnn *out)
{
    lt_cudnn c = {0};
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !c.library; i++)
        c.library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (!c.library) {
        return LT_FAIL(LT_ERR_DEVICE,
                       "cuDNN (libcudnn.so.9) was not found (LD_LIBRARY_PATH can name its folder): "
                       "%s",
                       dlerror()); // NOLINT(concurrency-mt-unsafe): its message is the thread's own
    }
    lt_status st = find_symbols(&c);
    if (st == LT_OK && device_json && device_json[0])
        st = describe(&c, device_json);
    else if (st == LT_OK && !device_json)
        st = lt_cudnn_check(&c, c.create(&c.handle), "cudnnCreate");
    if (st == LT_OK)
        *out = c;
    else
        lt_cudnn_close(&c);
    return st;
}

void lt_cudnn_close(lt_cudnn *c)
{
    if (c->describe)
        (void)c->desc_destroy(c->describe);
    if (c->handle)
        (void)c->destroy(c->handle);
    if (c->library)
        (void)dlclose(c->library);
    lt_mem_free(c->folder);
    *c = (lt_cudnn){0};
}

lt_status lt_cudnn_check(const lt_cudnn *c, cudnnStatus_t status, const char *tried)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return LT_OK;
    char why[512] = "";
    c->last_error(why, sizeof why);
    (void)cudaGetLastError();
    const bool memory = status == CUDNN_STATUS_ALLOC_FAILED;
    const bool missing =
        status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING;
    return LT_FAIL(memory    ? LT_ERR_MEMORY
                   : missing ? LT_ERR_UNSUPPORTED
                             : LT_ERR_DEVICE,
                   "cuDNN, %s: %s%s%s", tried, c->status_text(status), why[0] ? ": " : "", why);
}

// ---- a graph

static void note(lt_dnn_graph *g, lt_status st)
{
    if (g->status == LT_OK)
        g->status = st;
}

static lt_dnn make(lt_dnn_graph *g, cudnnBackendDescriptorType_t type)
{
    lt_dnn d = NULL;
    if (g->status != LT_OK)
        return NULL;
    note(g, lt_cudnn_check(g->dnn, g->dnn->desc_create(type, &d), "creating a descriptor"));
    if (g->status == LT_OK)
        note(g, lt_vec_push(&g->made, &d));
    return g->status == LT_OK ? d : NULL;
}

static void set(lt_dnn_graph *g, lt_dnn d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (g->status == LT_OK)
        note(g, lt_cudnn_check(g->dnn, g->dnn->desc_set(d, name, type, n, values),
                               "setting an attribute"));
}

// A descriptor among another's attributes; NULL: not given.
static void set_desc(lt_dnn_graph *g, lt_dnn d, cudnnBackendAttributeName_t name, lt_dnn value)
{
    if (value)
        set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(lt_dnn_graph *g, lt_dnn d, const char *what)
{
    if (g->status == LT_OK)
        note(g, lt_cudnn_check(g->dnn, g->dnn->finalize(d), what));
}

static void finish_op(lt_dnn_graph *g, lt_dnn d, const char *what)
{
    finish(g, d, what);
    if (g->status == LT_OK)
        note(g, lt_vec_push(&g->ops, &d));
}

enum { FIRST_VIRTUAL = 1000, ALIGNMENT = 16 };

lt_dnn lt_dnn_tensor_of(lt_dnn_graph *g, const lt_dnn_tensor *t)
{
    const int64_t id = t->id ? t->id : FIRST_VIRTUAL + g->n_virtual,
                  alignment = t->alignment ? t->alignment : ALIGNMENT;
    const bool is_virtual = !t->id;
    int64_t stride[4];
    memcpy(stride, t->stride, sizeof stride);
    if (!stride[3]) {
        stride[3] = 1;
        for (int i = 2; i >= 0; i--)
            stride[i] = stride[i + 1] * t->dim[i + 1];
    }
    lt_dnn d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dim);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &t->by_value);
    set_desc(g, d, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, t->ragged);
    finish(g, d, "describing a tensor");
    g->n_virtual += is_virtual;
    if (g->status == LT_OK && !is_virtual)
        note(g, lt_vec_push(&g->ids, &id));
    return g->status == LT_OK ? d : NULL;
}

lt_dnn lt_dnn_virtual(lt_dnn_graph *g, cudnnDataType_t type, const int64_t dim[4])
{
    lt_dnn_tensor t = {.type = type};
    memcpy(t.dim, dim, sizeof t.dim);
    return lt_dnn_tensor_of(g, &t);
}

void lt_dnn_add_pointwise(lt_dnn_graph *g, const lt_dnn_pointwise *p)
{
    lt_dnn how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p->mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p->compute);
    if (p->mode == CUDNN_POINTWISE_GEN_INDEX)
        set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p->axis);
    finish(g, how, "describing a pointwise operation");
    lt_dnn op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p->x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p->b);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p->t);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p->y);
    finish_op(g, op, "a pointwise operation");
}

void lt_dnn_add_matmul(lt_dnn_graph *g, const lt_dnn_matmul *p)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    lt_dnn how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finish(g, how, "describing a product");
    lt_dnn op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, p->a);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, p->b);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, p->c);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, p->m);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, p->n);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, p->k);
    finish_op(g, op, "a product");
}

void lt_dnn_add_reduction(lt_dnn_graph *g, cudnnReduceTensorOp_t op_kind, lt_dnn x, lt_dnn y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    lt_dnn how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op_kind);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finish(g, how, "describing a reduction");
    lt_dnn op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    finish_op(g, op, "a reduction");
}

void lt_dnn_add_reshape(lt_dnn_graph *g, lt_dnn x, lt_dnn y)
{
    lt_dnn op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finish_op(g, op, "a reshape");
}

void lt_dnn_graph_deinit(lt_dnn_graph *g)
{
    for (int64_t i = g->made.n - 1; i >= 0; i--)
        (void)g->dnn->desc_destroy(LT_AT(&g->made, lt_dnn, i));
    lt_vec_deinit(&g->made);
    lt_vec_deinit(&g->ops);
    lt_vec_deinit(&g->ids);
}

// ---- from a graph to a plan

static lt_dnn heuristic(lt_dnn_graph *g)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    lt_dnn graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->ops.n,
        g->ops.data);
    if (g->dnn->handle)
        set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->dnn->handle);
    finish(g, graph, "the graph");
    lt_dnn h = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set_desc(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, g->dnn->describe);
    finish(g, h, "looking for an engine");
    return h;
}

static lt_status try_config(lt_dnn_graph *g, lt_dnn config, lt_dnn *plan)
{
    const lt_cudnn *c = g->dnn;
    lt_dnn p = NULL;
    LT_TRY(lt_cudnn_check(c, c->desc_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p),
                          "creating a plan"));
    cudnnStatus_t st = c->desc_set(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (st == CUDNN_STATUS_SUCCESS && c->handle)
        st = c->desc_set(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle);
    if (st == CUDNN_STATUS_SUCCESS && c->describe)
        st = c->desc_set(p, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &c->describe);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->finalize(p);
    if (st == CUDNN_STATUS_SUCCESS) {
        *plan = p;
        return LT_OK;
    }
    const lt_status failed = lt_cudnn_check(c, st, "preparing a plan");
    (void)c->desc_destroy(p);
    return failed;
}

lt_status lt_dnn_plan(lt_dnn_graph *g, lt_dnn *plan)
{
    enum { MOST = 16 };
    lt_dnn h = heuristic(g), config[MOST];
    int64_t n = 0, got = 0;
    for (int i = 0; i < MOST; i++)
        config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    LT_TRY(g->status);
    LT_TRY(lt_cudnn_check(g->dnn,
                          g->dnn->desc_get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL),
                          "counting engines"));
    n = n < MOST ? n : MOST;
    LT_TRY(lt_cudnn_check(g->dnn,
                          g->dnn->desc_get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, n, &got, (void *)config),
                          "looking at engines"));
    lt_status st = LT_ERR_UNSUPPORTED;
    for (int64_t i = 0; i < got && i < n; i++) {
        st = try_config(g, config[i], plan);
        if (st == LT_OK)
            return LT_OK;
    }
    if (got <= 0)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "cuDNN has no engine for this graph");
    return st == LT_ERR_MEMORY ? st : LT_ERR_UNSUPPORTED;
}

lt_status lt_dnn_workspace(const lt_cudnn *c, lt_dnn plan, int64_t *bytes)
{
    int64_t n = 0;
    *bytes = 0;
    return lt_cudnn_check(
        c,
        c->desc_get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, bytes),
        "asking for a plan's workspace");
}
