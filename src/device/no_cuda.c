// SPDX-License-Identifier: Apache-2.0
// Stands in for src/device/cuda in a build without CUDA, so that asking for a GPU is answered by a
// sentence.
#include "device/device.h"

#include <stdio.h>

lt_status lt_cuda_open(int index, lt_pool *pool, lt_device **out)
{
    (void)pool, (void)out;
    return LT_FAIL(
        LT_ERR_UNSUPPORTED,
        "device cuda:%d was asked for, but this lathe was built without CUDA: configure it with "
        "-DLATHE_CUDA=ON, or use the device cpu",
        index);
}

lt_text512 lt_gpu_attention(void)
{
    return (lt_text512){0};
}

lt_gpu_list lt_gpus(void)
{
    lt_gpu_list list = {0};
    (void)snprintf(list.why_none, sizeof list.why_none,
                   "this lathe was built without CUDA; configure it with -DLATHE_CUDA=ON "
                   "(cmake --preset cuda) to use one");
    return list;
}
