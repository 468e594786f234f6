// SPDX-License-Identifier: Apache-2.0
// Memory that a thread keeps between calls, for packed panels and tiles: growing once, instead of
// mapping pages in every call.
#ifndef LT_DEVICE_CPU_SCRATCH_H
#define LT_DEVICE_CPU_SCRATCH_H

#include "base/status.h"

/** Who uses it: two that are alive at once on one thread need two slots. */
typedef enum lt_scratch_slot {
    LT_SCRATCH_PACK_A,
    LT_SCRATCH_PACK_B,
    LT_SCRATCH_TILE,
    LT_SCRATCH_PAD_A,
    LT_SCRATCH_PAD_C,
    LT_SCRATCH_ATTENTION,
    LT_SCRATCH_ORDER,
    LT_SCRATCH_SUMS,
    LT_SCRATCH_DELTA,
    LT_N_SCRATCH_SLOTS
} lt_scratch_slot;

/**
 * The calling thread's memory of that slot, at least `bytes` long, 64-aligned, with whatever was
 * left in it.
 * Valid until the thread asks for more in the same slot, or ends (which frees it).
 * errors   LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_thread_scratch(lt_scratch_slot slot, size_t bytes, void **out);
/**
 * A place that the calling thread keeps for one object of the kernels' (oneDNN's primitives): NULL
 * at first, then what was put there. `destroy` is called with it when the thread ends.
 */
LT_NODISCARD lt_status lt_thread_kept(void (*destroy)(void *object), void ***out);
#endif
