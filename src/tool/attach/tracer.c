/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "attach/tracer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACER_NICE (-10)

/* Signals for the command must not end the tracer while a thread is stopped. It waits for SIGCHLD
 * with sigtimedwait. On a busy machine the stopped thread waits for the tracer, so it goes first.
 */
static void become_tracer(void) {
  sigset_t all;
  signal(SIGCHLD, SIG_DFL);
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  prctl(PR_SET_NAME, "sonde-attach");
  prctl(PR_SET_TIMERSLACK, 1ul);
  (void)setpriority(PRIO_PROCESS, 0, TRACER_NICE);
}

bool tracer_run(void (*step)(void *context), void *context) {
  int status = 0;
  pid_t tracer = fork();
  if (tracer == 0) {
    become_tracer();
    step(context);
    _exit(0);
  }
  if (tracer < 0) return false;
  while (waitpid(tracer, &status, 0) < 0 && errno == EINTR)
    continue;
  return true;
}

void tracer_hurry(bool on) {
  const struct sched_param first = {.sched_priority = 1}, usual = {.sched_priority = 0};
  (void)sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, on ? &first : &usual);
}
