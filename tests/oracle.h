/* SPDX-License-Identifier: MIT
 *
 * Two oracles for captured stacks that share no code with the frame cache.
 *
 * The shadow stack: every function of a test records its own return address on entry and removes it
 * before it returns. So at every instruction the recorded addresses are a suffix of the true stack.
 * glibc's backtrace() gives the outermost part, below the first function that records anything,
 * once. A function that is left by longjmp or an exception is removed before the jump.
 *
 * The full walk: all registers of a ucontext, frame by frame, by unwind/cfi_step.c.
 */
#ifndef SONDE_TESTS_ORACLE_H
#define SONDE_TESTS_ORACLE_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/os.h"
#include "sonde/stack.h"
#include "unwind/cfi_step.h"
#include "capture/walk.h"

#define ORACLE_MAX 2048

/* ---- failure, from anywhere, a signal handler included --------------------------------------- */

static inline void oracle_print(const char *what, const uintptr_t *pcs, int count) {
  char line[256];
  int n = snprintf(line, sizeof line, "%s (%d):\n", what, count);
  (void)!write(2, line, (size_t)n);
  for (int i = 0; i < count && i < 40; i++) {
    Dl_info info = {0};
    dladdr((void *)(pcs[i] - 1), &info);
    n = snprintf(line, sizeof line, "  #%d %p %s (%s+%p)\n", i, (void *)pcs[i],
                 info.dli_sname ? info.dli_sname : "??", info.dli_fname ? info.dli_fname : "??",
                 (void *)(pcs[i] - (uintptr_t)info.dli_fbase));
    (void)!write(2, line, (size_t)n);
  }
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void oracle_fail(const char *format,
                                                                               ...) {
  char line[512];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  (void)!write(2, line, (size_t)n);
  (void)!write(2, "\n", 1);
  abort();
}

/* Only the thread that runs the tests may use cmocka's assertions. */
#define EXPECT_EQUAL(a, b)                                                                         \
  do {                                                                                             \
    long long expect_a = (long long)(a), expect_b = (long long)(b);                                \
    if (expect_a != expect_b)                                                                      \
      oracle_fail("%s:%d: %s is %lld, not %lld", __FILE__, __LINE__, #a, expect_a, expect_b);      \
  } while (0)

/* ---- the shadow stack ------------------------------------------------------------------------ */

typedef struct shadow shadow_t;
struct shadow {
  volatile int depth;
  int tail_count;
  /* Of a signal handler: the interrupted shadow stack. */
  shadow_t *interrupted;
  /* Outermost first. */
  uintptr_t ra[ORACLE_MAX];
  /* Innermost first: the frames outside ra[0]. */
  uintptr_t tail[64];
};

/* NULL: nothing may be checked now. */
static __thread shadow_t *volatile shadow;

static ALWAYS_INLINE int shadow_push(void *ra) {
  shadow_t *s = shadow;
  int depth = s->depth;
  s->ra[depth] = (uintptr_t)ra;
  signal_fence();
  s->depth = depth + 1;
  signal_fence();
  return depth;
}

#define SHADOW_ENTER() int shadow_here = shadow_push(__builtin_return_address(0))
#define SHADOW_LEAVE()                                                                             \
  do {                                                                                             \
    signal_fence();                                                                                \
    shadow->depth = shadow_here;                                                                   \
    signal_fence();                                                                                \
  } while (0)

/* glibc's own function, which neither a sanitizer nor libunwind has replaced. */
static inline int (*backtrace_of_libc(void))(void **, int) {
  static int (*found)(void **, int);
  void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!found) *(void **)&found = dlsym(libc, "backtrace");
  return found;
}

/* Starts S in a function that records nothing itself; it calls everything that is recorded from now
 * on. */
static NOINLINE __attribute__((unused)) void shadow_start(shadow_t *s) {
  void *found[64];
  s->depth = 0;
  s->tail_count = 0;
  s->interrupted = NULL;
  int n = backtrace_of_libc()(found, 64);
  /* found[0] is here, found[1] in the caller, whose own return address is the tail's first. */
  for (int i = 2; i < n; i++)
    s->tail[s->tail_count++] = (uintptr_t)found[i];
  shadow = s;
}

/* Returns how many of PCS are further in than the frames of S, with which PCS must end; -1 if they
 * do not. */
static int shadow_extra(const shadow_t *s, const uintptr_t *pcs, int count) {
  int depth = s->depth, extra = count - depth - s->tail_count;
  if (extra < 0) return -1;
  for (int i = 0; i < depth; i++)
    if (pcs[extra + i] != s->ra[depth - 1 - i]) return -1;
  for (int i = 0; i < s->tail_count; i++)
    if (pcs[extra + depth + i] != s->tail[i]) return -1;
  return extra;
}

/* PCS begin with one frame and then the frames of S, a handler's. Returns their number. */
static int shadow_begins(const shadow_t *s, const uintptr_t *pcs, int count) {
  int depth = s->depth;
  if (count < depth + 1) return -1;
  for (int i = 0; i < depth; i++)
    if (pcs[1 + i] != s->ra[depth - 1 - i]) return -1;
  return depth + 1;
}

static inline void shadow_print(const shadow_t *s) {
  static uintptr_t expected[ORACLE_MAX + 64];
  for (int i = 0; i < s->depth; i++)
    expected[i] = s->ra[s->depth - 1 - i];
  memcpy(expected + s->depth, s->tail, (size_t)s->tail_count * sizeof *expected);
  oracle_print("expected", expected, s->depth + s->tail_count);
  if (s->interrupted) shadow_print(s->interrupted);
}

/* Compares PCS with the current shadow stack, with which it must end; at most EXTRA_MAX frames may
 * be further in. In a handler, PCS must begin with the handler's recorded frames, and EXTRA_MAX
 * frames may be between those and the interrupted ones. Returns the number of such frames, or
 * fails. */
static NOINLINE __attribute__((unused)) int shadow_check(const uintptr_t *pcs, int count,
                                                         int extra_max, const char *what) {
  const shadow_t *s = shadow;
  int inner = s->interrupted ? shadow_begins(s, pcs, count) : 0;
  int extra = shadow_extra(s->interrupted ? s->interrupted : s, pcs, count);
  if (inner >= 0 && extra >= inner && extra - inner <= extra_max) return extra - inner;
  oracle_print("captured", pcs, count);
  shadow_print(s);
  oracle_fail("%s: not the true stack (%d, %d)", what, inner, extra);
}

/* ---- the full walk --------------------------------------------------------------------------- */

static bool oracle_read(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  return os_read_memory(address, out, size) == (ssize_t)size;
}

/* Walks from UCONTEXT; PCS[0] is its pc. Sets STEP to how the walk ended. */
static NOINLINE __attribute__((unused)) int full_stack(const ucontext_t *ucontext, uintptr_t *pcs,
                                                       int max, unwind_step_t *end) {
  memory_t memory = {oracle_read};
  regs_t regs = {.known = 0};
  regs.pc = arch_context_registers(ucontext, regs.r, &regs.known);
  bool exact = true;
  int count = 0;
  while (count < max) {
    pcs[count++] = regs.pc;
    *end = cfi_step(MACHINE_HERE, &memory, walk_images(), &regs, exact);
    if (*end == STEP_NO_RULE) {
      *end = frame_pointer_step(MACHINE_HERE, &memory, walk_images(), &regs);
    }
    exact = *end == STEP_SIGNAL;
    if (*end != STEP_CALLER && *end != STEP_SIGNAL) break;
  }
  return count;
}

/* Compares two stacks; A was captured at another place of the same innermost function. */
static inline __attribute__((unused)) void same_outside(const uintptr_t *a, int a_count,
                                                        const uintptr_t *b, int b_count, int from,
                                                        const char *what) {
  if (a_count == b_count && a_count >= from &&
      memcmp(a + from, b + from, (size_t)(a_count - from) * sizeof *a) == 0)
    return;
  oracle_print("one", a, a_count);
  oracle_print("other", b, b_count);
  oracle_fail("%s: the stacks differ", what);
}

/* ---- chance ---------------------------------------------------------------------------------- */

static __attribute__((unused)) uint64_t seed_given(void) {
  const char *given = getenv("SONDE_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : os_monotonic_ns();
  printf("SONDE_SEED=%llu\n", (unsigned long long)seed);
  fflush(stdout);
  return seed | 1;
}

static ALWAYS_INLINE __attribute__((unused)) uint32_t chance(uint64_t *state) { /* xorshift64* */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (uint32_t)((*state * 0x2545f4914f6cdd1du) >> 32);
}

#endif
