// SPDX-License-Identifier: Apache-2.0
// op_parity: every row of the op table on the GPU against the reference kernels, on random shapes
// in f32 and bf16. Outputs start as garbage between guard bytes, gradients overwrite or add, some
// are not asked for; every run is done twice and must give the same bits. Exit code 1 when
// something is outside its limit, 77 when there is no GPU.
#include "tests/kit/op_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Largest difference over largest magnitude. f32: sums of some hundred terms in another order,
// 2^-24 each. bf16: an output may fall on the other side of a rounding (2^-8 of it), and ops that
// narrow in between may do so twice.
static const double limit_of[] = {[LT_F32] = 1e-5, [LT_BF16] = 1e-2};

enum {
    GUARD = 256,
    GUARDS = 2 * GUARD,
    GUARD_BYTE = 0xA5,
    GARBAGE_BYTE = 0xFF
}; // garbage reads as NaN

// A tensor in device memory, guard bytes on both sides.
typedef struct device_copy {
    lt_tensor t; // NULL data: not given
    void *memory;
} device_copy;

typedef struct bench {
    lt_device *gpu, *ref;
    lt_stream *stream;
    const op_trial *trial;
    lt_vec copies; // void *: device memory of this trial
    double worst;
    const char *broken; // what was wrong besides numbers
} bench;

static lt_status take_copy(bench *b, const lt_tensor *host, bool garbage, device_copy *out)
{
    const size_t bytes = lt_tensor_bytes(host);
    out->t = *host;
    LT_TRY(b->gpu->alloc(b->gpu, bytes + GUARDS, "a tensor of the test", &out->memory));
    LT_TRY(lt_vec_push(&b->copies, &out->memory));
    out->t.data = (char *)out->memory + GUARD;
    out->t.host = host->data;
    LT_TRY(b->gpu->fill(b->gpu, b->stream, out->memory, GUARD_BYTE, bytes + GUARDS));
    if (garbage)
        return b->gpu->fill(b->gpu, b->stream, out->t.data, GARBAGE_BYTE, bytes);
    return b->gpu->copy(b->gpu, b->stream, out->t.data, host->data, bytes, LT_COPY_HOST_TO_DEVICE);
}

// Back to the host, into memory of the trial's arena; guards are looked at.
static lt_status fetch(bench *b, const device_copy *from, lt_tensor *to)
{
    const size_t bytes = lt_tensor_bytes(&from->t);
    void *memory = NULL;
    LT_TRY(lt_arena_take(b->trial->arena, bytes + GUARDS, &memory));
    LT_TRY(b->gpu->copy(b->gpu, b->stream, memory, from->memory, bytes + GUARDS,
                        LT_COPY_DEVICE_TO_HOST));
    LT_TRY(b->gpu->stream_sync(b->gpu, b->stream));
    const unsigned char *byte = memory;
    for (size_t i = 0; i < GUARD; i++)
        if (byte[i] != GUARD_BYTE || byte[GUARD + bytes + i] != GUARD_BYTE)
            b->broken = "bytes beside a tensor were written";
    *to = from->t;
    to->data = (char *)memory + GUARD;
    return LT_OK;
}

static void compare(bench *b, const lt_tensor *got, const lt_tensor *want)
{
    double most = 0.0, magnitude = 0.0;
    for (int64_t i = 0, n = lt_n_elems(want); i < n; i++) {
        const double x = lt_load(got, i), y = lt_load(want, i);
        if ((isnan(x) && isnan(y)) || x == y)
            continue; // equal infinities too
        const double d = fabs(x - y);
        most = d > most || isnan(d) ? d : most;
    }
    for (int64_t i = 0, n = lt_n_elems(want); i < n; i++)
        if (isfinite(lt_load(want, i)))
            magnitude = fmax(magnitude, fabs(lt_load(want, i)));
    const double error = most == 0.0 ? 0.0 : most / fmax(magnitude, 1e-3);
    if (error > b->worst || isnan(error))
        b->worst = isnan(error) ? HUGE_VAL : error;
}

static void same_bits(bench *b, const lt_tensor *a, const lt_tensor *c)
{
    if (lt_n_elems(a) > 0 && memcmp(a->data, c->data, lt_tensor_bytes(a)) != 0)
        b->broken = "two runs gave different bits";
}

// ---- one call of a kernel

typedef struct call {
    lt_tensor in[LT_MAX_IN], out[LT_MAX_OUT], dout[LT_MAX_OUT], din[LT_MAX_IN];
    uint32_t add;
} call;

