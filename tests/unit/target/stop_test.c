/* SPDX-License-Identifier: MIT
 *
 * A stop of a thread in a call that the kernel lets fail with EINTR after a stop (signal(7)): the
 * call starts again, and a signal with a handler still ends it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skip.h"
#include "target/stop/stop.h"

enum { STOPS = 50 };

typedef struct shared {
  int interrupted, ready;
} shared_t;

static void on_signal(int signal_number) { (void)signal_number; }

/* Waits until a byte arrives; counts the waits that ended early. */
static void wait_for_byte(int fd, shared_t *shared) {
  int set = epoll_create1(0);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails */
  struct epoll_event event = {.events = EPOLLIN};
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
  __atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
  while (epoll_wait(set, &event, 1, -1) < 0 && errno == EINTR)
    __atomic_fetch_add(&shared->interrupted, 1, __ATOMIC_RELAXED);
  _exit(0);
}

static void nothing(void *context, const regs_t *regs) { (void)context, (void)regs; }

typedef struct stopper {
  pid_t pid;
  int done;
} stopper_t;

/* The kernel lets go of the child when this thread ends. */
static void *stops(void *context) {
  stopper_t *s = context;
  regs_t regs;
  uint64_t ns;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child, NULL);
  for (int i = 0; i < STOPS; i++) {
    s->done += stop_thread(MACHINE_HERE, s->pid, &regs, nothing, NULL, &ns) == STOP_DONE;
    usleep(200);
  }
  return NULL;
}

static void wait_for_state(pid_t pid, char wanted) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  while (state != wanted) {
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
    usleep(1000);
  }
}

static void a_stopped_call_starts_again(void **unused) {
  (void)unused;
  if (is_emulated()) SKIP_BECAUSE("qemu-user has no ptrace");
  int pipes[2];
  shared_t *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED && pipe(pipes) == 0);
  stopper_t s = {.pid = fork()};
  if (s.pid == 0) wait_for_byte(pipes[0], shared);
  while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
    usleep(1000);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, stops, &s), 0);
  pthread_join(thread, NULL);
  assert_int_equal(s.done, STOPS);
  assert_int_equal(__atomic_load_n(&shared->interrupted, __ATOMIC_RELAXED), 0);
  wait_for_state(s.pid, 'S'); /* a signal before the call has started again ends no wait */
  kill(s.pid, SIGUSR1);
  while (!__atomic_load_n(&shared->interrupted, __ATOMIC_RELAXED))
    usleep(1000);
  assert_int_equal(__atomic_load_n(&shared->interrupted, __ATOMIC_RELAXED), 1);
  assert_int_equal(write(pipes[1], "", 1), 1);
  int status;
  assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
  assert_int_equal(status, 0);
}

static void only_calls_without_effect_start_again(void **unused) {
  (void)unused;
  assert_true(stop_may_repeat(SYS_epoll_pwait));
  assert_true(stop_may_repeat(SYS_semtimedop));
  assert_true(stop_may_repeat(SYS_recvfrom));
  assert_false(stop_may_repeat(SYS_close)); /* the descriptor is free already */
  assert_false(stop_may_repeat(SYS_write));
  assert_false(stop_may_repeat(-1));
}

/* A parent in vfork stops only after its child has ended, which a byte in RELEASE makes it do. */
static pid_t start_late(int release[2]) {
  assert_int_equal(pipe(release), 0);
  pid_t pid = fork();
  if (pid == 0) {
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (vfork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)!read(release[0], &byte, 1);
      _exit(0);
    }
    while (true)
      pause();
  }
  return pid;
}

static _Noreturn void stop_once(pid_t pid) {
  regs_t regs;
  uint64_t ns;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  raise(SIGSTOP);
  _exit(stop_thread(MACHINE_HERE, pid, &regs, nothing, NULL, &ns) == STOP_DONE ? 0 : 1);
}

/* Lets TID run until it has made the system call NUMBER. */
static void run_past(pid_t tid, long number) {
  struct __ptrace_syscall_info info;
  int status;
  bool is_made = false;
  while (true) {
    assert_int_equal(ptrace(PTRACE_SYSCALL, tid, NULL, NULL), 0);
    assert_int_equal(waitpid(tid, &status, 0), tid);
    assert_true(WIFSTOPPED(status));
    memset(&info, 0, sizeof info);
    ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, &info);
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && is_made) return;
    is_made = info.op == PTRACE_SYSCALL_INFO_ENTRY && (long)info.entry.nr == number;
  }
}

/* On a busy machine, a stop comes while the tracer itself has no CPU time: after it has looked for
 * the stop, and before it sees that time is up. */
static void a_stop_is_seen_however_late_the_tracer_is(void **unused) {
  (void)unused;
  if (is_thread_sanitized()) SKIP_BECAUSE("ThreadSanitizer's vfork is fork");
  int release[2], status;
  pid_t late = start_late(release), tracer;
  wait_for_state(late, 'D');
  tracer = fork();
  if (tracer == 0) stop_once(late);
  assert_int_equal(waitpid(tracer, &status, 0), tracer);
  ptrace(PTRACE_SETOPTIONS, tracer, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD);
  run_past(tracer, SYS_waitid);
  assert_int_equal(write(release[1], "", 1), 1);
  wait_for_state(late, 't');
  usleep(300000); /* longer than a thread has that does not want to run */
  ptrace(PTRACE_DETACH, tracer, NULL, NULL);
  assert_int_equal(waitpid(tracer, &status, 0), tracer);
  assert_int_equal(status, 0);
  kill(late, SIGKILL);
  assert_int_equal(waitpid(late, &status, 0), late);
  close(release[0]);
  close(release[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_stopped_call_starts_again),
                                     cmocka_unit_test(only_calls_without_effect_start_again),
                                     cmocka_unit_test(a_stop_is_seen_however_late_the_tracer_is)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
