// SPDX-License-Identifier: Apache-2.0
// Loss and exact match on a data set.
#include "train/judge.h"

#include "train/feed.h"
#include "train/generate.h"
#include "train/team.h"

#include <stdio.h>
#include <string.h>

/* ---- loss ---- */

typedef struct loss_run {
    lt_source *s;
    lt_exec *exec;
    lt_arena *arena;
    lt_batch *batch;
    lt_vec samples; /* lt_sample */
    int64_t micro_batch, rows, batches;
} loss_run;

static lt_status encode_rows(lt_source *s, lt_arena *arena, int64_t first, int64_t n,
                             lt_sample **out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(lt_sample), &memory));
    *out = memory;
    for (int64_t i = 0; i < n; i++)
        LT_TRY(lt_dataset_encode(lt_source_dataset(s), first + i, arena, &(*out)[i]));
    return LT_OK;
}

// Micro-batch number i of all.
static lt_status make_batch(loss_run *r, int64_t i, lt_batch_view *out)
{
    void *memory = NULL;
    const int64_t first = i * r->micro_batch, n = lt_min_i64(r->micro_batch, r->rows - first);
    lt_arena_reset(r->arena);
    lt_vec_clear(&r->samples);
    for (int64_t k = 0; k < n; k++)
        LT_TRY(lt_dataset_encode_row(lt_source_dataset(r->s), first + k, r->arena, &r->samples));
    LT_TRY(lt_batch_collate(r->batch, r->samples.data, r->samples.n, lt_source_collate(r->s)));
    LT_TRY(lt_arena_take(r->arena, (size_t)r->batch->n_targets * sizeof(float), &memory));
    const lt_batch *one[] = {r->batch};
    const lt_loss_counts counts = lt_count_losses(one, 1);
    lt_loss_weights(LT_LOSS_RAW, one, 1, &counts, 0, memory);
    *out = lt_feed_view(r->batch, memory);
    return LT_OK;
}

// One micro-batch of each rank. All run one, since they gather parameters for each other: a rank
// that has none left runs the last one again. A rank whose data are bad says so before.
static lt_status round_of(loss_run *r, const lt_ranks *ranks, int64_t first, double *losses)
{
    char message[4096];
    const int64_t mine = first + (ranks ? ranks->dp_rank : 0);
    lt_batch_view v;
    double loss = 0.0;
    const lt_status made = make_batch(r, lt_min_i64(mine, r->batches - 1), &v);
    bool failed = made != LT_OK;
    (void)snprintf(message, sizeof message, "%s", lt_error_message());
    LT_TRY(lt_team_any(ranks, &failed));
    if (made != LT_OK)
        return lt_error_adopt(made, message);
    if (failed)
        return LT_FAIL(LT_ERR_CANCELLED, "another rank has no batch for the validation");
    LT_TRY(lt_exec_loss(r->exec, &v, &loss));
    if (mine < r->batches)
        losses[mine] = loss;
    return LT_OK;
}

static lt_status run_rounds(loss_run *r, const lt_ranks *ranks, double *losses)
{
    LT_TRY(lt_arena_create(&r->arena, "validation"));
    LT_TRY(lt_batch_create(&r->batch));
    for (int64_t i = 0; i < r->batches; i += lt_streams(ranks))
        LT_TRY(round_of(r, ranks, i, losses));
    return lt_all_reduce_f64(ranks ? ranks->world : NULL, losses, r->batches);
}

lt_status lt_source_loss(lt_source *s, lt_exec *exec, const lt_ranks *ranks, int64_t micro_batch,
                         double *loss, int64_t *n_batches)
{
    loss_run r = {.s = s,
                  .exec = exec,
                  .samples = LT_VEC_OF(lt_sample),
                  .micro_batch = micro_batch,
                  .rows = lt_dataset_rows(lt_source_dataset(s))};
    void *memory = NULL;
    double sum = 0.0;
    *loss = 0.0;
    *n_batches = r.batches = lt_ceil_div(r.rows, micro_batch);
    if (r.batches == 0)
        return LT_OK;
    LT_TRY(lt_mem_alloc(&memory, (size_t)r.batches * sizeof(double), "losses of a validation"));
    double *losses = memory;
    for (int64_t i = 0; i < r.batches; i++)
        losses[i] = 0.0;
    const lt_status st = run_rounds(&r, ranks, losses);
    for (int64_t i = 0; i < r.batches; i++)
        sum += losses[i];
    *loss = sum / (double)r.batches;
    lt_batch_destroy(r.batch);
    lt_vec_deinit(&r.samples);
    lt_arena_destroy(r.arena);
    lt_mem_free(memory);
    return st;
}

/* ---- exact match ---- */

typedef struct judge {
    lt_source *s;
    const lt_judge_opts *o;
    lt_judge_result *out;
    lt_generate_opts generate;
    lt_exec *exec;
    lt_map *answers; /* expected answer -> how often */
} judge;

