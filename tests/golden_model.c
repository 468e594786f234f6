// SPDX-License-Identifier: Apache-2.0
// golden_model DIR...: runs every case of folders like shared/golden/model/qwen3_vl and compares
// loss, logits, gradients
// and the curve of a few AdamW steps. Each figure is printed; exit code 1 when one is outside its
// tolerance. With -n N the same on N ranks, which share the rows of a case: threads, or, with
// mpirun -n N golden_model DIR, processes.
#include "base/file.h"
#include "comm/local.h"
#include "comm/mpi/mpi.h"
#include "tests/kit/golden_case.h"
#include "train/feed.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Tolerances. f32: largest difference over largest magnitude. ref: the rounding of the files
// themselves (shared/spec/models.md 13.4). bf16 promises the loss alone; gpu is ten times f32.
typedef struct limits {
    double loss, aux, logits, grad, all_grads, noise, curve_loss, curve_norm, final_norm, final_sum,
        noise_norm, noise_sum;
} limits;
static const limits limits_f32 = {1e-6, 1e-6, 1e-5, 5e-5, 5e-5, 1e-8,
                                  5e-6, 5e-5, 1e-5, 1e-5, 5e-5, 1e-4};
static const limits limits_ref = {5e-7, 5e-7, 5e-6, 2e-5, 5e-6, 1e-8,
                                  1e-6, 2e-5, 1e-5, 1e-5, 5e-5, 1e-4};
static const limits limits_bf16 = {5e-3,     HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL,
                                   HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
static const limits limits_gpu = {1e-5, 1e-5, 1e-4, 5e-4, 5e-4, 1e-7,
                                  5e-5, 5e-4, 1e-4, 1e-4, 5e-4, 1e-3};
// Linear attention amplifies rounding tenfold, so that double is no nearer to the files than float.
static const limits limits_others = {1e-6, 1e-6, 2e-4, 8e-4, 2e-4, 1e-8, 1e-2,
                                     5e-2, 3e-3, 3e-3, 5e-5, 1e-4}; // other models of that kind
static const limits limits_linear = {1e-6, 1e-6, 5e-5, 3e-4, 8e-5, 1e-8,
                                     5e-5, 2e-3, 2e-5, 3e-5, 5e-5, 1e-4};

typedef struct tally {
    limits base, limit; // of the run, and of the folder at hand
    bool strict;        // base is of f32 or f64 on a CPU
    bool others;        // the folders are not those that limits_linear was measured on
    int passed, failed;
    bool quiet;
} tally;

static void judge(tally *t, const char *where, const char *what, double error, double limit)
{
    const bool ok = error <= limit; // false for a NaN
    ok ? t->passed++ : t->failed++;
    if (!t->quiet || !ok)
        printf("%s %s %s: %.3g (limit %.3g)\n", ok ? "ok  " : "FAIL", where, what, error, limit);
}

static double relative(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-30);
}

// The bias of a tower's keys adds the same number to every score of a query: its true gradient is
// 0, what the files have is rounding. So it is held against the largest gradient of the model
// (spec/models.md 8.7).
static bool is_noise(const golden_model *g, const lt_param *p)
{
    return g->model->config.vision.intern.class_token && strstr(p->name, "k_proj.bias");
}

// max |a - b| / max |b|
typedef struct difference {
    double most, magnitude, squares, squares_of_want;
} difference;

static void compare(difference *d, double a, double b)
{
    const double x = fabs(a - b);
    d->most = x > d->most || isnan(x) ? x : d->most;
    d->magnitude = fmax(d->magnitude, fabs(b));
    d->squares += x * x;
    d->squares_of_want += b * b;
}

static double ratio(const difference *d)
{
    return d->most == 0.0 ? 0.0 : d->most / fmax(d->magnitude, 1e-30);
}

