// SPDX-License-Identifier: Apache-2.0
// Expert matrices in each layout that checkpoints have: the same numbers come out, in pieces too.
#include "ckpt/hf_experts.h"
#include "ckpt/safetensors_write.h"
#include "tests/kit/lt_test.h"
#include <stdio.h>
#include <string.h>

enum { EXPERTS = 3, MOST = 4096 };
#define PATH "model.layers.0.mlp"

typedef struct shape {
    int64_t h, i; // hidden, width of an expert
} shape;

typedef struct source {
    float values[MOST];
} source;

static lt_status fetch(void *ctx, int64_t first, int64_t n, void *dst)
{
    memcpy(dst, ((const source *)ctx)->values + first, (size_t)n * sizeof(float));
    return LT_OK;
}

static void push(void *state, lt_vec *items, const char *name, int32_t rank, const int64_t *dim,
                 const source *values)
{
    char *copy = NULL;
    source *mine = lt_test_take(state, sizeof *mine);
    int64_t *dims = lt_test_take(state, 3 * sizeof *dims);
    *mine = *values;
    memcpy(dims, dim, (size_t)rank * sizeof *dim);
    assert_ok(lt_arena_printf(state, &copy, "%s", name));
    lt_st_item item = {.from = LT_F32, .fetch = fetch, .ctx = mine};
    assert_ok(lt_st_plan(copy, LT_F32, rank, dims, &item.tensor));
    assert_ok(lt_vec_push(items, &item));
}

// Of gate_up [E, 2I, H] and down [E, H, I]: a number that tells where it belongs.
static float value_of(const shape *s, bool down, int64_t e, int64_t out, int64_t in)
{
    return (float)(e * 10000 + out * (down ? s->i : s->h) + in + (down ? 5000 : 0));
}

static void push_fused(void *state, lt_vec *items, const shape *s, bool down, bool transposed)
{
    source v;
    const int64_t out = down ? s->h : 2 * s->i, in = down ? s->i : s->h;
    int64_t k = 0;
    for (int64_t e = 0; e < EXPERTS; e++) {
        for (int64_t a = 0; a < (transposed ? in : out); a++)
            for (int64_t b = 0; b < (transposed ? out : in); b++)
                v.values[k++] = value_of(s, down, e, transposed ? b : a, transposed ? a : b);
    }
    const int64_t dim[3] = {EXPERTS, transposed ? in : out, transposed ? out : in};
    push(state, items, down ? PATH ".experts.down_proj" : PATH ".experts.gate_up_proj", 3, dim, &v);
}

static void push_one_by_one(void *state, lt_vec *items, const shape *s)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    for (int64_t e = 0; e < EXPERTS; e++) {
        for (int p = 0; p < 3; p++) {
            char name[128];
            source v;
            const bool down = p == 2;
            const int64_t dim[2] = {down ? s->h : s->i, down ? s->i : s->h};
            for (int64_t k = 0; k < dim[0] * dim[1]; k++)
                v.values[k] = value_of(s, down, e, k / dim[1] + (p == 1 ? s->i : 0), k % dim[1]);
            (void)snprintf(name, sizeof name, PATH ".experts.%d.%s.weight", (int)e, names[p]);
            push(state, items, name, 2, dim, &v);
        }
    }
}

static lt_hf *make(void *state, const shape *s, lt_hf_form form)
{
    lt_vec items = LT_VEC_OF(lt_st_item);
    if (form == LT_HF_PER_EXPERT) {
        push_one_by_one(state, &items, s);
    } else {
        push_fused(state, &items, s, false, form == LT_HF_TRANSPOSED);
        push_fused(state, &items, s, true, form == LT_HF_TRANSPOSED);
    }
    const char *dir = lt_test_dir(state);
    assert_ok(lt_st_write(lt_test_path(state, dir, LT_HF_SINGLE), items.data, items.n, NULL, 0));
    lt_vec_deinit(&items);
    lt_hf *hf = NULL;
    assert_ok(lt_hf_open(dir, NULL, &hf));
    return hf;
}

