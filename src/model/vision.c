// SPDX-License-Identifier: Apache-2.0
// The vision tower of the Qwen families, block by block.
#include "model/vision.h"
#include "model/mlp.h"
#include "op/add.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/fold.h"
#include "op/layer_norm.h"
#include "op/linear.h"
#include "op/pos_embed.h"
#include "op/rope.h"

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))
#define NORM(n, width) LT_SCALE(n ".weight", width), LT_BIAS(n ".bias", width)
#define LINEAR(n, rows, cols) LT_MATRIX(n ".weight", rows, cols), LT_BIAS(n ".bias", rows)

// ---- what the blocks compute ----

static lt_val layer_norm(lt_builder *b, lt_val x, const char *path, const lt_vision_config *c)
{
    return lt_layer_norm(b, x, lt_param_if(b, path, ".weight"), lt_param_if(b, path, ".bias"),
                         c->eps);
}

static lt_status build_rope(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)in;
    const lt_vision_config *c = config;
    out[0] = lt_vision_rope_table(b, lt_batch_of(b, LT_BATCH_PATCH_POS), c->rope_theta,
                                  (int32_t)c->head_dim);
    return lt_builder_status(b);
}

// A patch is a row of pixels already, so the published convolution is a plain product; then its
// place in the frame.
static lt_status build_patch_embed(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)config;
    (void)in;
    lt_val pixels = lt_cast(b, lt_batch_of(b, LT_BATCH_PIXELS), lt_builder_compute(b));
    lt_val z = lt_linear(b, pixels, "patch_embed.proj");
    out[0] =
        lt_pos_embed_add(b, z, lt_param_of(b, "pos_embed.weight"), lt_batch_of(b, LT_BATCH_CORNERS),
                         lt_batch_of(b, LT_BATCH_CORNER_WEIGHTS));
    return lt_builder_status(b);
}

static lt_status build_block(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_vision_config *c = config;
    const int32_t heads = (int32_t)c->heads;
    lt_val z = in[0], table = in[1], qkv[3];
    lt_split_qkv_rope(b, lt_linear(b, layer_norm(b, z, "norm1", c), "attn.qkv"), table, heads, qkv);
    lt_val o = lt_attention(
        b, qkv[0], qkv[1], qkv[2],
        (lt_attention_attr){
            .vision = true, .heads = heads, .kv_heads = heads, .deterministic = c->deterministic});
    z = lt_add(b, z, lt_linear(b, lt_name(b, o, "attn_out"), "attn.proj"));
    lt_val m = lt_gelu_mlp(b, layer_norm(b, z, "norm2", c), "mlp.linear_fc1", "mlp.linear_fc2",
                           LT_GELU_TANH);
    out[0] = lt_add(b, z, m);
    return lt_builder_status(b);
}

// Norm of each patch, then the patches of a merge group side by side.
static lt_status build_merger(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_vision_config *c = config;
    lt_val x = lt_fold_rows(b, layer_norm(b, in[0], "norm", c), c->merge * c->merge);
    out[0] = lt_gelu_mlp(b, x, "linear_fc1", "linear_fc2", LT_GELU_ERF);
    return lt_builder_status(b);
}

// The other order: side by side first, then one norm over the group.
static lt_status build_deepstack_merger(lt_builder *b, const void *config, const lt_val *in,
                                        lt_val *out)
{
    const lt_vision_config *c = config;
    lt_val x = layer_norm(b, lt_fold_rows(b, in[0], c->merge * c->merge), "norm", c);
    out[0] = lt_gelu_mlp(b, x, "linear_fc1", "linear_fc2", LT_GELU_ERF);
    return lt_builder_status(b);
}

// ---- their parameters ----

typedef struct tower_kinds {
    const lt_block_kind *rope, *patch_embed, *block, *merger, *deepstack_merger;
} tower_kinds;

static const lt_block_kind *patch_embed_kind(lt_assembly *a, const lt_vision_config *c)
{
    const lt_param_spec params[] = {
        {.name = "patch_embed.proj.weight",
         .rank = 5,
         .dim = {c->hidden, c->channels, c->temporal_patch, c->patch, c->patch},
         .init = LT_INIT_NORMAL},
        LT_BIAS("patch_embed.proj.bias", c->hidden),
        LT_MATRIX("pos_embed.weight", c->position_rows, c->hidden),
    };
    const lt_block_kind kind = {"vision_patch_embed", COUNT(params), 0, 1, params, c,
                                build_patch_embed};
    const lt_kind_cost cost = {
        .part = LT_PART_PATCH_EMBED, .rows = LT_EXT_PATCHES, .table = "pos_embed.weight"};
    return lt_assemble_kind(a, &kind, &cost);
}

