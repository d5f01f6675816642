/* SPDX-License-Identifier: MIT
 *
 * What walks the stack passes trampolines: unwinders, exceptions, the end of a thread, and all of
 * them from a signal handler at any instruction.
 */
#include <complex.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ucontext.h>
#include <unwind.h>
#include <cmocka.h>

#include "arch/keep.h"
#include "hook/call_stack.h"
#include "skip.h"
#include "sonde/stack.h"
#include "dlopen_events.h"

static int (*volatile busy_hooked)(int);
APART static int busy(int x) { return x > 0 ? busy_hooked(x - 1) + 1 : 0; }

/* ---- unwinders ------------------------------------------------------------------------------ */

typedef struct depths {
  int count, marks;
  uintptr_t pcs[200];
} depths_t;

static _Unwind_Reason_Code note_pc(struct _Unwind_Context *context, void *to) {
  depths_t *d = to;
  if (d->count < 200) d->pcs[d->count++] = (uintptr_t)_Unwind_GetIP(context);
  return _URC_NO_REASON;
}

static void *by_backtrace[200];
static uintptr_t by_sonde[200];
static int backtrace_count, sonde_count;
static volatile int walk_up;
static depths_t by_unwinder;
static sonde_stack_status_t sonde_mark;

static int (*volatile look_hooked)(int);
APART static int look(int depth) {
  if (depth) return look_hooked(depth - 1) + walk_up;
  by_unwinder.count = 0;
  (void)_Unwind_Backtrace(note_pc, &by_unwinder);
  backtrace_count = backtrace(by_backtrace, 200);
  sonde_capture_t capture = {.pcs = by_sonde, .max = 200};
  (void)sonde_capture(&capture);
  sonde_count = capture.count;
  sonde_mark = capture.status;
  return 0;
}

static int marks(const uintptr_t *pcs, int count) {
  int n = 0;
  for (int i = 0; i < count; i++)
    n += pcs[i] == trampoline_address(TRAMPOLINE_RETURN);
  return n;
}

static void unwinders_pass(void **state) {
  (void)state;
  look_hooked = look;
  (void)look_hooked(5);
  int plain[3] = {by_unwinder.count, backtrace_count, sonde_count};
  look_hooked = HOOKED(look, &counting);
  int result = look_hooked(5);
  (void)result;
  assert_int_equal(by_unwinder.count, plain[0] + 6);
  assert_int_equal(marks(by_unwinder.pcs, by_unwinder.count), 6);
  assert_int_equal(backtrace_count, plain[1] + 6);
  assert_int_equal(sonde_count, plain[2] + 6);
  assert_int_equal(sonde_mark, SONDE_STACK_COMPLETE);
  assert_int_equal(marks(by_sonde, sonde_count), 6);
  if (is_sanitized()) return;               /* its backtrace has a frame of its own */
  for (int i = 1; i < sonde_count - 1; i++) /* backtrace's first frame is look itself */
    assert_int_equal(by_sonde[i], (uintptr_t)by_backtrace[i]);
}

enum { DEEP = 5000, DEEP_MAX = 3 * DEEP };
static uintptr_t deep_pcs[DEEP_MAX];
static sonde_capture_t deep;
static int (*volatile dive_hooked)(int);
APART static int dive(int depth) {
  if (depth) return dive_hooked(depth - 1) + 1;
  deep = (sonde_capture_t){.pcs = deep_pcs, .max = DEEP_MAX};
  (void)sonde_capture(&deep);
  return 0;
}

static void deep_recursion_is_whole(void **state) {
  (void)state;
  dive_hooked = dive;
  assert_int_equal(dive_hooked(DEEP), DEEP);
  int plain = deep.count;
  dive_hooked = HOOKED(dive, &counting);
  assert_int_equal(dive_hooked(DEEP), DEEP);
  assert_int_equal(deep.status, SONDE_STACK_COMPLETE);
  assert_int_equal(deep.count, plain + DEEP + 1);
  assert_int_equal(marks(deep_pcs, deep.count), DEEP + 1);
}

/* ---- exceptions ----------------------------------------------------------------------------- */

typedef int plain_t(int);

static struct through {
  plain_t *down, *leave, *again, **next, **inner;
  int (*catch)(plain_t *, int), (*destroyed)(void);
} through;

static int open_through(void **state) {
  (void)state;
  void *library = dlopen(SONDE_FIXTURES "/libthrough.so", RTLD_NOW);
  if (!library) {
    print_error("%s\n", dlerror());
    return 1;
  }
  *(void **)&through.down = dlsym(library, "through_down");
  *(void **)&through.leave = dlsym(library, "through_leave");
  *(void **)&through.again = dlsym(library, "through_again");
  *(void **)&through.catch = dlsym(library, "through_catch");
  *(void **)&through.destroyed = dlsym(library, "through_destroyed");
  through.next = dlsym(library, "through_next");
  through.inner = dlsym(library, "through_inner");
  return 0;
}

