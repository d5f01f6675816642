/* SPDX-License-Identifier: MIT
 *
 * Signals and data that arrive while a thread is borrowed. The thread's call ends as it would have
 * ended without the loan: with EINTR unless the handler has SA_RESTART and the call heeds it.
 */
#define _GNU_SOURCE
#include "program.h"

#include <sys/epoll.h>
#include <sys/syscall.h>

#include "attach/borrow.h"
#include "skip.h"

enum { VALUE = 4711 };

typedef struct wait_case {
  const char *name;
  bool in_epoll;
  int flags;         /* of the handler */
  int first, second; /* signals that arrive; 0: none */
  bool has_data;
  long result;
  int error;
} wait_case_t;

static const wait_case_t cases[] = {
    {"nothing, then data", false, 0, 0, 0, true, 1, 0},
    {"a signal interrupts read", false, 0, SIGUSR1, 0, false, -1, EINTR},
    {"a signal with SA_RESTART does not", false, SA_RESTART, SIGUSR1, 0, true, 1, 0},
#if defined(__x86_64__)
    {"a signal interrupts epoll_wait", true, 0, SIGUSR1, 0, false, -1, EINTR},
    {"SA_RESTART means nothing to epoll_wait", true, SA_RESTART, SIGUSR1, 0, false, -1, EINTR},
#else
    {"a signal comes before epoll_wait", true, 0, SIGUSR1, 0, true, 1, 0},
#endif
    {"an ignored signal interrupts nothing", true, 0, SIGWINCH, 0, true, 1, 0},
    {"two signals", false, 0, SIGUSR1, SIGUSR2, false, -1, EINTR},
};

typedef struct seen {
  long result;
  int error, value, handled;
} seen_t;

static seen_t *seen;

static void on_signal(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  seen->value += info->si_value.sival_int;
  seen->handled++;
}

static _Noreturn void be_waiter(const wait_case_t *c, int input) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | c->flags};
  struct epoll_event event = {.events = EPOLLIN};
  int set = epoll_create1(0);
  char byte;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  epoll_ctl(set, EPOLL_CTL_ADD, input, &event);
  errno = 0;
  seen->result = c->in_epoll ? epoll_wait(set, &event, 1, -1) : read(input, &byte, 1);
  seen->error = errno;
  _exit(0);
}

static void wait_until_it_sleeps(pid_t pid) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/%d/syscall", pid);
  for (long number = -1; number < 0; usleep(1000)) {
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    if (!fgets(text, sizeof text, file) || sscanf(text, "%ld", &number) != 1) number = -1;
    if (number != SYS_read && number != SYS_epoll_pwait
#ifdef SYS_epoll_wait
        && number != SYS_epoll_wait
#endif
    )
      number = -1;
    fclose(file);
  }
}

static void send(pid_t pid, int signal) {
  if (signal) assert_int_equal(sigqueue(pid, signal, (union sigval){.sival_int = VALUE}), 0);
}

/* In a process of its own, like the tracer. */
static _Noreturn void lend(attach_t *attach, pid_t pid, const wait_case_t *c, int output) {
  static borrowed_t b;
  uint64_t pause_ns;
  borrow_call_t call = {.call = {SYS_getppid, {0}}, .code = attach->code};
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  call.frame = borrow_place(attach);
  b.tid = pid;
  if (borrow_one(attach, &b) != TAKEN) _exit(1);
  send(pid, c->first);
  send(pid, c->second);
  if (c->has_data && !c->first) (void)!write(output, "d", 1);
  if (borrow_call(attach, &b, &call, &pause_ns) <= 0) _exit(2);
  _exit(0);
}

static int status_of(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

static void check(const wait_case_t *c) {
  int input[2];
  problem_t problem = {""};
  *seen = (seen_t){0};
  assert_int_equal(pipe(input), 0);
  pid_t pid = fork();
  if (pid == 0) be_waiter(c, input[0]);
  wait_until_it_sleeps(pid);
  attach_t *attach = attach_open(pid, &problem);
  if (!attach) fail_msg("%s", problem.text);
  pid_t tracer = fork();
  if (tracer == 0) lend(attach, pid, c, input[1]);
  assert_int_equal(status_of(tracer), 0);
  attach_close(attach);
  if (c->has_data && c->first) {
    while (c->first != SIGWINCH && !__atomic_load_n(&seen->handled, __ATOMIC_ACQUIRE))
      usleep(1000);
    assert_int_equal(write(input[1], "d", 1), 1);
  }
  assert_int_equal(status_of(pid), 0);
  int handled = c->first == SIGWINCH ? 0 : !!c->first + !!c->second;
  if (seen->result != c->result || seen->error != c->error || seen->handled != handled ||
      seen->value != handled * VALUE)
    fail_msg("%s: the call returned %ld, errno %d; %d signals of value %d", c->name, seen->result,
             seen->error, seen->handled, seen->value);
  close(input[0]);
  close(input[1]);
}

static void calls_end_as_without_the_loan(void **unused) {
  (void)unused;
  if (is_emulated()) SKIP_BECAUSE("qemu-user has no ptrace");
  seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(seen != MAP_FAILED);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    print_message("%s\n", cases[i].name), check(&cases[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_as_without_the_loan)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
