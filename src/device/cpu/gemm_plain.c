// SPDX-License-Identifier: Apache-2.0
// The packed kernels of matrix products, compiled for any processor (flags in
// src/device/folder.cmake).
#include "device/cpu/gemm_core.inc"
