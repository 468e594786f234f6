// SPDX-License-Identifier: Apache-2.0
// What a call that can fail returns, and the sentence that goes with a failure.
#ifndef LT_BASE_STATUS_H
#define LT_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LT_NODISCARD __attribute__((warn_unused_result))
#define LT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/** One list for the enum and its names. */
#define LT_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(ERR_MEMORY, "out of memory")                                                                 \
    X(ERR_IO, "input or output failed")                                                            \
    X(ERR_NOT_FOUND, "not found")                                                                  \
    X(ERR_FORMAT, "malformed file")                                                                \
    X(ERR_SHAPE, "wrong shape")                                                                    \
    X(ERR_DTYPE, "wrong dtype")                                                                    \
    X(ERR_CONFIG, "configuration error")                                                           \
    X(ERR_DATA, "bad data record")                                                                 \
    X(ERR_UNSUPPORTED, "not supported")                                                            \
    X(ERR_DEVICE, "device error")                                                                  \
    X(ERR_NUMERIC, "not a finite number")                                                          \
    X(ERR_CANCELLED, "cancelled")                                                                  \
    X(ERR_INTERNAL, "internal error")

typedef enum lt_status {
#define LT_STATUS_ENUM(name, text) LT_##name,
    LT_STATUS_LIST(LT_STATUS_ENUM)
#undef LT_STATUS_ENUM
} lt_status;

/** The text that LT_STATUS_LIST gives the code. */
const char *lt_status_text(lt_status st);

/**
 * Store the message of a failure in thread-local memory (at most 4 KiB, cut at the end) and give
 * `code` back.
 * Use LT_FAIL, which adds nothing but keeps the call short.
 */
lt_status lt_fail(lt_status code, const char *fmt, ...) LT_PRINTF(2, 3);
/**
 * The calling thread's last message, "" when there was none. Valid until the next failure on this
 * thread.
 */
const char *lt_error_message(void);
/**
 * The words of the thread's last failure before its values were put in: what failures of one kind
 * have in common. "" when there was none, or when it came from another thread.
 */
const char *lt_error_kind(void);
/** Put "what we were about: " in front of the thread's message. Call while passing a failure up. */
void lt_error_note(const char *fmt, ...) LT_PRINTF(1, 2);
/** Forget the thread's message (tests; a failure that was dealt with). */
void lt_error_clear(void);
/** Copy a message that a worker left elsewhere into this thread, as if it had failed here. */
lt_status lt_error_adopt(lt_status code, const char *message);
/** What the system says about an errno value. Valid until the next call on this thread. */
const char *lt_errno_text(int err);

/* `code` comes from the macro itself, so that compilers and analyzers see what is returned. */
#define LT_FAIL(code, ...) (lt_fail((code), __VA_ARGS__), (lt_status)(code))
#define LT_TRY(call)                                                                               \
    do {                                                                                           \
        const lt_status lt_try_st_ = (call);                                                       \
        if (lt_try_st_ != LT_OK)                                                                   \
            return lt_try_st_;                                                                     \
    } while (0)
#define LT_TRY_GOTO(st, call, label)                                                               \
    do {                                                                                           \
        (st) = (call);                                                                             \
        if ((st) != LT_OK)                                                                         \
            goto label;                                                                            \
    } while (0)

/**
 * Ends the program with the place and the condition: for what only a bug of ours can cause. On in
 * every build.
 */
__attribute__((noreturn)) void lt_assert_failed(const char *cond, const char *file, int line);
#define LT_ASSERT(cond) ((cond) ? (void)0 : lt_assert_failed(#cond, __FILE__, __LINE__))
#ifdef LT_DEBUG
#define LT_DEBUG_ASSERT(cond) LT_ASSERT(cond)
#else
#define LT_DEBUG_ASSERT(cond) ((void)0)
#endif

/**
 * Checked products and sums: false, and *out untouched in meaning, when the result does not fit.
 */
static inline bool lt_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool lt_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool lt_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool lt_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline int64_t lt_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t lt_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
/** a / b rounded up, for a >= 0 and b > 0. */
static inline int64_t lt_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}
/** a rounded up to a multiple of b. */
static inline int64_t lt_round_up(int64_t a, int64_t b)
{
    return lt_ceil_div(a, b) * b;
}
/** For lengths that are known to be small: narrows with an assertion. */
static inline int lt_int(int64_t n)
{
    LT_ASSERT(n >= INT32_MIN && n <= INT32_MAX);
    return (int)n;
}

#ifdef __cplusplus
}
#endif
#endif
