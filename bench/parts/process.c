// SPDX-License-Identifier: Apache-2.0
// Reading /proc/self and git.
#include "bench/parts/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// A line "KEY:  123 kB" of /proc/self/status, in bytes.
static int64_t status_bytes(const char *key)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    int64_t kib = 0;
    const size_t len = strlen(key);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, len) == 0 && line[len] == ':')
            kib = strtoll(line + len + 1, NULL, 10);
    if (file)
        (void)fclose(file);
    return kib * 1024;
}

void bench_reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file)
        return;
    (void)fputs("5", file);
    (void)fclose(file);
}

int64_t bench_peak_bytes(void)
{
    return status_bytes("VmHWM");
}

// The program maps its own code and no checkpoint, so the file pages of the end are those of the
// peak.
int64_t bench_peak_anon_bytes(void)
{
    return status_bytes("VmHWM") - status_bytes("RssFile") - status_bytes("RssShmem");
}

double bench_cpu_seconds(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0.0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

bench_commit bench_commit_of(const char *source_dir)
{
    bench_commit out = {"unknown"};
    char command[1200], line[sizeof out.s] = "";
    (void)snprintf(command, sizeof command,
                   "git -C '%s' describe --always --dirty --exclude '*' 2>/dev/null", source_dir);
    // NOLINTNEXTLINE(cert-env33-c): a fixed command on the folder that this was built from
    FILE *git = popen(command, "re");
    if (!git)
        return out;
    if (fgets(line, sizeof line, git) && line[0] != '\n') {
        line[strcspn(line, "\n")] = 0;
        (void)snprintf(out.s, sizeof out.s, "%s", line);
    }
    (void)pclose(git);
    return out;
}
