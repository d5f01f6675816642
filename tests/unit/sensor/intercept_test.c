/* SPDX-License-Identifier: MIT
 *
 * sonde/intercept.h: callbacks see arguments, results and the caller of imports and of patched
 * functions; the program sees no difference; code is restored byte for byte.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "hook/entry.h"
#include "skip.h"
#include "sonde/intercept.h"
#include "sonde/stack.h"

/* In a library, since the functions of the image that has libsonde are not patched. */
typedef struct subject {
  long (*many)(long, long, long, long, long, long, long, long, double, float, double);
  double (*mix)(int, double);
  double (*tail)(int, double);
  int (*deep)(int);
  void (*leave)(jmp_buf);
  long (*first_calls)(long (*)(long), long);
} subject_t;

static subject_t subject;

typedef struct seen {
  int before, after;
  uintptr_t arguments[9], caller, results, data;
  double d, result;
  float f;
  sonde_call_end_t end;
} seen_t;

static void before(sonde_call_t *call, void *context) {
  seen_t *s = context;
  s->before++;
  for (unsigned i = 0; i < 9; i++)
    s->arguments[i] = i < 6 ? sonde_call_argument(call, i) : 0;
  s->d = sonde_call_argument_double(call, 0);
  s->f = sonde_call_argument_float(call, 1);
  s->caller = sonde_call_caller(call);
  sonde_call_set_data(call, (uintptr_t)s->before);
  assert_int_equal(sonde_call_result(call, 0), 0);
}

static void after(sonde_call_t *call, sonde_call_end_t end, void *context) {
  seen_t *s = context;
  s->after++;
  s->end = end;
  s->data = sonde_call_data(call);
  s->results = sonde_call_result(call, 0);
  s->result = sonde_call_result_double(call, 0);
  assert_int_equal(sonde_call_argument(call, 0), 0);
}

static void before_many(sonde_call_t *call, void *context) {
  before(call, context);
  for (unsigned i = 6; i < 8; i++)
    ((seen_t *)context)->arguments[i] = sonde_call_argument(call, i);
}

static sonde_intercept_t *add_with(const char *target, seen_t *s,
                                   void (*first)(sonde_call_t *, void *)) {
  sonde_intercept_t *handle = NULL;
  const sonde_intercept_request_t request = {
      .target = target, .before = first, .after = after, .context = s};
  int status = sonde_intercept_add(&request, &handle);
  if (status != 1) fail_msg("%s: %d, %s", target, status, sonde_strerror(status));
  return handle;
}

static sonde_intercept_t *add(const char *target, seen_t *s) { return add_with(target, s, before); }

static bool is_here(uintptr_t pc) {
  Dl_info info;
  return dladdr((void *)pc, &info) && strstr(info.dli_fname, "intercept_test");
}

static void arguments_and_results_are_seen(void **state) {
  seen_t s = {0}, t = {0};
  (void)state;
  sonde_intercept_t *many = add_with("libintercepted*!subject_many", &s, before_many);
  sonde_intercept_t *mix = add("libintercepted*!subject_mix", &t);
  assert_int_equal(subject.many(1, 2, 3, 4, 5, 6, 7, 8, 0.5, 0.25f, 2), 36 + 2);
  for (uintptr_t i = 0; i < 8; i++)
    assert_int_equal(s.arguments[i], i + 1);
  assert_true(s.d == 0.5 && s.f == 0.25f);
  assert_true(s.before == 1 && s.after == 1 && s.end == SONDE_CALL_RETURNED && s.results == 38);
  assert_true(is_here(s.caller));
  assert_true(subject.mix(3, 1.5) == 4.5);
  assert_true(t.before == 1 && t.d == 1.5 && t.result == 4.5 && t.arguments[0] == 3 && t.data == 1);
  assert_int_equal(sonde_intercept_remove(many), SONDE_OK);
  assert_int_equal(sonde_intercept_remove(mix), SONDE_OK);
  assert_int_equal(sonde_intercept_remove(mix), SONDE_ENOTFOUND);
  assert_true(subject.mix(3, 1.5) == 4.5 && t.before == 1);
}

