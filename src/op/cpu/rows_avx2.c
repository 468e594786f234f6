// SPDX-License-Identifier: Apache-2.0
// The row kernels, compiled for avx2 (flags in cmake/isa.cmake).
#include "op/cpu/rows.inc"
