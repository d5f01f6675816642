/* SPDX-License-Identifier: MIT
 *
 * Stacks of live programs: what is read without stopping a thread against what its registers say
 * when it is stopped. The frame register that was proven must be the true one, in every build.
 */
#define _GNU_SOURCE
#include <dirent.h>
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
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"
#include "target/process.h"
#include "target/stop/stop.h"
#include "target/target.h"
#include "target/walk.h"

typedef struct program {
  pid_t pid;
  FILE *out;
} program_t;

/* How many threads of PID do not sleep; 0 when that cannot be told. */
static int awake(pid_t pid) {
  char path[64], text[512];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *folder = opendir(path);
  if (!folder) return 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
    const char *end = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    count += end && end[2] != 'S';
    if (file) fclose(file);
  }
  closedir(folder);
  return count;
}

/* Until all but SPINNING threads have come to rest, twice in a row: one may wake another. */
static void wait_for_rest(pid_t pid, int spinning) {
  for (int quiet = 0; quiet < 2; usleep(1000))
    quiet = awake(pid) > spinning ? 0 : quiet + 1;
}

static program_t start(const char *name, const char *first, const char *second) {
  int fds[2];
  program_t program = {0, NULL};
  char path[4096], line[64];
  snprintf(path, sizeof path, "%s/%s", SONDE_FIXTURES, name);
  assert_int_equal(pipe(fds), 0);
  program.pid = fork();
  if (program.pid == 0) {
    dup2(fds[1], 1);
    execl(path, name, first, second, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  program.out = fdopen(fds[0], "r");
  assert_non_null(fgets(line, sizeof line, program.out));
  wait_for_rest(program.pid, atoi(second));
  return program;
}

static void end(program_t *program) {
  kill(program->pid, SIGKILL);
  waitpid(program->pid, NULL, 0);
  fclose(program->out);
}

static target_t *open_target(pid_t pid) {
  problem_t problem = {{0}};
  target_t *target = target_open_process(pid, &problem);
  if (!target) printf("%s\n", problem.text);
  assert_non_null(target);
  return target;
}

/* ---- without a stop against with one --------------------------------------------------------- */

typedef struct whole {
  target_t *target;
  walk_t walk;
  pid_t tid;
  stop_result_t result;
} whole_t;

static void walk_in_place(void *context, const regs_t *regs) {
  whole_t *whole = context;
  process_window_load(&process_of(whole->target)->memory,
                      regs->r[machine_sp(whole->target->machine)]);
  walk_stack(whole->target, regs, STACKS_DEPTH_DEFAULT, &whole->walk);
}

static void *stop_and_walk(void *context) {
  whole_t *whole = context;
  regs_t regs;
  uint64_t ns;
  whole->result = stop_thread(whole->target->machine, whole->tid, &regs, walk_in_place, whole, &ns);
  return NULL;
}

static whole_t stopped_walk(target_t *target, pid_t tid) {
  whole_t whole = {.target = target, .tid = tid};
  pthread_t thread;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child, NULL);
  assert_int_equal(pthread_create(&thread, NULL, stop_and_walk, &whole), 0);
  pthread_join(thread, NULL);
  pthread_sigmask(SIG_UNBLOCK, &child, NULL);
  return whole;
}

typedef struct score {
  size_t threads, complete, proven;
} score_t;

/* Every frame that was read without a stop must be the one that is found with all registers. */
static score_t compare_all(pid_t pid) {
  score_t score = {0, 0, 0};
  problem_t problem = {{0}};
  target_t *target = open_target(pid);
  stacks_options_t options = {.depth = STACKS_DEPTH_DEFAULT, .touch = TOUCH_NONE};
  assert_true(stacks_capture(target, &options, &problem));
  for (size_t i = 0; i < target->thread_count; i++) {
    const thread_t *thread = &target->threads[i];
    whole_t whole = stopped_walk(target, thread->tid);
    assert_int_equal(whole.result, STOP_DONE);
    assert_int_equal(whole.walk.ending, ENDING_COMPLETE);
    assert_true(thread->frame_count <= whole.walk.count);
    for (uint32_t k = 1; k < thread->frame_count; k++)
      assert_int_equal(thread->frames[k].pc, whole.walk.frames[k].pc);
    if (thread->ending == ENDING_COMPLETE) assert_int_equal(thread->frame_count, whole.walk.count);
    score.threads++;
    score.complete += thread->ending == ENDING_COMPLETE;
    score.proven += thread->proven;
    free(whole.walk.frames);
  }
  target_close(target);
  return score;
}

static void proven_is_true(const char *fixture, size_t wanted_percent) {
  program_t program = start(fixture, "99", "0");
  score_t score = compare_all(program.pid);
  printf("%s: %zu threads, %zu complete without a stop, %zu of them by proof\n", fixture,
         score.threads, score.complete, score.proven);
  assert_int_equal(score.threads, 100);
  assert_true(score.complete * 100 >= score.threads * wanted_percent);
  end(&program);
}

static void without_frame_pointers(void **state) {
  (void)state;
  proven_is_true("busy-O2", 100);
}
static void with_frame_pointers(void **state) {
  (void)state;
  proven_is_true("busy-O2-fp", 95);
}
static void not_optimised(void **state) {
  (void)state;
  proven_is_true("busy-O0", 95);
}

/* ---- a leaf whose caller is in a register alone -----------------------------------------------
 */

/* The first thread's call goes on after a stop, the other's need not. */
static void check_leaf(target_t *target, touch_t touch) {
  problem_t problem = {{0}};
  stacks_options_t options = {.depth = STACKS_DEPTH_DEFAULT, .touch = touch};
  wait_for_rest(target->pid, 0);
  target_forget_threads(target);
  assert_true(stacks_capture(target, &options, &problem));
  assert_int_equal(target->thread_count, 2);
  for (size_t i = 0; i < 2; i++) {
    const thread_t *thread = &target->threads[i];
    bool stopped = touch == TOUCH_ANY || (touch == TOUCH_UNSEEN && thread->tid == target->pid);
    assert_int_equal(thread->stopped_ns != 0, stopped);
    assert_int_equal(thread->ending, stopped ? ENDING_COMPLETE : ENDING_BROKEN);
    if (thread->tid == target->pid) assert_int_equal(thread->wait.number, SYS_futex);
    if (!stopped) assert_int_equal(thread->frame_count, 1);
    if (!stopped) continue;
    whole_t whole = stopped_walk(target, thread->tid);
    assert_int_equal(whole.result, STOP_DONE);
    assert_true(thread->frame_count > 2);
    assert_int_equal(thread->frame_count, whole.walk.count);
    assert_int_not_equal(thread->frames[0].pc, thread->frames[1].pc);
    for (uint32_t k = 1; k < thread->frame_count; k++)
      assert_int_equal(thread->frames[k].pc, whole.walk.frames[k].pc);
    free(whole.walk.frames);
  }
}

static void a_leaf_is_stopped_where_it_may_be(void **state) {
  (void)state;
  program_t program = start("leaf", "", "0");
  target_t *target = open_target(program.pid);
  for (int i = 0; i < 20; i++) {
    check_leaf(target, TOUCH_NONE);
    check_leaf(target, TOUCH_UNSEEN);
    check_leaf(target, TOUCH_ANY);
  }
  assert_int_equal(waitpid(program.pid, NULL, WNOHANG), 0); /* it ends when it is interrupted */
  target_close(target);
  end(&program);
}

/* ---- what goes wrong meanwhile ----------------------------------------------------------------
 */

/* ---- who comes back to where it was ---------------------------------------------------------- */

#define NOINLINE __attribute__((noinline, noclone))

/* Where the calls of two chains return to, which end alike: the outermost, then the next. Shared
 * with the child that makes the calls. */
typedef struct returns {
  uintptr_t calls[2][2];
} returns_t;
static volatile returns_t *returns;
static volatile int sink;

static NOINLINE void sleep_in_call(int chain) {
  struct timespec moment = {0, 50000};
  returns->calls[chain][1] = (uintptr_t)__builtin_return_address(0);
  nanosleep(&moment, NULL);
  sink++;
}

/* For a while its own call is the one chain's, and what lies further in is still the other's. */
static inline __attribute__((always_inline)) void linger(int chain) {
  returns->calls[chain][0] = (uintptr_t)__builtin_return_address(0);
  for (int i = 0; i < 12000; i++)
    sink++;
  sleep_in_call(chain);
  sink++;
}
static NOINLINE void first_chain(void) { linger(0); }
static NOINLINE void second_chain(void) { linger(1); }

static pid_t start_to_come_and_go(void) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    first_chain();
    second_chain();
  }
}

