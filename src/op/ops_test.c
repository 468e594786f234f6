// SPDX-License-Identifier: Apache-2.0
// Walks the op table: every row is complete, and every float op has a gradient that differences confirm.
#include "op/attention.h"
#include "op/cast.h"
#include "op/fold.h"
#include "op/gelu.h"
#include "op/layer_norm.h"
#include "op/linear_cross_entropy.h"
#include "op/ops.h"
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "tests/kit/op_kit.h"
#include <string.h>

// One input of a case: random f64, f32 without a gradient, i32 with the given numbers. No shape: not given.
typedef struct case_input {
    lt_dtype dtype;
    const char *shape;
    const int32_t *index;
} case_input;
// clang-format off
#define WIDE(dims) {.dtype = LT_F64, .shape = (dims)}
#define NARROW(dims) {.dtype = LT_F32, .shape = (dims)}
#define INDEX(dims, ...) {.dtype = LT_I32, .shape = (dims), .index = (const int32_t[]){__VA_ARGS__}}
// clang-format on

typedef struct gradient_case {
    const char *op;
    case_input in[LT_MAX_IN];
    const void *attr;
    size_t attr_bytes;
    uint32_t no_grad, no_upstream;
} gradient_case;

#define ATTR(type, ...) .attr = &(const type){__VA_ARGS__}, .attr_bytes = sizeof(type)

// Awkward sizes: 1, odd, a prime. An op without a row here fails the walk.
static const gradient_case cases[] = {
    {.op = "linear", .in = {WIDE("3x31"), WIDE("5x31"), WIDE("5")}},
    {.op = "linear", .in = {WIDE("1x1"), WIDE("1x1")}},
    {.op = "rms_norm", .in = {WIDE("3x33"), WIDE("33")}, ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.op = "rms_norm", .in = {WIDE("5x1"), WIDE("1")}, ATTR(lt_rms_norm_attr, .eps = 0.5)},
    {.op = "add_rms_norm",
     .in = {WIDE("3x7"), WIDE("3x7"), WIDE("7")},
     ATTR(lt_rms_norm_attr, .eps = 1e-6)},
    {.op = "layer_norm",
     .in = {WIDE("3x31"), WIDE("31"), WIDE("31")},
     ATTR(lt_layer_norm_attr, .eps = 1e-5)},
    {.op = "qk_norm_rope",
     .in = {WIDE("3x12"), WIDE("4"), WIDE("3x2")},
     ATTR(lt_qk_norm_rope_attr, .eps = 1e-6, .heads = 3),
     .no_grad = LT_IN(2)},
    {.op = "split_qkv_rope",
     .in = {WIDE("5x12"), WIDE("5x2")},
     ATTR(lt_split_qkv_rope_attr, .heads = 2),
     .no_grad = LT_IN(1)},
    {.op = "attention",
     .in = {WIDE("7x6"), WIDE("7x3"), WIDE("7x3"), INDEX("4", 0, 1, 4, 7)},
     ATTR(lt_attention_attr, .heads = 2, .kv_heads = 1, .causal = true),
     .no_upstream = LT_OUT(1)},
    {.op = "attention",
     .in = {WIDE("7x1"), WIDE("7x1"), WIDE("7x1"), INDEX("2", 0, 7)},
     ATTR(lt_attention_attr, .heads = 1, .kv_heads = 1),
     .no_upstream = LT_OUT(1)},
    {.op = "add", .in = {WIDE("3x31"), WIDE("3x31")}},
    {.op = "copy", .in = {WIDE("3x31")}},
    {.op = "swiglu", .in = {WIDE("3x31"), WIDE("3x31")}},
    {.op = "gelu", .in = {WIDE("3x31")}, ATTR(lt_gelu_attr, .kind = LT_GELU_ERF)},
    {.op = "gelu", .in = {WIDE("3x31")}, ATTR(lt_gelu_attr, .kind = LT_GELU_TANH)},
    {.op = "embedding", .in = {INDEX("5", 3, 0, 3, 3, 1), WIDE("4x3")}},
    {.op = "scatter_rows", .in = {WIDE("5x3"), WIDE("2x3"), INDEX("2", 1, 4)}},
    {.op = "scatter_add_rows", .in = {WIDE("5x3"), WIDE("2x3"), INDEX("2", 0, 1)}},
    {.op = "gather_rows", .in = {WIDE("5x3"), INDEX("3", 0, 2, 4)}},
    {.op = "pos_embed_add",
     .in = {WIDE("2x3"), WIDE("5x3"), INDEX("2x4", 0, 4, 1, 4, 2, 2, 2, 0), NARROW("2x4")},
     .no_grad = LT_IN(3)},
    {.op = "fold_rows", .in = {WIDE("6x3")}, ATTR(lt_fold_attr, .group = 3)},
    {.op = "unfold_rows", .in = {WIDE("2x6")}, ATTR(lt_fold_attr, .group = 3)},
    {.op = "cast", .in = {WIDE("3x31")}, ATTR(lt_cast_attr, .dtype = LT_F64)},
    {.op = "linear_cross_entropy",
     .in = {WIDE("3x5"), WIDE("31x5"), INDEX("3", 30, 0, 7), NARROW("3")},
     ATTR(lt_linear_cross_entropy_attr, .chunk = 2),
     .no_grad = LT_IN(3)},
};