static void check(void *state, lt_hf *hf, const shape *s, bool family, lt_hf_form form)
{
    for (int down = 0; down < 2; down++) {
        lt_hf_weight w;
        float got[MOST];
        const int64_t out = down ? s->h : 2 * s->i, in = down ? s->i : s->h, n = EXPERTS * out * in;
        const int64_t dim[3] = {EXPERTS, out, in};
        assert_ok(lt_hf_find_weight(hf, state,
                                    down ? PATH ".experts.down_proj" : PATH ".experts.gate_up_proj",
                                    3, dim, family, &w));
        assert_int_equal(w.form, form);
        assert_false(w.by_family);
        for (int64_t step = 1; step <= n; step = step * 3 + 4) {
            memset(got, 0xff, sizeof got);
            for (int64_t at = 0; at < n; at += step)
                assert_ok(lt_hf_weight_read(&w, at, lt_min_i64(step, n - at), LT_F32, got + at));
            for (int64_t k = 0; k < n; k++)
                assert_true(got[k] == value_of(s, down, k / (out * in), k / in % out, k % in));
        }
    }
    lt_vec unused = LT_VEC_OF(const char *);
    assert_ok(lt_hf_unused(hf, &unused));
    assert_int_equal(unused.n, 0);
    lt_vec_deinit(&unused);
}

// H = I too: down_proj's own shape says nothing then, gate_up_proj's decides.
static void every_layout_gives_the_same_numbers(void **state)
{
    static const shape shapes[] = {{5, 3}, {6, 6}, {1, 1}, {2, 5}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int form = LT_HF_AS_IS; form <= LT_HF_PER_EXPERT; form++) {
            lt_hf *hf = make(*state, &shapes[i], (lt_hf_form)form);
            check(*state, hf, &shapes[i], form == LT_HF_AS_IS, (lt_hf_form)form);
            lt_hf_close(hf);
        }
    }
}

// BR-64: with 2I = H gate_up_proj itself cannot tell, whatever the family says; down_proj can.
static void of_square_matrices_the_other_one_decides(void **state)
{
    const shape s = {6, 3};
    for (int form = LT_HF_AS_IS; form <= LT_HF_PER_EXPERT; form++) {
        for (int family = 0; family < 2; family++) {
            lt_hf *hf = make(*state, &s, (lt_hf_form)form);
            check(*state, hf, &s, family, (lt_hf_form)form);
            lt_hf_close(hf);
        }
    }
}

static void where_no_shape_tells_the_family_decides(void **state)
{
    const shape s = {6, 3};
    const int64_t dim[3] = {EXPERTS, 6, 6};
    lt_vec items = LT_VEC_OF(lt_st_item);
    push_fused(*state, &items, &s, false, true);
    const char *dir = lt_test_dir(*state);
    assert_ok(lt_st_write(lt_test_path(*state, dir, LT_HF_SINGLE), items.data, items.n, NULL, 0));
    lt_vec_deinit(&items);
    lt_hf *hf = NULL;
    assert_ok(lt_hf_open(dir, NULL, &hf));
    for (int family = 0; family < 2; family++) {
        lt_hf_weight w;
        assert_ok(lt_hf_find_weight(hf, *state, PATH ".experts.gate_up_proj", 3, dim, family, &w));
        assert_true(w.by_family);
        assert_int_equal(w.form, family ? LT_HF_TRANSPOSED : LT_HF_AS_IS);
    }
    lt_hf_close(hf);
}

static void a_missing_or_misshapen_expert_is_named(void **state)
{
    const shape s = {5, 3};
    lt_hf *hf = make(*state, &s, LT_HF_PER_EXPERT);
    lt_hf_weight w;
    const int64_t more[3] = {EXPERTS + 1, 6, 5}, wide[3] = {EXPERTS, 6, 4};
    assert_fails(lt_hf_find_weight(hf, *state, PATH ".experts.gate_up_proj", 3, more, true, &w),
                 LT_ERR_NOT_FOUND, "experts.3.gate_proj.weight is missing");
    assert_fails(lt_hf_find_weight(hf, *state, PATH ".experts.gate_up_proj", 3, wide, true, &w),
                 LT_ERR_SHAPE, "experts.0.gate_proj.weight is");
    lt_hf_close(hf);
    hf = make(*state, &s, LT_HF_TRANSPOSED);
    assert_fails(lt_hf_find_weight(hf, *state, PATH ".experts.gate_up_proj", 3, wide, true, &w),
                 LT_ERR_SHAPE, "gate_up_proj is");
    lt_hf_close(hf);
}

LT_TEST_MAIN(LT_TEST(every_layout_gives_the_same_numbers),
             LT_TEST(of_square_matrices_the_other_one_decides),
             LT_TEST(where_no_shape_tells_the_family_decides),
             LT_TEST(a_missing_or_misshapen_expert_is_named))