/* TSan gives a child of fork a thread of its own. */
static const thread_t *first_thread(const target_t *target, pid_t pid) {
  for (size_t i = 0; i < target->thread_count; i++)
    if (target->threads[i].tid == pid) return &target->threads[i];
  fail_msg("the process has no first thread");
  return NULL;
}

/* A bit for each chain that the stack shows calls of. */
static int chains_of(const thread_t *thread) {
  int chains = 0;
  for (uint32_t i = 0; i < thread->frame_count; i++)
    for (int chain = 0; chain < 2; chain++)
      for (int k = 0; k < 2; k++)
        if (thread->frames[i].pc == returns->calls[chain][k]) chains |= 1 << chain;
  return chains;
}

static void who_comes_back_has_not_stayed(void **state) {
  (void)state;
  problem_t problem;
  stacks_options_t options = {.depth = STACKS_DEPTH_DEFAULT, .touch = TOUCH_NONE};
  returns = mmap(NULL, sizeof *returns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(returns, MAP_FAILED);
  pid_t pid = start_to_come_and_go();
  target_t *target = open_target(pid);
  int seen[4] = {0};
  for (int i = 0; i < 5000 || seen[1] == 0 || seen[2] == 0; i++) {
    assert_true(stacks_capture(target, &options, &problem));
    const thread_t *thread = first_thread(target, pid);
    if (thread->ending == ENDING_COMPLETE) seen[chains_of(thread)]++;
  }
  printf("first chain %d, second chain %d, mixed %d, elsewhere %d\n", seen[1], seen[2], seen[3],
         seen[0]);
  target_close(target);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  munmap((void *)returns, sizeof *returns);
  assert_int_equal(seen[3], 0);
}

/* ---- processes that end ---------------------------------------------------------------------- */

static void process_that_ends(void **state) {
  (void)state;
  program_t program = start("busy-O2", "20", "1");
  problem_t problem = {{0}};
  target_t *target = open_target(program.pid);
  stacks_options_t options = {.depth = STACKS_DEPTH_DEFAULT};
  kill(program.pid, SIGKILL);
  waitpid(program.pid, NULL, 0);
  assert_false(stacks_capture(target, &options, &problem));
  assert_non_null(strstr(problem.text, "ended"));
  target_close(target);
  fclose(program.out);
}

static void *end_soon(void *pid) {
  usleep(3000);
  kill((pid_t)(intptr_t)pid, SIGKILL);
  return NULL;
}

static void process_that_ends_at_any_moment(void **state) {
  (void)state;
  for (int round = 0; round < 10; round++) {
    program_t program = start("busy-O2", "200", "2");
    problem_t problem = {{0}};
    target_t *target = open_target(program.pid);
    stacks_options_t options = {.depth = STACKS_DEPTH_DEFAULT};
    pthread_t killer;
    pthread_create(&killer, NULL, end_soon, (void *)(intptr_t)program.pid);
    for (int i = 0; i < 3; i++)
      if (!stacks_capture(target, &options, &problem)) break;
    pthread_join(killer, NULL);
    waitpid(program.pid, NULL, 0);
    target_close(target);
    fclose(program.out);
  }
}

/* ---- a child of ours that ends while it is held ------------------------------------------------
 */

static void *kill_now(void *pid) {
  kill((pid_t)(intptr_t)pid, SIGKILL);
  return NULL;
}

/* Its end is for the one who waits for it: the recorder, whose stall monitor stops threads. */
static void the_end_of_a_child_is_not_taken(void **state) {
  (void)state;
  for (int round = 0; round < 200; round++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0)
      for (;;)
        pause();
    target_t *target = open_target(child);
    pthread_t killer;
    assert_int_equal(pthread_create(&killer, NULL, kill_now, (void *)(intptr_t)child), 0);
    whole_t whole = stopped_walk(target, child);
    pthread_join(killer, NULL);
    free(whole.walk.frames);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    target_close(target);
  }
}

