// SPDX-License-Identifier: Apache-2.0
// Stands in for onednn.c in a build without oneDNN.
#include "device/cpu/onednn.h"

bool lt_onednn_wants(lt_dtype ab_dtype)
{
    (void)ab_dtype;
    return false;
}

lt_status lt_onednn_gemm(lt_pool *pool, const lt_gemm *g, bool *done)
{
    (void)pool, (void)g;
    *done = false;
    return LT_OK;
}

const char *lt_onednn_name(bool f32)
{
    (void)f32;
    return NULL;
}
