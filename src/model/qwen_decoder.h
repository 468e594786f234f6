// SPDX-License-Identifier: Apache-2.0
// The Qwen3-VL models behind their config: tower, decoder with dense and sparse layers, head.
// Internal to src/model.
#ifndef LT_MODEL_QWEN_DECODER_H
#define LT_MODEL_QWEN_DECODER_H

#include "model/assemble.h"

/**
 * All of a Qwen3-VL model: a lt_family's `build`. Which layers have routed experts follows from the
 * config; without experts none has.
 *
 * source   spec/models.md 3.1, 3.2, 5.3 to 5.6
 */
void lt_qwen_vl_build(lt_assembly *a);
#endif
