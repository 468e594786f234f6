// SPDX-License-Identifier: Apache-2.0
// The list of rows. A new op is a new file and one line here.
#include "op/ops.h"
#include "op/adamw.h"
#include "op/add.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/clip.h"
#include "op/conv_silu.h"
#include "op/embedding.h"
#include "op/fold.h"
#include "op/gated_delta.h"
#include "op/gated_norm.h"
#include "op/gdn_gates.h"
#include "op/gelu.h"
#include "op/grouped_linear.h"
#include "op/layer_norm.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/moe_route.h"
#include "op/moe_rows.h"
#include "op/muon.h"
#include "op/pos_embed.h"
#include "op/qk_norm_rope.h"
#include "op/rms_norm.h"
#include "op/rope.h"
#include "op/rows.h"
#include "op/scale_add.h"
#include "op/split.h"
#include "op/swiglu.h"
#include "op/tiles.h"
#include "op/top1.h"
#include <string.h>

static const lt_op_def *const rows[] = {
    &lt_op_linear,
    &lt_op_rms_norm,
    &lt_op_add_rms_norm,
    &lt_op_layer_norm,
    &lt_op_qk_norm_rope,
    &lt_op_rope_table,
    &lt_op_vision_rope_table,
    &lt_op_split_qkv_rope,
    &lt_op_attention,
    &lt_op_add,
    &lt_op_copy,
    &lt_op_swiglu,
    &lt_op_gelu,
    &lt_op_moe_route,
    &lt_op_moe_stats,
    &lt_op_moe_balance,
    &lt_op_moe_permute,
    &lt_op_grouped_linear,
    &lt_op_swiglu_halves,
    &lt_op_moe_combine,
    &lt_op_embedding,
    &lt_op_scatter_rows,
    &lt_op_scatter_add_rows,
    &lt_op_gather_rows,
    &lt_op_shift_rows,
    &lt_op_pos_embed_add,
    &lt_op_tile_embed,
    &lt_op_tile_patches,
    &lt_op_scale_add,
    &lt_op_split_thirds,
    &lt_op_split_heads,
    &lt_op_join,
    &lt_op_conv_silu,
    &lt_op_gdn_gates,
    &lt_op_gated_delta,
    &lt_op_gated_rms_norm,
    &lt_op_sigmoid_gate,
    &lt_op_fold_rows,
    &lt_op_unfold_rows,
    &lt_op_cast,
    &lt_op_linear_cross_entropy,
    &lt_op_adamw,
    &lt_op_clip,
    &lt_op_sum_squares,
    &lt_op_muon_momentum,
    &lt_op_orthogonalize,
    &lt_op_muon_apply,
    &lt_op_top1,
};

const lt_op_def *const *lt_ops_all(int *n)
{
    *n = (int)(sizeof rows / sizeof rows[0]);
    return rows;
}

const lt_op_def *lt_op_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

static const char *column_text(const lt_op_def *def, lt_backend backend)
{
    const bool forward = def->forward[backend], backward = def->backward[backend];
    if (def->flags & LT_OP_VIEW)
        return "view";
    if (backend == LT_CPU && !forward && !backward)
        return "ref";
    return forward ? backward ? "fb" : "f" : backward ? "b" : "-";
}

static const char *gradient_text(const lt_op_def *def)
{
    return def->grad ? "nodes" : def->backward[LT_REF] ? "kernel" : "none";
}

lt_status lt_ops_print(lt_buf *out)
{
    static const struct {
        uint32_t flag;
        const char *text;
    } flags[] = {{LT_OP_CHEAP, "cheap"},
                 {LT_OP_VIEW, "view"},
                 {LT_OP_MUST_SAVE, "must-save"},
                 {LT_OP_RECURRENCE, "recurrence"},
                 {LT_OP_IN_PLACE, "in-place"},
                 {LT_OP_YIELDS_IN_BACKWARD, "yields-in-backward"},
                 {LT_OP_ALWAYS_SAVE, "always-save"}};
    LT_TRY(lt_buf_text(out, "op                    in out  ref  cpu  cuda gradient flags\n"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const lt_op_def *r = rows[i];
        LT_TRY(lt_buf_printf(out, "%-20s %3d %3d  %-4s %-4s %-4s %s", r->name, r->n_in, r->n_out,
                             column_text(r, LT_REF), column_text(r, LT_CPU),
                             column_text(r, LT_CUDA), gradient_text(r)));
        int pad = 8 - (int)strlen(gradient_text(r));
        for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
            if (r->flags & flags[f].flag) {
                LT_TRY(lt_buf_printf(out, "%*s %s", pad, "", flags[f].text));
                pad = 0;
            }
        }
        LT_TRY(lt_buf_text(out, "\n"));
    }
    return LT_OK;
}
