/* SPDX-License-Identifier: MIT
 *
 * Checks whether this user may read a process. If not, gives the reason and the command that grants
 * access.
 */
#ifndef SONDE_TARGET_ACCESS_H
#define SONDE_TARGET_ACCESS_H

#include "target/target.h"

/* True if PID exists, has memory and may be read. READER is then a thread whose /proc files
 * describe that memory: PID itself, unless its main thread ended before the others. Else fills
 * PROBLEM. */
bool access_check(pid_t pid, pid_t *reader, problem_t *problem);

/* Fills PROBLEM with the reason why reading PID failed with ERROR, an errno. */
void access_explain(pid_t pid, int error, problem_t *problem);

/* Fills PROBLEM with the reason why PID has no memory map: it ended, or is a zombie or kernel
 * thread. */
void access_explain_empty(pid_t pid, problem_t *problem);

/* The value of kernel.yama.ptrace_scope; -1 if the kernel has no Yama. */
int access_yama_scope(void);

#endif