static lt_status judge_logits(golden_model *g, const golden_case *c, tally *t)
{
    const lt_st_tensor *want = lt_st_find(c->file, "out.logits");
    if (!want)
        return LT_OK;
    const int64_t n = c->batch->n_tokens, vocab = g->model->vocab;
    void *memory = NULL, *theirs = NULL;
    LT_TRY(lt_arena_take(c->arena, (size_t)n * 12, &memory));
    LT_TRY(lt_arena_take(c->arena, (size_t)vocab * sizeof(float), &theirs));
    int32_t *rows = memory;
    for (int64_t i = 0; i < n; i++)
        rows[i] = (int32_t)i;
    const lt_batch_view v = lt_feed_rows(c->batch, rows, n, rows + n);
    lt_tensor logits;
    LT_TRY(lt_exec_logits(g->exec, &v, &logits));
    difference d = {0};
    int64_t at = 0;
    for (int64_t row = 0; row < c->rows; row++) {
        for (int64_t i = 0; c->taken[row] && i < c->lengths[row]; i++, at++) {
            LT_TRY(lt_st_read(want, (row * c->padded + i) * vocab, vocab, LT_F32, theirs));
            for (int64_t k = 0; k < vocab; k++)
                compare(&d, lt_load(&logits, at * vocab + k), (double)((float *)theirs)[k]);
        }
    }
    judge(t, c->name, "logits", ratio(&d), t->limit.logits);
    return LT_OK;
}

static bool is_first(const golden_model *g)
{
    return !g->ranks || g->ranks->rank == 0;
}

// The first rank looks at the state, the others give it what they have.
static lt_status looked_at(golden_model *g, lt_status st)
{
    LT_TRY(st);
    LT_TRY(is_first(g) ? lt_exec_release(g->exec) : lt_exec_serve(g->exec));
    return lt_barrier(g->ranks ? g->ranks->world : NULL);
}

// A parameter's gradient against the file's.
static lt_status compare_gradients(golden_model *g, const golden_case *c, const lt_param *p,
                                   const lt_st_tensor *want, difference *d)
{
    void *ours = NULL, *theirs = NULL;
    LT_TRY(lt_arena_take(c->arena, (size_t)p->n_elems * sizeof(double), &ours));
    LT_TRY(lt_arena_take(c->arena, (size_t)p->n_elems * sizeof(float), &theirs));
    LT_TRY(lt_exec_read(g->exec, p->id, LT_STATE_GRAD, 0, p->n_elems, LT_F64, ours));
    LT_TRY(lt_st_read(want, 0, p->n_elems, LT_F32, theirs));
    for (int64_t k = 0; k < p->n_elems; k++)
        compare(d, ((double *)ours)[k], (double)((float *)theirs)[k]);
    return LT_OK;
}

static lt_status judge_gradients(golden_model *g, const golden_case *c, tally *t)
{
    char name[512];
    difference noise = {0}; // the largest gradient of the model, and the largest that should be 0
    double off = 0.0, all = 0.0; // of all gradients as one vector
    for (int32_t i = 0; i < g->model->n_params; i++) {
        const lt_param *p = &g->model->params[i];
        (void)snprintf(name, sizeof name, "grad.%s", p->name);
        const lt_st_tensor *want = lt_st_find(c->file, name);
        if (!want || !lt_exec_has(g->exec, i, LT_STATE_GRAD))
            continue;
        difference d = {0};
        LT_TRY(compare_gradients(g, c, p, want, &d));
        off += d.squares;
        all += d.squares_of_want;
        noise.magnitude = fmax(noise.magnitude, d.magnitude);
        if (is_noise(g, p))
            noise.most = fmax(noise.most, d.most);
        else
            judge(t, c->name, name, ratio(&d), t->limit.grad);
    }
    if (all > 0.0)
        judge(t, c->name, "all gradients", sqrt(off / all), t->limit.all_grads);
    if (noise.most > 0.0)
        judge(t, c->name, "gradients that should be 0", ratio(&noise), t->limit.noise);
    return LT_OK;
}

// The balance loss of experts, where the file has one.
// Over several ranks it is a mean that means nothing here.
static lt_status judge_aux(const golden_model *g, const golden_case *c, const lt_step_result *r,
                           tally *t)
{
    const lt_st_tensor *want = lt_st_find(c->file, "out.aux_loss");
    float f = 0.0F;
    if (!want || g->ranks)
        return LT_OK;
    LT_TRY(lt_st_read(want, 0, 1, LT_F32, &f));
    judge(t, c->name, "aux loss", relative(r->balance, (double)f), t->limit.aux);
    return LT_OK;
}

