// SPDX-License-Identifier: Apache-2.0
// InternViT block by block, then pixel shuffle and projector. The names of weights come in two
// sets.
#include "model/intern_vit.h"
#include "model/mlp.h"
#include "op/attention.h"
#include "op/cast.h"
#include "op/fold.h"
#include "op/layer_norm.h"
#include "op/linear.h"
#include "op/rms_norm.h"
#include "op/scale_add.h"
#include "op/split.h"
#include "op/tiles.h"
#include <string.h>

#define PROJECTOR_EPS 1e-5 // in no file: the projector's definition has it
#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

// How the remote code and the library call the parts of a block, below its path.
typedef struct names {
    const char *cls, *table, *patch, *patches_path;
    const char *layers, *norm1, *norm2, *scale1, *scale2, *q_norm, *k_norm, *proj, *fc1, *fc2;
    const char *project_norm, *project1, *project2;
} names;

static const names library = {.cls = "cls_token",
                              .table = "position_embeddings",
                              .patches_path = "patch_embeddings",
                              .patch = "projection",
                              .layers = "encoder.layer",
                              .norm1 = "layernorm_before",
                              .norm2 = "layernorm_after",
                              .scale1 = "lambda_1",
                              .scale2 = "lambda_2",
                              .q_norm = "attention.q_norm.weight",
                              .k_norm = "attention.k_norm.weight",
                              .proj = "attention.projection_layer",
                              .fc1 = "mlp.fc1",
                              .fc2 = "mlp.fc2",
                              .project_norm = "layer_norm",
                              .project1 = "linear_1",
                              .project2 = "linear_2"};
static const names remote = {.cls = "class_embedding",
                             .table = "position_embedding",
                             .patches_path = "patch_embedding",
                             .patch = "",
                             .layers = "encoder.layers",
                             .norm1 = "norm1",
                             .norm2 = "norm2",
                             .scale1 = "ls1",
                             .scale2 = "ls2",
                             .q_norm = "attn.q_norm.weight",
                             .k_norm = "attn.k_norm.weight",
                             .proj = "attn.proj",
                             .fc1 = "mlp.fc1",
                             .fc2 = "mlp.fc2",
                             .project_norm = "0",
                             .project1 = "1",
                             .project2 = "3"};

static const names *names_of(const lt_vision_config *c)
{
    return c->intern.remote_names ? &remote : &library;
}

// ---- what the blocks compute ----

static lt_val norm(lt_builder *b, lt_val x, const char *path, const lt_vision_config *c)
{
    lt_val w = lt_param_if(b, path, ".weight");
    return c->intern.rms_norm ? lt_rms_norm(b, x, w, (lt_rms_norm_attr){.eps = c->eps})
                              : lt_layer_norm(b, x, w, lt_param_if(b, path, ".bias"), c->eps);
}

// A patch is a row of pixels already, so the published convolution is a plain product.
static lt_status build_patches(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)in;
    const bool bare = names_of(config)->patch[0] == '\0';
    lt_val pixels = lt_cast(b, lt_batch_of(b, LT_BATCH_PIXELS), lt_builder_compute(b));
    out[0] = lt_linear_of(b, pixels, lt_param_of(b, bare ? "weight" : "projection.weight"),
                          lt_param_of(b, bare ? "bias" : "projection.bias"));
    return lt_builder_status(b);
}

static lt_status build_rows(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const names *n = names_of(config);
    out[0] = lt_tile_embed(b, in[0], lt_param_of(b, n->table), lt_param_of(b, n->cls));
    return lt_builder_status(b);
}

static void project_qkv(lt_builder *b, lt_val h, const lt_vision_config *c, lt_val *qkv)
{
    const names *n = names_of(c);
    if (c->intern.remote_names) {
        lt_split_thirds(b, lt_linear(b, h, "attn.qkv"), qkv);
    } else {
        qkv[0] = lt_linear(b, h, "attention.q_proj");
        qkv[1] = lt_linear(b, h, "attention.k_proj");
        qkv[2] = lt_linear(b, h, "attention.v_proj");
    }
    if (c->intern.qk_norm) { // over all heads together
        const lt_rms_norm_attr how = {.eps = c->eps};
        qkv[0] = lt_rms_norm(b, qkv[0], lt_param_of(b, n->q_norm), how);
        qkv[1] = lt_rms_norm(b, qkv[1], lt_param_of(b, n->k_norm), how);
    }
}

static lt_status build_block(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_vision_config *c = config;
    const names *n = names_of(c);
    const int32_t heads = (int32_t)c->heads;
    lt_val x = in[0], qkv[3];
    project_qkv(b, norm(b, x, n->norm1, c), c, qkv);
    lt_val o = lt_attention(b, qkv[0], qkv[1], qkv[2],
                            (lt_attention_attr){.vision = true,
                                                .tiles = true,
                                                .heads = heads,
                                                .kv_heads = heads,
                                                .deterministic = c->deterministic});
    lt_val f = lt_linear(b, lt_name(b, o, "attn_out"), n->proj);
    x = lt_scale_add(b, x, lt_param_of(b, n->scale1), f);
    f = lt_gelu_mlp(b, norm(b, x, n->norm2, c), n->fc1, n->fc2, LT_GELU_ERF);
    out[0] = lt_scale_add(b, x, lt_param_of(b, n->scale2), f);
    return lt_builder_status(b);
}

