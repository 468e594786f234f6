// SPDX-License-Identifier: Apache-2.0
// The row kernels, compiled for avx512 (flags in cmake/isa.cmake).
#include "op/cpu/rows.inc"