// Of the next token alone.
static const lt_st_tensor *main_loss(const golden_case *c)
{
    const lt_st_tensor *apart = lt_st_find(c->file, "out.main_loss");
    return apart ? apart : lt_st_find(c->file, "out.loss");
}

// The loss of the token after next, where the file has one.
static lt_status judge_next(const golden_case *c, const lt_step_result *r, tally *t)
{
    const lt_st_tensor *want = lt_st_find(c->file, "out.mtp_loss");
    float f = 0.0F;
    if (!want)
        return LT_OK;
    LT_TRY(lt_st_read(want, 0, 1, LT_F32, &f));
    judge(t, c->name, "mtp loss", relative(r->next_loss / GOLDEN_NEXT_SCALE, (double)f),
          t->limit.loss);
    return LT_OK;
}

static lt_status run_case(golden_model *g, const char *path, tally *t)
{
    golden_case c;
    lt_status st = golden_case_open(g, path, &c);
    lt_step_result r;
    double loss = 0.0, want = 0.0;
    const lt_st_tensor *out = st == LT_OK ? main_loss(&c) : NULL;
    if (st == LT_OK)
        judge(t, c.name, "positions", c.positions_equal ? 0.0 : 1.0, 0.0);
    if (out) {
        float f = 0.0F;
        LT_TRY_GOTO(st, lt_st_read(out, 0, 1, LT_F32, &f), done);
        want = (double)f;
        lt_batch_view v = lt_feed_view(c.batch, c.kappa);
        v.value[LT_BATCH_BALANCE].data = &c.balance;
        v.value[LT_BATCH_NEXT_KAPPA].data = c.next_kappa;
        LT_TRY_GOTO(st, lt_exec_loss(g->exec, &v, &loss), done);
        LT_TRY_GOTO(st, lt_all_reduce_f64(g->ranks ? g->ranks->world : NULL, &loss, 1), done);
        judge(t, c.name, "loss (forward)", relative(loss, want), t->limit.loss);
        LT_TRY_GOTO(st, lt_exec_gradients(g->exec, &v, 1, &r), done);
        judge(t, c.name, "loss (training)", relative(r.loss, want), t->limit.loss);
        LT_TRY_GOTO(st, judge_next(&c, &r, t), done);
        LT_TRY_GOTO(st, judge_aux(g, &c, &r, t), done);
        LT_TRY_GOTO(st, looked_at(g, is_first(g) ? judge_gradients(g, &c, t) : LT_OK), done);
        LT_TRY_GOTO(st, judge_logits(g, &c, t), done);
    }
done:
    golden_case_close(&c);
    return st;
}

// Sum and L2 norm of each parameter after the last step. What should not move at all follows its
// rounding through Adam: spec/models.md 13.4 allows that much.
static lt_status judge_finals(golden_model *g, const char *where, json_t *finals, tally *t)
{
    const char *name;
    json_t *pair;
    json_object_foreach(finals, name, pair)
    {
        const lt_param *p = lt_model_param(g->model, name);
        if (!p) {
            judge(t, where, name, HUGE_VAL, 0.0);
            continue;
        }
        void *memory = NULL;
        LT_TRY(lt_mem_alloc(&memory, (size_t)p->n_elems * sizeof(double), "a final weight"));
        const double *x = memory;
        const lt_status st =
            lt_exec_read(g->exec, p->id, LT_STATE_VALUE, 0, p->n_elems, LT_F64, memory);
        double sum = 0.0, norm = 0.0, absolute = 0.0;
        for (int64_t i = 0; i < p->n_elems; i++) {
            sum += x[i];
            norm += x[i] * x[i];
            absolute += fabs(x[i]);
        }
        lt_mem_free(memory);
        LT_TRY(st);
        char what[600];
        const limits *l = &t->limit;
        const bool noise = is_noise(g, p);
        (void)snprintf(what, sizeof what, "final sum of %s", name);
        judge(t, where, what, fabs(sum - json_number_value(json_array_get(pair, 0))) / absolute,
              noise ? l->noise_sum : l->final_sum);
        (void)snprintf(what, sizeof what, "final norm of %s", name);
        judge(t, where, what, relative(sqrt(norm), json_number_value(json_array_get(pair, 1))),
              noise ? l->noise_norm : l->final_norm);
    }
    return LT_OK;
}