static void problems_are_told(void **state) {
  problem_t problem;
  (void)state;
  assert_null(target_open_process(0x7ffffff0, &problem));
  assert_non_null(strstr(problem.text, "no process"));
  pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
  assert_null(target_open_process(child, &problem));
  assert_non_null(strstr(problem.text, "zombie"));
  waitpid(child, NULL, 0);
}

static bool can_trace(void) {
  program_t program = start("waits", "1", "0");
  problem_t problem;
  target_t *target = target_open_process(program.pid, &problem);
  bool can = false;
  if (target) {
    whole_t whole = stopped_walk(target, program.pid);
    can = whole.result == STOP_DONE;
    free(whole.walk.frames);
    target_close(target);
  }
  end(&program);
  return can;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_frame_pointers),
      cmocka_unit_test(with_frame_pointers),
      cmocka_unit_test(not_optimised),
      cmocka_unit_test(who_comes_back_has_not_stayed),
      cmocka_unit_test(a_leaf_is_stopped_where_it_may_be),
      cmocka_unit_test(process_that_ends),
      cmocka_unit_test(process_that_ends_at_any_moment),
      cmocka_unit_test(the_end_of_a_child_is_not_taken),
      cmocka_unit_test(problems_are_told),
  };
  if (!can_trace()) {
    puts("this machine does not let us trace a child (qemu-user, a container without ptrace)");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
