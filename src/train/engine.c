// SPDX-License-Identifier: Apache-2.0
// Opening an engine, part by part.
#include "train/engine.h"

#include "base/file.h"
#include "base/pattern.h"
#include "optim/lr_scale.h"
#include "plan/policy.h"
#include "train/weights.h"

#include <string.h>

// Other families wait for their kernels, or for a GPU to try them on.
static bool stays_on_cpu(const lt_engine *e)
{
    return !lt_model_on_gpu(&e->model->config);
}

// The CPUs that the process may use, divided among the ranks that have the same ones.
static lt_status open_pool(lt_engine *e)
{
    LT_TRY(lt_pool_create(e->cfg ? lt_int(e->cfg->lathe.threads) : 0, &e->pool));
    if (!e->ranks)
        return LT_OK;
    const int each = lt_pool_threads(e->pool) / e->ranks->sharing.cpus;
    lt_pool_destroy(e->pool);
    e->pool = NULL;
    return lt_pool_create(each > 1 ? each : 1, &e->pool);
}

// Several ranks are on a machine's CPU, and share its memory.
static lt_status open_shared_cpu(lt_engine *e)
{
    if (e->cfg->lathe.device == LT_CFG_DEVICE_CUDA) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: lathe.device: %d ranks on a GPU are not supported yet; several ranks "
                       "run on the CPU (lathe.device: cpu)",
                       lt_config_where(e->cfg, "lathe.device").s, e->ranks->size);
    }
    LT_TRY(lt_cpu_open(e->pool, &e->device));
    e->device->memory_bytes /= e->ranks->sharing.host;
    return LT_OK;
}

static lt_status open_device(lt_engine *e, const lt_rates *paper)
{
    const lt_cfg_lathe *c = e->cfg ? &e->cfg->lathe : NULL;
    LT_TRY(open_pool(e));
    if (paper)
        return lt_paper_open(paper->name, paper->backend, paper->memory_bytes, e->pool, &e->device);
    if (e->ranks)
        return open_shared_cpu(e);
    const int want = c ? c->device : LT_CFG_DEVICE_AUTO;
    if (want == LT_CFG_DEVICE_CUDA && stays_on_cpu(e)) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "lathe.device is cuda, but models of type %s train on the CPU alone so far: "
                       "set lathe.device: cpu",
                       e->model->config.model_type);
    }
    if (want == LT_CFG_DEVICE_CPU || stays_on_cpu(e))
        return lt_cpu_open(e->pool, &e->device);
    const lt_status st = lt_cuda_open(0, e->pool, &e->device);
    if (st == LT_OK)
        e->device->log = e->log;
    if (st == LT_OK || want == LT_CFG_DEVICE_CUDA)
        return st;
    if (lt_gpus().n > 0)
        LT_NOTE(e->log, "device", "the GPU is not used: %s", lt_error_message());
    lt_error_clear(); // auto: a machine without a GPU trains on its CPU
    return lt_cpu_open(e->pool, &e->device);
}

static bool has_config(const char *dir, lt_arena *arena)
{
    char *path = NULL;
    return dir && lt_path_join(arena, dir, "config.json", &path) == LT_OK && lt_file_exists(path);
}

// A plan needs no weights, but where they are, they say whether the head is tied.
static lt_status open_checkpoint(lt_engine *e, const char *load, bool needed)
{
    const char *named = e->cfg ? e->cfg->model.model_name_or_path : NULL;
    const lt_status st = lt_run_open(load, e->log, &e->run);
    if (st == LT_ERR_NOT_FOUND && needed && load == named)
        lt_error_note("training.load is not set, so weights come from model.model_name_or_path "
                      "(lathe.init=random starts without)");
    if (st == LT_OK || needed)
        return st;
    lt_error_clear();
    return LT_OK;
}