static lt_status run_steps(golden_model *g, const golden_case *c, const char *where, json_t *root,
                           tally *t)
{
    json_t *curve = json_object_get(root, "curve");
    const double lr = json_number_value(json_object_get(json_object_get(root, "optimizer"), "lr"));
    lt_batch_view v = lt_feed_view(c->batch, c->kappa);
    v.value[LT_BATCH_NEXT_KAPPA].data = c->next_kappa;
    for (size_t i = 0; i < json_array_size(curve); i++) {
        json_t *want = json_array_get(curve, i);
        lt_step_result r;
        char what[64];
        LT_TRY(lt_exec_step(g->exec, &v, 1, (int64_t)i + 1, lr, NULL, &r));
        (void)snprintf(what, sizeof what, "loss of step %zu", i + 1);
        judge(t, where, what, relative(r.loss, json_number_value(json_object_get(want, "loss"))),
              t->limit.curve_loss);
        json_t *next = json_object_get(want, "mtp_loss");
        (void)snprintf(what, sizeof what, "mtp loss of step %zu", i + 1);
        if (next) {
            judge(t, where, what,
                  relative(r.next_loss / GOLDEN_NEXT_SCALE, json_number_value(next)),
                  t->limit.curve_loss);
        }
        (void)snprintf(what, sizeof what, "gradient norm of step %zu", i + 1);
        judge(t, where, what,
              relative(r.grad_norm, json_number_value(json_object_get(want, "grad_norm"))),
              t->limit.curve_norm);
    }
    json_t *finals = json_object_get(root, "final_sum_and_norm");
    return looked_at(g, is_first(g) ? judge_finals(g, where, finals, t) : LT_OK);
}

// train-NAME.json belongs to case-NAME.safetensors. Its optimizer is the executor's, so it gets one
// of its own.
static lt_status run_curve(const char *dir, const char *file, golden_opts opts, tally *t)
{
    char path[2400];
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        return LT_FAIL(LT_ERR_FORMAT, "%s:%d: %s", path, error.line, error.text);
    json_t *o = json_object_get(root, "optimizer"), *betas = json_object_get(o, "betas");
    opts.adamw =
        (lt_adamw_attr){.beta1 = json_number_value(json_array_get(betas, 0)),
                        .beta2 = json_number_value(json_array_get(betas, 1)),
                        .eps = json_number_value(json_object_get(o, "eps")),
                        .weight_decay = json_number_value(json_object_get(o, "weight_decay")),
                        .lr_scale = 1.0};
    golden_model g = {0};
    golden_case c = {0};
    lt_status st;
    LT_TRY_GOTO(st, golden_open(dir, &opts, &g), done);
    const int stem = (int)strlen(file) - (int)strlen("train-") - (int)strlen(".json");
    (void)snprintf(path, sizeof path, "%s/case-%.*s.safetensors", dir, stem,
                   file + strlen("train-"));
    LT_TRY_GOTO(st, golden_case_open(&g, path, &c), done);
    LT_TRY_GOTO(st, run_steps(&g, &c, file, root, t), done);
done:
    golden_case_close(&c);
    golden_close(&g);
    json_decref(root);
    return st;
}

static bool has_linear_layers(const lt_model *m)
{
    bool any = false;
    for (int64_t i = 0; i < m->config.text.layers; i++)
        any |= m->config.text.gdn.linear[i];
    return any;
}

