/* SPDX-License-Identifier: MIT
 *
 * May we look at a process, and if not: why, in one line, with the command that grants it.
 */
#ifndef SONDE_TARGET_ACCESS_H
#define SONDE_TARGET_ACCESS_H

#include "target/target.h"

/* True when PID exists, has memory of its own and may be read; READER is then a thread of it whose
 * files in /proc tell of that memory: PID itself, unless its main thread has ended before the
 * others. Else fills PROBLEM. */
bool access_check(pid_t pid, pid_t *reader, problem_t *problem);

/* Says why reading PID failed with ERROR (an errno value). */
void access_explain(pid_t pid, int error, problem_t *problem);

/* Says why PID has no memory map: it ended, is a zombie, or a kernel thread. */
void access_explain_empty(pid_t pid, problem_t *problem);

/* The value of kernel.yama.ptrace_scope, -1 where the kernel has no Yama. */
int access_yama_scope(void);

#endif
