// SPDX-License-Identifier: Apache-2.0
// Coordinates of a rank, and its groups.
#include "parallel/mesh.h"

static lt_status check(const lt_mesh_sizes *s, int64_t world)
{
    const struct {
        const char *key;
        int64_t size;
    } axes[] = {{"ulysses_parallel_size", s->ulysses},
                {"ring_attention_size", s->ring},
                {"tensor_parallel_size", s->tp}};
    int64_t all = 0;
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        if (axes[i].size != 1) {
            return LT_FAIL(LT_ERR_UNSUPPORTED,
                           "parallel.%s: %lld is not supported yet; set it to 1", axes[i].key,
                           (long long)axes[i].size);
        }
    }
    if (s->dp_replicate < 1 || s->dp_shard < 1 || !lt_mul_i64(s->dp_replicate, s->dp_shard, &all) ||
        all != world) {
        return LT_FAIL(LT_ERR_CONFIG,
                       "%lld copies of the parameters, each on %lld ranks, are not the %lld ranks "
                       "of this run",
                       (long long)s->dp_replicate, (long long)s->dp_shard, (long long)world);
    }
    return LT_OK;
}

lt_status lt_ranks_open(lt_group *world, const lt_mesh_sizes *s, lt_ranks *out)
{
    const int32_t size = lt_group_size(world), rank = lt_group_rank(world);
    *out =
        (lt_ranks){.size = size, .rank = rank, .world = world, .sharing = lt_group_sharing(world)};
    LT_TRY(check(s, size));
    const int32_t across = lt_int(s->dp_shard);
    out->dp_size = size; // every rank has a stream of its own, as long as none shares a sample
    out->dp_rank = rank;
    out->shard = (lt_shard){across, rank % across};
    lt_status st = LT_OK;
    if (across > 1)
        st = lt_group_split(world, rank / across, &out->sharers);
    if (st == LT_OK && s->dp_replicate > 1)
        st = lt_group_split(world, rank % across, &out->replicas);
    if (st != LT_OK)
        lt_ranks_close(out);
    return st;
}

void lt_ranks_close(lt_ranks *r)
{
    lt_group_close(r->sharers);
    lt_group_close(r->replicas);
    r->sharers = r->replicas = NULL;
}
