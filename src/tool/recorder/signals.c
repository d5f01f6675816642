/* SPDX-License-Identifier: MIT */
#include "recorder/signals.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

static volatile sig_atomic_t forward_to;

static void forward(int signal_number) {
  if (forward_to > 0) kill((pid_t)forward_to, signal_number);
}

/* Does nothing: a signal with a handler interrupts ppoll. */
static void on_child(int signal_number) { (void)signal_number; }

void signals_forward(pid_t pid, sigset_t *waiting) {
  forward_to = pid;
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  struct sigaction action = {.sa_handler = forward, .sa_flags = SA_RESTART};
  static const int forwarded[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
    sigaction(forwarded[i], &action, NULL);
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, waiting);
  sigdelset(waiting, SIGCHLD);
  signal(SIGCHLD, on_child);
}

int signals_end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int signal_number = WTERMSIG(status);
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  fflush(NULL);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  return 128 + signal_number;
}
