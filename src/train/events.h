// SPDX-License-Identifier: Apache-2.0
// Scalars in the files that TensorBoard reads.
#ifndef LT_TRAIN_EVENTS_H
#define LT_TRAIN_EVENTS_H

#include "base/status.h"

typedef struct lt_events lt_events;

typedef struct lt_event_scalar {
    const char *tag; /* "train/loss" */
    double value;    /* left out when it is not finite */
} lt_event_scalar;

/**
 * Make DIR/events.out.tfevents.SECONDS.HOST.PID, DIR if need be. A file of its own for each run:
 * TensorBoard joins those of a folder, and of two values for a step shows the later file's.
 */
LT_NODISCARD lt_status lt_events_open(const char *dir, lt_events **out);
/** One record with all of them; on disk when it returns. errors: LT_ERR_IO */
LT_NODISCARD lt_status lt_events_put(lt_events *e, double unix_seconds, int64_t step,
                                     const lt_event_scalar *scalars, int64_t n);
/** Accepts NULL. */
LT_NODISCARD lt_status lt_events_close(lt_events *e);

/** CRC-32C (Castagnoli), as in RFC 3720 B.4. */
uint32_t lt_crc32c(const void *bytes, size_t n);
#endif
