/* SPDX-License-Identifier: MIT
 *
 * Stops a process at the first instruction of the program that it executes next. ptrace(2) does
 * that unseen: PTRACE_SEIZE sends no signal, and stops for other reasons are passed on.
 *
 * A thread that traces a process is the only one that can let it run on, so all functions are for
 * the recorder's main thread.
 */
#ifndef SONDE_RECORDER_START_HOLD_H
#define SONDE_RECORDER_START_HOLD_H

#include <stdbool.h>
#include <sys/types.h>

typedef enum hold_state {
  HOLD_NONE,     /* the process is not traced */
  HOLD_WAITS,    /* it has not executed a program yet */
  HOLD_EXECUTED, /* it is stopped at the first instruction */
} hold_state_t;

typedef struct hold {
  pid_t pid;
  hold_state_t state;
  /* of the recorder, which reaps it elsewhere */
  bool is_child;
  /* its next stop ends the tracing */
  bool is_leaving;
} hold_t;

/* Begins to trace process PID, which must have one thread. If the system does not allow that, the
 * state stays HOLD_NONE. */
void hold_begin(hold_t *hold, pid_t pid, bool is_child);

/* Handles the stops of the process that have happened. */
hold_state_t hold_poll(hold_t *hold);

/* Waits until the process has executed a program or ended. */
hold_state_t hold_wait(hold_t *hold);

/* The process does not execute a program: lets it run on untraced. */
void hold_leave(hold_t *hold);

/* Lets a process run that has executed a program. */
void hold_release(hold_t *hold);

#endif
