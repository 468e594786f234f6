// SPDX-License-Identifier: Apache-2.0
// Detection of vector instructions by cpuid, and the processor's name.
#include "device/cpu/isa.h"
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const char *lt_isa_name(lt_isa isa)
{
    static const char *const names[LT_N_ISAS] = {
        [LT_ISA_PLAIN] = "plain",   [LT_ISA_AVX2] = "avx2",
        [LT_ISA_AVX512] = "avx512", [LT_ISA_AVX512_BF16] = "avx512_bf16",
        [LT_ISA_AMX] = "amx",
    };
    return names[isa];
}

#if defined(__x86_64__)
static bool has_bf16_pairs(void)
{
    const unsigned pairs_bit = 1U << 5;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & pairs_bit);
}

// A Xeon multiplies pairs at half the rate of its f32 kernels (oneDNN's: 0.13 against 0.24
// TFLOP/s).
static bool pairs_pay(void)
{
    return __builtin_cpu_is("amd");
}

// Tiles are large: the system hands them to a process that asks (its threads then have them too).
static bool may_use_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned bf16_bit = 1U << 22, tile_bit = 1U << 24;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & bf16_bit) || !(d & tile_bit))
        return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static lt_isa detect(void)
{
    // The compiler's run-time support has asked cpuid once, and whether the system saves the wide
    // registers too.
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return LT_ISA_PLAIN;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return LT_ISA_AVX2;
    if (!has_bf16_pairs())
        return LT_ISA_AVX512;
    return may_use_tiles() ? LT_ISA_AMX : pairs_pay() ? LT_ISA_AVX512_BF16 : LT_ISA_AVX512;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static lt_isa best; // what this machine is, found out once

static void find_best(void)
{
    best = detect();
}

lt_isa lt_cpu_isa(void)
{
    (void)pthread_once(&once, find_best);
    return best;
}

// Spaces at both ends and runs of spaces are padding.
static void squeeze(char *text)
{
    size_t n = 0;
    for (const char *p = text; *p; p++)
        if (*p != ' ' || (n > 0 && text[n - 1] != ' '))
            text[n++] = *p;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    text[n] = 0;
}

lt_cpu_brand lt_cpu_brand_text(void)
{
    enum { N_LEAVES = 3, LEAF_BYTES = 16 };
    const unsigned first_leaf = 0x80000002U; // three leaves of 16 letters
    lt_cpu_brand brand = {"x86-64"};
    char text[N_LEAVES * LEAF_BYTES + 1] = {0};
    for (unsigned i = 0; i < N_LEAVES; i++) {
        unsigned r[4];
        if (!__get_cpuid(first_leaf + i, &r[0], &r[1], &r[2], &r[3]))
            return brand;
        memcpy(text + (size_t)i * LEAF_BYTES, r, LEAF_BYTES);
    }
    squeeze(text);
    if (text[0])
        (void)snprintf(brand.s, sizeof brand.s, "%s", text);
    return brand;
}
#else
lt_isa lt_cpu_isa(void)
{
    return LT_ISA_PLAIN;
}

lt_cpu_brand lt_cpu_brand_text(void)
{
    return (lt_cpu_brand){"CPU"};
}
#endif
