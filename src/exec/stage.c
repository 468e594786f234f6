// SPDX-License-Identifier: Apache-2.0
// The pinned memory that batches go through on their way to a device whose copies are queued: a
// ring of micro-batches, each free again when the device has worked through it.
#include "exec/exec_impl.h"
#include "graph/pack.h"

#include <string.h>

static bool is_copied(const lt_program *p, int v)
{
    return p->batch_buffer[v] != LT_NONE;
}

static lt_status wait_for(lt_exec *e, lt_stage *stage)
{
    lt_device *d = e->o.device;
    if (!stage->in_use)
        return LT_OK;
    const double begin = lt_clock_now();
    LT_TRY(d->event_sync(d, stage->done));
    e->waited_s += lt_clock_now() - begin;
    stage->in_use = false;
    return LT_OK;
}

static lt_status want_bytes(lt_exec *e, lt_stage *stage, size_t bytes)
{
    lt_device *d = e->o.device;
    void *memory = NULL;
    if (!stage->done)
        LT_TRY(d->event_create(d, &stage->done));
    if (bytes <= stage->bytes)
        return LT_OK;
    d->free_pinned(d, stage->memory);
    stage->memory = NULL;
    stage->bytes = 0;
    LT_TRY(d->alloc_pinned(d, bytes, "a batch on its way to the device", &memory));
    stage->memory = memory;
    stage->bytes = bytes;
    return LT_OK;
}

enum { PIECE = 4 << 20 }; /* bytes that one thread copies at a time */

typedef struct span {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
} span;

static lt_status copy_piece(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const span *s = ctx;
    const size_t at = (size_t)i * PIECE, n = s->bytes - at < PIECE ? s->bytes - at : PIECE;
    memcpy(s->to + at, s->from + at, n);
    return LT_OK;
}

lt_status lt_stage_batch(lt_exec *e, const lt_program *p, const lt_batch_view *batch,
                         lt_batch_view *out)
{
    *out = *batch;
    if (!e->o.device->queues)
        return LT_OK;
    lt_stage *stage = &e->stage[e->n_staged % LT_N_STAGES];
    size_t total = 0;
    for (int v = 0; v < LT_N_BATCH_VALUES; v++)
        if (is_copied(p, v))
            total += (size_t)lt_round_up((int64_t)lt_tensor_bytes(&batch->value[v]), LT_ALIGN);
    LT_TRY(wait_for(e, stage));
    LT_TRY(want_bytes(e, stage, total));
    unsigned char *at = stage->memory;
    for (int v = 0; v < LT_N_BATCH_VALUES; v++) {
        const size_t bytes = lt_tensor_bytes(&batch->value[v]);
        if (!is_copied(p, v) || bytes == 0)
            continue;
        span s = {at, batch->value[v].data, bytes};
        LT_TRY(lt_pool_run(e->o.device->pool, lt_ceil_div((int64_t)bytes, PIECE), copy_piece, &s));
        out->value[v].data = at;
        at += lt_round_up((int64_t)bytes, LT_ALIGN);
    }
    return LT_OK;
}

lt_status lt_unstage(lt_exec *e)
{
    lt_stage *stage = &e->stage[e->n_staged % LT_N_STAGES];
    if (!e->o.device->queues)
        return LT_OK;
    stage->in_use = true;
    e->n_staged++;
    return e->o.device->event_record(e->o.device, stage->done, e->stream[LT_QUEUE_COMPUTE]);
}

void lt_stages_free(lt_exec *e)
{
    for (int i = 0; i < LT_N_STAGES; i++) {
        if (e->stage[i].done)
            e->o.device->event_destroy(e->o.device, e->stage[i].done);
        e->o.device->free_pinned(e->o.device, e->stage[i].memory);
        e->o.device->free(e->o.device, e->stage[i].device);
    }
}