static void code_is_restored_in_any_order(void **state) {
  uint8_t code[32];
  seen_t a = {0}, b = {0}, c = {0};
  (void)state;
  memcpy(code, (const void *)(uintptr_t)subject.mix, sizeof code);
  for (int order = 0; order < 2; order++) {
    sonde_intercept_t *first = add("libintercepted*!subject_mix", &a);
    sonde_intercept_t *second = add("libintercepted*!subject_mix", &b);
    sonde_intercept_t *third = add("libintercepted*!subject_mix", &c);
    assert_true(subject.mix(2, 2) == 4);
    assert_int_equal(sonde_intercept_remove(order ? first : third), SONDE_OK);
    assert_true(subject.mix(2, 2) == 4);
    assert_int_equal(sonde_intercept_remove(second), SONDE_OK);
    assert_int_equal(sonde_intercept_remove(order ? third : first), SONDE_OK);
    assert_memory_equal(code, (const void *)(uintptr_t)subject.mix, sizeof code);
  }
  assert_true(a.before == 3 && a.after == 3 && b.before == 4 && b.after == 4);
  assert_true(c.before == 3 && c.after == 3);
}

/* An older interception is called by the trampoline of the newer one. */
static void all_see_the_caller(void **state) {
  static const char *const targets[] = {"libintercepted*!subject_mix", "strtoul"};
  (void)state;
  for (int i = 0; i < (is_thread_sanitized() ? 1 : 2); i++) {
    seen_t seen[3] = {{0}};
    sonde_intercept_t *handles[3];
    for (int k = 0; k < 3; k++)
      handles[k] = add(targets[i], &seen[k]);
    if (i)
      assert_int_equal(strtoul("42", NULL, 10), 42);
    else
      assert_true(subject.mix(2, 2) == 4);
    for (int k = 0; k < 3; k++) {
      assert_true(seen[k].before == 1 && seen[k].after == 1);
      assert_true(is_here(seen[k].caller));
      assert_int_equal(seen[k].caller, seen[0].caller);
      assert_int_equal(sonde_intercept_remove(handles[k]), SONDE_OK);
    }
  }
}

/* Memory would be lost at the second return. */
static void functions_that_return_twice_are_refused(void **state) {
  static const char *const targets[] = {
    "_setjmp",
    "setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "vfork",
    "getcontext",
    "savectx",
#if defined(__GLIBC__)
    "libc.so*!*getcontext",
#endif
  };
  seen_t s = {0};
  sonde_intercept_t *handle = NULL;
  (void)state;
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    const sonde_intercept_request_t request = {
        .target = targets[i], .before = before, .after = after, .context = &s};
    assert_int_equal(sonde_intercept_add(&request, &handle), SONDE_EUNSUPPORTED);
  }
  jmp_buf back;
  volatile int returns = 0;
  if (setjmp(back) < 2) longjmp(back, ++returns + 1);
  assert_int_equal(returns, 1);
}

static void tail_calls_end_the_first_call(void **state) {
  seen_t s = {0}, t = {0};
  (void)state;
  sonde_intercept_t *tail = add("libintercepted*!subject_tail", &s);
  sonde_intercept_t *mix = add("libintercepted*!subject_mix", &t);
  assert_true(subject.tail(3, 2) == 8);
  assert_true(s.after == 1 && s.end == SONDE_CALL_TAIL && s.results == 0 && s.result == 0);
  assert_true(t.after == 1 && t.end == SONDE_CALL_RETURNED && t.result == 8);
  sonde_intercept_remove(tail);
  sonde_intercept_remove(mix);
}

