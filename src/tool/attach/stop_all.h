/* SPDX-License-Identifier: MIT
 *
 * Stops all threads of a process. Only a tracer calls these functions (attach/tracer.h).
 */
#ifndef SONDE_ATTACH_STOP_ALL_H
#define SONDE_ATTACH_STOP_ALL_H

#include "attach/cpu.h"
#include "base/array.h"
#include "target/stop/stop.h"
#include "target/target.h"

typedef struct stopped_thread {
  pid_t tid;
  int status; /* of waitpid(2) */
  bool is_stopped;
  waiting_t waiting;
  cpu_regs_t regs;
} stopped_thread_t;

/* Zero it first; `except` may be set. */
typedef struct stop_all {
  pid_t pid;
  pid_t except;      /* a thread that the tracer has already; 0: none */
  uint64_t begun_ns; /* when the first was asked to stop */
  ARRAY(stopped_thread_t) threads;
} stop_all_t;

/* Stops all threads of PID, also those that start meanwhile. False with PROBLEM if one cannot be
 * stopped. Call stop_all_end in any case. Threads that were seized and not stopped run on when the
 * tracer ends, which must be soon. */
bool stop_all_begin(stop_all_t *all, pid_t pid, problem_t *problem);

/* Releases the threads. System calls that the stop interrupted start again (target/stop/stop.h). */
void stop_all_end(stop_all_t *all);

#endif
