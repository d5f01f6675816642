/* SPDX-License-Identifier: MIT
 *
 * Captured stacks as ids: the id of program counters is that of the stack they came from, also
 * across a signal handler; a stack of another thread has an id and a text in a buffer; and which
 * images are the app's.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"
#include "sonde/sonde.h"

enum { DEPTH = 512 };

/* ---- this thread ----------------------------------------------------------------------------- */

static void check_own(void) {
  uintptr_t pcs[DEPTH];
  uint32_t id = 0, again = 0;
  assert_int_equal(sonde_stack_id(&id), 0);
  int count = sonde_stack_of_id(id, pcs, DEPTH);
  assert_in_range(count, 3, DEPTH - 1);
  assert_int_equal(sonde_stack_id_of(pcs, count, 0, &again), 0);
  assert_int_equal(again, id);
  assert_int_equal(sonde_stack_id_of(pcs, count, SONDE_STACK_EXACT, &again), 0);
  assert_int_not_equal(again, id); /* another frame: the pc itself */
  assert_int_equal(sonde_stack_id_of(pcs, count - 1, SONDE_STACK_PARTIAL, &again), 0);
  char text[16384];
  int length = sonde_stack_text(again, 0, text, sizeof text);
  assert_true(length > 0);
  if (length < (int)sizeof text) assert_non_null(strstr(text, "the walk ended here"));
}

__attribute__((noinline)) static void recurse(int levels) {
  if (levels)
    recurse(levels - 1);
  else
    check_own();
  __asm__ volatile("");
}

static volatile sig_atomic_t handled;

static void handler(int number) {
  (void)number;
  check_own();
  handled++;
}

static void own_stacks_keep_their_id(void **state) {
  (void)state;
  for (int levels = 0; levels < 300; levels += 37)
    recurse(levels);
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
  assert_int_equal(handled, 1);
}

/* ---- another thread -------------------------------------------------------------------------- */

static int pipe_of[2];

__attribute__((noinline)) static void waits_for_a_byte(void) {
  char byte;
  assert_int_equal(read(pipe_of[0], &byte, 1), 1);
  __asm__ volatile("");
}

static pid_t other_tid;

static void *other(void *nothing) {
  __atomic_store_n(&other_tid, (pid_t)gettid(), __ATOMIC_RELEASE);
  waits_for_a_byte();
  return nothing;
}

/* The text that sonde_stack_print writes. */
static void printed(const uintptr_t *pcs, int count, char *out, size_t size) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  assert_int_equal(sonde_stack_print(fds[1], pcs, count, SONDE_NAME_EXACT), count);
  close(fds[1]);
  size_t used = 0;
  ssize_t got;
  while ((got = read(fds[0], out + used, size - 1 - used)) > 0)
    used += (size_t)got;
  out[used] = 0;
  close(fds[0]);
}

static void another_thread_has_an_id_and_a_text(void **state) {
  (void)state;
  if (is_emulated()) SKIP_BECAUSE("qemu-user shows the host's registers in /proc");
  pthread_t thread;
  uintptr_t pcs[DEPTH];
  uint32_t id = 0, again = 0;
  char text[16384], expected[16384];
  assert_int_equal(pipe(pipe_of), 0);
  assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
  sonde_capture_t capture = {.pcs = pcs, .max = DEPTH};
  sonde_thread_t facts = {0};
  do { /* until it waits in read */
    usleep(1000);
    pid_t tid = __atomic_load_n(&other_tid, __ATOMIC_ACQUIRE);
    if (tid) assert_int_equal(sonde_thread(tid, &facts), 0);
  } while (facts.state != 'S');
  int count = sonde_capture_thread(other_tid, &capture, NULL);
  assert_true(count > 2);
  assert_int_equal(capture.status, SONDE_STACK_COMPLETE);
  assert_int_equal(sonde_stack_id_of(pcs, count, SONDE_STACK_EXACT, &id), 0);
  assert_int_equal(sonde_stack_id_of(pcs, count, SONDE_STACK_EXACT, &again), 0);
  assert_int_equal(id, again);
  assert_true(sonde_stack_text(id, 0, text, sizeof text) > 0);
  printed(pcs, count, expected, sizeof expected);
  assert_string_equal(text, expected);
  assert_non_null(strstr(text, "waits_for_a_byte"));
  assert_true(sonde_stack_text(id, SONDE_NAME_APP_ONLY, text, sizeof text) > 0);
  assert_null(strstr(text, "libc"));
  assert_int_equal(write(pipe_of[1], "x", 1), 1);
  pthread_join(thread, NULL);
}

static void wrong_use_is_refused(void **state) {
  (void)state;
  uintptr_t pc = (uintptr_t)wrong_use_is_refused;
  uint32_t id;
  assert_int_equal(sonde_stack_id_of(NULL, 1, 0, &id), SONDE_EINVAL);
  assert_int_equal(sonde_stack_id_of(&pc, 1, 0, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_stack_id_of(&pc, 0, 0, &id), SONDE_EINVAL);
  assert_int_equal(sonde_stack_id_of(&pc, 1, 4, &id), SONDE_EINVAL);
  pc = 16; /* in no image, as generated code */
  assert_int_equal(sonde_stack_id_of(&pc, 1, SONDE_STACK_EXACT, &id), 0);
}

/* ---- app and system -------------------------------------------------------------------------- */

static void images_are_app_or_system(void **state) {
  (void)state;
  uintptr_t own = (uintptr_t)images_are_app_or_system, libc = (uintptr_t)(void *)&getpagesize,
            cmocka = (uintptr_t)(void *)&_cmocka_run_group_tests;
  assert_int_equal(sonde_is_app(own), 1);
  assert_int_equal(sonde_is_app(libc), 0);
  assert_int_equal(sonde_is_app(cmocka), 1);
  assert_int_equal(sonde_is_app(16), SONDE_ENOTFOUND);
  assert_int_equal(sonde_system_images("libcmocka.so*", 1), 0);
  assert_int_equal(sonde_is_app(cmocka), 0);
  assert_int_equal(sonde_system_images("/*/libc*so.?", 0), 0);
  assert_int_equal(sonde_is_app(libc), 1);
  assert_int_equal(sonde_is_app(cmocka), 1); /* the later glob matches it, too */
  assert_int_equal(sonde_system_images("libc.so.6", 1), 0);
  assert_int_equal(sonde_is_app(libc), 0);
  assert_int_equal(sonde_system_images(NULL, 1), SONDE_EINVAL);
  assert_int_equal(sonde_system_images("", 1), SONDE_EINVAL);
  char longest[129];
  memset(longest, 'x', sizeof longest);
  longest[128] = 0;
  assert_int_equal(sonde_system_images(longest, 1), SONDE_EINVAL);
  for (int i = 3; i < 32; i++)
    assert_int_equal(sonde_system_images("nothing", 1), 0);
  assert_int_equal(sonde_system_images("nothing", 1), SONDE_EFULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(own_stacks_keep_their_id),
                                     cmocka_unit_test(another_thread_has_an_id_and_a_text),
                                     cmocka_unit_test(wrong_use_is_refused),
                                     cmocka_unit_test(images_are_app_or_system)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