static void exceptions_pass(void **state) {
  (void)state;
  *through.next = *through.inner = HOOKED(*through.down, &counting);
  plain_t *outermost = HOOKED(*through.again, &counting);
  for (int i = 0; i < 100; i++) {
    reset(NULL);
    int were = through.destroyed();
    assert_int_equal(through.catch(*through.next, 3), -42);
    assert_int_equal(through.destroyed() - were, 4);
    assert_int_equal(told(CALL_THROWN), 4);
    assert_int_equal(through.catch(outermost, 2), -42);
    assert_int_equal(begun, 8);
    assert_int_equal(told(CALL_THROWN), 8);
    assert_int_equal(all_ended(), 8);
  }
  assert_null(trampoline_innermost());
}

static void *leave_through(void *unused) {
  (void)unused;
  (void)(*through.next)(3);
  return NULL;
}

static void pthread_exit_passes(void **state) {
  (void)state;
  *through.next = HOOKED(*through.leave, &counting);
  int were = through.destroyed();
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, leave_through, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(through.destroyed() - were, 4);
  assert_int_equal(told(CALL_THROWN), 4);
}

static int cleaned;
static void clean(void *unused) {
  (void)unused;
  cleaned++;
}
static int (*volatile leave_hooked)(int);
APART static int leave(int depth) {
  int result = 0;
  pthread_cleanup_push(clean, NULL);
  if (depth == 0) pthread_exit((void *)7L);
  if (depth < 0)
    for (;;)
      pause();
  result = leave_hooked(depth - 1) + 1;
  pthread_cleanup_pop(0);
  return result;
}
static void *leaver(void *depth) {
  (void)leave_hooked((int)(long)depth);
  return NULL;
}

/* C's clean-up is a longjmp into each frame, past the trampoline. */
static void threads_leave(void **state) {
  (void)state;
  pthread_t thread;
  void *result;
  leave_hooked = HOOKED(leave, &counting);
  assert_int_equal(pthread_create(&thread, NULL, leaver, (void *)3L), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_int_equal((long)result, 7);
  assert_int_equal(cleaned, 4);
  assert_int_equal(pthread_create(&thread, NULL, leaver, (void *)-1L), 0);
  while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < 5)
    usleep(1000);
  usleep(20000);
  assert_int_equal(pthread_cancel(thread), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_ptr_equal(result, PTHREAD_CANCELED);
  assert_int_equal(cleaned, 5);
}

/* ---- signals -------------------------------------------------------------------------------- */

static long signals, cut;
static uintptr_t main_pc;
static timer_t timer;

/* Not by an interval timer: where a handler takes longer than that, nothing else would run. */
static void set_timer(void) {
  struct itimerspec once = {.it_value.tv_nsec = is_emulated() ? 5000000 : 150000};
  (void)timer_settime(timer, 0, &once, NULL);
}

static void on_signal(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  uintptr_t pcs[200];
  signals++;
  sonde_capture_t capture = {.pcs = pcs, .max = 200, .ucontext = context};
  if (sonde_capture(&capture) < 0 || capture.status != SONDE_STACK_COMPLETE) cut++;
  depths_t d = {0};
  if (!is_emulated()) (void)_Unwind_Backtrace(note_pc, &d);
  bool found = is_emulated();
  for (int i = 0; i < d.count; i++)
    found |= d.pcs[i] == main_pc;
  if (!found) cut++;
  if (busy_hooked(3) != 3) abort();
  set_timer();
}

static void at_any_instruction(void **state) {
  (void)state;
  static char other_stack[65536];
  busy_hooked = HOOKED(busy, &counting);
  depths_t here = {0};
  (void)_Unwind_Backtrace(note_pc, &here);
  main_pc = here.pcs[here.count > 3 ? here.count - 3 : 0];
  stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  assert_int_equal(sigaltstack(&stack, NULL), 0);
  for (int on_other = 0; on_other < 2; on_other++) {
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART | (on_other ? SA_ONSTACK : 0)};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    set_timer();
    long until = signals + (is_emulated() ? 100 : 3000);
    int wrong = 0;
    while (signals < until) /* no call through a PLT, which has no CFI on aarch64 */
      wrong += busy_hooked(4) != 4;
    assert_int_equal(wrong, 0);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    timer_delete(timer);
  }
  print_message("%ld signals, %ld calls, %lu missed\n", signals, begun,
                (unsigned long)load_relaxed(&calls_missed));
  assert_int_equal(cut, 0);
  assert_int_equal(begun, told(CALL_RETURNED) + told(CALL_LOST));
  assert_null(trampoline_innermost());
}

int main(void) {
  const char *why = trampoline_ready();
  if (why) {
    printf("skipped: %s\n", why);
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(unwinders_pass, reset),
      cmocka_unit_test_setup(deep_recursion_is_whole, reset),
      cmocka_unit_test_setup(exceptions_pass, reset),
      cmocka_unit_test_setup(pthread_exit_passes, reset),
      cmocka_unit_test_setup(threads_leave, reset),
      cmocka_unit_test_setup(at_any_instruction, reset),
  };
  return cmocka_run_group_tests(tests, open_through, NULL);
}
