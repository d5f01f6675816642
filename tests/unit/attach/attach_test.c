/* SPDX-License-Identifier: MIT
 *
 * Loads an object into running programs, calls it, and leaves. The program's threads count what
 * they must never see: a system call that failed or ended early.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/attach.h"
#include "attach/object.h"
#include "skip.h"

#define TOY SONDE_FIXTURES "/libattach_toy.so"

/* ---- a program ---------------------------------------------------------------------------- */

enum { THREADS = 6, LIMIT_MS = 20000 };

typedef struct program {
  pid_t pid;
  int orders, answers;
  int *surprises; /* shared: calls with an unexpected result */
} program_t;

static int *surprises;
static int idle[2];

static void *wait_for_time(void *unused) {
  (void)unused;
  while (true)
    if (poll(NULL, 0, 5) != 0) __atomic_fetch_add(surprises, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void *wait_for_input(void *unused) {
  char byte;
  (void)unused;
  (void)!read(idle[0], &byte, 1);
  __atomic_fetch_add(surprises, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void *compute(void *unused) {
  volatile double value = 1;
  (void)unused;
  while (true) {
    for (int i = 0; i < 100000; i++)
      value = value * 3 / 3;
    if (value != 1) __atomic_fetch_add(surprises, 1, __ATOMIC_RELAXED);
    usleep(100);
  }
  return NULL;
}

static _Noreturn void be_program(int orders, int answers) {
  static void *(*const work[])(void *) = {wait_for_time, wait_for_input, compute};
  pthread_t thread;
  char byte;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&thread, NULL, work[i % 3], NULL);
  (void)!write(answers, "r", 1);
  while (read(orders, &byte, 1) == 1)
    (void)!write(answers, &byte, 1);
  _exit(0);
}

static program_t start(void) {
  int orders[2], answers[2];
  program_t p = {.surprises =
                     mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
  char byte;
  assert_true(pipe(orders) == 0 && pipe(answers) == 0 && pipe(idle) == 0);
  surprises = p.surprises;
  p.pid = fork();
  if (p.pid == 0) {
    close(orders[1]);
    be_program(orders[0], answers[1]);
  }
  close(orders[0]);
  close(answers[1]);
  p.orders = orders[1];
  p.answers = answers[0];
  assert_int_equal(read(p.answers, &byte, 1), 1);
  return p;
}

/* The program still answers, saw nothing, and ends as it should. */
static void finish(program_t *p) {
  char byte = 0;
  int status;
  assert_int_equal(write(p->orders, "x", 1), 1);
  assert_int_equal(read(p->answers, &byte, 1), 1);
  assert_int_equal(byte, 'x');
  assert_int_equal(*p->surprises, 0);
  close(p->orders);
  assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
  assert_int_equal(status, 0);
  close(p->answers);
  close(idle[0]);
  close(idle[1]);
  munmap(p->surprises, 4096);
}

static attach_t *open_program(const program_t *p) {
  problem_t problem = {""};
  attach_t *attach = attach_open(p->pid, &problem);
  if (!attach) fail_msg("%s", problem.text);
  return attach;
}

#define ASSERT_WORKS(call)                                                                         \
  do {                                                                                             \
    problem_t problem = {""};                                                                      \
    if (!(call)) fail_msg("%s", problem.text);                                                     \
  } while (0)

#define ASSERT_FAILS(call, text_part)                                                              \
  do {                                                                                             \
    problem_t problem = {""};                                                                      \
    assert_false(call);                                                                            \
    if (!strstr(problem.text, text_part)) fail_msg("%s", problem.text);                            \
  } while (0)

/* ---- cases -------------------------------------------------------------------------------- */

static void the_program_sees_no_cycle(void **unused) {
  (void)unused;
  program_t p = start();
  for (int i = 0; i < 20; i++) {
    bool is_new = false;
    attach_t *a = open_program(&p);
    ASSERT_WORKS(attach_load(a, TOY, &is_new, &problem));
    assert_true(is_new);
    ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
    ASSERT_WORKS(attach_run(a, ATTACH_STOP, NULL, LIMIT_MS, &problem));
    ASSERT_WORKS(attach_unload(a, LIMIT_MS, &problem));
    assert_true(attach_pauses(a).map_ns && attach_pauses(a).run_ns && attach_pauses(a).unmap_ns);
    attach_close(a);
  }
  finish(&p);
}

static void a_sleeping_object_is_used_again(void **unused) {
  (void)unused;
  program_t p = start();
  uint64_t first, second, size;
  bool is_new;
  attach_t *a = open_program(&p);
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem));
  ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  assert_true(attach_image(a, &first, &size));
  attach_close(a);
  a = open_program(&p);
  ASSERT_WORKS(attach_load(a, TOY, &is_new, &problem));
  assert_false(is_new);
  assert_true(attach_image(a, &second, &size));
  assert_true(first == second);
  /* The toy fails if its initializers run twice. */
  ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  ASSERT_WORKS(attach_unload(a, LIMIT_MS, &problem));
  assert_false(attach_image(a, &second, &size));
  ASSERT_FAILS(attach_find(a, TOY, &problem), "is not in process");
  attach_close(a);
  finish(&p);
}

static void a_failing_agent_harms_nobody(void **unused) {
  (void)unused;
  program_t p = start();
  attach_t *a = open_program(&p);
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem));
  ASSERT_FAILS(attach_run(a, ATTACH_START, "fail", LIMIT_MS, &problem), "asked to fail");
  ASSERT_FAILS(attach_run(a, ATTACH_START, "fault", LIMIT_MS, &problem), "faulted");
  ASSERT_FAILS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem), "is not in process");
  ASSERT_FAILS(attach_find(a, TOY, &problem), "is not in process");
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem));
  ASSERT_FAILS(attach_run(a, ATTACH_START, "hang", 100, &problem), "did not answer");
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem));
  ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  attach_close(a);
  finish(&p);
}

