/* SPDX-License-Identifier: MIT
 *
 * A process that is recorded from outside: nothing is loaded into it. It ran before its recording
 * began (`sonde record -p`), or sonde starts it and it cannot load the agent. Unless the recorder
 * is its parent, it learns of the end, from a pidfd or /proc, but not of the status.
 *
 * All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_OBSERVED_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_OBSERVED_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/monitor/writer.h"
#include "target/target.h"

/* Which program a process executes: changes with every execve. */
typedef struct observed_program {
  uint64_t device, inode;
  /* of its initial stack; 0: unknown */
  uint64_t stack;
} observed_program_t;

typedef struct observed {
  pid_t pid;
  /* readable when the process has ended; -1: a kernel before Linux 5.3 */
  int pidfd;
  uint64_t birth; /* as in process_facts_t */
  /* of CLOCK_MONOTONIC, when the recording ends; UINT64_MAX: never */
  uint64_t deadline_ns;
  observed_program_t program;
  uint64_t process_ns; /* its CPU time when `program` was read last; 0: unknown */
  /* of observed_record; NULL: nothing is recorded yet */
  monitor_writer_t *writer;
  /* the file name of its executable */
  char name[NAME_MAX + 1];
} observed_t;

/* Opens the process PID, to be recorded for SECONDS; 0: without a limit. False with PROBLEM if its
 * memory may not be read; only a process with a dormant agent is opened without that right, if
 * READS_MEMORY is false. */
bool observed_open(observed_t *observed, pid_t pid, long seconds, bool reads_memory,
                   problem_t *problem);
void observed_close(observed_t *observed);

/* From here on, SIGINT, SIGTERM and SIGHUP end the recording. They are blocked; *WAITING is the
 * mask that unblocks them, for ppoll(2). */
void observed_take_signals(sigset_t *waiting);

/* Whether the recording is to end: the process has ended, a signal came, or its time is up. */
bool observed_is_over(const observed_t *observed);

/* Whether the process has ended. */
bool observed_has_ended(const observed_t *observed);

/* The time until the deadline, at most LIMIT_NS. */
uint64_t observed_time_left_ns(const observed_t *observed, uint64_t limit_ns);

/* Whether the process has executed another program since the last call. It has not while the execve
 * is under way. */
bool observed_has_executed(observed_t *observed);

/* Records which program the process executes, once RECORDING has counted it. A monitor would read
 * this later, when the process may have ended. */
void observed_record(observed_t *observed, recording_t *recording);

/* Marks RECORDING as one from outside, of the program that the process executes now, before its
 * monitors start. */
void observed_begin(observed_t *observed, recording_t *recording);

#endif
