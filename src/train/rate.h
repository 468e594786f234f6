// SPDX-License-Identifier: Apache-2.0
// The matrix-product rate that MFU is a share of, measured in the run itself.
#ifndef LT_TRAIN_RATE_H
#define LT_TRAIN_RATE_H

#include "device/device.h"

/**
 * FLOP/s of a product of square matrices of random numbers in that dtype, all threads, the best of
 * a few. The side is doubled from 256 to at most 2048 until a product takes 20 ms, so that a start
 * is not held up. On a device with queues products of 4096 for 0.3 s: its rate falls as it heats
 * up. NaN where the device or dtype has no way to measure it.
 */
LT_NODISCARD lt_status lt_matmul_rate(lt_device *device, lt_dtype dtype, double *out);
#endif