static const lt_block_kind *block_kind(lt_assembly *a, const lt_vision_config *c)
{
    const lt_param_spec params[] = {
        NORM("norm1", c->hidden),
        NORM("norm2", c->hidden),
        LINEAR("attn.qkv", 3 * c->hidden, c->hidden),
        LINEAR("attn.proj", c->hidden, c->hidden),
        LINEAR("mlp.linear_fc1", c->intermediate, c->hidden),
        LINEAR("mlp.linear_fc2", c->hidden, c->intermediate),
    };
    const lt_block_kind kind = {"vision_block", COUNT(params), 2, 1, params, c, build_block};
    const lt_kind_cost cost = {
        .part = LT_PART_VISION, .rows = LT_EXT_PATCHES, .attention_width = c->hidden};
    return lt_assemble_kind(a, &kind, &cost);
}

static const lt_block_kind *merger_kind(lt_assembly *a, const lt_vision_config *c, bool deepstack)
{
    const int64_t group = c->merge * c->merge * c->hidden;
    const lt_param_spec params[] = {
        NORM("norm", deepstack ? group : c->hidden),
        LINEAR("linear_fc1", group, group),
        LINEAR("linear_fc2", c->out_hidden, group),
    };
    const lt_block_kind kind = {
        deepstack ? "deepstack_merger" : "merger",        COUNT(params), 1, 1, params, c,
        deepstack ? build_deepstack_merger : build_merger};
    const lt_kind_cost cost = {.part = LT_PART_MERGERS, .rows = LT_EXT_MERGED};
    return lt_assemble_kind(a, &kind, &cost);
}

static tower_kinds make_kinds(lt_assembly *a, const lt_vision_config *c)
{
    const lt_block_kind rope = {
        .name = "vision_rope", .n_out = 1, .config = c, .build = build_rope};
    return (tower_kinds){.rope = lt_assemble_kind(a, &rope, &(lt_kind_cost){.part = LT_PART_NONE}),
                         .patch_embed = patch_embed_kind(a, c),
                         .block = block_kind(a, c),
                         .merger = merger_kind(a, c, false),
                         .deepstack_merger = c->n_deepstack > 0 ? merger_kind(a, c, true) : NULL};
}

// ---- the tower ----

static void add_params(lt_assembly *a, const lt_vision_config *c, const char *prefix,
                       const tower_kinds *k)
{
    lt_assemble_params(a, prefix, k->patch_embed, c->initializer_range);
    for (int j = 0; j < (int)c->depth; j++)
        lt_assemble_params(a, lt_path_of("%s.blocks.%d", prefix, j).s, k->block,
                           c->initializer_range);
    lt_assemble_params(a, lt_path_of("%s.merger", prefix).s, k->merger, c->initializer_range);
    for (int m = 0; m < c->n_deepstack; m++)
        lt_assemble_params(a, lt_path_of("%s.deepstack_merger_list.%d", prefix, m).s,
                           k->deepstack_merger, c->initializer_range);
}

static lt_edge add_block(lt_assembly *a, lt_path_text name, const lt_block_kind *kind,
                         const lt_edge *inputs)
{
    return lt_assemble_block(a, name.s, name.s, kind, inputs, LT_BLOCK_BODY);
}

lt_tower lt_assemble_tower(lt_assembly *a, const lt_vision_config *c, const char *prefix,
                           int32_t n_read)
{
    lt_tower t = {.n_deepstack = 0};
    const tower_kinds k = make_kinds(a, c);
    add_params(a, c, prefix, &k);
    const lt_edge table = add_block(a, lt_path_of("%s.rotary_pos_emb", prefix), k.rope, NULL);
    lt_edge z = lt_assemble_block(a, lt_path_of("%s.patch_embed", prefix).s, prefix, k.patch_embed,
                                  NULL, LT_BLOCK_BODY);
    for (int j = 0; j < (int)c->depth; j++) {
        z = add_block(a, lt_path_of("%s.blocks.%d", prefix, j), k.block, (lt_edge[]){z, table});
        const int m = t.n_deepstack;
        if (m < c->n_deepstack && m < n_read && c->deepstack[m] == j)
            t.deepstack[t.n_deepstack++] = add_block(
                a, lt_path_of("%s.deepstack_merger_list.%d", prefix, m), k.deepstack_merger, &z);
    }
    t.merged = add_block(a, lt_path_of("%s.merger", prefix), k.merger, &z);
    return t;
}
