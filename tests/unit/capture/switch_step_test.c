/* SPDX-License-Identifier: MIT
 *
 * A signal at every instruction of a longjmp, from an inner frame and from a stack at a higher
 * address. longjmp's unwind rules lead to its target frame before it is there, and still do after
 * the stack pointer is there.
 *
 * At each instruction the stack must be complete, exact, and end in the frames of one of the two
 * sides. (glibc's swapcontext has wrong rules once it is on the other stack.)
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "skip.h"

#if defined(__x86_64__)

#include <ucontext.h>
#include <sonde/sonde.h>

#include "trap.h"

#define FRAMES 64

/* ---- the two sides --------------------------------------------------------------------------- */

typedef struct side {
  /* The callers of the function that steps. */
  uintptr_t pcs[FRAMES];
  int count;
} side_t;

static side_t here, there;
static volatile int zero;
static long steps, wrong;
static sonde_capture_t first_wrong;
static uintptr_t first_wrong_pc;

static NOINLINE void callers(side_t *side) {
  uintptr_t pcs[FRAMES + 2];
  /* This function and the one that steps. */
  int count = sonde_stack(pcs, FRAMES + 2) - 2;
  assert_true(count > 0);
  memcpy(side->pcs, pcs + 2, (size_t)count * sizeof *pcs);
  side->count = count;
}

static bool ends_in(const uintptr_t *pcs, int count, const side_t *side) {
  return count > side->count &&
         memcmp(pcs + count - side->count, side->pcs, (size_t)side->count * sizeof *pcs) == 0;
}

static void on_trap(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  uintptr_t pcs[FRAMES];
  sonde_capture_t c = {.pcs = pcs, .max = FRAMES, .ucontext = ucontext};
  int count = sonde_capture(&c);
  steps++;
  if (c.status == SONDE_STACK_COMPLETE && !(c.flags & SONDE_FLAG_HEURISTIC) &&
      (ends_in(pcs, count, &here) || ends_in(pcs, count, &there)))
    return;
  if (wrong++) return;
  first_wrong = c;
  first_wrong_pc = pcs[0];
}

static void start(void) {
  struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGTRAP, &sa, NULL), 0);
  here.count = there.count = 0;
  steps = wrong = 0;
}

static void check(void) {
  if (wrong)
    fail_msg("%ld of %ld stacks are wrong, the first at %#lx: %d frames, mark %d, flags %#x", wrong,
             steps, (unsigned long)first_wrong_pc, first_wrong.count, (int)first_wrong.status,
             first_wrong.flags);
  assert_in_range(steps, 20, 100000);
}

/* ---- longjmp --------------------------------------------------------------------------------- */

static jmp_buf back;

static NOINLINE void jump(void) {
  HAS_FRAME_POINTER();
  trace_on(TRAP_FLAG);
  longjmp(back, 1);
}

static void from_further_in(void **state) {
  (void)state;
  HAS_FRAME_POINTER();
  start();
  callers(&here);
  there = here;
  if (setjmp(back) == 0) jump();
  trace_off();
  check();
}

/* ---- fibers ---------------------------------------------------------------------------------- */

static ucontext_t of_fiber;

static void jumps(void) {
  HAS_FRAME_POINTER();
  callers(&there);
  trace_on(TRAP_FLAG);
  longjmp(back, 1);
}

static void *goes_to_a_higher_stack(void *stack) {
  HAS_FRAME_POINTER();
  callers(&here);
  getcontext(&of_fiber);
  of_fiber.uc_stack.ss_sp = stack;
  of_fiber.uc_stack.ss_size = 65536;
  of_fiber.uc_link = NULL;
  makecontext(&of_fiber, jumps, 0);
  if (setjmp(back) == 0) setcontext(&of_fiber);
  trace_off();
  return NULL;
}

/* A thread's stack is below the first thread's, on which the fiber gets its own. */
static void from_a_higher_stack(void **state) {
  (void)state;
  char stack[65536] __attribute__((aligned(64)));
  pthread_t thread;
  start();
  assert_int_equal(pthread_create(&thread, NULL, goes_to_a_higher_stack, stack), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  check();
}

int main(void) {
  if (is_sanitized()) {
    printf("skipped: a sanitizer has longjmp and swapcontext of its own\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(from_further_in),
      cmocka_unit_test(from_a_higher_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("skipped: this machine has no trap flag that a program may set\n");
  return 77;
}

#endif
