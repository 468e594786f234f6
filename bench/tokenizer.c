// SPDX-License-Identifier: Apache-2.0
// tokenizer DIR FILE [SECONDS]: how fast FILE's lines are tokenised on one thread, as a JSON line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "data/tokenizer/tokenizer.h"

enum { MAX_RUNS = 4096 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cpu_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Each line by itself, as turns are.
static lt_status encode_lines(const lt_tokenizer *t, const lt_buf *text, lt_vec *ids)
{
    lt_vec_clear(ids);
    for (size_t at = 0; at < text->len;) {
        const char *end = memchr(text->data + at, '\n', text->len - at);
        const size_t stop = end ? (size_t)(end - text->data) + 1 : text->len;
        LT_TRY(lt_tokenizer_encode(t, text->data + at, stop - at, 0, ids));
        at = stop;
    }
    return LT_OK;
}

static lt_status bench(const lt_tokenizer *t, const lt_buf *text, double seconds)
{
    static double time[MAX_RUNS], cpu[MAX_RUNS];
    int n = 0;
    lt_vec ids = LT_VEC_OF(int32_t);
    lt_status st = LT_OK;
    const double end = lt_clock_now() + seconds;
    while (st == LT_OK && n < MAX_RUNS && (n < 5 || lt_clock_now() < end)) {
        const double start = lt_clock_now(), cpu_start = cpu_now();
        st = encode_lines(t, text, &ids);
        cpu[n] = cpu_now() - cpu_start;
        time[n++] = lt_clock_now() - start;
    }
    qsort(time, (size_t)n, sizeof time[0], by_value);
    qsort(cpu, (size_t)n, sizeof cpu[0], by_value);
    printf(
        "{\"case\": \"tokenise\", \"device\": \"cpu, 1 thread\", \"bytes\": %zu, \"tokens\": %lld, "
        "\"median_ms\": %.3f, \"p10_ms\": %.3f, \"p90_ms\": %.3f, \"mb_per_s\": %.2f, "
        "\"mb_per_s_by_cpu\": %.2f}\n",
        text->len, (long long)ids.n, time[n / 2] * 1e3, time[n / 10] * 1e3, time[n * 9 / 10] * 1e3,
        (double)text->len / time[n / 2] * 1e-6, (double)text->len / cpu[n / 2] * 1e-6);
    lt_vec_deinit(&ids);
    return st;
}

static lt_status run(const char *dir, const char *file, double seconds)
{
    lt_tokenizer *t = NULL;
    lt_buf text = {0};
    LT_TRY(lt_tokenizer_open(dir, &t));
    lt_status st = lt_file_read(file, 1 << 28, &text);
    if (st == LT_OK)
        st = bench(t, &text, seconds);
    lt_buf_deinit(&text);
    lt_tokenizer_close(t);
    return st;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: tokenizer DIR FILE [SECONDS]\n");
        return 2;
    }
    if (run(argv[1], argv[2], argc > 3 ? strtod(argv[3], NULL) : 1.0) == LT_OK)
        return 0;
    (void)fprintf(stderr, "%s\n", lt_error_message());
    return 1;
}