static lt_status run_kernel(bench *b, lt_device *d, lt_stream *stream, lt_pass pass, call *c,
                            void *scratch, size_t scratch_bytes)
{
    const lt_op_def *def = b->trial->def;
    const lt_kernel kernel = lt_op_kernel(def, d->backend, pass);
    if (!kernel)
        return LT_FAIL(LT_ERR_UNSUPPORTED, "op %s has no kernel", def->name);
    const lt_run run = {
        .device = d, .stream = stream, .scratch = scratch, .scratch_bytes = scratch_bytes};
    lt_op_args a = {.def = def, .attr = b->trial->attr, .add = c->add, .run = &run};
    // Backward is given what the row says it reads, and nothing else: the planner does the same.
    const uint32_t reads = pass == LT_FORWARD ? ~0U : def->backward_reads;
    const bool yields = def->flags & LT_OP_YIELDS_IN_BACKWARD;
    for (int i = 0; i < def->n_in; i++) {
        a.in[i] = b->trial->given[i] && reads & LT_IN(i) ? &c->in[i] : NULL;
        a.din[i] = c->din[i].data ? &c->din[i] : NULL;
    }
    for (int i = 0; i < def->n_out; i++) {
        a.out[i] = yields || reads & LT_OUT(i) ? &c->out[i] : NULL;
        a.dout[i] = c->dout[i].data ? &c->dout[i] : NULL;
    }
    if (b->trial->absent_out >= 0)
        a.out[b->trial->absent_out] = NULL;
    return kernel(&a);
}

static size_t scratch_bytes_of(const op_trial *t, lt_pass pass)
{
    if (!t->def->scratch)
        return 0;
    lt_op_args a = {.def = t->def, .attr = t->attr};
    for (int i = 0; i < t->def->n_in; i++)
        a.in[i] = t->given[i] ? &t->in[i] : NULL;
    const size_t host = t->def->scratch(&a, pass);
    a.backend = LT_CUDA;
    const size_t gpu = t->def->scratch(&a, pass);
    return host > gpu ? host : gpu;
}

static lt_status on_host(bench *b, lt_pass pass, call *c)
{
    const size_t bytes = scratch_bytes_of(b->trial, pass);
    void *scratch = NULL;
    LT_TRY(lt_arena_take(b->trial->arena, bytes, &scratch));
    return run_kernel(b, b->ref, NULL, pass, c, bytes > 0 ? scratch : NULL, bytes);
}

// The same call with all tensors copied to the GPU; what it wrote comes back in *result.
static lt_status on_gpu(bench *b, lt_pass pass, const call *host, bool in_place, call *result)
{
    const op_trial *t = b->trial;
    const size_t bytes = scratch_bytes_of(t, pass);
    device_copy in[LT_MAX_IN] = {0}, out[LT_MAX_OUT] = {0}, dout[LT_MAX_OUT] = {0},
                din[LT_MAX_IN] = {0}, scratch = {0};
    call c = {.add = host->add};
    const bool fresh = pass == LT_FORWARD && !t->in_out;
    for (int i = 0; i < t->def->n_in; i++) {
        if (t->given[i])
            LT_TRY(take_copy(b, &host->in[i], false, &in[i]));
        if (host->din[i].data)
            LT_TRY(take_copy(b, &host->din[i], !(host->add & LT_IN(i)), &din[i]));
        c.in[i] = in[i].t, c.din[i] = din[i].t;
    }
    for (int i = 0; i < t->def->n_out; i++) {
        if (host->out[i].data || pass == LT_FORWARD)
            LT_TRY(take_copy(b, &host->out[i], fresh || t->def->flags & LT_OP_YIELDS_IN_BACKWARD,
                             &out[i]));
        if (host->dout[i].data)
            LT_TRY(take_copy(b, &host->dout[i], false, &dout[i]));
        c.out[i] = out[i].t, c.dout[i] = dout[i].t;
    }
    if (in_place) {
        out[0] = in[0];
        c.out[0].data = in[0].t.data;
    }
    const lt_tensor space = lt_tensor_1d(LT_U8, (int64_t)bytes);
    LT_TRY(take_copy(b, &space, true, &scratch));
    LT_TRY(run_kernel(b, b->gpu, b->stream, pass, &c, bytes > 0 ? scratch.t.data : NULL, bytes));
    lt_tensor ignored;
    LT_TRY(fetch(b, &scratch, &ignored));
    for (int i = 0; i < t->def->n_out; i++)
        if (out[i].memory && i != t->absent_out)
            LT_TRY(fetch(b, &out[i], &result->out[i]));
    for (int i = 0; i < t->def->n_in; i++)
        if (din[i].memory)
            LT_TRY(fetch(b, &din[i], &result->din[i]));
    return LT_OK;
}