// What training.load_format says, held against what lies there.
static lt_status check_format(const lt_engine *e, const char *load)
{
    static const char *const kinds[] = {[LT_RUN_MODEL] = "Hugging Face folder",
                                        [LT_RUN_SAVED] = "Hugging Face folder",
                                        [LT_RUN_DCP] = "distributed checkpoint"};
    if (!e->run || !e->cfg || load != e->cfg->training.load)
        return LT_OK;
    const int want = e->cfg->training.load_format;
    const bool dcp = e->run->kind == LT_RUN_DCP;
    if (want == LT_CFG_FORMAT_AUTO || (want == LT_CFG_FORMAT_DCP) == dcp)
        return LT_OK;
    return LT_FAIL(LT_ERR_CONFIG,
                   "%s: training.load_format is %s, and %s is a %s (auto takes both)",
                   lt_config_where(e->cfg, "training.load_format").s, dcp ? "hf" : "dcp",
                   e->run->dir, kinds[e->run->kind]);
}

// The model's own folder: its small files, and for a distributed checkpoint, which has no files of
// weights, the layout in which a Hugging Face folder would be written.
static lt_status open_assets(lt_engine *e, const char *named)
{
    const bool dcp = e->run && e->run->kind == LT_RUN_DCP;
    if ((e->run && !dcp) || !named || !lt_file_is_dir(named))
        return LT_OK;
    return dcp && lt_hf_has_weights(named) ? lt_hf_open(named, NULL, &e->assets)
                                           : lt_hf_open_assets(named, &e->assets);
}

// Which checkpoint, and whose config.json.
static lt_status open_source(lt_engine *e, const lt_engine_opts *opts)
{
    const lt_config *c = e->cfg;
    LT_ASSERT(c || opts->folder);
    const char *named = c ? c->model.model_name_or_path : NULL;
    const char *load = opts->folder ? opts->folder : c->training.load;
    const bool random = c && c->lathe.init == LT_CFG_INIT_RANDOM;
    if (!load && !named) {
        return LT_FAIL(
            LT_ERR_CONFIG,
            "model.model_name_or_path is not set: it names the Hugging Face folder of the model");
    }
    if (!load && named && !random && (opts->weights || lt_hf_has_weights(named)))
        load = named;
    if (load && !(random && load == named))
        LT_TRY(open_checkpoint(e, load, opts->weights));
    LT_TRY(check_format(e, load));
    LT_TRY(open_assets(e, named));
    e->source = e->run && has_config(e->run->dir, e->arena) ? e->run->dir : named ? named : load;
    return LT_OK;
}

static lt_status create_model(lt_engine *e)
{
    lt_model_cut cut = {0};
    if (e->cfg && e->cfg->model.num_hidden_layers != LT_CFG_NONE)
        cut.text_layers = e->cfg->model.num_hidden_layers;
    if (e->cfg && e->cfg->model.vision_depth != LT_CFG_NONE)
        cut.vision_depth = e->cfg->model.vision_depth;
    e->cut = cut.text_layers > 0 || cut.vision_depth > 0;
    lt_model_config config;
    LT_TRY(lt_model_config_load(e->source, &cut, &config));
    if (e->cfg && e->cfg->features.enable_chunk_loss)
        config.text.loss_rows = lt_config_loss_rows(e->cfg);
    config.text.mtp = e->cfg && e->cfg->model.mtp_num_layers > 0;
    if (config.text.mtp && config.text.gdn.key_heads == 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: model.mtp_num_layers is %lld, but models of type %s have no prediction "
                       "module: set it to 0",
                       lt_config_where(e->cfg, "model.mtp_num_layers").s,
                       (long long)e->cfg->model.mtp_num_layers, config.model_type);
    }
    config.text.deterministic =
        e->cfg && (e->cfg->training.use_deter_comp || e->cfg->training.enable_full_determinism);
    config.vision.deterministic = config.text.deterministic;
    const char *old_head = lt_model_old_head_name(&config);
    const bool no_head = e->run && !lt_hf_find(e->run->weights, lt_model_head_name(&config)) &&
                         !(old_head && lt_hf_find(e->run->weights, old_head));
    return lt_model_create(&config, no_head ? LT_HEAD_TIED : LT_HEAD_AS_CONFIG, &e->model);
}

