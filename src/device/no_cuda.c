// SPDX-License-Identifier: Apache-2.0
// Stands in for src/device/cuda in a build without CUDA, so that asking for a GPU is answered by a
// sentence.
#include "device/device.h"

lt_status lt_cuda_open(int index, lt_pool *pool, lt_device **out)
{
    (void)pool, (void)out;
    return LT_FAIL(
        LT_ERR_UNSUPPORTED,
        "device cuda:%d was asked for, but this lathe was built without CUDA: configure it with "
        "-DLATHE_CUDA=ON, or use the device cpu",
        index);
}
