/* SPDX-License-Identifier: MIT
 *
 * The seccomp filters of a process (seccomp(2)): what they forbid the agent, and whether they
 * permit the calls by which it is loaded. The kernel shows filters only to a tracer that has
 * CAP_SYS_ADMIN in the first user namespace and no filter itself (ptrace(2),
 * PTRACE_SECCOMP_GET_FILTER).
 */
#ifndef SONDE_ATTACH_FILTERS_H
#define SONDE_ATTACH_FILTERS_H

#include "os/os.h"
#include "target/target.h"

typedef struct filters {
  uint32_t count;                  /* of the thread that has most; 0: none */
  bool forbid_reaping;             /* wait4(2), with which the command lets a child be reaped */
  uint8_t forbidden[OS_CALLS_MAX]; /* by os_calls_of_filter */
} filters_t;

/* Whether this process may read filters. */
bool filters_are_readable(void);

/* Reads the filters of all threads; each that has some is stopped for a moment. False with PROBLEM
 * if one cannot be read, or may end the program at a call by which the agent is loaded or leaves.
 * Only a tracer calls this (attach/tracer.h), before each call that it lets the program make. */
bool filters_read(target_t *target, filters_t *filters, problem_t *problem);

/* Whether the process PID may be made to reap a child. False with PROBLEM. */
bool filters_permit_reaping(pid_t pid, const filters_t *filters, problem_t *problem);

#endif
