/* SPDX-License-Identifier: MIT
 *
 * Stops one thread of another process for a short time (PTRACE_SEIZE, PTRACE_INTERRUPT).
 */
#ifndef SONDE_TARGET_STOP_H
#define SONDE_TARGET_STOP_H

#include <stdbool.h>
#include <stdint.h>
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

/* ---- system calls that a stop interrupts (x86_64/stopped_call.c, aarch64/stopped_call.c) ------
 *
 * The kernel lets epoll_wait, semop and others fail with EINTR after a stop (signal(7)). They start
 * again if they have no effect before that. */

/* Whether EINTR can be hidden from a thread that ran when it was asked to stop, too. */
#if defined(__x86_64__)
#define STOP_HIDES_EINTR 1
#else
#define STOP_HIDES_EINTR 0
#endif

struct user_regs_struct;

/* Whether the system call NUMBER starts again after the stop interrupted it with EINTR. */
bool stop_may_repeat(long number);

/* The call that a thread waited in before the stop. Needed on aarch64 alone. */
typedef struct waiting {
  bool known;
  long number;
  uint64_t args[6], sp, pc;
  uint64_t switches; /* voluntary ones of the thread until then */
  bool restarted;    /* by stop_restart_call */
} waiting_t;

/* The call that TID, which is seized and not yet asked to stop, waits in. */
waiting_t stop_waiting(pid_t tid);

/* Whether the program would see in REGS, read at a stop of TID, that the stop interrupted a system
 * call: the call fails with EINTR. WAITING: as it was before the stop, and not known if the thread
 * has received a signal since. False where that cannot be seen. */
bool stop_is_interrupted(pid_t tid, const struct user_regs_struct *regs, const waiting_t *waiting);

/* Makes such a call start again, if it may. The caller writes REGS to the thread, and releases it
 * with stop_release. */
void stop_restart_call(struct user_regs_struct *regs, waiting_t *waiting);

/* Detaches from the stopped thread TID, whose registers are REGS. A signal that arrived meanwhile
 * interrupts the call as if there were no stop; on aarch64 it comes before a call that
 * stop_restart_call has restarted. */
void stop_release(pid_t tid, const struct user_regs_struct *regs, const waiting_t *waiting);

#endif
