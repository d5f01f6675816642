/* SPDX-License-Identifier: MIT
 *
 * What a futex is for, by the functions of C libraries and of Rust that wait in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/futex_calls.h"

static void check(const char *name, const char *function, const char *kind) {
  const futex_wait_t *wait = futex_wait_of_function(name);
  assert_non_null(wait);
  assert_string_equal(wait->kind, kind);
  assert_string_equal(wait->function, function);
}

static void functions_of_c(void **unused) {
  (void)unused;
  check("___pthread_mutex_lock", "pthread_mutex_lock", "a lock");
  check("__new_sem_wait_slow64.constprop.0", "sem_wait", "a semaphore");
  check("__pthread_clockjoin_ex", "pthread_join", "the end of a thread");
}

/* Both manglings; of the versions from 1.63 on. */
static void functions_of_rust(void **unused) {
  (void)unused;
  check("std::sys::unix::locks::futex_mutex::Mutex::lock_contended", "Mutex::lock", "a lock");
  check("<std::sys::sync::mutex::futex::Mutex>::lock_contended", "Mutex::lock", "a lock");
  check("std::sys::sync::rwlock::futex::RwLock::write_contended", "RwLock::write", "a lock");
  check("std::sys::sync::condvar::futex::Condvar::wait_optional_timeout", "Condvar::wait",
        "a condition variable");
  check("parking_lot::raw_mutex::RawMutex::lock_slow", "Mutex::lock", "a lock");
}

static void other_functions(void **unused) {
  (void)unused;
  assert_null(futex_wait_of_function("lock_contended"));
  assert_null(futex_wait_of_function("store::lock_contended_by"));
  assert_null(futex_wait_of_function("futex_wait"));
  assert_null(futex_wait_of_function(""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_of_c),
      cmocka_unit_test(functions_of_rust),
      cmocka_unit_test(other_functions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
