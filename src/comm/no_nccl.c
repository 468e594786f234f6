// SPDX-License-Identifier: Apache-2.0
// Stands in for src/comm/cuda in a build without CUDA, which has no GPUs to connect.
#include "comm/nccl.h"

lt_status lt_nccl_open(lt_device *d, lt_group *g, lt_nccl **out)
{
    (void)d, (void)g, (void)out;
    return LT_FAIL(LT_ERR_UNSUPPORTED, "this lathe was built without CUDA, and so without NCCL");
}

void lt_nccl_close(lt_nccl *c)
{
    (void)c;
}

static lt_status never(void)
{
    return LT_FAIL(LT_ERR_INTERNAL, "a communicator that cannot exist was used");
}

lt_status lt_nccl_all_gather(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                             lt_dtype dtype)
{
    (void)c, (void)s, (void)parts, (void)n, (void)dtype;
    return never();
}

lt_status lt_nccl_reduce_scatter(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                                 lt_dtype dtype)
{
    (void)c, (void)s, (void)parts, (void)n, (void)dtype;
    return never();
}

lt_status lt_nccl_all_reduce(lt_nccl *c, lt_stream *s, const lt_pieces *parts, int64_t n,
                             lt_dtype dtype)
{
    (void)c, (void)s, (void)parts, (void)n, (void)dtype;
    return never();
}