static lt_status run_folder(const char *dir, const golden_opts *opts, tally *t)
{
    golden_model g = {0};
    lt_arena *arena = NULL;
    lt_vec names = LT_VEC_OF(char *);
    lt_status st;
    LT_TRY_GOTO(st, lt_arena_create(&arena, "file names"), done);
    LT_TRY_GOTO(st, golden_open(dir, opts, &g), done);
    t->limit = !t->strict || !has_linear_layers(g.model) ? t->base
               : t->others                               ? limits_others
                                                         : limits_linear;
    LT_TRY_GOTO(st, lt_dir_list(dir, arena, &names), done);
    for (int64_t i = 0; i < names.n; i++) {
        const char *name = LT_AT(&names, char *, i);
        char path[2400];
        (void)snprintf(path, sizeof path, "%s/%s", dir, name);
        if (lt_text_starts(name, "case-") && lt_text_ends(name, ".safetensors"))
            LT_TRY_GOTO(st, run_case(&g, path, t), done);
        if (lt_text_starts(name, "train-") && lt_text_ends(name, ".json"))
            LT_TRY_GOTO(st, run_curve(dir, name, *opts, t), done);
    }
done:
    lt_vec_deinit(&names);
    lt_arena_destroy(arena);
    golden_close(&g);
    return st;
}

static int usage(void)
{
    (void)fputs("usage: golden_model DIR... [--dtype f32|bf16] [--ref-f64] [--device cpu|cuda] "
                "[--policy keep|lean|full]\n"
                "       [--threads N] [--chunk TOKENS] [--others] [--quiet] [-n RANKS --layout "
                "fsdp|hsdp|ddp]\n",
                stderr);
    return 2;
}

// How the parameters lie on the ranks of a run.
typedef enum layout { FSDP, HSDP, DDP, N_LAYOUTS } layout;
static const char *const layout_names[N_LAYOUTS] = {"fsdp", "hsdp", "ddp"};

typedef struct arguments {
    bool ref, cuda, bf16, quiet, others;
    lt_policy policy;
    int threads, n_dirs, ranks, chunk;
    layout layout;
    const char *dirs[256];
} arguments;

static bool parse(int argc, char **argv, arguments *a)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--ref-f64") == 0)
            a->ref = true;
        else if (strcmp(argv[i], "--quiet") == 0)
            a->quiet = true;
        else if (strcmp(argv[i], "--others") == 0)
            a->others = true;
        else if (strcmp(argv[i], "--dtype") == 0 && ++i) {
            a->bf16 = strcmp(value, "bf16") == 0;
            if (!a->bf16 && strcmp(value, "f32") != 0)
                return false;
        } else if (strcmp(argv[i], "--device") == 0 && ++i) {
            a->cuda = strcmp(value, "cuda") == 0;
        } else if (strcmp(argv[i], "--threads") == 0 && ++i) {
            a->threads = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--chunk") == 0 && ++i) {
            a->chunk = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "-n") == 0 && ++i) {
            a->ranks = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--layout") == 0 && ++i) {
            while (a->layout < N_LAYOUTS && strcmp(value, layout_names[a->layout]) != 0)
                a->layout++;
            if (a->layout == N_LAYOUTS)
                return false;
        } else if (strcmp(argv[i], "--policy") == 0 && ++i) {
            for (int p = 0; p < LT_N_POLICIES; p++)
                if (strcmp(value, lt_policy_name((lt_policy)p)) == 0)
                    a->policy = (lt_policy)p;
        } else if (argv[i][0] == '-' || a->n_dirs == 256) {
            return false;
        } else {
            a->dirs[a->n_dirs++] = argv[i];
        }
    }
    return a->n_dirs > 0 && a->ranks >= 0 && a->ranks <= LT_MAX_LOCAL_RANKS;
}

// Ranks take the GPUs of the machine in turn.
static lt_status open_device(const arguments *a, lt_pool *pool, const lt_ranks *ranks,
                             lt_device **out)
{
    const int n = lt_gpus().n, rank = ranks ? ranks->rank : 0;
    if (a->ref)
        return lt_ref_open(out);
    return a->cuda ? lt_cuda_open(n > 0 ? rank % n : 0, pool, out) : lt_cpu_open(pool, out);
}

