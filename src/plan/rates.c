// SPDX-License-Identifier: Apache-2.0
// The table of devices.
#include "plan/rates.h"

#include <string.h>

// h200: measured (docs/performance.md: a whole step's kernels by class; spec/cuda-notes.md 3 to 6),
// links between machines by their data sheets, at four fifths. a100 (80 GB): scaled by data sheets
// from there, not measured. cpu: two cores with AVX2; where a plan is of the machine it runs on,
// products are measured anew.
static const lt_rates table[] = {
    {.name = "h200",
     .backend = LT_CUDA,
     .memory_bytes = INT64_C(139) << 30,
     .product = {45e12, 690e12},
     .attention = {560e12, 480e12},
     .stream = 3.6e12,
     .link = 47.6e9,
     .inside = 360e9,
     .between = 40e9,
     .ranks_inside = 8,
     .launch_s = 3e-6,
     .update = 4.2e12,
     .host_update = 150e9},
    {.name = "a100",
     .backend = LT_CUDA,
     .memory_bytes = INT64_C(78) << 30,
     .product = {16e12, 250e12},
     .attention = {165e12, 140e12},
     .stream = 1.55e12,
     .link = 22e9,
     .inside = 220e9,
     .between = 20e9,
     .ranks_inside = 8,
     .launch_s = 4e-6,
     .update = 1.75e12,
     .host_update = 100e9},
    {.name = "cpu",
     .backend = LT_CPU,
     .product = {120e9, 120e9},
     .attention = {70e9, 60e9},
     .stream = 12e9,
     .link = 6e9,
     .inside = 5e9,
     .between = 1e9,
     .ranks_inside = 64,
     .launch_s = 2e-6,
     .update = 15e9,
     .host_update = 15e9},
};

enum { N_RATES = sizeof table / sizeof *table };

const lt_rates *lt_rates_find(const char *name)
{
    for (int i = 0; i < N_RATES; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *lt_rates_names(void)
{
    return "h200, a100, cpu";
}