static lt_status freeze(lt_engine *e)
{
    const lt_texts *f = &e->cfg->model.freeze;
    void *memory = NULL;
    LT_TRY(lt_arena_take(e->arena, (size_t)f->n * sizeof(int64_t), &memory));
    int64_t *hits = memory;
    LT_TRY(lt_model_freeze(e->model, f->items, f->n, hits));
    int64_t dead = 0;
    for (int64_t i = 0; i < f->n; i++)
        dead += hits[i] == 0;
    if (f->n > 0 && dead == f->n) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: model.freeze: no module of the model matches, so nothing would be "
                       "frozen (first pattern: %s)",
                       lt_config_where(e->cfg, "model.freeze").s, f->items[0]);
    }
    for (int64_t i = 0; i < f->n; i++)
        if (hits[i] == 0)
            LT_NOTE(e->log, "model", "model.freeze: pattern %s matches no module", f->items[i]);
    if (lt_model_total(e->model, true) == 0) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%s: model.freeze: all parameters are frozen; nothing is "
                       "left to train",
                       lt_config_where(e->cfg, "model.freeze").s);
    }
    return LT_OK;
}

// The blocks that a feature's list of patterns names: out [n_blocks].
static lt_status match_blocks(lt_engine *e, const char *feature, const char *key,
                              const lt_texts *plan, bool **out)
{
    void *memory = NULL;
    if (plan->n == 0)
        return LT_FAIL(LT_ERR_CONFIG, "%s: %s: it is on, but %s names no module",
                       lt_config_where(e->cfg, feature).s, feature, key);
    LT_TRY(lt_arena_take(e->arena, (size_t)e->model->n_blocks * sizeof(bool), &memory));
    bool *hit = memory;
    lt_vec paths = LT_VEC_OF(const char *);
    lt_status st = lt_model_modules(e->model, &paths);
    if (st == LT_OK)
        st = lt_patterns_check_use(key, plan->items, plan->n, paths.data, paths.n, e->log);
    lt_vec_deinit(&paths);
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        hit[b] = lt_pattern_last(plan->items, plan->n, e->model->blocks[b].name) >= 0;
    *out = hit;
    return st;
}

static lt_status choose_policies(lt_engine *e)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(e->arena, (size_t)e->model->n_blocks * sizeof(lt_policy), &memory));
    e->policy = memory;
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        e->policy[b] = LT_KEEP;
    if (!e->cfg)
        return LT_OK;
    e->auto_policy = e->cfg->lathe.policy && strcmp(e->cfg->lathe.policy, "auto") == 0;
    if (e->auto_policy)
        return LT_OK; // until then all is kept
    if (e->cfg->lathe.policy) {
        const lt_status st = lt_policies_parse(e->cfg->lathe.policy, e->model, e->policy);
        if (st != LT_OK)
            lt_error_note("%s: lathe.policy", lt_config_where(e->cfg, "lathe.policy").s);
        return st;
    }
    if (!e->cfg->features.recompute)
        return LT_OK;
    bool *again = NULL;
    LT_TRY(match_blocks(e, "features.recompute", "features.recompute_plan.apply_modules",
                        &e->cfg->features.recompute_plan.apply_modules, &again));
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        if (again[b])
            e->policy[b] = LT_FULL;
    return LT_OK;
}

static lt_status choose_offloads(lt_engine *e)
{
    if (!e->cfg || !e->cfg->features.enable_activation_offload)
        return LT_OK;
    return match_blocks(e, "features.enable_activation_offload",
                        "features.activation_offload_plan.apply_modules",
                        &e->cfg->features.activation_offload_plan.apply_modules, &e->offload);
}

