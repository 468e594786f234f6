// SPDX-License-Identifier: Apache-2.0
// The sizes of `parallel` against the number of ranks, in the reference's order, and those that it
// finds only later. source: spec/config-trainer-checkpoint.md, section 1.3
#include "train/config/state.h"

#define ERROR(cfg, key, ...) LT_CONFIG_ADD((cfg)->state, LT_CONFIG_ERROR, (key), __VA_ARGS__)

static long long ll(int64_t n)
{
    return (long long)n;
}

// a * b * c, or 0 when that is more ranks than there can be.
static int64_t product(int64_t a, int64_t b, int64_t c)
{
    int64_t n = 0;
    return lt_mul_i64(a, b, &n) && lt_mul_i64(n, c, &n) && n <= INT32_MAX ? n : 0;
}

static bool divides(int64_t part, int64_t whole)
{
    return part > 0 && whole % part == 0;
}

static lt_status check_context(lt_config *cfg, int64_t world)
{
    const lt_cfg_parallel *p = &cfg->parallel;
    const int64_t cp = product(p->ring_attention_size, p->ulysses_parallel_size, 1);
    if (cp == 0 || !divides(product(cp, p->tensor_parallel_size, 1), world)) {
        return ERROR(cfg,
                     lt_config_given(cfg, "parallel.ulysses_parallel_size")
                         ? "parallel.ulysses_parallel_size"
                         : "parallel.ring_attention_size",
                     "%lld ranks cannot be cut into groups of ulysses %lld x ring %lld x tensor "
                     "%lld: choose sizes whose product divides the number of ranks",
                     ll(world), ll(p->ulysses_parallel_size), ll(p->ring_attention_size),
                     ll(p->tensor_parallel_size));
    }
    cfg->sizes.dp = world / cp; // tensor parallelism apart, which has to be 1
    if (p->data_parallel_size != LT_CFG_NONE && p->data_parallel_size != cfg->sizes.dp) {
        LT_TRY(ERROR(cfg, "parallel.data_parallel_size",
                     "is %lld, but %lld ranks / (ring %lld x ulysses %lld) make %lld: remove the "
                     "key, it is derived",
                     ll(p->data_parallel_size), ll(world), ll(p->ring_attention_size),
                     ll(p->ulysses_parallel_size), ll(cfg->sizes.dp)));
    }
    return LT_OK;
}

static lt_status check_shards(lt_config *cfg, int64_t world)
{
    static const char key[] = "parallel.fully_shard_parallel_size";
    const lt_cfg_parallel *p = &cfg->parallel;
    const int64_t cp = product(p->ring_attention_size, p->ulysses_parallel_size, 1);
    const int64_t shard =
        p->fully_shard_parallel_size == LT_CFG_AUTO ? world : p->fully_shard_parallel_size;
    if (!divides(shard, world))
        return ERROR(cfg, key, "%lld does not divide the %lld ranks (lathe train -n RANKS)",
                     ll(shard), ll(world));
    if (shard < cp) {
        return ERROR(
            cfg, key,
            "%lld is less than ring %lld x ulysses %lld, whose ranks share one shard group",
            ll(shard), ll(p->ring_attention_size), ll(p->ulysses_parallel_size));
    }
    if (cp == 0 || !divides(cp, shard))
        return ERROR(cfg, key, "%lld is no multiple of ring %lld x ulysses %lld", ll(shard),
                     ll(p->ring_attention_size), ll(p->ulysses_parallel_size));
    cfg->sizes.fully_shard = shard;
    cfg->sizes.dp_shard = shard / cp;
    if (cfg->sizes.dp > 0 && !divides(cfg->sizes.dp_shard, cfg->sizes.dp)) {
        return ERROR(
            cfg, key,
            "gives %lld data-parallel shards, which do not divide the %lld data-parallel ranks",
            ll(cfg->sizes.dp_shard), ll(cfg->sizes.dp));
    }
    cfg->sizes.dp_replicate = cfg->sizes.dp / cfg->sizes.dp_shard;
    return LT_OK;
}

static lt_status check_experts(lt_config *cfg, int64_t world)
{
    const lt_cfg_parallel *p = &cfg->parallel;
    const int64_t ep = p->expert_parallel_size;
    if (!divides(ep, world))
        return ERROR(cfg, "parallel.expert_parallel_size", "%lld does not divide the %lld ranks",
                     ll(ep), ll(world));
    const int64_t efsdp = p->expert_fully_shard_parallel_size == LT_CFG_NONE
                              ? world / ep
                              : p->expert_fully_shard_parallel_size;
    if (!divides(product(efsdp, ep, 1), world)) {
        return ERROR(cfg, "parallel.expert_fully_shard_parallel_size",
                     "%lld x expert_parallel_size %lld do not divide the %lld ranks", ll(efsdp),
                     ll(ep), ll(world));
    }
    cfg->sizes.ep = ep;
    cfg->sizes.efsdp = efsdp;
    cfg->sizes.edp = world / (efsdp * ep);
    return LT_OK;
}

static lt_status check_padding(lt_config *cfg)
{
    const lt_cfg_parallel *p = &cfg->parallel;
    const int64_t pad = cfg->data.dataloader_param.collate_param.pad_to_multiple_of;
    const int64_t cp = product(p->ring_attention_size, p->ulysses_parallel_size, 1);
    const int64_t need = p->ring_attention_size > 1 ? 2 * cp : cp;
    if (need > 0 && !divides(need, pad)) {
        return ERROR(cfg, "data.dataloader_param.collate_param.pad_to_multiple_of",
                     "%lld is no multiple of %lld, which ring %lld x ulysses %lld need", ll(pad),
                     ll(need), ll(p->ring_attention_size), ll(p->ulysses_parallel_size));
    }
    return LT_OK;
}

lt_status lt_config_check_sizes(lt_config *cfg, int64_t world)
{
    if (cfg->parallel.tensor_parallel_size != 1) {
        LT_TRY(ERROR(cfg, "parallel.tensor_parallel_size",
                     "has to be 1, got %lld: tensor parallelism does not exist in this form of "
                     "configuration",
                     ll(cfg->parallel.tensor_parallel_size)));
    }
    LT_TRY(check_padding(cfg));
    if (world <= 0)
        return LT_OK;
    cfg->sizes.world = world;
    LT_TRY(check_context(cfg, world));
    LT_TRY(check_shards(cfg, world));
    LT_TRY(check_experts(cfg, world));
    int64_t batch = 0;
    if (!lt_mul_i64(cfg->training.micro_batch_size, cfg->sizes.dp, &batch) ||
        !lt_mul_i64(batch, cfg->training.gradient_accumulation_steps, &cfg->sizes.global_batch))
        return ERROR(cfg, "training.micro_batch_size",
                     "the global batch does not fit into 64 bits");
    return LT_OK;
}
