// SPDX-License-Identifier: Apache-2.0
// Which vector instructions this processor has, and what it calls itself.
#ifndef LT_DEVICE_CPU_ISA_H
#define LT_DEVICE_CPU_ISA_H

#include "base/status.h"

/**
 * From least to most; each one contains those before it. Kernels have one version for each that
 * pays.
 */
typedef enum lt_isa {
    LT_ISA_PLAIN,
    LT_ISA_AVX2,
    LT_ISA_AVX512,
    LT_ISA_AVX512_BF16,
    LT_ISA_AMX,
    LT_N_ISAS
} lt_isa;

/**
 * The best for products that processor and system support: AVX2 means AVX2 with FMA, AVX512 the F,
 * BW, DQ and VL parts, AVX512_BF16 its products of pairs of bf16 numbers, AMX the tiles' bf16
 * products.
 * The first call asks the system for the use of AMX tiles. threads: any
 */
lt_isa lt_cpu_isa(void);
/** "plain", "avx2", "avx512", "avx512_bf16", "amx". */
const char *lt_isa_name(lt_isa isa);

/**
 * What a CPU device's `impl` points at. NULL there stands for the best instruction set; tests set a
 * lesser one, to run all kernels on one machine.
 */
typedef struct lt_cpu_state {
    lt_isa isa;
} lt_cpu_state;

/** What the processor calls itself ("AMD EPYC"), without its vendor's padding. */
typedef struct lt_cpu_brand {
    char s[64];
} lt_cpu_brand;
lt_cpu_brand lt_cpu_brand_text(void);
#endif
