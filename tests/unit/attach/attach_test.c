/* SPDX-License-Identifier: MIT
 *
 * Loads an object into running programs, calls it, and leaves. The program's threads count what
 * they must never see: a system call that failed or ended early.
 */
#include "program.h"

#include <dirent.h>

#include "agent/attach_block.h"
#include "attach/object.h"

/* ---- cases -------------------------------------------------------------------------------- */

static void the_program_sees_no_cycle(void **unused) {
  (void)unused;
  program_t p = start(THREADS);
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
  program_t p = start(THREADS);
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
  program_t p = start(THREADS);
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

/* Whether the program has a thread of the agent. */
static bool has_agent_thread(pid_t pid) {
  char path[64], name[32];
  bool found = false;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", pid, entry->d_name);
    FILE *file = fopen(path, "re");
    found |= file && fgets(name, sizeof name, file) && strcmp(name, "sonde-attach\n") == 0;
    if (file) fclose(file);
  }
  if (folder) closedir(folder);
  return found;
}

/* A command whose processes are killed while the agent's thread runs leaves that thread alone. */
static void two_calls_never_meet(void **unused) {
  (void)unused;
  program_t p = start(THREADS);
  bool is_new;
  char settings[] = "until /tmp/sonde-attach-XXXXXX", *file = settings + strlen("until ");
  int created = mkstemp(file);
  assert_true(created >= 0 && close(created) == 0 && unlink(file) == 0);
  pid_t command = fork();
  if (command == 0) {
    problem_t problem;
    setpgid(0, 0);
    attach_t *a = attach_open(p.pid, &problem);
    if (a && attach_load(a, TOY, NULL, &problem))
      (void)attach_run(a, ATTACH_START, settings, LIMIT_MS, &problem);
    _exit(0);
  }
  while (!has_agent_thread(p.pid))
    usleep(1000);
  kill(-command, SIGKILL);
  assert_int_equal(waitpid(command, NULL, 0), command);
  attach_t *a;
  problem_t locked;
  while (!(a = attach_open(p.pid, &locked))) /* until the tracer has ended, too */
    usleep(1000);
  ASSERT_FAILS(attach_load(a, TOY, &is_new, &problem), "still works for a command");
  created = open(file, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(created >= 0 && close(created) == 0);
  while (has_agent_thread(p.pid))
    usleep(1000);
  unlink(file);
  ASSERT_WORKS(attach_load(a, TOY, &is_new, &problem));
  assert_false(is_new);
  ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  ASSERT_WORKS(attach_unload(a, LIMIT_MS, &problem));
  attach_close(a);
  finish(&p);
}

/* The program keeps an address of the object on a stack that a handler with a stack of its own has
 * interrupted. */
static void an_interrupted_stack_keeps_the_object(void **unused) {
  (void)unused;
  program_t p = start(INTERRUPTED);
  uint64_t image, size;
  char byte;
  attach_t *a = open_program(&p);
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem));
  ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  assert_true(attach_image(a, &image, &size));
  image += size / 2;
  assert_int_equal(write(p.orders, &image, sizeof image), sizeof image);
  assert_int_equal(read(p.answers, &byte, 1), 1); /* from the handler */
  ASSERT_FAILS(attach_unload(a, 0, &problem), "asleep");
  assert_int_equal(write(p.orders, "x", 1), 1); /* the handler returns */
  assert_int_equal(read(p.answers, &byte, 1), 1);
  ASSERT_WORKS(attach_unload(a, LIMIT_MS, &problem));
  attach_close(a);
  finish(&p);
}

static void a_program_that_has_ended_is_left(void **unused) {
  (void)unused;
  program_t p = start(THREADS);
  attach_t *a = open_program(&p);
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem));
  ASSERT_WORKS(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  assert_true(kill(p.pid, SIGKILL) == 0);
  siginfo_t end;
  assert_true(waitid(P_PID, (id_t)p.pid, &end, WEXITED | WNOWAIT) == 0);
  ASSERT_FAILS(attach_unload(a, LIMIT_MS, &problem), "has ended");
  assert_int_equal(waitpid(p.pid, NULL, 0), p.pid);
  ASSERT_FAILS(attach_unload(a, LIMIT_MS, &problem), "no process has the id");
  attach_close(a);
}

static void one_command_at_a_time(void **unused) {
  (void)unused;
  program_t p = start(THREADS);
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
      cmocka_unit_test(two_calls_never_meet),
      cmocka_unit_test(an_interrupted_stack_keeps_the_object),
      cmocka_unit_test(a_program_that_has_ended_is_left),
      cmocka_unit_test(one_command_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
