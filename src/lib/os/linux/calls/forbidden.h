/* SPDX-License-Identifier: MIT
 *
 * The system calls that a seccomp filter forbids sonde to make (seccomp(2)).
 *
 * The agent evaluates each filter before the program installs it, for every row of calls/table.h.
 * Any result but SECCOMP_RET_ALLOW and SECCOMP_RET_LOG forbids the row: the call would end the
 * program, raise SIGSYS in it, wait for a supervisor, or fail. From then on the call macros return
 * -EPERM for that row. So the rest of sonde needs no knowledge of filters: it handles calls that
 * fail.
 *
 * The set is the process's, although a filter may belong to one thread only. A child of fork
 * inherits it, as it inherits the filters.
 */
#ifndef SONDE_OS_LINUX_CALLS_FORBIDDEN_H
#define SONDE_OS_LINUX_CALLS_FORBIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/linux/calls/table.h"

/* A set of rows. */
typedef struct call_set {
  bool has[CALL_ROWS];
} call_set_t;

/* The rows that a program of COUNT instructions (struct sock_filter) forbids. A program that the
 * kernel would refuse forbids all. Needs 24 KB of stack. */
void linux_calls_of_filter(call_set_t *out, const void *program, uint32_t count);

/* The rows that strict mode forbids: all but read, write and rt_sigreturn. */
void linux_calls_of_strict_mode(call_set_t *out);

/* The rows that an unknown filter may forbid in a program that has just started: all but those that
 * every loader has made by then. */
void linux_calls_of_unknown_filter(call_set_t *out);

/* Before the first call of linux_calls_forbid: notes the ids that cannot be read later. Returns
 * false if the id of a thread can only be read with gettid(2). */
bool linux_calls_prepare(void);

/* The process's id, read in another way, in a program that has just started. */
void linux_calls_set_pid(pid_t pid);

/* Adds a set, or removes one that was added. */
void linux_calls_forbid(const call_set_t *set);
void linux_calls_permit(const call_set_t *set);

bool linux_calls_forbidden_row(call_row_t row);

/* The name of a row's system call. */
const char *linux_call_name(call_row_t row);

/* The process's and the thread's id if the calls for them are forbidden. */
pid_t linux_known_pid(void);
pid_t linux_known_tid(void);

#endif
