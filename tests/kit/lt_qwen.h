// SPDX-License-Identifier: Apache-2.0
// config.json of Qwen3-VL models as tests need it: the published sizes in both spellings, and small
// ones.
#ifndef LT_TESTS_KIT_LT_QWEN_H
#define LT_TESTS_KIT_LT_QWEN_H

#include "tests/kit/lt_test.h"

/**
 * A published size, and what spec/models.md says of it: parameters (2.4), matrix elements per token
 * (10.1).
 */
typedef struct lt_qwen_size {
    const char *name;
    int hidden, layers, heads, kv_heads, intermediate;
    bool tied;
    int depth, vision_hidden, vision_intermediate;
    const char *deepstack;
    int64_t total, tower;
    double per_token, head, per_patch;
} lt_qwen_size;
extern const lt_qwen_size lt_qwen_sizes[];
extern const int lt_n_qwen_sizes;

/**
 * The text of its config.json. newer: rope_parameters instead of rope_theta and rope_scaling, dtype
 * instead of torch_dtype.
 */
const char *lt_qwen_config_text(void *state, const lt_qwen_size *size, bool newer);

/**
 * A tiny model of awkward sizes, tied: 6 heads of 32 and one kv head on hidden 64, patches of 16
 * pixels, deepstack after blocks 0 and 1 of 3, 5 vision heads of 8.
 */
extern const char lt_qwen_odd_config[];

/** text with the first `from` in it replaced; fails the test when it isn't there. */
const char *lt_test_replace(void *state, const char *text, const char *from, const char *to);
#endif
