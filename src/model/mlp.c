// SPDX-License-Identifier: Apache-2.0
// The dense MLPs.
#include "model/mlp.h"
#include "model/assemble.h"
#include "op/linear.h"
#include "op/swiglu.h"

lt_val lt_swiglu_mlp(lt_builder *b, lt_val h, const char *path)
{
    lt_val gate = lt_linear(b, h, lt_path_of("%s.gate_proj", path).s);
    lt_val up = lt_linear(b, h, lt_path_of("%s.up_proj", path).s);
    return lt_linear(b, lt_swiglu(b, gate, up), lt_path_of("%s.down_proj", path).s);
}

lt_val lt_gelu_mlp(lt_builder *b, lt_val h, const char *fc1, const char *fc2, lt_gelu_kind kind)
{
    return lt_linear(b, lt_gelu(b, lt_linear(b, h, fc1), kind), fc2);
}
