/* SPDX-License-Identifier: MIT
 *
 * Functions with a trampoline around them, and a count of what it tells.
 */
#ifndef SONDE_TESTS_TOLD_H
#define SONDE_TESTS_TOLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "hook/trampoline.h"

/* Not inlined, not cloned, its arguments and result not taken for known. */
#if defined(__clang__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

static long begun, ended[4];
static inline long told(call_end_t end) { return __atomic_load_n(&ended[end], __ATOMIC_RELAXED); }
static inline long all_ended(void) {
  return told(CALL_RETURNED) + told(CALL_TAIL) + told(CALL_THROWN) + told(CALL_LOST);
}

static bool before(call_t *call, const uint64_t *arguments) {
  (void)arguments;
  call->data = call->trampoline->data;
  __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  return true;
}

static void after(call_t *call, call_end_t end) {
  (void)call;
  __atomic_fetch_add(&ended[end], 1, __ATOMIC_RELAXED);
}

static const trampoline_handlers_t counting = {.before = before, .after = after};

static inline void *hooked(void *function, const trampoline_handlers_t *calls, uint32_t flags) {
  trampoline_t *t = trampoline_new((uint64_t)(uintptr_t)function);
  assert_non_null(t);
  t->flags = flags;
  trampoline_set(t, calls);
  return (void *)(uintptr_t)trampoline_thunk(t);
}
#define HOOKED(function, calls)                                                                    \
  ((__typeof__(&(function)))(uintptr_t)hooked((void *)(uintptr_t)(function), (calls), 0))

static inline int reset(void **state) {
  (void)state;
  begun = 0;
  memset(ended, 0, sizeof ended);
  return 0;
}

#endif
