// SPDX-License-Identifier: Apache-2.0
#include "train/events.h"

#include "base/file.h"
#include "base/memory.h"
#include "tests/kit/lt_test.h"

#include <math.h>
#include <string.h>

// RFC 3720 B.4: 32 bytes of zeros, 32 of ones, and the digits that every CRC is checked with.
static void checksums_are_castagnolis(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0}, ones[32];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(lt_crc32c(zeros, sizeof zeros), 0x8a9136aaU);
    assert_int_equal(lt_crc32c(ones, sizeof ones), 0x62a8ab43U);
    assert_int_equal(lt_crc32c("123456789", 9), 0xe3069283U);
}

static uint32_t masked(const void *bytes, size_t n)
{
    const uint32_t c = lt_crc32c(bytes, n);
    return ((c >> 15) | (c << 17)) + 0xa282ead8U;
}

// The message of the record at *at, whose checksums are right; *at moves on.
static const unsigned char *record(const unsigned char *file, size_t n, size_t *at, uint64_t *len)
{
    uint32_t sum;
    const unsigned char *p = file + *at;
    assert_true(*at + 12 <= n);
    memcpy(len, p, 8);
    memcpy(&sum, p + 8, 4);
    assert_int_equal(sum, masked(p, 8));
    assert_true(*at + 16 + *len <= n);
    memcpy(&sum, p + 12 + *len, 4);
    assert_int_equal(sum, masked(p + 12, *len));
    *at += 16 + *len;
    return p + 12;
}

static void a_step_is_a_record(void **state)
{
    const char *dir = lt_test_path(*state, lt_test_dir(*state), "events");
    const lt_event_scalar scalars[] = {{"loss", 1.5}, {"none", (double)NAN}, {"lr", 0.25}};
    // wall_time 3.0, step 300, summary of 27 bytes: two values of 4 + 2 and 2 + 2 letters and bytes
    static const unsigned char want[] = {0x09, 0,    0,    0,    0,    0,    0,    0x08, 0x40, 0x10,
                                         0xac, 0x02, 0x2a, 24,   0x0a, 11,   0x0a, 4,    'l',  'o',
                                         's',  's',  0x15, 0,    0,    0xc0, 0x3f, 0x0a, 9,    0x0a,
                                         2,    'l',  'r',  0x15, 0,    0,    0x80, 0x3e};
    lt_events *e = NULL;
    lt_arena *arena = NULL;
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_events_open(dir, &e));
    assert_ok(lt_events_put(e, 3.0, 300, scalars, 3));
    assert_ok(lt_events_close(e));
    assert_ok(lt_arena_create(&arena, "names"));
    assert_ok(lt_dir_list(dir, arena, &names));
    assert_int_equal(names.n, 1);
    assert_text_contains(LT_AT(&names, char *, 0), "events.out.tfevents.");
    size_t n = 0, at = 0;
    uint64_t len = 0;
    const void *file =
        lt_test_read(*state, lt_test_path(*state, dir, LT_AT(&names, char *, 0)), &n);
    const unsigned char *version = record(file, n, &at, &len);
    assert_memory_equal(version + len - 15,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    const unsigned char *step = record(file, n, &at, &len);
    assert_int_equal(len, sizeof want);
    assert_memory_equal(step, want, sizeof want);
    assert_int_equal(at, n);
    lt_vec_deinit(&names);
    lt_arena_destroy(arena);
}

static void a_folder_that_cannot_be_is_an_error(void **state)
{
    const char *file = lt_test_path(*state, lt_test_dir(*state), "file");
    lt_events *e = NULL;
    lt_test_write(file, "x", 1);
    assert_int_equal(lt_events_open(lt_test_path(*state, file, "events"), &e), LT_ERR_IO);
    assert_null(e);
}

LT_TEST_MAIN(LT_TEST(checksums_are_castagnolis), LT_TEST(a_step_is_a_record),
             LT_TEST(a_folder_that_cannot_be_is_an_error))