static void recursion_and_longjmp_are_paired(void **state) {
  seen_t s = {0}, t = {0};
  jmp_buf back;
  (void)state;
  sonde_intercept_t *deep = add("libintercepted*!subject_deep", &s);
  sonde_intercept_t *leave = add("libintercepted*!subject_leave", &t);
  assert_int_equal(subject.deep(100), 5050);
  assert_true(s.before == 101 && s.after == 101);
  if (!setjmp(back)) subject.leave(back);
  assert_int_equal(subject.deep(1), 1);
  assert_true(t.before == 1 && t.after == 1 && t.end == SONDE_CALL_LOST);
  sonde_intercept_remove(deep);
  sonde_intercept_remove(leave);
}

static long twice(long n) { return 2 * n; }

/* Its moved instructions contain a call. */
static void a_moved_call_returns(void **state) {
  seen_t s = {0};
  (void)state;
  sonde_intercept_t *handle = add("libintercepted*!subject_first_calls", &s);
  for (long i = 0; i < 5; i++)
    assert_int_equal(subject.first_calls(twice, i), 2 * i + 1);
  assert_true(s.before == 5 && s.after == 5);
  sonde_intercept_remove(handle);
}

static void imports_are_intercepted(void **state) {
  seen_t s = {0}, t = {0};
  (void)state;
  if (is_thread_sanitized())
    SKIP_BECAUSE("hooks do not work beside ThreadSanitizer's interceptors");
  sonde_intercept_t *first = add("strtoul", &s), *second = add("strtoul", &t);
  assert_int_equal(strtoul("42", NULL, 10), 42);
  assert_true(s.before == 1 && s.after == 1 && s.results == 42 && s.arguments[2] == 10);
  assert_true(t.before == 1 && t.after == 1 && t.results == 42);
  sonde_intercept_remove(first);
  assert_int_equal(strtoul("43", NULL, 10), 43);
  assert_true(s.before == 1 && t.before == 2);
  sonde_intercept_remove(second);
  assert_int_equal(strtoul("44", NULL, 10), 44);
  assert_int_equal(t.before, 2);
}

static void errors_are_returned(void **state) {
  sonde_intercept_t *handle;
  sonde_intercept_request_t request = {.target = "no_such_function_anywhere", .before = before};
  (void)state;
  assert_int_equal(sonde_intercept_add(NULL, &handle), SONDE_EINVAL);
  assert_int_equal(sonde_intercept_add(&request, &handle), SONDE_ENOTFOUND);
  request.target = "libintercepted*!nothing";
  assert_int_equal(sonde_intercept_add(&request, &handle), SONDE_ENOTFOUND);
  request.before = NULL;
  assert_int_equal(sonde_intercept_add(&request, &handle), SONDE_EINVAL);
  assert_int_equal(sonde_intercept_remove(NULL), SONDE_ENOTFOUND);
}

static void *wait_for(void *pipe_end) {
  char byte;
  return (void *)(intptr_t)fread(&byte, 1, 1, pipe_end);
}

/* A second thread waits: what is patched before it starts is restored while it runs; nothing can be
 * patched then. */
static void threads_forbid_patching_but_not_restoring(void **state) {
  uint8_t code[16];
  seen_t s = {0};
  pthread_t thread;
  int ends[2];
  sonde_intercept_t *other;
  (void)state;
  if (entry_alone_in_emulator) skip();
  memcpy(code, (const void *)(uintptr_t)subject.mix, sizeof code);
  sonde_intercept_t *mix = add("libintercepted*!subject_mix", &s);
  assert_int_equal(pipe(ends), 0);
  FILE *end = fdopen(ends[0], "r");
  pthread_create(&thread, NULL, wait_for, end);
  const sonde_intercept_request_t request = {.target = "libintercepted*!subject_deep",
                                             .before = before};
  assert_int_equal(sonde_intercept_add(&request, &other), SONDE_EBUSY);
  assert_true(subject.mix(2, 2) == 4 && s.after == 1);
  assert_int_equal(sonde_intercept_remove(mix), SONDE_OK);
  assert_memory_equal(code, (const void *)(uintptr_t)subject.mix, sizeof code);
  assert_int_equal(write(ends[1], "x", 1), 1);
  pthread_join(thread, NULL);
  fclose(end);
  close(ends[1]);
}