// The fp32 master that adamw keeps in two halves: a difference of one bit in it may be one of many
// in each.
static lt_status join(const bench *b, const call *c, lt_tensor *whole)
{
    *whole = lt_tensor_as(&c->out[0], LT_F32);
    LT_TRY(lt_arena_take(b->trial->arena, lt_tensor_bytes(whole), &whole->data));
    for (int64_t i = 0, n = lt_n_elems(whole); i < n; i++)
        ((float *)whole->data)[i] = lt_join_f32(((const uint16_t *)c->out[0].data)[i],
                                                ((const int16_t *)c->out[3].data)[i]);
    return LT_OK;
}

static bool in_halves(const bench *b, const call *c, int i)
{
    return b->trial->in_out && (i == 0 || i == 3) && c->out[3].data && c->out[3].dtype == LT_I16;
}

static lt_status compare_output(bench *b, int i, const call *got, const call *want)
{
    lt_tensor x, y;
    if (!in_halves(b, got, i)) {
        compare(b, &got->out[i], &want->out[i]);
        return LT_OK;
    }
    LT_TRY(join(b, got, &x));
    LT_TRY(join(b, want, &y));
    compare(b, &x, &y);
    return LT_OK;
}

// On the GPU twice; against what the reference made of `want`.
static lt_status judge(bench *b, lt_pass pass, const call *start, const call *want, bool in_place)
{
    call first = {0}, second = {0};
    LT_TRY(on_gpu(b, pass, start, in_place, &first));
    LT_TRY(on_gpu(b, pass, start, in_place, &second));
    for (int i = 0; i < b->trial->def->n_out; i++) {
        const bool written = pass == LT_FORWARD || b->trial->def->flags & LT_OP_YIELDS_IN_BACKWARD;
        if (!first.out[i].data || !written)
            continue;
        LT_TRY(compare_output(b, i, &first, want));
        same_bits(b, &first.out[i], &second.out[i]);
    }
    for (int i = 0; i < b->trial->def->n_in; i++) {
        if (!first.din[i].data)
            continue;
        compare(b, &first.din[i], &want->din[i]);
        same_bits(b, &first.din[i], &second.din[i]);
    }
    return LT_OK;
}

static lt_status duplicate(const op_trial *t, const lt_tensor *from, lt_tensor *to)
{
    *to = *from;
    LT_TRY(lt_arena_take(t->arena, lt_tensor_bytes(from), &to->data));
    memcpy(to->data, from->data, lt_tensor_bytes(from));
    return LT_OK;
}

static lt_status forward(bench *b, op_trial *t, call *want)
{
    call start = {.add = t->in_out ? t->add : 0};
    memcpy(start.in, t->in, sizeof start.in);
    for (int i = 0; i < t->def->n_out; i++) {
        start.out[i] = t->out[i];
        if (!t->in_out)
            LT_TRY(lt_arena_take(t->arena, lt_tensor_bytes(&t->out[i]), &start.out[i].data));
    }
    *want = start;
    for (int i = 0; i < t->def->n_out; i++)
        LT_TRY(duplicate(t, &start.out[i], &want->out[i]));
    LT_TRY(on_host(b, LT_FORWARD, want));
    const bool in_place = t->def->flags & LT_OP_IN_PLACE && trial_chance(t, 0.4);
    return judge(b, LT_FORWARD, &start, want, in_place);
}

static lt_status backward(bench *b, op_trial *t, const call *forward_done)
{
    call start = {.add = t->add};
    memcpy(start.in, t->in, sizeof start.in);
    memcpy(start.out, forward_done->out, sizeof start.out);
    for (int i = 0; i < t->def->n_out; i++)
        if (!(t->no_upstream & LT_OUT(i)) && trial_chance(t, 0.8))
            LT_TRY(trial_random(t, t->out[i].dtype, t->out[i].rank, t->out[i].dim, &start.dout[i]));
    for (int i = 0; i < t->def->n_in; i++) {
        if (!t->given[i] || t->no_grad & LT_IN(i) || t->def->index_in & LT_IN(i) ||
            !trial_chance(t, 0.8))
            continue;
        const lt_dtype dtype = t->weights & LT_IN(i) && t->dtype == LT_BF16 && trial_chance(t, 0.8)
                                   ? LT_F32
                                   : t->in[i].dtype;
        LT_TRY(trial_random(t, dtype, t->in[i].rank, t->in[i].dim, &start.din[i]));
    }
    call want = start;
    for (int i = 0; i < t->def->n_in; i++)
        if (start.din[i].data)
            LT_TRY(duplicate(t, &start.din[i], &want.din[i]));
    for (int i = 0; i < t->def->n_out; i++)
        LT_TRY(duplicate(t, &start.out[i], &want.out[i]));
    LT_TRY(on_host(b, LT_BACKWARD, &want));
    return judge(b, LT_BACKWARD, &start, &want, false);
}

