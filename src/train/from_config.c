// SPDX-License-Identifier: Apache-2.0
// The configuration's words in the terms of the parts.
#include "train/from_config.h"

lt_loss_type lt_config_loss(const lt_config *cfg)
{
    static const lt_loss_type types[] = {[LT_CFG_LOSS_RAW] = LT_LOSS_RAW,
                                         [LT_CFG_LOSS_DEFAULT] = LT_LOSS_DEFAULT,
                                         [LT_CFG_LOSS_PER_SAMPLE] = LT_LOSS_PER_SAMPLE,
                                         [LT_CFG_LOSS_PER_TOKEN] = LT_LOSS_PER_TOKEN};
    return types[cfg->features.loss_cfg.loss_type];
}

int64_t lt_config_global_batch(const lt_config *cfg, int64_t streams)
{
    const lt_cfg_training *c = &cfg->training;
    return c->gradient_accumulation_steps * c->micro_batch_size * streams;
}

lt_status lt_config_schedule(const lt_config *cfg, int64_t rows, int64_t streams, lt_schedule *out)
{
    const lt_cfg_training *c = &cfg->training;
    const int64_t global_batch = lt_config_global_batch(cfg, streams);
    int64_t steps = c->train_iters;
    if (c->train_epochs != LT_CFG_NONE) {
        steps = c->train_epochs * (rows / global_batch);
        if (steps == 0) {
            return LT_FAIL(
                LT_ERR_CONFIG,
                "training.train_epochs: %lld samples are fewer than one global batch of %lld",
                (long long)rows, (long long)global_batch);
        }
    }
    static const lt_decay decays[] = {[LT_CFG_CONSTANT] = LT_DECAY_CONSTANT,
                                      [LT_CFG_LINEAR] = LT_DECAY_LINEAR,
                                      [LT_CFG_COSINE] = LT_DECAY_COSINE};
    *out = (lt_schedule){.decay = decays[c->lr_decay_style],
                         .lr = c->lr,
                         .lr_min = c->lr_min,
                         .lr_start = c->lr_start,
                         .warmup_ratio = c->lr_warmup_ratio,
                         .decay_ratio = c->lr_decay_ratio,
                         .steps = steps};
    return LT_OK;
}

lt_sampler_opts lt_config_sampler(const lt_config *cfg, int64_t rows)
{
    lt_sampler_opts o = lt_sampler_opts_default();
    o.n_samples = rows;
    o.micro_batch = cfg->training.micro_batch_size;
    o.shuffle = cfg->data.dataloader_param.shuffle;
    o.data_sharding = cfg->data.dataloader_param.data_sharding;
    return o;
}
