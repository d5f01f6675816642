/* SPDX-License-Identifier: MIT
 *
 * At a stop that is not for a signal, the kernel has yet to return from the system call, whose
 * number and result a tracer sees and changes (arch/x86/kernel/signal.c:
 * arch_do_signal_or_restart).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "target/stop/stop.h"

waiting_t stop_waiting(pid_t tid) {
  (void)tid;
  return (waiting_t){.known = true};
}

bool stop_is_interrupted(pid_t tid, const struct user_regs_struct *regs, const waiting_t *waiting) {
  (void)tid, (void)waiting;
  return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax == -EINTR;
}

/* With this result the kernel starts the call again with all its arguments, unless a signal handler
 * is to run; then the call returns EINTR, as without the stop. A finite timeout begins anew. */
void stop_restart_call(struct user_regs_struct *regs, waiting_t *waiting) {
  enum { ERESTARTNOHAND = 514 }; /* linux/errno.h */
  (void)waiting;
  if (stop_may_repeat((long)regs->orig_rax)) regs->rax = (uint64_t) - (int64_t)ERESTARTNOHAND;
}

void stop_release(pid_t tid, const struct user_regs_struct *regs, const waiting_t *waiting) {
  (void)regs, (void)waiting;
  ptrace(PTRACE_DETACH, tid, NULL, NULL);
}
