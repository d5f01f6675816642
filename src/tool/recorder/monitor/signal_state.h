/* SPDX-License-Identifier: MIT
 *
 * What may keep a thread of the program from getting ticks: the masks and the seccomp mode in
 * /proc/PID/task/TID/status (proc_pid_status(5)).
 */
#ifndef SONDE_RECORDER_MONITOR_SIGNAL_STATE_H
#define SONDE_RECORDER_MONITOR_SIGNAL_STATE_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct signal_state {
  /* the thread blocks SIGURG */
  bool is_blocked;
  /* the process has a handler for SIGURG */
  bool is_caught;
  /* it has a tracer: a debugger, or strace */
  bool is_traced;
  /* seccomp filters that apply (Linux 5.9), and whether the recorder has fewer */
  unsigned filters;
  bool is_filtered;
  /* a thread of the kernel in this process: an io_uring worker */
  bool is_kernel;
} signal_state_t;

/* False if the thread has ended. */
bool signal_state_read(pid_t pid, pid_t tid, signal_state_t *out);

/* Parses the text of `status`; does not set is_filtered and is_kernel. */
void signal_state_parse(const char *text, signal_state_t *out);

#endif
