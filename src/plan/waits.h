// SPDX-License-Identifier: Apache-2.0
// Which actions wait for which: happens-before, built and checked.
#ifndef LT_PLAN_WAITS_H
#define LT_PLAN_WAITS_H

#include "plan/program.h"

/** Fills p->waits: as few as make every conflicting pair ordered. Offsets are set. */
LT_NODISCARD lt_status lt_place_waits(lt_program *p);

/** Which actions of a section happen before which, as rows of bits. */
typedef struct lt_before {
    uint64_t *bits; /* [n][words] row i: the actions that are done when i starts */
    int32_t n, words, first;
} lt_before;
LT_NODISCARD lt_status lt_before_create(const lt_section *s, lt_before *out);
void lt_before_deinit(lt_before *b);
static inline bool lt_is_before(const lt_before *b, int32_t earlier, int32_t later)
{
    const int32_t e = earlier - b->first;
    return b->bits[(int64_t)(later - b->first) * b->words + e / 64] >> (e % 64) & 1;
}
/** `earlier`, and all before it, are before `later`. */
void lt_before_join(lt_before *b, int32_t earlier, int32_t later);
#endif
