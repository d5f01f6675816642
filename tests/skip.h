/* SPDX-License-Identifier: MIT
 *
 * Skipping a cmocka case aloud: the reason is printed, and ./run test counts it.
 */
#ifndef SONDE_TESTS_SKIP_H
#define SONDE_TESTS_SKIP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* True under qemu-user, which has no ptrace and no process_vm_readv, shows the host's registers in
 * /proc, and dies itself where it touches a mapping beyond the end of its file. */
static inline bool is_emulated(void) { return getenv("SONDE_UNDER_QEMU") != NULL; }

/* True where a sanitizer's own handlers and wrappers stand between a test and the system. */
static inline bool is_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#else
  return false;
#endif
#else
  return false;
#endif
}

/* ThreadSanitizer's runtime is not there yet when a thread starts and not any more when it ends.
 * Our handler, which the inside sets by a system call of its own and not through the runtime's
 * sigaction, is instrumented like everything and may run at such an instant: it then crashes in
 * __tsan_func_entry (seen below __tsan_thread_start_func, in ThreadRegistry::Lock). And a handler
 * that interrupts one of the runtime's own waits has its atomic operations left out of the picture,
 * so that what they order is reported as a race. */
static inline bool is_thread_sanitized(void) {
#if defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

/* How often a test repeats what it tries COUNT times in other builds. ThreadSanitizer and the
 * emulator make everything many times slower: a tenth of the repetitions is enough for what they
 * add. */
static inline int repeats(int count) {
  return is_thread_sanitized() || is_emulated() ? count / 10 : count;
}

/* For main(): true, said aloud, where the whole program cannot run under ThreadSanitizer. */
static inline bool skips_under_tsan(void) {
  if (is_thread_sanitized())
    puts("skipped: signals that ask threads come when ThreadSanitizer is not ready (tests/skip.h)");
  return is_thread_sanitized();
}

#define SKIP_BECAUSE(reason)                                                                       \
  do {                                                                                             \
    printf("skipped: %s\n", reason);                                                               \
    fflush(stdout);                                                                                \
    skip();                                                                                        \
  } while (0)

#endif
