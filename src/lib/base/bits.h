/* SPDX-License-Identifier: MIT
 *
 * Small words that every room uses: branch hints, atomics with their order in the name, alignment.
 */
#ifndef SONDE_BASE_BITS_H
#define SONDE_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIKELY(x)        __builtin_expect(!!(x), 1)
#define UNLIKELY(x)      __builtin_expect(!!(x), 0)
#define NOINLINE         __attribute__((noinline))
#define ALWAYS_INLINE    inline __attribute__((always_inline))
#define HIDDEN           __attribute__((visibility("hidden")))
#define ARRAY_COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define ALIGN_UP(x, a)   (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))

/* The compiler keeps POINTER, where it would compute it anew from an index at each use. */
#define KEEP_POINTER(pointer) __asm__("" : "+r"(pointer))

/* For code that reads whole stacks, whatever a sanitizer has marked there as out of bounds. What is
 * always inlined into it is marked so too, or takes no address of a local of its own: gcc takes
 * ASan's marks of that local's ended scope along, and they stay on the stack. */
#define READS_STACK __attribute__((no_sanitize("address")))

#define load_relaxed(p)     __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)     __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define add_relaxed(p, v)   __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define cas_acq_rel(p, e, v)                                                                       \
  __atomic_compare_exchange_n((p), (e), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* What was stored before is seen by others before anything is loaded after. */
#define full_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Order between this thread's own code and a signal handler on the same thread. */
#define signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
