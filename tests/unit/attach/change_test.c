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
#include "os/os.h"

enum { UNUSED, INSIDE, AT_START, RETURNS, OTHER, INTERRUPTED, LEFT, PLACES };

/* The child has all of this at the same addresses. */
static uint8_t *code;
static entry_change_t changes[PLACES];
static int ready[2];

static uint8_t *place_of(int which) { return code + 16 * which; }

#if defined(__x86_64__)
#define BYTES 5
/* nop; 1: incl (%rax); jmp 1b */
static const uint8_t loop_inside[BYTES] = {0x90, 0xff, 0x00, 0xeb, 0xfc};
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

static volatile int *turns; /* of the loop that counts; shared */

static void *execute(void *place) {
#if defined(__x86_64__)
  __asm__ volatile("call *%[place]" : : [place] "r"(place), "a"(turns) : "memory");
#else
  ((void (*)(void))(uintptr_t)place)();
#endif
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

static void wait_in_handler(int number) {
  (void)number;
  assert_int_equal(write(ready[1], "x", 1), 1);
  while (true)
    pause();
}

/* Is interrupted with such a word on its stack by a handler that has another stack. */
static void *be_interrupted(void *unused) {
  static char other_stack[65536];
  volatile uintptr_t word = (uintptr_t)place_of(INTERRUPTED) + 2;
  const stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  const struct sigaction action = {.sa_handler = wait_in_handler, .sa_flags = SA_ONSTACK};
  (void)unused;
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  return (void *)word;
}

static void wait_on_handler_stack(void *unused) {
  (void)unused;
  assert_int_equal(write(ready[1], "x", 1), 1);
  while (true)
    pause();
}

/* Such a word is on the stack that a handler of sonde has left for a third one. */
static void *leave_stack(void *unused) {
  volatile uintptr_t word = (uintptr_t)place_of(LEFT) + 2;
  (void)unused;
  os_run_on_handler_stack(wait_on_handler_stack, NULL);
  return (void *)word;
}

static void live(void) {
  pthread_t threads[5];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#if defined(__x86_64__)
  pthread_create(&threads[0], NULL, execute, place_of(INSIDE));
#endif
  pthread_create(&threads[1], NULL, execute, place_of(AT_START));
  pthread_create(&threads[2], NULL, wait_to_return, NULL);
  pthread_create(&threads[3], NULL, be_interrupted, NULL);
  pthread_create(&threads[4], NULL, leave_stack, NULL);
  while (true)
    pause();
}

static pid_t start(void (*child)(void), size_t count) {
  char byte;
  assert_int_equal(pipe(ready), 0);
  turns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(turns != MAP_FAILED);
  pid_t pid = fork();
  if (pid == 0) child();
  for (size_t i = 0; i < count; i++)
    assert_int_equal(read(ready[0], &byte, 1), 1);
  return pid;
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  close(ready[0]);
  close(ready[1]);
}

static void change_all(pid_t pid, change_result_t *result) {
  problem_t problem = {""};
  if (!change_code(pid, (uint64_t)(uintptr_t)changes, PLACES, result, &problem))
    fail_msg("%s", problem.text);
  assert_int_equal(result->made + result->occupied + result->unequal, PLACES);
  assert_true(result->pause_ns > 0);
}

static bool is_changed(pid_t pid, int which) {
  uint8_t bytes[BYTES];
  struct iovec here = {bytes, BYTES}, there = {place_of(which), BYTES};
  assert_int_equal(process_vm_readv(pid, &here, 1, &there, 1, 0), BYTES);
  return !memcmp(bytes, changes[which].after, BYTES);
}

static void test_what_is_free_changes(void **state) {
  change_result_t result;
  (void)state;
  make_code();
  pid_t pid = start(live, 3);
#if defined(__x86_64__)
  while (!*turns)
    usleep(1000);
#endif
  change_all(pid, &result);
  assert_true(is_changed(pid, UNUSED));
  assert_true(is_changed(pid, AT_START)); /* whether the thread is there yet or not */
  assert_false(is_changed(pid, OTHER));
  assert_int_equal(result.unequal, 1);
#if defined(__x86_64__)
  assert_false(is_changed(pid, INSIDE));
  assert_false(is_changed(pid, RETURNS));
  assert_false(is_changed(pid, INTERRUPTED));
  assert_false(is_changed(pid, LEFT));
  assert_int_equal(result.occupied, 4);
#endif
  end(pid);
}

enum { PAGES = 4, MANY = 100 };

static void sleep_forever(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true)
    pause();
}

/* Changes that lie together, that cross the end of a page, and before a hole; and all other bytes
 * stay. */