static void one_command_at_a_time(void **unused) {
  (void)unused;
  program_t p = start();
  attach_t *a = open_program(&p);
  ASSERT_FAILS(attach_open(p.pid, &problem), "another sonde");
  attach_close(a);
  attach_close(open_program(&p));
  finish(&p);
}

static void objects_that_need_a_loader_are_refused(void **unused) {
  (void)unused;
  object_t object;
  ASSERT_FAILS(object_open(&object, "/nowhere", &problem), "No such file");
  ASSERT_FAILS(object_open(&object, SONDE_TEST_SOURCES "/CMakeLists.txt", &problem), "ELF");
  ASSERT_FAILS(object_open(&object, SONDE_FIXTURES "/libloadable.so", &problem), "cannot load");
  ASSERT_FAILS(object_open(&object, "/proc/self/exe", &problem), "cannot load");
}

static void relocations_follow_the_address(void **unused) {
  (void)unused;
  object_t object;
  ASSERT_WORKS(object_open(&object, TOY, &problem));
  uint64_t first[2], second[2], base = UINT64_C(0x7f0000000000);
  assert_true(object.init_end - object.init_start == 16 && object.build_id_size > 0);
  object_relocate(&object, base);
  memcpy(first, object.image + object.init_start, sizeof first);
  object_relocate(&object, base + 4096);
  memcpy(second, object.image + object.init_start, sizeof second);
  for (int i = 0; i < 2; i++) {
    assert_true(first[i] > base && first[i] < base + object.size);
    assert_true(second[i] == first[i] + 4096);
  }
  object_close(&object);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(objects_that_need_a_loader_are_refused),
      cmocka_unit_test(relocations_follow_the_address),
      cmocka_unit_test(the_program_sees_no_cycle),
      cmocka_unit_test(a_sleeping_object_is_used_again),
      cmocka_unit_test(a_failing_agent_harms_nobody),
      cmocka_unit_test(one_command_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