/* ---- a signal at every instruction ------------------------------------------------------------
 */

#if defined(__x86_64__)
static struct steps { int all, moved, wrong; } steps;

static void set_trap_flag(bool on) {
  uint64_t change = on ? 0x100 : 0;
  __asm__ volatile("subq $128, %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\torq %0, (%%rsp)\n\t"
                   "popfq\n\tleaq 128(%%rsp), %%rsp"
                   :
                   : "r"(change)
                   : "memory", "cc");
}

/* In moved instructions the pc is in no image; the stack shows the function that they are from. */
static void on_step(int number, siginfo_t *info, void *context) {
  uintptr_t pcs[64];
  Dl_info where;
  sonde_capture_t capture = {.pcs = pcs, .max = 64, .ucontext = context};
  (void)number, (void)info;
  uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  steps.all++;
  if (dladdr((void *)pc, &where)) return;
  steps.moved++;
  int count = sonde_capture(&capture);
  uintptr_t first = (uintptr_t)subject.mix, other = (uintptr_t)subject.first_calls;
  bool is_there = count > 2 && (pcs[0] - first < 32 || pcs[0] - other < 32);
  if (!is_there || capture.status != SONDE_STACK_COMPLETE) steps.wrong++;
}

static void stacks_are_complete_at_every_instruction(void **state) {
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
  seen_t s = {0}, t = {0};
  (void)state;
  if (is_thread_sanitized()) SKIP_BECAUSE("a step may stop inside a lock of ThreadSanitizer");
  sonde_intercept_t *mix = add("libintercepted*!subject_mix", &s);
  sonde_intercept_t *calls = add("libintercepted*!subject_first_calls", &t);
  sigaction(SIGTRAP, &action, &old);
  set_trap_flag(true);
  double result = subject.mix(3, 1.5);
  long other = subject.first_calls(twice, 4);
  set_trap_flag(false);
  sigaction(SIGTRAP, &old, NULL);
  assert_true(result == 4.5 && other == 9 && s.after == 1 && t.after == 1);
  print_message("%d steps, %d in moved instructions\n", steps.all, steps.moved);
  assert_true(steps.moved >= 12);
  assert_int_equal(steps.wrong, 0);
  sonde_intercept_remove(mix);
  sonde_intercept_remove(calls);
}
#endif

static int load(void **state) {
  (void)state;
  void *library = dlopen(SONDE_FIXTURES "/libintercepted.so", RTLD_NOW);
  if (!library) return -1;
  *(void **)&subject.many = dlsym(library, "subject_many");
  *(void **)&subject.mix = dlsym(library, "subject_mix");
  *(void **)&subject.tail = dlsym(library, "subject_tail");
  *(void **)&subject.deep = dlsym(library, "subject_deep");
  *(void **)&subject.leave = dlsym(library, "subject_leave");
  *(void **)&subject.first_calls = dlsym(library, "subject_first_calls");
  return subject.first_calls ? 0 : -1;
}

int main(void) {
  /* the runtime of ThreadSanitizer has a thread of its own, which runs none of this code */
  entry_alone_in_emulator = is_emulated() || is_thread_sanitized();
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(arguments_and_results_are_seen),
    cmocka_unit_test(code_is_restored_in_any_order),
    cmocka_unit_test(all_see_the_caller),
    cmocka_unit_test(functions_that_return_twice_are_refused),
    cmocka_unit_test(tail_calls_end_the_first_call),
    cmocka_unit_test(recursion_and_longjmp_are_paired),
    cmocka_unit_test(a_moved_call_returns),
    cmocka_unit_test(imports_are_intercepted),
    cmocka_unit_test(errors_are_returned),
    cmocka_unit_test(threads_forbid_patching_but_not_restoring),
#if defined(__x86_64__)
    cmocka_unit_test(stacks_are_complete_at_every_instruction),
#endif
  };
  return cmocka_run_group_tests(tests, load, NULL);
}
