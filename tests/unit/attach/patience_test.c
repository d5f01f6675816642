/* SPDX-License-Identifier: MIT */
#include "attach/patience.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define STEP PATIENCE_STEP_NS

static void a_thread_that_waits_or_runs_uses_its_limit(void **state) {
  (void)state;
  assert_int_equal(patience_counted_ns(STEP, 0, false), STEP); /* it waits for something */
  assert_int_equal(patience_counted_ns(STEP, STEP, true), STEP);
  assert_int_equal(patience_counted_ns(STEP / 2, STEP / 2, false), STEP / 2);
}

static void time_without_a_cpu_does_not_count(void **state) {
  (void)state;
  assert_int_equal(patience_counted_ns(STEP, 0, true), 0);
  assert_int_equal(patience_counted_ns(STEP, STEP / 4, true), STEP / 4);
}

static void a_long_pause_of_the_caller_counts_as_a_step(void **state) {
  (void)state;
  assert_int_equal(patience_counted_ns(100 * STEP, 0, false), STEP);
  assert_int_equal(patience_counted_ns(100 * STEP, 50 * STEP, true), STEP);
}

static int tid;

static void *wait_for_ever(void *unused) {
  __atomic_store_n(&tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
  for (;;)
    pause();
  return unused;
}

static void a_thread_that_hangs_is_over_its_limit(void **state) {
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
  while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
    sched_yield();
  patience_t patience = patience_begin(getpid(), tid, 3 * STEP);
  assert_false(patience_is_over(&patience));
  int asked = 1;
  do {
    usleep(STEP / 1000);
    asked++;
  } while (!patience_is_over(&patience));
  assert_in_range(asked, 3, 1000); /* each counts a step at most, the first one, too */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_that_waits_or_runs_uses_its_limit),
      cmocka_unit_test(time_without_a_cpu_does_not_count),
      cmocka_unit_test(a_long_pause_of_the_caller_counts_as_a_step),
      cmocka_unit_test(a_thread_that_hangs_is_over_its_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
