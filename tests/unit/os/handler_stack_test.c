/* SPDX-License-Identifier: MIT
 *
 * A child of fork uses the handler stacks that its parent's threads were on. AddressSanitizer knows
 * the frames of those threads still, in the child, too.
 */
#include "os/os.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static sem_t is_there, may_leave;

/* Frames with arrays of several sizes, so that their surroundings differ. */
static __attribute__((noinline)) int wait_below(int depth) {
  volatile char bytes[40];
  bytes[depth] = 1;
  if (depth > 0) {
    (void)wait_below(depth - 1);
  } else {
    sem_post(&is_there);
    sem_wait(&may_leave);
  }
  return bytes[depth];
}

static void stay(void *unused) {
  (void)unused;
  (void)wait_below(20);
}

static void *on_handler_stack(void *unused) {
  os_run_on_handler_stack(stay, NULL);
  return unused;
}

static void fill(void *argument) {
  volatile char bytes[8192];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = 1;
  *(int *)argument = bytes[sizeof bytes - 1] == 1;
}

static void a_child_starts_on_clean_stacks(void **state) {
  (void)state;
  pthread_t thread;
  int status, done = 0;
  sem_init(&is_there, 0, 0);
  sem_init(&may_leave, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, on_handler_stack, NULL), 0);
  sem_wait(&is_there);
  pid_t child = fork();
  if (child == 0) {
    os_run_on_handler_stack(fill, &done);
    _exit(done == 1 ? 0 : 2);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  sem_post(&may_leave);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_starts_on_clean_stacks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
