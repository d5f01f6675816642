/* SPDX-License-Identifier: MIT
 *
 * Stops one thread of another process for a short time (PTRACE_SEIZE, PTRACE_INTERRUPT).
 */
#ifndef SONDE_TARGET_STOP_H
#define SONDE_TARGET_STOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "unwind/machine.h"

typedef enum stop_result {
  STOP_DONE,
  /* the thread has ended */
  STOP_GONE,
  /* another tracer (a debugger, strace) is attached, or the system forbids it */
  STOP_TRACED,
  /* no stop within 200 ms: it is in an uninterruptible wait; or it got no CPU for 5 s */
  STOP_LATE,
  STOP_FOREIGN /* its registers are not those of MACHINE */
} stop_result_t;

/* Stops TID, reads its registers into REGS, calls WHILE_STOPPED, which may read its memory, and
 * resumes it. *STOPPED_NS is the duration. The calling thread must block SIGCHLD and must end soon
 * after: the kernel detaches from a thread with STOP_LATE when its tracer ends. */
stop_result_t stop_thread(machine_t machine, pid_t tid, regs_t *regs,
                          void (*while_stopped)(void *context, const regs_t *regs), void *context,
                          uint64_t *stopped_ns);

/* Waits for a stop of TID, which the calling thread traces. 1: stopped, with STATUS of waitpid(2);
 * 0: timeout, as of STOP_LATE; -1: it has ended. The calling thread must block SIGCHLD. */
int stop_wait(pid_t tid, int *status);

/* Whether a system call that the stop interrupts starts again, where the kernel would let it fail
 * with EINTR: epoll_wait, semop and others (signal(7)). */
#if defined(__x86_64__)
#define STOP_HIDES_EINTR 1
#else
#define STOP_HIDES_EINTR 0
#endif

/* Whether the system call NUMBER starts again after the stop interrupted it with EINTR. */
bool stop_may_repeat(long number);

struct user_regs_struct;

/* Whether the program would see in REGS, read at a stop, that the stop interrupted a system call:
 * the call fails with EINTR. False where that cannot be seen. */
bool stop_is_interrupted(const struct user_regs_struct *regs);

/* Makes such a call start again, if it may. The caller writes REGS to the thread. */
void stop_restart_call(struct user_regs_struct *regs);

#endif
