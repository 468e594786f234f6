// SPDX-License-Identifier: Apache-2.0
// The dense MLPs: SwiGLU of decoders, and the two-matrix form of vision towers and mergers.
#ifndef LT_MODEL_MLP_H
#define LT_MODEL_MLP_H

#include "op/gelu.h"

/** Its rows of a decoder layer's parameter list (with model/assemble.h). */
#define LT_SWIGLU_PARAMS(hidden, intermediate)                                                     \
    LT_MATRIX("mlp.gate_proj.weight", intermediate, hidden),                                       \
        LT_MATRIX("mlp.up_proj.weight", intermediate, hidden),                                     \
        LT_MATRIX("mlp.down_proj.weight", hidden, intermediate)

/**
 * (silu(h W_g^T) * (h W_u^T)) W_d^T with PATH.gate_proj, PATH.up_proj, PATH.down_proj. source:
 * spec/models.md 5.5
 */
lt_val lt_swiglu_mlp(lt_builder *b, lt_val h, const char *path);

/** gelu(h W_1^T + b_1) W_2^T + b_2 with the two given module paths. source: spec/models.md 5.1 */
lt_val lt_gelu_mlp(lt_builder *b, lt_val h, const char *fc1, const char *fc2, lt_gelu_kind kind);
#endif