static void test_many_pages(void **state) {
  static entry_change_t many[MANY];
  uint8_t *bytes = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static uint8_t expected[PAGES * 4096], found[PAGES * 4096];
  change_result_t result;
  problem_t problem = {""};
  uint32_t count = 0, at = 0;
  (void)state;
  assert_true(bytes != MAP_FAILED && munmap(bytes + 2 * 4096, 4096) == 0);
  for (size_t i = 0; i < sizeof expected; i++)
    expected[i] = (uint8_t)(i * 7);
  memcpy(bytes, expected, 2 * 4096);
  memcpy(bytes + 3 * 4096, expected + 3 * 4096, 4096);
  while (count < MANY && at + BYTES <= sizeof expected) {
    entry_change_t *change = &many[count];
    *change = (entry_change_t){.place = (uint64_t)(uintptr_t)(bytes + at), .bytes = BYTES};
    memcpy(change->before, expected + at, BYTES);
    memset(change->after, 0xcc, BYTES);
    bool is_there = at + BYTES <= 2 * 4096 || at >= 3 * 4096;
    if (count % 5 == 4) change->before[0] ^= 1;
    if (is_there && count % 5 != 4) memset(expected + at, 0xcc, BYTES);
    count++;
    at = count == 20 ? 4096 - 2 : at + (count % 3 ? BYTES : 500);
  }
  assert_in_range(count, 60, MANY);
  for (uint32_t i = 0; i < count / 2; i++) { /* in any order */
    entry_change_t other = many[i];
    many[i] = many[count - 1 - i];
    many[count - 1 - i] = other;
  }
  pid_t pid = start(sleep_forever, 0);
  assert_true(change_code(pid, (uint64_t)(uintptr_t)many, count, &result, &problem));
  assert_int_equal(result.made + result.unequal, count);
  struct iovec here[] = {{found, 2 * 4096}, {found + 3 * 4096, 4096}};
  struct iovec there[] = {{bytes, 2 * 4096}, {bytes + 3 * 4096, 4096}};
  assert_int_equal(process_vm_readv(pid, here, 2, there, 2, 0), 3 * 4096);
  assert_memory_equal(found, expected, 2 * 4096);
  assert_memory_equal(found + 3 * 4096, expected + 3 * 4096, 4096);
  end(pid);
}

#if defined(__x86_64__)
/* Waits with SP, where nothing is pushed. */
static _Noreturn void wait_at(uint64_t sp) {
  assert_int_equal(write(ready[1], "x", 1), 1);
  __asm__ volatile("mov %[sp], %%rsp\n1: mov $34, %%eax\n syscall\n jmp 1b" /* pause */
                   :
                   : [sp] "r"(sp));
  __builtin_unreachable();
}

static void wait_on_nothing(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  wait_at(8);
}

/* A page above a hole: the red zone below its start cannot be read. */
static uint64_t *page;

static void wait_at_the_start(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  wait_at((uint64_t)(uintptr_t)page);
}

/* Until PID waits with SP: the seventh argument of its system call's line (proc_pid_syscall(5)). */
static void wait_for_sp(pid_t pid, uint64_t sp) {
  char path[64];
  unsigned long long now = 0;
  snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
  while (now != sp) {
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    if (fscanf(file, "%*s %*s %*s %*s %*s %*s %*s %llx", &now) != 1) now = 0;
    fclose(file);
    usleep(1000);
  }
}

static void test_an_unreadable_stack_occupies_all(void **state) {
  change_result_t result;
  (void)state;
  make_code();
  pid_t pid = start(wait_on_nothing, 1);
  wait_for_sp(pid, 8);
  change_all(pid, &result);
  assert_int_equal(result.occupied, PLACES);
  end(pid);
}

static void test_a_stack_at_the_start_of_its_mapping(void **state) {
  change_result_t result;
  (void)state;
  make_code();
  page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(page != MAP_FAILED && munmap(page, 4096) == 0);
  page += 512;
  page[1] = (uint64_t)(uintptr_t)place_of(RETURNS) + 2;
  pid_t pid = start(wait_at_the_start, 1);
  wait_for_sp(pid, (uint64_t)(uintptr_t)page);
  change_all(pid, &result);
  assert_false(is_changed(pid, RETURNS));
  assert_true(is_changed(pid, UNUSED));
  assert_int_equal(result.occupied, 1);
  end(pid);
}
#endif

static void test_bad_lists(void **state) {
  change_result_t result;
  problem_t problem = {""};
  static entry_change_t wrong = {.bytes = MOVE_JUMP_BYTES_MAX + 1};
  (void)state;
  pid_t pid = start(live, 3);
  const uint64_t lists[][2] = {{(uintptr_t)&wrong, 1},
                               {(uintptr_t)&wrong, 0},
                               {8, 1},
                               {(uintptr_t)&wrong, CHANGE_COUNT_MAX + 1}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    assert_false(change_code(pid, lists[i][0], (uint32_t)lists[i][1], &result, &problem));
    assert_string_equal(problem.text, "the list of changes is invalid");
  }
  end(pid);
  assert_false(change_code(pid, lists[0][0], 1, &result, &problem));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_is_free_changes),
    cmocka_unit_test(test_many_pages),
#if defined(__x86_64__)
    cmocka_unit_test(test_an_unreadable_stack_occupies_all),
    cmocka_unit_test(test_a_stack_at_the_start_of_its_mapping),
#endif
    cmocka_unit_test(test_bad_lists),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
