// SPDX-License-Identifier: Apache-2.0
// What every kind of ranks has to do: rank functions that check collectives from the inside.
#ifndef LT_TESTS_KIT_COMM_CHECKS_H
#define LT_TESTS_KIT_COMM_CHECKS_H

#include "comm/comm.h"

/** Sums have the bits of the specification's tree, and gathers bring them to all. */
lt_status lt_check_sums(void *ctx, lt_group *world);
/**
 * Of 8 ranks in rows of *(int32_t *)ctx: sums along both axes have the bits of one sum over all.
 */
lt_status lt_check_nested_sums(void *ctx, lt_group *world);
/** Broadcasts and hand-overs bring bytes where they should. */
lt_status lt_check_bytes(void *ctx, lt_group *world);
/** Fails: one rank is in a barrier, the others in a sum. */
lt_status lt_issue_different_calls(void *ctx, lt_group *world);
#endif
