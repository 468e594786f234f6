// SPDX-License-Identifier: Apache-2.0
// One compiled block per kind, input shapes, gradients and policy: layers that differ only in
// parameters share it.
#include "plan/compile_blocks.h"

#include "op/add.h"
#include "op/cast.h"

#include <string.h>

bool lt_program_uses(const lt_program *p, int32_t block)
{
    switch (p->opts.model->blocks[block].role) {
    case LT_BLOCK_BODY:
        return true;
    case LT_BLOCK_LOSS:
        return p->opts.mode == LT_MODE_TRAIN ||
               (p->opts.mode == LT_MODE_LOSS && block != p->opts.model->next_block);
    case LT_BLOCK_SIDE:
        return p->opts.mode == LT_MODE_TRAIN;
    case LT_BLOCK_LOGITS:
        break;
    }
    return p->opts.mode == LT_MODE_LOGITS;
}

static lt_val copy_value(lt_builder *b, lt_val x)
{
    const lt_cast_attr attr = {.dtype = lt_value_tensor(b, x).dtype};
    return lt_op_apply(b, &lt_op_cast, &x, 1, &attr, sizeof attr, NULL);
}

// What makes two compiled blocks equal. Compared field by field.
typedef struct block_key {
    const lt_block_kind *kind;
    lt_policy policy;
    int32_t first; /* the first block that has it */
    lt_tensor edge_in[LT_MAX_IN];
    bool edge_needs[LT_MAX_IN], out_has_grad[LT_MAX_OUT];
    bool *trainable; /* [n_params] */
    lt_compiled *compiled;
} block_key;

static bool same_key(const block_key *a, const block_key *b)
{
    if (a->kind != b->kind || a->policy != b->policy)
        return false;
    for (int32_t i = 0; i < a->kind->n_in; i++) {
        if (!lt_same_shape(&a->edge_in[i], &b->edge_in[i]) ||
            a->edge_in[i].dtype != b->edge_in[i].dtype || a->edge_needs[i] != b->edge_needs[i])
            return false;
    }
    for (int32_t i = 0; i < a->kind->n_out; i++)
        if (a->out_has_grad[i] != b->out_has_grad[i])
            return false;
    for (int32_t i = 0; i < a->kind->n_params; i++)
        if (a->trainable[i] != b->trainable[i])
            return false;
    return true;
}

static lt_tensor output_shape(const lt_program *p, lt_edge e)
{
    const lt_graph *g = &p->compiled[e.block]->graph;
    return LT_AT(&g->values, lt_value, g->edge_out[e.output]).tensor;
}

// An output gets a gradient when a used block above it computes one for its input.
static void find_out_grads(const lt_program *p, int32_t block, const bool *needs, bool *out)
{
    const lt_model *m = p->opts.model;
    for (int i = 0; i < LT_MAX_OUT; i++)
        out[i] = false;
    for (int32_t c = block + 1; needs[block] && c < m->n_blocks; c++) {
        for (int32_t k = 0; lt_program_uses(p, c) && k < m->blocks[c].kind->n_in; k++)
            if (m->blocks[c].inputs[k].block == block)
                out[m->blocks[c].inputs[k].output] = true;
    }
}

static lt_status compile_one(lt_program *p, const block_key *key, lt_compiled **out)
{
    const lt_program_opts *o = &p->opts;
    const lt_compile_opts opts = {
        .build = {.kind = key->kind,
                  .block_name = o->model->blocks[key->first].name,
                  .compute = o->compute,
                  .capacity = o->capacity,
                  .pixel_width = o->model->pixel_width,
                  .edge_in = key->edge_in,
                  .edge_needs_grad = key->edge_needs,
                  .param_trainable = key->trainable},
        .policy = key->policy,
        .backend = o->backend,
        .keep_attention = o->keep_attention,
        .keep_scans = o->keep_scans,
        .train = o->mode == LT_MODE_TRAIN,
        .out_has_grad = key->out_has_grad,
        .helpers = {.add = lt_add, .copy = copy_value},
    };
    LT_TRY(lt_compile(&opts, out));
    return lt_vec_push(&p->owned, out);
}

static lt_status compile_block(lt_program *p, lt_policy policy, const bool *needs, int32_t i,
                               lt_arena *arena, lt_vec *keys)
{
    const lt_model *m = p->opts.model;
    const lt_block *block = &m->blocks[i];
    const bool train = p->opts.mode == LT_MODE_TRAIN;
    void *memory = NULL;
    block_key key = {.kind = block->kind, .policy = policy, .first = i};
    LT_TRY(lt_arena_take(arena, (size_t)block->kind->n_params * sizeof(bool), &memory));
    key.trainable = memory;
    for (int32_t k = 0; k < block->kind->n_params; k++)
        key.trainable[k] = train && m->params[block->params[k]].trainable;
    for (int32_t k = 0; k < block->kind->n_in; k++) {
        key.edge_in[k] = output_shape(p, block->inputs[k]);
        key.edge_needs[k] = train && needs[block->inputs[k].block];
    }
    if (train)
        find_out_grads(p, i, needs, key.out_has_grad);
    for (int64_t k = 0; k < keys->n; k++) {
        if (same_key(&LT_AT(keys, block_key, k), &key)) {
            p->compiled[i] = LT_AT(keys, block_key, k).compiled;
            return LT_OK;
        }
    }
    LT_TRY(compile_one(p, &key, &key.compiled));
    p->compiled[i] = key.compiled;
    return lt_vec_push(keys, &key);
}

lt_status lt_compile_blocks(lt_program *p, const lt_policy *policy, const bool *needs)
{
    lt_arena *arena = NULL;
    LT_TRY(lt_arena_create(&arena, "keys of compiled blocks"));
    lt_vec keys = LT_VEC_OF(block_key);
    lt_status st = LT_OK;
    for (int32_t i = 0; st == LT_OK && i < p->opts.model->n_blocks; i++)
        if (lt_program_uses(p, i))
            st = compile_block(p, policy[i], needs, i, arena, &keys);
    lt_vec_deinit(&keys);
    lt_arena_destroy(arena);
    return st;
}