static lt_status text_of(const judge *j, const int32_t *ids, int64_t n, lt_arena *arena, char **out)
{
    lt_buf text = {0};
    lt_status st = lt_tokenizer_decode(lt_source_tokenizer(j->s), ids, n, LT_SKIP_SPECIAL, &text);
    const lt_span whole = {text.data ? text.data : "", text.len};
    const lt_span stripped = lt_strip(whole);
    if (st == LT_OK)
        st = lt_arena_text(arena, stripped.s, stripped.len, out);
    lt_buf_deinit(&text);
    return st;
}

static lt_status question_of(const judge *j, int64_t row, lt_arena *arena, const char **out)
{
    lt_conversation c = {0};
    char *text = NULL;
    LT_TRY(lt_dataset_conversation(lt_source_dataset(j->s), row, arena, &c));
    const lt_span last = c.n_turns >= 2 ? c.turns[c.n_turns - 2].text : (lt_span){"", 0};
    LT_TRY(lt_arena_text(arena, last.s, last.len, &text));
    *out = text;
    return LT_OK;
}

static lt_status count_expected(judge *j, const char *text)
{
    int64_t n = 0;
    (void)lt_map_get_text(j->answers, text, &n);
    j->out->commonest = lt_max_i64(j->out->commonest, n + 1);
    return lt_map_put_text(j->answers, text, n + 1);
}

static lt_status judge_one(judge *j, int64_t row, const lt_sample *full, int64_t start,
                           const lt_vec *given, lt_arena *arena)
{
    char *expected = NULL, *answer = NULL;
    lt_answer a = {.row = row};
    LT_TRY(text_of(j, full->ids + start, full->n - start, arena, &expected));
    LT_TRY(text_of(j, given->data, given->n, arena, &answer));
    a.expected = expected;
    a.given = answer;
    a.match = strcmp(expected, answer) == 0;
    LT_TRY(question_of(j, row, arena, &a.question));
    LT_TRY(count_expected(j, expected));
    j->out->n++;
    j->out->matches += a.match;
    if (j->o->answer)
        j->o->answer(j->o->ctx, &a);
    return LT_OK;
}

static lt_status judge_rows(judge *j, lt_arena *arena, int64_t first, int64_t n, lt_vec *given)
{
    lt_sample *full = NULL;
    void *memory = NULL;
    LT_TRY(encode_rows(j->s, arena, first, n, &full));
    LT_TRY(lt_arena_take(arena, (size_t)n * (sizeof(lt_sample) + sizeof(int64_t)), &memory));
    lt_sample *prompt = memory;
    int64_t *start = (int64_t *)(prompt + n);
    for (int64_t i = 0; i < n; i++) {
        start[i] = lt_last_answer(&full[i]);
        if (start[i] < 1)
            return LT_FAIL(LT_ERR_DATA, "%s: record %lld: no answer is left after cutoff_len",
                           full[i].file, (long long)full[i].record);
        prompt[i] = full[i];
        prompt[i].n = start[i];
    }
    LT_TRY(lt_generate(j->exec, prompt, n, &j->generate, given));
    for (int64_t i = 0; i < n; i++)
        LT_TRY(judge_one(j, first + i, &full[i], start[i], &given[i], arena));
    return LT_OK;
}

static lt_status judge_batch(judge *j, lt_arena *arena, int64_t first, int64_t n)
{
    void *memory = NULL;
    lt_arena_reset(arena);
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(lt_vec), &memory));
    lt_vec *given = memory;
    for (int64_t i = 0; i < n; i++)
        given[i] = LT_VEC_OF(int32_t);
    const lt_status st = judge_rows(j, arena, first, n, given);
    for (int64_t i = 0; i < n; i++)
        lt_vec_deinit(&given[i]);
    return st;
}

lt_status lt_judge(lt_source *s, lt_exec *exec, const lt_model *model, const lt_judge_opts *opts,
                   lt_judge_result *out)
{
    int32_t stops[LT_MAX_EOS + 1];
    int64_t n_stops = 0;
    *out = (lt_judge_result){0};
    for (int32_t i = 0; i < model->config.n_eos; i++)
        stops[n_stops++] = model->config.eos[i];
    stops[n_stops++] = lt_encoder_ids(lt_dataset_encoder(lt_source_dataset(s)))->stop;
    judge j = {.s = s,
               .o = opts,
               .out = out,
               .exec = exec,
               .generate = {.collate = lt_source_collate(s),
                            .stops = stops,
                            .n_stops = n_stops,
                            .max_tokens = opts->max_tokens}};
    lt_arena *arena = NULL;
    lt_status st = lt_arena_create(&arena, "answers");
    if (st == LT_OK)
        st = lt_map_create(&j.answers);
    for (int64_t i = 0; st == LT_OK && i < opts->n; i += opts->batch)
        st = judge_batch(&j, arena, opts->first + i, lt_min_i64(opts->batch, opts->n - i));
    lt_map_destroy(j.answers);
    lt_arena_destroy(arena);
    return st;
}
