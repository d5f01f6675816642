/* SPDX-License-Identifier: MIT
 *
 * The command is killed at any step of attach and detach, and the program goes on as if nothing had
 * happened. This test traces the command's tracer and kills it after its Nth system call with a
 * borrowed thread, for each N. SONDE_STRIDE=1 tries every N; the default tries some, from a random
 * one on (SONDE_SEED).
 */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <elf.h>
#include <time.h>

#include "agent/attach_block.h"

/* ---- the command -------------------------------------------------------------------------- */

enum { TRY_AGAIN = 2 };

static _Noreturn void be_command(pid_t pid) {
  problem_t problem;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(9);
  raise(SIGSTOP);
  attach_t *a = attach_open(pid, &problem);
  if (!a || !attach_load(a, TOY, NULL, &problem) ||
      !attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem) ||
      !attach_run(a, ATTACH_STOP, NULL, LIMIT_MS, &problem) ||
      !attach_unload(a, LIMIT_MS, &problem)) {
    /* After a kill, the agent's thread may need a moment. */
    if (strstr(problem.text, "for a command that was killed")) _exit(TRY_AGAIN);
    printf("%s\n", problem.text);
    fflush(stdout);
    _exit(1);
  }
  _exit(0);
}

/* ---- its killer --------------------------------------------------------------------------- */

typedef struct killer {
  pid_t command, tracer; /* tracer: the child that works now; 0: none */
  bool in_call;          /* of the tracer */
  bool has_thread;       /* the tracer has seized a thread */
  int calls;             /* since then */
  int status;            /* of the command */
} killer_t;

/* The number of the system call at an entry stop, and its first argument. */
static long call_of(pid_t tid, uint64_t *first) {
  struct __ptrace_syscall_info info = {0};
  ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, &info);
  *first = info.entry.args[0];
  return info.op == PTRACE_SYSCALL_INFO_ENTRY ? (long)info.entry.nr : -1;
}

static void count_call(killer_t *k) {
  uint64_t first;
  k->in_call = !k->in_call;
  if (k->in_call && call_of(k->tracer, &first) == SYS_ptrace && first == PTRACE_SEIZE)
    k->has_thread = true;
  if (!k->in_call) k->calls += k->has_thread;
}

/* Handles one stop of the command or its tracer, and resumes it. */
static void pass_on(killer_t *k, pid_t pid, int status) {
  unsigned long child = 0;
  int event = status >> 16, signal = WSTOPSIG(status);
  if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_CLONE) {
    ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child);
    k->tracer = (pid_t)child;
    k->in_call = k->has_thread = false;
  }
  if (signal == (SIGTRAP | 0x80) && pid == k->tracer) count_call(k);
  if (event || signal == (SIGTRAP | 0x80) || signal == SIGSTOP) signal = 0;
  ptrace(pid == k->command ? PTRACE_CONT : PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal);
}

static bool is_time(const killer_t *k, int wanted) {
  return k->has_thread && !k->in_call && k->calls >= wanted;
}

/* Runs the command against PID and kills it after WANTED calls. Returns the calls that it made. */
static int run_command(pid_t pid, int wanted, int *end) {
  const long options =
      PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  killer_t k = {.command = fork(), .status = -1};
  int status;
  if (k.command == 0) be_command(pid);
  waitpid(k.command, &status, 0);
  ptrace(PTRACE_SETOPTIONS, k.command, NULL, (void *)options);
  ptrace(PTRACE_CONT, k.command, NULL, NULL);
  while (true) {
    pid_t got = waitpid(-1, &status, __WALL);
    if (got < 0) break;
    if (WIFSTOPPED(status)) {
      if (got == k.tracer && k.calls + 1 >= wanted && k.has_thread && k.in_call) {
        count_call(&k); /* the exit stop of the last call */
        if (is_time(&k, wanted)) {
          kill(k.command, SIGKILL);
          kill(got, SIGKILL);
          continue;
        }
      }
      pass_on(&k, got, status);
      continue;
    }
    if (got == k.tracer) k.tracer = 0, k.has_thread = false;
    if (got == k.command) k.status = status;
    if (k.status != -1 && !k.tracer) break;
  }
  *end = k.status;
  return k.calls;
}

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

/* In the middle of the tests the program is the parent's child as well, so it must not be reaped.
 */
static void check_alive(program_t *p, int step) {
  char byte = 0;
  int status;
  pid_t ended = waitpid(p->pid, &status, WNOHANG);
  if (ended) fail_msg("killed after call %d: the program ended with status 0x%x", step, status);
  assert_int_equal(write(p->orders, "x", 1), 1);
  assert_int_equal(read(p->answers, &byte, 1), 1);
  wait_for_turns(p);
  if (*p->surprises)
    fail_msg("killed after call %d: in thread '%c' a call returned %d, errno %d", step,
             p->surprises[1], p->surprises[2], p->surprises[3]);
}

static void kill_at_every_step(program_t p) {
  int end, seed = number("SONDE_SEED", (int)time(NULL)), stride = number("SONDE_STRIDE", 9);
  int all = run_command(p.pid, INT32_MAX, &end);
  assert_int_equal(end, 0);
  print_message("%d calls with a borrowed thread, seed %d\n", all, seed);
  assert_in_range(all, 50, 100000);
  srand((unsigned)seed);
  int first = 1 + rand() % stride, killed = 0, tries = 0, fewest = all;
  for (int n = first; n <= all; n += stride) {
    int calls = run_command(p.pid, n, &end);
    check_alive(&p, n);
    if (end == 0 && calls < fewest) fewest = calls;
    if (WIFEXITED(end) && WEXITSTATUS(end) == TRY_AGAIN && ++tries < 1000) {
      n -= stride;
      continue;
    }
    bool was_killed = WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL;
    if (!was_killed && end) fail_msg("call %d: the command ended with status 0x%x", n, end);
    killed += was_killed;
  }
  print_message("killed %d times\n", killed);
  assert_in_range(fewest, 50, all);
  assert_in_range(killed, fewest / stride / 2, all); /* later runs may need fewer calls */
  run_command(p.pid, INT32_MAX, &end); /* and the next command finds nothing in its way */
  assert_int_equal(end, 0);
  finish(&p);
}

static void the_program_outlives_the_command(void **unused) {
  (void)unused;
  kill_at_every_step(start(THREADS));
}

/* Its only thread is borrowed while it computes, so its registers must come back exactly. */
static void a_computing_thread_keeps_its_registers(void **unused) {
  (void)unused;
  kill_at_every_step(start(0));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_program_outlives_the_command),
                                     cmocka_unit_test(a_computing_thread_keeps_its_registers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
