// SPDX-License-Identifier: Apache-2.0
// What the system says about this process: resident memory, CPU time; and which commit it was built
// from.
#ifndef LT_BENCH_PROCESS_H
#define LT_BENCH_PROCESS_H

#include <stdint.h>

/**
 * Forget the resident peak so far, so that the next case has its own. Where the system refuses, the
 * peak is the process's.
 */
void bench_reset_peak(void);
/** Peak of all resident memory (what the peer prints), in bytes; 0 where /proc is missing. */
int64_t bench_peak_bytes(void);
/** Peak of anonymous resident memory: the peak without the pages of mapped files. */
int64_t bench_peak_anon_bytes(void);
/** CPU seconds of all threads so far. */
double bench_cpu_seconds(void);
/** "569bd1a", "569bd1a-dirty", or "unknown". */
typedef struct bench_commit {
    char s[64];
} bench_commit;
bench_commit bench_commit_of(const char *source_dir);
#endif
