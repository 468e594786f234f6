// SPDX-License-Identifier: Apache-2.0
// The prediction module.
#include "model/mtp.h"
#include "model/attention.h"
#include "op/embedding.h"
#include "op/linear.h"
#include "op/linear_cross_entropy.h"
#include "op/rows.h"
#include "op/split.h"

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

// Row t gets the embedding of token t + 1.
static lt_status build_embed(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    (void)config;
    (void)in;
    lt_val x = lt_embedding(b, lt_batch_of(b, LT_BATCH_IDS), lt_param_of(b, "weight"));
    out[0] = lt_shift_rows(b, x, 1);
    return lt_builder_status(b);
}

static lt_status build_join(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    lt_val e = lt_rms_norm(b, in[0], lt_param_of(b, "pre_fc_norm_embedding.weight"), lt_norm_of(c));
    lt_val h = lt_rms_norm(b, in[1], lt_param_of(b, "pre_fc_norm_hidden.weight"), lt_norm_of(c));
    out[0] = lt_linear(b, lt_join(b, e, h), "fc");
    return lt_builder_status(b);
}

static lt_status build_norm(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    out[0] = lt_rms_norm(b, in[0], lt_param_of(b, "weight"), lt_norm_of(config));
    return lt_builder_status(b);
}

// What row t - 1 predicts is the target of row t: so the rows move down by one, and targets and
// their rows serve again. The first row of a sample has nothing before it, and no weight.
static lt_status build_loss(lt_builder *b, const void *config, const lt_val *in, lt_val *out)
{
    const lt_text_config *c = config;
    lt_val h = lt_shift_rows(b, in[0], -1);
    h = lt_gather_rows(b, h, lt_batch_of(b, LT_BATCH_TARGET_ROWS));
    out[0] =
        lt_linear_cross_entropy(b, h, lt_param_of(b, "weight"), lt_batch_of(b, LT_BATCH_TARGETS),
                                lt_batch_of(b, LT_BATCH_NEXT_KAPPA), c->loss_rows);
    return lt_builder_status(b);
}

typedef struct mtp_kinds {
    const lt_block_kind *embed, *join, *norm, *loss;
} mtp_kinds;

static mtp_kinds make_kinds(lt_decoder *d)
{
    const lt_text_config *c = d->c;
    const lt_param_spec table[] = {LT_MATRIX("weight", c->vocab, c->hidden)},
                        scale[] = {LT_NORM("weight", c, c->hidden)};
    const lt_param_spec join_params[] = {LT_NORM("pre_fc_norm_embedding.weight", c, c->hidden),
                                         LT_NORM("pre_fc_norm_hidden.weight", c, c->hidden),
                                         LT_MATRIX("fc.weight", c->hidden, 2 * c->hidden)};
    const lt_kind_cost free_of_products = {.part = LT_PART_NONE},
                       text = {.part = LT_PART_TEXT, .rows = LT_EXT_TOKENS},
                       head = {.part = LT_PART_HEAD, .rows = LT_EXT_TOKENS};
    const lt_block_kind embed = {"mtp_embedding", 1, 0, 1, table, c, build_embed};
    const lt_block_kind join = {"mtp_join", COUNT(join_params), 2, 1, join_params, c, build_join};
    const lt_block_kind norm = {"mtp_norm", 1, 1, 1, scale, c, build_norm};
    const lt_block_kind loss = {"mtp_loss", 1, 1, 1, table, c, build_loss};
    return (mtp_kinds){.embed = lt_assemble_kind(d->a, &embed, &free_of_products),
                       .join = lt_assemble_kind(d->a, &join, &text),
                       .norm = lt_assemble_kind(d->a, &norm, &free_of_products),
                       .loss = lt_assemble_kind(d->a, &loss, &head)};
}

static const char layer_path[] = "mtp.layers.0";

void lt_mtp_params(lt_decoder *d)
{
    const mtp_kinds k = make_kinds(d);
    const double std = d->c->initializer_range;
    lt_assemble_params(d->a, layer_path, lt_decoder_full_layer(d), std);
    lt_assemble_params(d->a, "mtp", k.join, std);
    lt_assemble_params(d->a, "mtp.norm", k.norm, std);
}

void lt_mtp_blocks(lt_decoder *d)
{
    lt_assembly *a = d->a;
    const mtp_kinds k = make_kinds(d);
    const lt_path_text table = lt_path_of("%s.embed_tokens", d->names->text);
    const lt_edge e =
        lt_assemble_block(a, "mtp.embed_tokens", table.s, k.embed, NULL, LT_BLOCK_SIDE);
    lt_edge x =
        lt_assemble_block(a, "mtp.fc", "mtp", k.join, (lt_edge[]){e, d->last}, LT_BLOCK_SIDE);
    x = lt_assemble_block(a, layer_path, layer_path, lt_decoder_full_layer(d),
                          (lt_edge[]){x, d->table}, LT_BLOCK_SIDE);
    x = lt_assemble_block(a, "mtp.norm", "mtp.norm", k.norm, &x, LT_BLOCK_SIDE);
    a->model->next_block =
        lt_assemble_block(a, "mtp.head", d->names->head, k.loss, &x, LT_BLOCK_LOSS).block;
}
