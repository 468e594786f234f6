// SPDX-License-Identifier: Apache-2.0
// FLOPs of a training step, counted from the blocks: matrices once per row, attention by the
// squares of segments.
#include "model/model.h"
#include <string.h>

// source: spec/models.md 10.1. Causal attention counts half of the square.
enum { PER_MAC = 2, ATTENTION_PER_PAIR = 4 };

static double squares(const lt_tensor *segments)
{
    const int32_t *s = segments->host ? segments->host : segments->data;
    double sum = 0;
    for (int64_t i = 0; s && i + 1 < lt_n_elems(segments); i++) {
        const double len = (double)s[i + 1] - s[i];
        sum += len * len;
    }
    return sum;
}

void lt_work_add(lt_work *work, const lt_batch_view *batch)
{
    work->tokens += (double)batch->extents.n[LT_EXT_TOKENS];
    work->patches += (double)batch->extents.n[LT_EXT_PATCHES];
    work->frames += (double)batch->extents.n[LT_EXT_FRAMES];
    work->merged += (double)batch->extents.n[LT_EXT_MERGED];
    work->token_squares += squares(&batch->value[LT_BATCH_SEGMENTS]);
    work->patch_squares += squares(&batch->value[LT_BATCH_FRAME_SEGMENTS]);
}

static double rows_of(const lt_kind_cost *cost, const lt_work *work)
{
    return cost->rows == LT_EXT_PATCHES  ? work->patches + (cost->class_rows ? work->frames : 0)
           : cost->rows == LT_EXT_MERGED ? work->merged
                                         : work->tokens;
}

// Matrix elements of a block that a row is multiplied with: of experts those of its k.
static double matrix_elems(const lt_model *m, const lt_block *block, bool trainable_only)
{
    double sum = 0;
    for (int32_t i = 0; i < block->kind->n_params; i++) {
        const lt_param *p = &m->params[block->params[i]];
        const char *table = block->cost->table;
        const bool looked_up = table && strcmp(table, block->kind->params[i].name) == 0;
        const bool routed = p->rank == 3 && block->cost->experts > 0;
        const double share =
            routed ? (double)block->cost->picked / (double)block->cost->experts : 1.0;
        if (p->rank > 1 && !looked_up && (p->trainable || !trainable_only))
            sum += share * (double)p->n_elems;
    }
    return sum;
}

static double attention(const lt_kind_cost *cost, const lt_work *work)
{
    // (n + 1)^2 = n^2 + 2n + 1 for each frame
    const double more = cost->class_rows ? 2 * work->patches + work->frames : 0;
    const double pairs = cost->causal ? work->token_squares / 2 : work->patch_squares + more;
    return ATTENTION_PER_PAIR * pairs * (double)cost->attention_width +
           (double)cost->scan * rows_of(cost, work);
}

// Where a part's products and attention are listed.
static void list(lt_flops *f, lt_part part, double products, double pairs)
{
    double *const to[][2] = {[LT_PART_TEXT] = {&f->text, &f->text_attention},
                             [LT_PART_HEAD] = {&f->head, NULL},
                             [LT_PART_VISION] = {&f->vision, &f->vision_attention},
                             [LT_PART_PATCH_EMBED] = {&f->patch_embed, NULL},
                             [LT_PART_MERGERS] = {&f->mergers, NULL}};
    *to[part][0] += products;
    if (to[part][1])
        *to[part][1] += pairs;
}

lt_flops lt_model_flops(const lt_model *model, const lt_work *work)
{
    lt_flops f = {0};
    bool needs[LT_MAX_BLOCKS], vision_trains = false;
    lt_model_needs_grad(model, needs);
    for (int32_t i = 0; i < model->n_blocks; i++) {
        const lt_block *block = &model->blocks[i];
        const lt_part part = block->cost->part;
        if (part == LT_PART_NONE || block->role == LT_BLOCK_LOGITS)
            continue;
        const double per_elem = PER_MAC * rows_of(block->cost, work),
                     pairs = attention(block->cost, work);
        const double products = per_elem * matrix_elems(model, block, false);
        list(&f, part, products, pairs);
        f.forward += products + pairs;
        f.step += products + pairs + per_elem * matrix_elems(model, block, true);
        if (needs[i])
            f.step +=
                2 * pairs + (part == LT_PART_PATCH_EMBED ? 0 : products); // pixels have no gradient
        vision_trains |= needs[i] && part == LT_PART_VISION;
    }
    f.plain = 3 * (f.text + f.text_attention + f.head) +
              (vision_trains ? 3 : 1) * (f.vision + f.vision_attention);
    return f;
}