// Rows that take floats and have no gradient, and why.
static const char *const without_gradient[] = {
    "adamw",       // changes state, outside graphs
    "sum_squares", // reads gradients, outside graphs
    "top1",        // gives integers
};

static bool listed(const char *name)
{
    for (size_t i = 0; i < sizeof without_gradient / sizeof without_gradient[0]; i++)
        if (strcmp(without_gradient[i], name) == 0)
            return true;
    return false;
}

static lt_tensor make_input(void *state, const case_input *in, uint64_t seed)
{
    if (!in->shape)
        return lt_test_none();
    if (in->dtype == LT_I32)
        return lt_test_i32(state, in->shape, in->index);
    return lt_test_random_of(state, in->dtype, in->shape, seed, 1.0);
}

static bool takes_floats(const lt_op_def *def)
{
    return (def->dtypes & LT_FLOATS) || def->backward[LT_REF] || def->grad;
}

static void every_float_op_has_a_gradient_that_differences_confirm(void **state)
{
    int n;
    const lt_op_def *const *rows = lt_ops_all(&n);
    for (int i = 0; i < n; i++) {
        const int64_t before = lt_gradcheck_count();
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            if (strcmp(cases[c].op, rows[i]->name) != 0)
                continue;
            lt_tensor in[LT_MAX_IN];
            for (int k = 0; k < rows[i]->n_in; k++)
                in[k] = make_input(*state, &cases[c].in[k], 100 + (uint64_t)k);
            assert_ok(lt_gradcheck(*state, rows[i], in, cases[c].attr,
                                   (lt_gradcheck_opts){.seed = c,
                                                       .no_grad = cases[c].no_grad,
                                                       .no_upstream = cases[c].no_upstream,
                                                       .attr_bytes = cases[c].attr_bytes}));
        }
        if (takes_floats(rows[i]) && !listed(rows[i]->name) && lt_gradcheck_count() == before)
            fail_msg("op %s has no gradient check: give it a case in this file", rows[i]->name);
    }
}

static void every_case_and_exception_belongs_to_a_row(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        assert_non_null(lt_op_find(cases[c].op));
    for (size_t i = 0; i < sizeof without_gradient / sizeof without_gradient[0]; i++) {
        const lt_op_def *def = lt_op_find(without_gradient[i]);
        assert_non_null(def);
        assert_true(!def->grad && !def->backward[LT_REF]);
    }
    assert_null(lt_op_find("no such op"));
}

static void every_row_is_complete(void **state)
{
    (void)state;
    int n;
    const lt_op_def *const *rows = lt_ops_all(&n);
    for (int i = 0; i < n; i++) {
        const lt_op_def *r = rows[i];
        assert_ptr_equal(lt_op_find(r->name), r); // names differ
        assert_in_range(r->n_in, 0, LT_MAX_IN);
        assert_in_range(r->n_out, 1, LT_MAX_OUT);
        assert_non_null(r->infer);
        assert_int_equal(r->dtypes == 0, r->n_in == 0); // clip works on its outputs alone
        assert_int_equal(r->forward[LT_REF] == NULL, (r->flags & LT_OP_VIEW) != 0);
        assert_false(r->grad && r->backward[LT_REF]);
        for (int backend = LT_CPU; backend < LT_N_BACKENDS; backend++)
            assert_true(!r->backward[backend] || r->backward[LT_REF]); // every kernel has its judge
        assert_true(r->backward_reads == 0 || r->backward[LT_REF]);
        assert_int_equal(r->index_in >> r->n_in, 0);
        assert_int_equal((r->backward_reads & 0xffffU) >> r->n_in, 0);
        assert_int_equal(r->backward_reads >> 16 >> r->n_out, 0);
    }
}

LT_TEST_MAIN(LT_TEST(every_float_op_has_a_gradient_that_differences_confirm),
             LT_TEST(every_case_and_exception_belongs_to_a_row), LT_TEST(every_row_is_complete))