// All folders, on one rank.
static lt_status run_all(const arguments *a, int threads, const lt_ranks *ranks, tally *t)
{
    lt_pool *pool = NULL;
    golden_opts opts = {.compute = a->ref    ? LT_F64
                                   : a->bf16 ? LT_BF16
                                             : LT_F32,
                        .policy = a->policy,
                        .chunk = a->chunk,
                        .ranks = ranks};
    lt_status st = lt_pool_create(threads, &pool);
    if (st == LT_OK)
        st = open_device(a, pool, ranks, &opts.device);
    for (int i = 0; st == LT_OK && i < a->n_dirs; i++) {
        st = run_folder(a->dirs[i], &opts, t);
        if (st != LT_OK && !ranks) {
            printf("FAIL %s: %s\n", a->dirs[i], lt_error_message());
            t->failed++;
            st = LT_OK; // the other folders still run
        }
    }
    lt_device_close(opts.device);
    lt_pool_destroy(pool);
    return st;
}

// What the ranks of a run share: each has a tally of its own.
typedef struct shared_run {
    const arguments *a;
    tally tally[LT_MAX_LOCAL_RANKS];
} shared_run;

static lt_status run_rank(void *ctx, lt_group *world)
{
    shared_run *r = ctx;
    lt_ranks ranks;
    const int64_t n = r->a->ranks;
    const lt_mesh_sizes sizes[N_LAYOUTS] = {
        [FSDP] = {1, n, 1, 1, 1}, [HSDP] = {2, n / 2, 1, 1, 1}, [DDP] = {n, 1, 1, 1, 1}};
    LT_TRY(lt_ranks_open(world, &sizes[r->a->layout], &ranks));
    const lt_status st = run_all(r->a, 1, &ranks, &r->tally[ranks.rank]);
    lt_ranks_close(&ranks);
    return st;
}

// As one of the processes that a launcher has started.
static lt_status run_process(shared_run *r, lt_group *world, int ranks)
{
    tally *own = &r->tally[lt_group_rank(world)];
    double sum[2];
    LT_TRY(run_rank(r, world));
    sum[0] = own->passed;
    sum[1] = own->failed;
    LT_TRY(lt_all_reduce_f64(world, sum, 2));
    for (int i = 0; i < ranks; i++)
        r->tally[i].passed = r->tally[i].failed = 0;
    r->tally[0].passed = (int)sum[0];
    r->tally[0].failed = (int)sum[1];
    return LT_OK;
}

static lt_status run_threads(shared_run *r, const arguments *a)
{
    LT_TRY(lt_local_run(a->ranks, run_rank, r));
    for (int i = 1; i < a->ranks; i++) {
        r->tally[0].passed += r->tally[i].passed;
        r->tally[0].failed += r->tally[i].failed;
    }
    return LT_OK;
}

static lt_status run(shared_run *r, arguments *a, lt_mpi *mpi)
{
    lt_group *world = lt_mpi_world(mpi);
    if (world) {
        a->ranks = lt_group_size(world);
        return a->ranks <= LT_MAX_LOCAL_RANKS ? run_process(r, world, a->ranks)
                                              : LT_FAIL(LT_ERR_CONFIG, "too many ranks");
    }
    return a->ranks > 0 ? run_threads(r, a) : run_all(a, a->threads, NULL, &r->tally[0]);
}

int main(int argc, char **argv)
{
    arguments a = {0};
    lt_mpi *mpi = NULL;
    if (!parse(argc, argv, &a))
        return usage();
    shared_run r = {.a = &a};
    for (int i = 0; i < LT_MAX_LOCAL_RANKS; i++) {
        r.tally[i].quiet = a.quiet || i > 0;
        r.tally[i].strict = !a.bf16 && !a.cuda;
        r.tally[i].others = a.others;
        r.tally[i].base = a.ref    ? limits_ref
                          : a.bf16 ? limits_bf16
                          : a.cuda ? limits_gpu
                                   : limits_f32;
    }
    lt_status st = lt_mpi_open(&mpi);
    if (st == LT_OK)
        st = run(&r, &a, mpi);
    const bool speaks = lt_mpi_settle(mpi, &st);
    if (st != LT_OK && speaks)
        printf("FAIL %s\n", lt_error_message());
    r.tally[0].failed += st != LT_OK;
    if (speaks)
        printf("%d passed, %d failed\n", r.tally[0].passed, r.tally[0].failed);
    (void)fflush(stdout);
    lt_mpi_close(mpi, st, 1);
    return r.tally[0].failed > 0;
}
