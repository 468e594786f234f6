// SPDX-License-Identifier: Apache-2.0
// Tells AddressSanitizer which bytes of our own blocks nobody may touch. Nothing in other builds.
#ifndef LT_BASE_ASAN_H
#define LT_BASE_ASAN_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LT_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LT_ASAN 1
#endif

#ifdef LT_ASAN
#include <sanitizer/asan_interface.h>
#define LT_POISON(ptr, bytes) __asan_poison_memory_region((ptr), (bytes))
#define LT_UNPOISON(ptr, bytes) __asan_unpoison_memory_region((ptr), (bytes))
enum { LT_ASAN_GUARD = 16 }; /* unaddressable bytes between two blocks of an arena */
#else
#define LT_POISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#define LT_UNPOISON(ptr, bytes) ((void)(ptr), (void)(bytes))
enum { LT_ASAN_GUARD = 0 };
#endif
#endif