// In published models it does not exist (use_mean_pooling).
static lt_status build_norm(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_vision_config *c = config;
    out[0] = lt_layer_norm(b, in[0], lt_param_of(b, "weight"), lt_param_of(b, "bias"), c->eps);
    return lt_builder_status(b);
}

// Pixel shuffle: patches come in merge groups, so it lays rows of a group side by side.
static lt_status build_projector(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_vision_config *c = config;
    const names *n = names_of(c);
    lt_val x = lt_fold_rows(b, lt_tile_patches(b, in[0]), c->merge * c->merge);
    x = lt_layer_norm(b, x, lt_param_if(b, n->project_norm, ".weight"),
                      lt_param_if(b, n->project_norm, ".bias"), PROJECTOR_EPS);
    out[0] = lt_gelu_mlp(b, x, n->project1, n->project2, LT_GELU_ERF);
    return lt_builder_status(b);
}

// ---- their parameters ----

enum { LIST_MAX = 20 };

// A kind's parameter list, in the order of the published model.
typedef struct list {
    lt_assembly *a;
    lt_param_spec spec[LIST_MAX];
    int32_t n;
} list;

static void put(list *l, const char *path, const char *suffix, lt_param_spec spec)
{
    char *name = NULL;
    LT_ASSERT(l->n < LIST_MAX);
    if (l->a->status == LT_OK)
        l->a->status = lt_arena_printf(l->a->arena, &name, "%s%s", path, suffix);
    spec.name = name ? name : "";
    l->spec[l->n++] = spec;
}

static void put_linear(list *l, const char *path, int64_t rows, int64_t cols, bool bias)
{
    put(l, path, ".weight", (lt_param_spec)LT_MATRIX("", rows, cols));
    if (bias)
        put(l, path, ".bias", (lt_param_spec)LT_BIAS("", rows));
}

static void put_norm(list *l, const char *path, int64_t width, bool bias)
{
    put(l, path, ".weight", (lt_param_spec)LT_SCALE("", width));
    if (bias)
        put(l, path, ".bias", (lt_param_spec)LT_BIAS("", width));
}

static void put_scale(list *l, const char *name, const lt_vision_config *c)
{
    put(l, name, "",
        (lt_param_spec){
            .rank = 1, .dim = {c->hidden}, .init = LT_INIT_VALUE, .value = c->intern.layer_scale});
}

static const lt_block_kind *patches_kind(lt_assembly *a, const lt_vision_config *c)
{
    list l = {.a = a};
    const char *path = names_of(c)->patch, *dot = path[0] ? "." : "";
    put(&l, path, lt_path_of("%sweight", dot).s,
        (lt_param_spec){.rank = 4,
                        .dim = {c->hidden, c->channels, c->patch, c->patch},
                        .init = LT_INIT_NORMAL});
    put(&l, path, lt_path_of("%sbias", dot).s, (lt_param_spec)LT_BIAS("", c->hidden));
    const lt_block_kind kind = {"intern_patches", l.n, 0, 1, l.spec, c, build_patches};
    const lt_kind_cost cost = {.part = LT_PART_PATCH_EMBED, .rows = LT_EXT_PATCHES};
    return lt_assemble_kind(a, &kind, &cost);
}

// The remote code draws both from N(0, 1) and the library starts at 0; lathe starts at 0.
static const lt_block_kind *rows_kind(lt_assembly *a, const lt_vision_config *c)
{
    const names *n = names_of(c);
    list l = {.a = a};
    put(&l, n->cls, "", (lt_param_spec){.rank = 3, .dim = {1, 1, c->hidden}, .init = LT_INIT_ZERO});
    put(&l, n->table, "",
        (lt_param_spec){.rank = 3, .dim = {1, c->position_rows, c->hidden}, .init = LT_INIT_ZERO});
    const lt_block_kind kind = {"intern_rows", l.n, 1, 1, l.spec, c, build_rows};
    return lt_assemble_kind(a, &kind, &(lt_kind_cost){.part = LT_PART_NONE});
}

static void put_attention(list *l, const lt_vision_config *c)
{
    static const char *const apart[] = {"attention.q_proj", "attention.k_proj", "attention.v_proj"};
    const names *n = names_of(c);
    if (c->intern.remote_names)
        put_linear(l, "attn.qkv", 3 * c->hidden, c->hidden, c->intern.qkv_bias);
    for (int i = 0; i < 3 && !c->intern.remote_names; i++)
        put_linear(l, apart[i], c->hidden, c->hidden, c->intern.qkv_bias);
    if (!c->intern.remote_names)
        put_linear(l, n->proj, c->hidden, c->hidden, true);
    if (c->intern.qk_norm) {
        put(l, n->q_norm, "", (lt_param_spec)LT_SCALE("", c->hidden));
        put(l, n->k_norm, "", (lt_param_spec)LT_SCALE("", c->hidden));
    }
    if (c->intern.remote_names)
        put_linear(l, n->proj, c->hidden, c->hidden, true);
}

