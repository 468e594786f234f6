// SPDX-License-Identifier: Apache-2.0
// Matrix products through oneDNN. Without it (-DLATHE_ONEDNN=OFF) nothing is done.
#ifndef LT_DEVICE_CPU_ONEDNN_H
#define LT_DEVICE_CPU_ONEDNN_H

#include "device/gemm.h"

/**
 * As lt_cpu_gemm. *done: false, and nothing touched, where oneDNN has no such product on this
 * machine: never because of m.
 */
LT_NODISCARD lt_status lt_onednn_gemm(lt_pool *pool, const lt_gemm *g, bool *done);
/** "oneDNN 2.6.3"; NULL without it. */
const char *lt_onednn_name(void);
#endif
