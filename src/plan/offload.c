// SPDX-License-Identifier: Apache-2.0
// What the backward reads of a block, on the host meanwhile: its first input goes down while the
// block runs, and comes back one block ahead.
#include "plan/compile_blocks.h"
#include "plan/maker.h"

static bool has_something(const lt_maker *k, int32_t block)
{
    const lt_block *b = &k->m->blocks[block];
    return lt_program_uses(k->p, block) && k->needs[block] && b->role == LT_BLOCK_BODY &&
           b->kind->n_in > 0 && k->p->compiled[block]->reads_edge_in[0];
}

// The last one stays on the device: the backward begins with it.
void lt_choose_offloads(lt_maker *k)
{
    const bool *wanted = k->p->opts.offload;
    int32_t last = LT_NONE;
    for (int32_t b = 0; wanted && b < k->m->n_blocks; b++) {
        k->offload[b] = wanted[b] && has_something(k, b);
        last = k->offload[b] ? b : last;
    }
    if (last != LT_NONE)
        k->offload[last] = false;
}

static lt_status offload(lt_maker *k, int32_t block, int32_t output, int32_t from, int32_t *to)
{
    LT_TRY(lt_make_buffer(k, LT_BUF_HOST, block, output, lt_buffer_bytes(k, from), to));
    LT_TRY(lt_make_action(k, LT_ACT_OFFLOAD, from, LT_QUEUE_D2H));
    lt_last_action(k)->other = *to;
    lt_last_action(k)->bytes = lt_buffer_bytes(k, from);
    LT_TRY(lt_make_access(k, from, false));
    return lt_make_access(k, *to, true);
}

// The copy stands before the FORWARD that reads the same bytes: they are given up when both are
// done, so that at most this input and the next one are on the device.
lt_status lt_make_offload(lt_maker *k, int32_t block)
{
    if (!k->offload[block])
        return LT_OK;
    const lt_edge e = k->m->blocks[block].inputs[0];
    int32_t *host = &k->edge_host[e.block * LT_MAX_OUT + e.output];
    return *host == LT_NONE ? offload(k, e.block, e.output, *lt_edge_buffer(k->p, e), host) : LT_OK;
}

// What a block keeps beside its input (results of attention) goes down while the next block runs:
// the copy stands behind that one's FORWARD.
lt_status lt_make_offload_saved(lt_maker *k, int32_t block)
{
    int32_t before = block - 1;
    while (before >= 0 && !k->offload[before])
        before--;
    if (before < 0 || k->saved_host[before] != LT_NONE || k->p->saved_buffer[before] == LT_NONE ||
        k->policy[before] != LT_FULL)
        return LT_OK;
    return offload(k, before, LT_NONE, k->p->saved_buffer[before], &k->saved_host[before]);
}

static lt_status fetch(lt_maker *k, int32_t from, lt_buffer_kind kind, int32_t *to)
{
    if (from == LT_NONE || *to != LT_NONE)
        return LT_OK;
    const lt_buffer host = LT_AT(&k->p->buffers, lt_buffer, from);
    LT_TRY(lt_make_buffer(k, kind, host.a, kind == LT_BUF_SAVED ? 0 : host.b, host.bytes, to));
    LT_TRY(lt_make_action(k, LT_ACT_FETCH, *to, LT_QUEUE_H2D));
    lt_last_action(k)->other = from;
    lt_last_action(k)->bytes = host.bytes;
    LT_TRY(lt_make_access(k, from, false));
    return lt_make_access(k, *to, true);
}

static lt_status fetch_edge(lt_maker *k, lt_edge e)
{
    const int64_t at = e.block * LT_MAX_OUT + e.output;
    return fetch(k, k->edge_host[at], LT_BUF_EDGE, &k->p->edge_fetched[at]);
}

static lt_status fetch_for(lt_maker *k, int32_t block)
{
    const lt_block *b = &k->m->blocks[block];
    const lt_compiled *c = k->p->compiled[block];
    for (int32_t i = 0; i < b->kind->n_in; i++)
        if (c->reads_edge_in[i])
            LT_TRY(fetch_edge(k, b->inputs[i]));
    for (int32_t i = 0; i < b->kind->n_out; i++)
        if (c->reads_edge_out[i])
            LT_TRY(fetch_edge(k, (lt_edge){block, i}));
    return fetch(k, k->saved_host[block], LT_BUF_SAVED, &k->p->saved_fetched[block]);
}

// One ahead: what the offloaded block below will read is asked for while this one works. Blocks
// behind all of them ask for nothing but their own.
lt_status lt_make_fetches(lt_maker *k, int32_t block)
{
    const bool *wanted = k->p->opts.offload;
    LT_TRY(fetch_for(k, block));
    if (!wanted || !wanted[block])
        return LT_OK;
    int32_t next = block - 1;
    while (next >= 0 && !k->offload[next])
        next--;
    return next < 0 ? LT_OK : fetch_for(k, next);
}