static void give_back(bench *b)
{
    for (int64_t i = 0; i < b->copies.n; i++)
        b->gpu->free(b->gpu, LT_AT(&b->copies, void *, i));
    lt_vec_clear(&b->copies);
}

static lt_status one_trial(bench *b, const op_maker *maker, lt_dtype dtype, uint64_t seed)
{
    op_trial t;
    call done = {0};
    lt_status st = trial_create(maker, dtype, seed, &t);
    b->trial = &t;
    if (st == LT_OK)
        st = forward(b, &t, &done);
    if (st == LT_OK && t.def->backward[LT_REF])
        st = backward(b, &t, &done);
    give_back(b);
    trial_destroy(&t);
    return st;
}

// All rounds of a row in one dtype. Gives whether it passed.
static bool check_row(bench *b, const op_maker *maker, lt_dtype dtype, int rounds, uint64_t seed)
{
    b->worst = 0.0;
    for (int i = 0; i < rounds; i++) {
        b->broken = NULL;
        const uint64_t trial_seed = seed + (uint64_t)i;
        const double before = b->worst;
        if (one_trial(b, maker, dtype, trial_seed) != LT_OK) {
            printf("FAIL %s %s, seed %llu: %s\n", maker->op, lt_dtype_name(dtype),
                   (unsigned long long)trial_seed, lt_error_message());
            return false;
        }
        if (b->broken || b->worst > limit_of[dtype]) {
            printf("FAIL %s %s, seed %llu: %s, difference %.3g (limit %.3g, before %.3g)\n",
                   maker->op, lt_dtype_name(dtype), (unsigned long long)trial_seed,
                   b->broken ? b->broken : "numbers differ", b->worst, limit_of[dtype], before);
            return false;
        }
    }
    printf("ok   %s %s: %.3g (limit %.3g)\n", maker->op, lt_dtype_name(dtype), b->worst,
           limit_of[dtype]);
    return true;
}

static int check_all(bench *b, const char *only, int rounds, uint64_t seed)
{
    int n_makers, n_ops, passed = 0, failed = 0;
    const op_maker *makers = trial_makers(&n_makers);
    const lt_op_def *const *ops = lt_ops_all(&n_ops);
    for (int k = 0; k < 2 * n_makers; k++) {
        const op_maker *m = &makers[k / 2];
        if (only && strcmp(only, m->op) != 0)
            continue;
        const lt_dtype dtype = k % 2 == 0 ? LT_F32 : LT_BF16;
        const bool ok = check_row(b, m, dtype, rounds, seed + (uint64_t)(k + 1) * 1000003U);
        ok ? passed++ : failed++;
    }
    for (int i = 0; i < n_ops; i++) {
        bool made = ops[i]->flags & LT_OP_VIEW;
        for (int k = 0; k < n_makers; k++)
            made = made || strcmp(makers[k].op, ops[i]->name) == 0;
        if (!made) {
            printf("FAIL %s has no trial in tests/kit/op_trial.c\n", ops[i]->name);
            failed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    const int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 24;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (argc > 4 || rounds < 1) {
        (void)fputs("usage: op_parity [OP|all [ROUNDS [SEED]]]\n", stderr);
        return 2;
    }
    if (only && strcmp(only, "all") == 0)
        only = NULL;
    bench b = {.copies = LT_VEC_OF(void *)};
    if (lt_cuda_open(0, NULL, &b.gpu) != LT_OK) {
        printf("skipped: %s\n", lt_error_message());
        return 77;
    }
    printf("%s: %s\n", b.gpu->name, b.gpu->description);
    int rc = 1;
    if (lt_ref_open(&b.ref) == LT_OK && b.gpu->stream_create(b.gpu, &b.stream) == LT_OK)
        rc = check_all(&b, only, rounds, seed);
    else
        printf("FAIL %s\n", lt_error_message());
    lt_vec_deinit(&b.copies);
    if (b.stream)
        b.gpu->stream_destroy(b.gpu, b.stream);
    lt_device_close(b.gpu);
    lt_device_close(b.ref);
    return rc;
}