static const lt_block_kind *block_kind(lt_assembly *a, const lt_vision_config *c)
{
    const names *n = names_of(c);
    list l = {.a = a};
    put_scale(&l, n->scale1, c);
    put_scale(&l, n->scale2, c);
    put_attention(&l, c);
    put_linear(&l, n->fc1, c->intermediate, c->hidden, true);
    put_linear(&l, n->fc2, c->hidden, c->intermediate, true);
    put_norm(&l, n->norm1, c->hidden, !c->intern.rms_norm);
    put_norm(&l, n->norm2, c->hidden, !c->intern.rms_norm);
    const lt_block_kind kind = {"intern_block", l.n, 1, 1, l.spec, c, build_block};
    const lt_kind_cost cost = {.part = LT_PART_VISION,
                               .rows = LT_EXT_PATCHES,
                               .class_rows = true,
                               .attention_width = c->hidden};
    return lt_assemble_kind(a, &kind, &cost);
}

static const lt_block_kind *projector_kind(lt_assembly *a, const lt_vision_config *c)
{
    const names *n = names_of(c);
    const int64_t group = c->merge * c->merge * c->hidden;
    list l = {.a = a};
    put_norm(&l, n->project_norm, group, true);
    put_linear(&l, n->project1, c->out_hidden, group, true);
    put_linear(&l, n->project2, c->out_hidden, c->out_hidden, true);
    const lt_block_kind kind = {"intern_projector", l.n, 1, 1, l.spec, c, build_projector};
    const lt_kind_cost cost = {.part = LT_PART_MERGERS, .rows = LT_EXT_MERGED};
    return lt_assemble_kind(a, &kind, &cost);
}

static const lt_block_kind *norm_kind(lt_assembly *a, const lt_vision_config *c)
{
    const lt_param_spec params[] = {LT_SCALE("weight", c->hidden), LT_BIAS("bias", c->hidden)};
    const lt_block_kind kind = {"intern_norm", COUNT(params), 1, 1, params, c, build_norm};
    return lt_assemble_kind(a, &kind, &(lt_kind_cost){.part = LT_PART_NONE});
}

lt_intern_tower lt_intern_tower_kinds(lt_assembly *a, const lt_vision_config *c)
{
    return (lt_intern_tower){.patches = patches_kind(a, c),
                             .rows = rows_kind(a, c),
                             .block = block_kind(a, c),
                             .norm = c->intern.final_norm ? norm_kind(a, c) : NULL,
                             .projector = projector_kind(a, c)};
}

// Parameters below two places at once: tower.SUFFIX, and old_tower.SUFFIX where there is one.
static void add(lt_assembly *a, const lt_intern_names *n, const char *suffix,
                const lt_block_kind *kind, double std)
{
    const lt_path_text old = lt_path_of("%s.%s", n->old_tower ? n->old_tower : "", suffix);
    lt_assemble_known_as(a, lt_path_of("%s.%s", n->tower, suffix).s, n->old_tower ? old.s : NULL,
                         kind, std);
}

void lt_intern_tower_params(lt_assembly *a, const lt_vision_config *c, const lt_intern_names *n,
                            const lt_intern_tower *k)
{
    const double std = c->initializer_range;
    add(a, n, "embeddings", k->rows, std);
    add(a, n, lt_path_of("embeddings.%s", names_of(c)->patches_path).s, k->patches, std);
    for (int j = 0; j < (int)c->depth; j++)
        add(a, n, lt_path_of("%s.%d", names_of(c)->layers, j).s, k->block, std);
    if (k->norm)
        add(a, n, "layernorm", k->norm, std);
}

void lt_intern_projector_params(lt_assembly *a, const lt_vision_config *c, const lt_intern_names *n,
                                const lt_intern_tower *k)
{
    lt_assemble_known_as(a, n->projector, n->old_projector, k->projector, c->initializer_range);
}

// ---- the tower ----

static lt_edge add_block(lt_assembly *a, lt_path_text name, const lt_block_kind *kind,
                         const lt_edge *inputs)
{
    return lt_assemble_block(a, name.s, name.s, kind, inputs, LT_BLOCK_BODY);
}

lt_edge lt_intern_tower_blocks(lt_assembly *a, const lt_vision_config *c, const lt_intern_names *n,
                               const lt_intern_tower *k)
{
    lt_edge x = add_block(a, lt_path_of("%s.embeddings.%s", n->tower, names_of(c)->patches_path),
                          k->patches, NULL);
    x = add_block(a, lt_path_of("%s.embeddings", n->tower), k->rows, &x);
    for (int j = 0; j < (int)c->depth; j++)
        x = add_block(a, lt_path_of("%s.%s.%d", n->tower, names_of(c)->layers, j), k->block, &x);
    if (k->norm)
        x = add_block(a, lt_path_of("%s.layernorm", n->tower), k->norm, &x);
    return add_block(a, lt_path_of("%s", n->projector), k->projector, &x);
}
