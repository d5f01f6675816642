/* SPDX-License-Identifier: MIT
 *
 * The coverage of an audit (sonde record --audit --coverage): a tracer records all sensitive system
 * calls of a program, so that the report can show those that the audit's hooks did not see.
 *
 * The tracer is a process beside the recorder. It seizes every thread of the program (PTRACE_SEIZE)
 * and stops it at the entry and exit of every system call. For each call that the policy's
 * functions lead to (target/sensitive.h), it records the audited function that made it
 * (record/shared/audit.h), or else the stack of the stopped thread. Two stops at every system call,
 * sensitive or not, take 10 to 20 µs. So this is a check of the audit and not a part of it.
 *
 * Why ptrace: a seccomp filter would stop only sensitive calls, but it is inherited for ever, needs
 * no_new_privs, and its calls fail when the tracer has ended. Syscall user dispatch ends at exec
 * and kills a program that makes a call while SIGSYS is blocked. A tracer adds nothing to the
 * program: no signal, no EINTR; stops and signals pass through; children of fork and vfork are not
 * traced; if the tracer is killed, the program continues.
 *
 * A process that already ran is joined: its threads are interrupted once (outside/join.h), and the
 * tracer's end releases them.
 *
 * A static program cannot be hooked. It is traced alone: it has no agent, and each sensitive call
 * is recorded with its stack.
 *
 * Limits: nobody else can trace the program, nor can it trace itself (PTRACE_TRACEME), and /proc
 * shows a TracerPid. A traced program does not gain the rights of a set-user-ID file, so the tracer
 * detaches before such an exec unless it has CAP_SYS_PTRACE.
 */
#ifndef SONDE_RECORDER_MONITOR_COVERAGE_H
#define SONDE_RECORDER_MONITOR_COVERAGE_H

#include <sys/types.h>

#include "recorder/recording_file.h"
#include "sensor/audit/policy.h"

typedef struct coverage_options {
  const audit_policy_t *policy;
  size_t policy_bytes; /* with its YAML */
  /* The program has no agent. */
  bool alone;
  /* PID ran before (sonde record -p) and has the agent at this range; 0: in a file's mapping. Calls
   * are counted from now on. */
  bool joins;
  uint64_t agent_start, agent_size;
} coverage_options_t;

/* Starts the tracer of the child PID, which has not executed its program yet; calls before that are
 * not counted. The tracer closes the COUNT descriptors at CLOSED. RECORDING and OPTIONS must stay
 * valid until coverage_finish. Returns the tracer's pid, or -1 with errno; for a process that it
 * joins, that of join_threads. Call it before the recorder has threads. */
pid_t coverage_start(recording_t *recording, pid_t pid, const coverage_options_t *options,
                     const int *closed, int count);

/* Ends the tracer of a process that it has joined; the process goes on. Call coverage_finish next.
 */
void coverage_leave(pid_t tracer);

/* After the program has ended, or coverage_leave: waits until all calls are written. False if the
 * tracer failed, so that calls are missing. */
bool coverage_finish(pid_t tracer);

#endif
