// SPDX-License-Identifier: Apache-2.0
// A 64-bit checksum over bytes that arrive in pieces: what was written is compared with the disk.
#ifndef LT_CKPT_CHECKSUM_H
#define LT_CKPT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * Four lanes, so that one core keeps up with a disk. It never leaves the process: its bits may
 * change.
 */
typedef struct lt_sum {
    uint64_t lane[4];
    uint64_t n_bytes;
    uint8_t tail[32]; /* the bytes that don't fill a block yet */
} lt_sum;

static inline void lt_sum_init(lt_sum *sum)
{
    *sum = (lt_sum){.lane = {0x9e3779b97f4a7c15U, 0xbf58476d1ce4e5b9U, 0x94d049bb133111ebU,
                             0x2545f4914f6cdd1dU}};
}

/* For a given block each step maps lanes one to one: a changed bit always changes the result. */
static inline void lt_sum_block(lt_sum *sum, const uint8_t *block)
{
    for (size_t i = 0; i < 4; i++) {
        uint64_t word;
        memcpy(&word, block + 8 * i, 8);
        const uint64_t mixed = (sum->lane[i] ^ word) * 0x9fb21c651e98df25U;
        sum->lane[i] = (mixed << 31) | (mixed >> 33);
    }
}

/** The result depends on the bytes alone, not on how they are cut into pieces. */
static inline void lt_sum_add(lt_sum *sum, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    size_t held = (size_t)(sum->n_bytes % 32);
    sum->n_bytes += len;
    if (held > 0) {
        const size_t take = len < 32 - held ? len : 32 - held;
        memcpy(sum->tail + held, p, take);
        p += take;
        len -= take;
        held += take;
        if (held < 32)
            return;
        lt_sum_block(sum, sum->tail);
    }
    for (; len >= 32; p += 32, len -= 32)
        lt_sum_block(sum, p);
    if (len > 0)
        memcpy(sum->tail, p, len);
}

static inline uint64_t lt_sum_value(const lt_sum *sum)
{
    lt_sum end = *sum;
    const size_t held = (size_t)(end.n_bytes % 32);
    memset(end.tail + held, 0, 32 - held);
    lt_sum_block(&end, end.tail);
    uint64_t value = end.n_bytes;
    for (int i = 0; i < 4; i++) {
        value = (value ^ end.lane[i]) * 0x9fb21c651e98df25U;
        value ^= value >> 29;
    }
    return value;
}
#endif
