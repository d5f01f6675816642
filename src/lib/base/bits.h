/* SPDX-License-Identifier: MIT
 *
 * Macros that every module uses: branch hints, alignment, and atomics named by their memory order.
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

/* Checks an invariant in debug builds (CMake option SONDE_DEBUG); a failed check executes a trap
 * instruction. It is async-signal-safe. CONDITION must not have side effects. */
#if defined(SONDE_DEBUG)
#define SONDE_ASSERT(condition) (LIKELY(condition) ? (void)0 : __builtin_trap())
#else
#define SONDE_ASSERT(condition) ((void)0)
#endif

/* Makes the compiler keep POINTER in a register instead of recomputing it from an index at each
 * use. */
#define KEEP_POINTER(pointer) __asm__("" : "+r"(pointer))

/* Marks functions that read whole stacks, including the parts that AddressSanitizer has poisoned. A
 * function that is always inlined into such a function must be marked too, or must not take the
 * address of a local variable: gcc would poison that variable when its scope ends, and would never
 * unpoison it. */
#define READS_STACK __attribute__((no_sanitize("address")))

#define load_relaxed(p)     __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)     __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define add_relaxed(p, v)   __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define cas_acq_rel(p, e, v)                                                                       \
  __atomic_compare_exchange_n((p), (e), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Other threads see all earlier stores before this thread executes any later load. */
#define full_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Orders memory accesses between this thread and a signal handler on the same thread. */
#define signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
