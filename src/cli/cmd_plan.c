// SPDX-License-Identifier: Apache-2.0
// lathe plan: memory and program of a run, before it starts and without its weights.
#include "base/file.h"
#include "cli/with_config.h"
#include "train/plan_text.h"
#include "train/rate.h"
#include "train/team.h"
#include "train/trial.h"

extern const lt_command lt_command_plan;

typedef struct options {
    bool program, worst;
    int64_t steps, memory, ranks;
    const char *device, *svg;
} options;

static const lt_arg args[] = {
    {"--program", 0, LT_ARG_FLAG, offsetof(options, program), NULL,
     "print the step program of the largest batch", 0, 0},
    {"--worst-case", 0, LT_ARG_FLAG, offsetof(options, worst), NULL,
     "from cutoff_len and the pixel limits, without reading data", 0, 0},
    {"--steps", 0, LT_ARG_INT, offsetof(options, steps), "N",
     "look at the first N steps (default: all, at most 100000)", 1, 100000},
    {"--device-memory", 0, LT_ARG_BYTES, offsetof(options, memory), "SIZE",
     "say whether the run fits into so much (64GiB)", 0, 0},
    {"--ranks", 'n', LT_ARG_INT, offsetof(options, ranks), "N",
     "of the first of N ranks, as lathe train -n N has them; on paper there may be thousands", 1,
     65536},
    {"--device", 0, LT_ARG_TEXT, offsetof(options, device), "NAME",
     "for h200, a100 or cpu, whatever this machine has", 0, 0},
    {"--svg", 0, LT_ARG_TEXT, offsetof(options, svg), "FILE",
     "draw the memory of a step over its time", 0, 0},
};

static lt_status write_svg(const char *path, const lt_plan_text *p)
{
    lt_buf out = {0};
    lt_writer *w = NULL;
    lt_status st = lt_plan_text_svg(p, &out);
    if (st == LT_OK)
        st = lt_writer_create(path, &w);
    if (st == LT_OK)
        st = lt_writer_put(w, out.data, (size_t)out.len);
    if (st == LT_OK)
        st = lt_writer_close(&w);
    lt_writer_abandon(w);
    lt_buf_deinit(&out);
    return st;
}

static lt_status report(const lt_plan_text *p, const options *o)
{
    lt_buf out = {0};
    lt_status st = lt_plan_text_print(p, &out);
    if (st == LT_OK && o->program)
        st = lt_program_print(p->forecast->program, &out);
    if (st == LT_OK)
        st = lt_cli_print(out.data);
    if (st == LT_OK && o->svg)
        st = write_svg(o->svg, p);
    lt_buf_deinit(&out);
    return st;
}

// Of the device that was named; else of this machine's, whose products are measured if it is a CPU.
static lt_status find_rates(const lt_engine *e, lt_rates *out)
{
    double rate = 0.0;
    lt_device *here = NULL;
    *out = *lt_trial_rates(e);
    if (e->device->backend != LT_CPU)
        return LT_OK;
    LT_TRY(lt_cpu_open(e->pool, &here));
    const lt_status st = lt_matmul_rate(here, e->compute, &rate);
    lt_device_close(here);
    LT_TRY(st);
    const double faster = rate / out->product[e->compute == LT_BF16];
    out->product[0] *= faster;
    out->product[1] *= faster;
    out->attention[0] *= faster;
    out->attention[1] *= faster;
    return LT_OK;
}

// The data of the run; NULL, with a note, when it cannot be read here.
static lt_status open_source(const lt_config *cfg, const lt_engine *e, const options *o,
                             const lt_log *log, lt_forecast_opts *f)
{
    lt_source_opts val;
    lt_texts files;
    const char *file = NULL;
    if (o->worst)
        return LT_OK;
    lt_status st =
        lt_source_open(cfg, &cfg->data.dataset_param, NULL, e->model, e->pool, log, &f->source);
    if (st == LT_OK && cfg->training.val_interval > 0 &&
        lt_source_validation(cfg, &val, &file, &files))
        st = lt_source_open_as(cfg, &val, e->model, e->pool, log, &f->validation);
    if (st != LT_ERR_NOT_FOUND)
        return st;
    LT_NOTE(log, "plan", "the data set or tokenizer is not here, so this is the worst case: %s",
            lt_error_message());
    lt_error_clear();
    lt_source_close(f->source);
    f->source = NULL;
    return LT_OK;
}

