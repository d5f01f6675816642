/* SPDX-License-Identifier: MIT
 *
 * The threads of a program that already runs, for the tracer of coverage.h. Each is interrupted
 * once, so that its next system calls stop it. A call that this interrupts continues as after a
 * loan (attach/choose.h); a thread that transfers data is waited for.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_JOIN_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Seizes all threads of PID with OPTIONS of ptrace(2) and interrupts them. Sets *COUNT to their
 * number; each has yet to stop. Returns 0, or an errno: EPERM if another tracer has a thread or the
 * system forbids it, EAGAIN if a thread transfers data for long, EOPNOTSUPP if this CPU cannot hide
 * the interruption. Only the tracer's one thread calls this. */
int join_threads(pid_t pid, long options, size_t *count);

/* At the stop of TID that the interruption caused: lets the interrupted call start again. */
void join_stopped(pid_t tid);

/* Interrupts the threads of PID that the calling tracer has, but for those in calls that this would
 * change. Each has yet to stop. Only the tracer's one thread calls this. */
void join_interrupt(pid_t pid);

#endif
