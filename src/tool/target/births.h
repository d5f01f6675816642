/* SPDX-License-Identifier: MIT
 *
 * Processes that start below a process, however short they live: the kernel writes a record when a
 * process forks, executes a program or ends (perf_event_open(2): PERF_RECORD_FORK, _COMM, _EXIT).
 * The process is neither stopped nor traced. Its children inherit the event, one for each CPU, so
 * this is for single processes and not for all of a run.
 */
#ifndef SONDE_TARGET_BIRTHS_H
#define SONDE_TARGET_BIRTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum birth_kind { BIRTH_FORK, BIRTH_EXEC, BIRTH_EXIT } birth_kind_t;

typedef struct birth {
  birth_kind_t kind;
  pid_t pid;
  /* of BIRTH_FORK */
  pid_t parent;
  /* of BIRTH_EXEC: the program, at most 15 characters */
  char name[16];
  /* of CLOCK_MONOTONIC */
  uint64_t time_ns;
} birth_t;

typedef struct births births_t;

/* Starts with PID, which must not have children yet. NULL: the system refuses it, or out of memory.
 */
births_t *births_open(pid_t pid);

/* Calls EACH for the events since the last call, in their order. */
void births_read(births_t *births, void (*each)(void *context, const birth_t *birth),
                 void *context);
void births_close(births_t *births);

#endif
