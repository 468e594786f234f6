// SPDX-License-Identifier: Apache-2.0
// The row kernels, compiled for any processor (flags in cmake/isa.cmake).
#include "op/cpu/rows.inc"
