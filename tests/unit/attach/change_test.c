/* SPDX-License-Identifier: MIT
 *
 * Code of a child process is changed while its threads are stopped, except where one of them is or
 * may return to.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "attach/change.h"

enum { UNUSED, INSIDE, AT_START, RETURNS, OTHER, PLACES };

/* The child has all of this at the same addresses. */
static uint8_t *code;
static entry_change_t changes[PLACES];
static int ready[2];

static uint8_t *place_of(int which) { return code + 16 * which; }

#if defined(__x86_64__)
#define BYTES 5
/* nop; 1: nop; jmp 1b */
static const uint8_t loop_inside[BYTES] = {0x90, 0x90, 0xeb, 0xfd, 0x90};
/* 1: jmp 1b */
static const uint8_t loop_at_start[BYTES] = {0xeb, 0xfe, 0x90, 0x90, 0x90};
static const uint8_t nops[BYTES] = {0x90, 0x90, 0x90, 0x90, 0x90};
#else
#define BYTES 4
/* b . */
static const uint8_t loop_at_start[BYTES] = {0x00, 0x00, 0x00, 0x14};
static const uint8_t nops[BYTES] = {0x1f, 0x20, 0x03, 0xd5};
#endif

static void put(int which, const uint8_t *bytes) {
  changes[which] = (entry_change_t){.place = (uint64_t)(uintptr_t)place_of(which), .bytes = BYTES};
  memcpy(place_of(which), bytes, BYTES);
  memcpy(changes[which].before, bytes, BYTES);
  memset(changes[which].after, 0xcc, BYTES);
}

static void make_code(void) {
  code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(code != MAP_FAILED);
  for (int i = 0; i < PLACES; i++)
    put(i, nops);
#if defined(__x86_64__)
  put(INSIDE, loop_inside);
#endif
  put(AT_START, loop_at_start);
#if defined(__x86_64__)
  memcpy(changes[AT_START].after, loop_at_start, 2); /* the thread there goes on */
#else
  memcpy(changes[AT_START].after, loop_at_start, BYTES);
#endif
  changes[OTHER].before[1] ^= 1;
  __builtin___clear_cache((char *)code, (char *)code + 4096);
}

static void *execute(void *place) {
  ((void (*)(void))(uintptr_t)place)();
  return NULL;
}

/* Waits with a word on the stack that leads among the instructions. */
static void *wait_to_return(void *unused) {
  volatile uintptr_t word = (uintptr_t)place_of(RETURNS) + 2;
  (void)unused;
  assert_int_equal(write(ready[1], "x", 1), 1);
  while (word)
    pause();
  return NULL;
}

static void live(void) {
  pthread_t threads[3];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#if defined(__x86_64__)
  pthread_create(&threads[0], NULL, execute, place_of(INSIDE));
#endif
  pthread_create(&threads[1], NULL, execute, place_of(AT_START));
  pthread_create(&threads[2], NULL, wait_to_return, NULL);
  while (true)
    pause();
}

static bool is_changed(pid_t pid, int which) {
  uint8_t bytes[BYTES];
  struct iovec here = {bytes, BYTES}, there = {place_of(which), BYTES};
  assert_int_equal(process_vm_readv(pid, &here, 1, &there, 1, 0), BYTES);
  return !memcmp(bytes, changes[which].after, BYTES);
}

static void test_what_is_free_changes(void **state) {
  change_result_t result;
  problem_t problem = {""};
  char byte;
  (void)state;
  make_code();
  assert_int_equal(pipe(ready), 0);
  pid_t pid = fork();
  if (pid == 0) live();
  assert_int_equal(read(ready[0], &byte, 1), 1);
  usleep(50000); /* both loops run by then; if one does not, its place is free or its start */
  bool good = change_code(pid, (uint64_t)(uintptr_t)changes, PLACES, &result, &problem);
  if (!good) fprintf(stderr, "%s\n", problem.text);
  assert_true(good);
  assert_true(is_changed(pid, UNUSED));
  assert_true(is_changed(pid, AT_START));
  assert_false(is_changed(pid, OTHER));
#if defined(__x86_64__)
  assert_false(is_changed(pid, INSIDE));
  assert_false(is_changed(pid, RETURNS));
  assert_int_equal(result.occupied, 2);
#endif
  assert_int_equal(result.unequal, 1);
  assert_int_equal(result.made + result.occupied + result.unequal, PLACES);
  assert_true(result.pause_ns > 0);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void test_bad_lists(void **state) {
  change_result_t result;
  problem_t problem = {""};
  static entry_change_t wrong = {.bytes = MOVE_JUMP_BYTES_MAX + 1};
  (void)state;
  pid_t pid = fork();
  if (pid == 0) live();
  const uint64_t lists[][2] = {{(uintptr_t)&wrong, 1},
                               {(uintptr_t)&wrong, 0},
                               {8, 1},
                               {(uintptr_t)&wrong, CHANGE_COUNT_MAX + 1}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    assert_false(change_code(pid, lists[i][0], (uint32_t)lists[i][1], &result, &problem));
    assert_string_equal(problem.text, "the list of changes is invalid");
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  assert_false(change_code(pid, lists[0][0], 1, &result, &problem));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_free_changes),
      cmocka_unit_test(test_bad_lists),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
