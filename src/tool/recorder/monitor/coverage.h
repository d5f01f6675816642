/* SPDX-License-Identifier: MIT
 *
 * What the audit's hooks do not see: the sensitive system calls of a program, all of them, as a
 * tracer has them (sonde record --audit --coverage).
 *
 * The tracer is a process of its own beside the recorder, which seizes every thread of the program
 * (PTRACE_SEIZE) and is told of the entry and the end of every system call. Of those that the
 * policy's functions come down to (target/sensitive.h) it says which audited call they belong to
 * (record/shm_audit.h), or where they come from: the stack of the stopped thread. That takes
 * two stops of the thread at every system call, sensitive or not, 10 to 20 µs in all, so it is a
 * check of the audit and not a part of it.
 *
 * Why ptrace. A seccomp filter would stop sensitive calls alone, but it is inherited for ever,
 * needs no_new_privs, and once the tracer is gone its calls fail. Syscall user dispatch ends at
 * exec and kills a program that makes a call while SIGSYS is blocked. A tracer adds nothing to the
 * program: no signal, no EINTR; stops and signals pass through; children made by fork and vfork
 * are not traced; when the tracer ends, however it ends, the program runs on. What does change: the
 * program cannot be traced by another, nor trace itself (PTRACE_TRACEME), and /proc shows a
 * TracerPid. A traced program would not gain the rights of a set-user-ID file it executes: unless
 * we may trace such ones, it is let go before.
 */
#ifndef SONDE_RECORDER_MONITOR_COVERAGE_H
#define SONDE_RECORDER_MONITOR_COVERAGE_H

#include <sys/types.h>

#include "recorder/recording_file.h"
#include "sensor/audit/policy.h"

/* Begins to watch the child PID, which has not executed its program yet; what it does until then is
 * not counted. The tracer closes the COUNT descriptors at CLOSED. RECORDING and POLICY must stay as
 * they are until coverage_finish. Returns the tracer's pid, or -1 with errno set. No threads may
 * have been made yet. */
pid_t coverage_start(recording_t *recording, pid_t pid, const audit_policy_t *policy,
                     const int *closed, int count);

/* After the program has ended: waits until everything has been written. False when the tracer did
 * not end well, and some of it is missing. */
bool coverage_finish(pid_t tracer);

#endif
