// SPDX-License-Identifier: Apache-2.0
// Matrix products through oneDNN. Without it (-DLATHE_ONEDNN=OFF) nothing is wanted and nothing
// done.
#ifndef LT_DEVICE_CPU_ONEDNN_H
#define LT_DEVICE_CPU_ONEDNN_H

#include "device/gemm.h"

/** Whether products of this dtype are faster through oneDNN on this machine. */
bool lt_onednn_wants(lt_dtype ab_dtype);
/**
 * As lt_cpu_gemm. *done: false, and nothing touched, where oneDNN has no such product on this
 * machine: never because of m.
 */
LT_NODISCARD lt_status lt_onednn_gemm(lt_pool *pool, const lt_gemm *g, bool *done);
/**
 * "oneDNN 2.6.3", or "packed avx512 (f32), oneDNN 2.6.3 (bf16)" where f32 is left to the kernels of
 * our own; NULL without oneDNN.
 */
const char *lt_onednn_name(bool f32);
#endif
