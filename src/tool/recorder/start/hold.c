/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/start/hold.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

/* The folder has a link for itself, one for its parent, and one for each thread. */
static bool has_one_thread(pid_t pid) {
  char path[32];
  struct stat folder;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  return stat(path, &folder) == 0 && folder.st_nlink == 3;
}

void hold_begin(hold_t *h, pid_t pid, bool is_child) {
  void *options = (void *)(intptr_t)PTRACE_O_TRACEEXEC;
  *h = (hold_t){.pid = pid, .is_child = is_child};
  if (!has_one_thread(pid)) return;
  if (ptrace(PTRACE_SEIZE, pid, NULL, options) == 0) h->state = HOLD_WAITS;
}

static void detach(hold_t *h) {
  (void)ptrace(PTRACE_DETACH, h->pid, NULL, NULL);
  h->state = HOLD_NONE;
}

/* Passes on a stop before the execution: it is for a signal, or the process stays stopped by one.
 * STATUS is as in waitpid(2), without the first byte. */
static void pass_stop(const hold_t *h, int status) {
  bool is_group_stop = status >> 8 == PTRACE_EVENT_STOP && (status & 0xff) != SIGTRAP;
  intptr_t signal_number = status >> 8 ? 0 : status & 0xff;
  if (is_group_stop)
    (void)ptrace(PTRACE_LISTEN, h->pid, NULL, NULL);
  else
    (void)ptrace(PTRACE_CONT, h->pid, NULL, (void *)signal_number);
}

static void handle_stop(hold_t *h, int status) {
  if (status == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
    h->state = HOLD_EXECUTED;
  else if (!h->is_leaving || !(status >> 8))
    pass_stop(h, status);
  if (h->is_leaving && status >> 8) detach(h);
}

/* The end of a process that is no child is reported to its parent only after its tracer has waited
 * for it. That of a child is left to others. Returns false if there is nothing to handle. */
static bool handle_next(hold_t *h, int how) {
  siginfo_t info = {.si_pid = 0};
  int wanted = WSTOPPED | __WALL | how;
  if (waitid(P_PID, (id_t)h->pid, &info, wanted | WEXITED | WNOWAIT) != 0) {
    if (errno == EINTR) return true;
    h->state = HOLD_NONE;
    return false;
  }
  if (!info.si_pid) return false;
  bool stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
  if (!stopped) h->state = HOLD_NONE;
  if (!stopped && h->is_child) return false;
  info.si_pid = 0;
  bool taken = waitid(P_PID, (id_t)h->pid, &info, wanted | WEXITED) == 0 && info.si_pid;
  if (stopped && taken) handle_stop(h, info.si_status);
  return stopped && taken;
}

hold_state_t hold_poll(hold_t *h) {
  while (h->state == HOLD_WAITS && handle_next(h, WNOHANG)) {
  }
  return h->state;
}

hold_state_t hold_wait(hold_t *h) {
  while (h->state == HOLD_WAITS && handle_next(h, 0)) {
  }
  return h->state;
}

void hold_leave(hold_t *h) {
  if (h->state != HOLD_WAITS) return;
  h->is_leaving = true;
  (void)ptrace(PTRACE_INTERRUPT, h->pid, NULL, NULL);
}

void hold_release(hold_t *h) {
  if (h->state == HOLD_EXECUTED) detach(h);
}