// cpu_offload has moments on the host already: adamw_swap adds nothing to it.
static void choose_home(lt_engine *e)
{
    if (e->cfg && e->cfg->parallel.fsdp_plan.cpu_offload)
        e->home = LT_HOME_HOST;
    else if (e->cfg && e->cfg->training.optimizer == LT_CFG_ADAMW_SWAP)
        e->home = LT_HOME_SWAP;
}

// Matrices are muon's, whatever they are for; names as the reference takes them.
static bool is_matrix(const lt_param *p)
{
    const size_t len = strlen(p->name), suffix = strlen(".bias");
    return p->rank == 2 && !(len > suffix && strcmp(p->name + len - suffix, ".bias") == 0) &&
           !strstr(p->name, "embedding") && !strstr(p->name, "output_layer");
}

static lt_status choose_muon(lt_engine *e)
{
    if (!e->cfg || e->cfg->training.optimizer != LT_CFG_MUON)
        return LT_OK;
    if (e->device->backend == LT_CUDA && e->device->alloc && e->home != LT_HOME_HOST) {
        return LT_FAIL(LT_ERR_UNSUPPORTED,
                       "%s: training.optimizer: muon has no kernels for a GPU yet; set "
                       "parallel.fsdp_plan.cpu_offload: true, or lathe.device: cpu",
                       lt_config_where(e->cfg, "training.optimizer").s);
    }
    for (int32_t i = 0; i < e->model->n_params; i++)
        e->model->params[i].muon = is_matrix(&e->model->params[i]);
    return LT_OK;
}

static lt_status scale_rates(lt_engine *e)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(e->arena, (size_t)e->model->n_params * sizeof(double), &memory));
    e->lr_scale = memory;
    const lt_cfg_lr_scales *plan = &e->cfg->training.lr_scaling_plan;
    void *parts = NULL;
    LT_TRY(lt_arena_take(e->arena, (size_t)plan->n * (sizeof(char *) + sizeof(double)), &parts));
    const char **match = parts;
    double *scale = (double *)(match + plan->n);
    for (int64_t i = 0; i < plan->n; i++) {
        match[i] = plan->items[i].match;
        scale[i] = plan->items[i].scale;
    }
    lt_lr_scale *table = NULL;
    LT_TRY(lt_lr_scale_create(match, scale, plan->n, &table));
    lt_status st = LT_OK;
    for (int32_t i = 0; st == LT_OK && i < e->model->n_params; i++)
        st = lt_lr_scale_of(table, e->model->params[i].name, &e->lr_scale[i], NULL);
    lt_lr_scale_destroy(table);
    return st;
}

bool lt_engine_updates_early(const lt_engine *e)
{
    const lt_cfg_training *t = e->cfg ? &e->cfg->training : NULL;
    return t && t->clip_grad <= 0.0 && t->gradient_accumulation_steps == 1;
}

lt_shard lt_engine_shard(const lt_engine *e)
{
    return e->ranks ? e->ranks->shard : (lt_shard){0};
}

lt_exec_opts lt_engine_exec_opts(const lt_engine *e, const lt_engine_opts *opts)
{
    lt_exec_opts o = {.device = e->device,
                      .model = e->model,
                      .units = e->units,
                      .compute = e->compute,
                      .training = opts->training,
                      .policy = e->policy,
                      .offload = e->offload,
                      .lr_scale = e->lr_scale,
                      .ranks = e->ranks,
                      .log = e->log,
                      .tap = opts->tap,
                      .watch = opts->watch};
    if (!e->cfg)
        return o;
    const lt_cfg_training *t = &e->cfg->training;
    o.keep_attention = e->cfg->model.skip_flash_attn_recompute;
    o.keep_scans = e->cfg->model.skip_gdn_recompute;
    o.forward_prefetch = lt_int(e->cfg->parallel.fsdp_plan.num_to_forward_prefetch);
    o.backward_prefetch = lt_int(e->cfg->parallel.fsdp_plan.num_to_backward_prefetch);
    o.reshard_after_forward = e->cfg->parallel.fsdp_plan.reshard_after_forward;
    o.adamw = (lt_adamw_attr){.beta1 = t->adam_beta1,
                              .beta2 = t->adam_beta2,
                              .eps = t->adam_eps,
                              .weight_decay = t->weight_decay,
                              .lr_scale = 1.0};
    o.muon = (lt_muon_attr){.momentum = t->muon_momentum,
                            .weight_decay = t->weight_decay,
                            .rms = t->matched_adamw_rms,
                            .steps = lt_int(t->ns_steps)};
    o.clip_grad = t->clip_grad;
    o.home = e->home;
    o.update_early = lt_engine_updates_early(e) && !opts->whole_gradients;
    o.memory_budget = e->cfg->lathe.memory_budget == LT_CFG_NONE ? 0 : e->cfg->lathe.memory_budget;
    return o;
}

