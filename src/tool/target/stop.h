/* SPDX-License-Identifier: MIT
 *
 * Stopping one thread of another process for a moment.
 */
#ifndef SONDE_TARGET_STOP_H
#define SONDE_TARGET_STOP_H

#include <sys/types.h>

#include "unwind/machine.h"

typedef enum stop_result {
  STOP_DONE,
  STOP_GONE,   /* the thread ended */
  STOP_TRACED, /* another tracer (a debugger, strace) has it, or the system forbids it */
  STOP_LATE,   /* not within 200 ms: it is in an uninterruptible wait; or it starved for 5 s */
  STOP_FOREIGN /* its registers are not those of MACHINE */
} stop_result_t;

/* Stops TID, reads its registers into REGS, calls WHILE_STOPPED (which may read its memory), lets
 * it go. STOPPED_NS is how long that took. The calling thread must have SIGCHLD blocked, and must
 * end soon after: a thread that answered STOP_LATE is let go by the kernel at that moment. */
stop_result_t stop_thread(machine_t machine, pid_t tid, regs_t *regs,
                          void (*while_stopped)(void *context, const regs_t *regs), void *context,
                          uint64_t *stopped_ns);

#endif