static int64_t steps_of(const lt_config *cfg, const options *o, const lt_forecast_opts *f)
{
    int64_t steps = cfg->training.train_iters;
    const int64_t batch =
        cfg->training.micro_batch_size * cfg->training.gradient_accumulation_steps * o->ranks;
    if (f->source && cfg->training.train_epochs != LT_CFG_NONE)
        steps =
            cfg->training.train_epochs * (lt_dataset_rows(lt_source_dataset(f->source)) / batch);
    return lt_max_i64(0, lt_min_i64(steps - f->from.iteration, o->steps));
}

// A run that goes on sees the rest of its steps.
static lt_status look_ahead(const lt_config *cfg, const options *o, const lt_log *log, lt_engine *e,
                            lt_forecast_opts *f, lt_forecast *out)
{
    if (e->run && lt_run_resumes(e->run))
        LT_TRY(lt_progress_read(e->run, &f->from));
    LT_TRY(open_source(cfg, e, o, log, f));
    f->n_steps = steps_of(cfg, o, f);
    f->memory = o->memory;
    return lt_forecast_run(e, f, out);
}

static lt_status find_device(const options *o, const lt_rates **out)
{
    *out = NULL;
    if (!o->device)
        return LT_OK;
    *out = lt_rates_find(o->device);
    if (*out)
        return LT_OK;
    return LT_FAIL(LT_ERR_CONFIG, "--device: \"%s\" is not known: it must be one of %s", o->device,
                   lt_rates_names());
}

static int64_t limit_of(const lt_config *cfg, const options *o, const lt_rates *paper)
{
    if (o->memory > 0)
        return o->memory;
    if (cfg->lathe.memory_budget != LT_CFG_NONE)
        return cfg->lathe.memory_budget;
    return paper ? paper->memory_bytes : 0;
}

static lt_status plan(const lt_config *cfg, void *opts_of_command, const lt_log *log)
{
    options *o = opts_of_command;
    lt_engine *e = NULL;
    lt_forecast_opts ahead = {0};
    lt_forecast f = {0};
    lt_rates rates;
    const lt_ranks first = lt_team_first(cfg);
    lt_engine_opts opts = {.training = true, .ranks = o->ranks > 1 ? &first : NULL};
    lt_status st;
    LT_TRY_GOTO(st, find_device(o, &opts.paper), done);
    LT_TRY_GOTO(st, lt_engine_open(cfg, &opts, log, &e), done);
    o->memory = limit_of(cfg, o, opts.paper);
    LT_TRY_GOTO(st, look_ahead(cfg, o, log, e, &ahead, &f), done);
    if (!f.program) {
        st = lt_cli_print("no step is left to be done\n");
        goto done;
    }
    LT_TRY_GOTO(st, find_rates(e, &rates), done);
    const lt_plan_text text = {.engine = e, .forecast = &f, .rates = &rates, .memory = o->memory};
    st = report(&text, o);
done:
    lt_forecast_deinit(&f);
    lt_source_close(ahead.source);
    lt_source_close(ahead.validation);
    lt_engine_close(e);
    return st;
}

static lt_status run(const lt_command *self, int argc, char **argv)
{
    options o = {.steps = 100000};
    return lt_cli_with_ranks(self, argc, argv, &o, &o.ranks, LT_USE_PLAN, plan);
}

const lt_command lt_command_plan = {
    .name = "plan",
    .summary = "Memory and program of a run, before it starts and without its weights",
    .positional = "CONFIG.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .overrides = true,
    .options = args,
    .n_options = sizeof args / sizeof *args,
    .details = "Needs the model's config.json; with the data set at hand the figures are those of "
               "the run itself,\n"
               "to the byte. Every number of a pool is what `lathe train` allocates.\n",
    .run = run,
};