// A unit for every block, so that an early update has little to wait for, and shards are gathered
// block by block.
static lt_status units_of_blocks(lt_engine *e)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(e->arena, (size_t)e->model->n_blocks * sizeof(char *), &memory));
    const char **names = memory;
    int64_t n = 0;
    for (int32_t b = 0; b < e->model->n_blocks; b++)
        if (e->model->blocks[b].kind->n_params > 0)
            names[n++] = e->model->blocks[b].name;
    return lt_units_create(e->model, names, n, NULL, &e->units);
}

static lt_status create_units(lt_engine *e)
{
    const lt_texts none = {0};
    const lt_texts *p = e->cfg ? &e->cfg->parallel.fsdp_plan.apply_modules : &none;
    if (p->n == 0 && (e->ranks || lt_engine_updates_early(e)))
        return units_of_blocks(e);
    return lt_units_create(e->model, p->items, p->n, e->log, &e->units);
}

static lt_status fill_weights(lt_engine *e)
{
    return e->run ? lt_weights_load(e) : lt_weights_random(e, (uint64_t)e->cfg->training.seed);
}

static lt_status open_parts(lt_engine *e, const lt_engine_opts *opts)
{
    LT_TRY(open_source(e, opts));
    LT_TRY(create_model(e));
    LT_TRY(open_device(e, opts->paper));
    e->compute =
        e->cfg && lt_config_compute_dtype(e->cfg) == LT_CFG_COMPUTE_BF16 ? LT_BF16 : LT_F32;
    if (e->cfg && opts->training)
        LT_TRY(freeze(e));
    LT_TRY(choose_policies(e));
    LT_TRY(choose_offloads(e));
    choose_home(e);
    LT_TRY(choose_muon(e));
    if (e->cfg)
        LT_TRY(scale_rates(e));
    return create_units(e);
}

lt_status lt_engine_start(lt_engine *e, const lt_engine_opts *opts)
{
    const lt_exec_opts o = lt_engine_exec_opts(e, opts);
    LT_TRY(lt_exec_create(&o, &e->exec));
    return fill_weights(e);
}

lt_status lt_engine_open(const lt_config *cfg, const lt_engine_opts *opts, const lt_log *log,
                         lt_engine **out)
{
    void *memory = NULL;
    LT_TRY(lt_mem_alloc(&memory, sizeof(lt_engine), "engine"));
    lt_engine *e = memory;
    e->cfg = cfg;
    e->log = log;
    e->ranks = opts->ranks;
    lt_status st = lt_arena_create(&e->arena, "engine");
    if (st == LT_OK)
        st = open_parts(e, opts);
    if (st != LT_OK)
        lt_engine_close(e);
    else
        *out = e;
    return st;
}

void lt_engine_close(lt_engine *e)
{
    if (!e)
        return;
    lt_exec_destroy(e->exec);
    lt_units_destroy(e->units);
    lt_model_destroy(e->model);
    lt_device_close(e->device);
    lt_pool_destroy(e->pool);
    lt_hf_close(e->assets);
    lt_run_close(e->run);
    lt_arena_destroy(e->arena);
    lt_mem_free(e);
}
