/* SPDX-License-Identifier: MIT
 *
 * What a tracer sees of a system call at a stop that is not for a signal (do_signal of
 * arch/arm64/kernel/signal.c):
 *
 *   starts again   pc: the call's instruction, x0: its first argument. The kernel decides this
 *                  before the stop: a signal that arrives later does not change it to EINTR.
 *   EINTR          pc: behind the instruction, x0: -EINTR
 *
 * The first argument is lost from x0, and no tracer sees where the kernel keeps it. So EINTR is
 * hidden only if the thread waited in that call after it was seized. From then on a signal would
 * have stopped it first, and another call that waits would be one more voluntary switch: the stop
 * itself is one.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc_file.h"
#include "target/stop/stop.h"

#define CALL_BYTES 4u
#define HELD_MAX   4
#define ROUNDS     16
#define CALL_STOP  (SIGTRAP | 0x80)

static uint64_t voluntary_switches(pid_t tid) {
  char text[8192];
  return proc_file_read(tid, "status", text, sizeof text) > 0
             ? (uint64_t)proc_file_number(text, "\nvoluntary_ctxt_switches:")
             : 0;
}

/* proc_pid_syscall(5). The thread may have changed its call meanwhile: then one of the facts
 * differs from those of the stop. */
waiting_t stop_waiting(pid_t tid) {
  waiting_t w = {.switches = voluntary_switches(tid)};
  char text[256];
  w.known = proc_file_read(tid, "syscall", text, sizeof text) > 0 &&
            sscanf(text,
                   "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
                   " %" SCNx64 " %" SCNx64,
                   &w.number, &w.args[0], &w.args[1], &w.args[2], &w.args[3], &w.args[4],
                   &w.args[5], &w.sp, &w.pc) == 9;
  return w;
}

/* Whether the instruction at PC of the stopped thread is `svc`. */
static bool is_call_at(pid_t tid, uint64_t pc) {
  errno = 0;
  long words = ptrace(PTRACE_PEEKTEXT, tid, (void *)(pc & ~UINT64_C(7)), NULL);
  if (errno) return false;
  return ((uint64_t)words >> (pc & 4) * 8 & 0xffe0001f) == 0xd4000001;
}

bool stop_is_interrupted(pid_t tid, const struct user_regs_struct *regs, const waiting_t *waiting) {
  return waiting->known && (int64_t)regs->regs[0] == -EINTR &&
         (long)regs->regs[8] == waiting->number && regs->pc == waiting->pc &&
         regs->sp == waiting->sp &&
         memcmp(&regs->regs[1], &waiting->args[1], sizeof waiting->args - sizeof *waiting->args) ==
             0 &&
         voluntary_switches(tid) == waiting->switches + 1;
}

/* A finite timeout begins anew. */
void stop_restart_call(struct user_regs_struct *regs, waiting_t *waiting) {
  if (!stop_may_repeat(waiting->number)) return;
  regs->regs[0] = waiting->args[0];
  regs->pc -= CALL_BYTES;
  waiting->restarted = true;
}

/* ---- entering the call again ---------------------------------------------------------------- */

typedef struct held {
  siginfo_t signals[HELD_MAX];
  int count;
} held_t;

/* The signal that the thread, stopped with STATUS, is about to receive; 0: none. */
static int signal_of(int status) {
  return status >> 16 || WSTOPSIG(status) == CALL_STOP ? 0 : WSTOPSIG(status);
}

static bool go_on(pid_t tid, int how, int signal, int *status) {
  return ptrace((enum __ptrace_request)how, tid, NULL, (void *)(intptr_t)signal) == 0 &&
         stop_wait(tid, status) > 0;
}

/* Lets the thread enter the call, and keeps back signals that come first. Ends with any stop. */
static void enter(pid_t tid, held_t *held, int *status) {
  while (go_on(tid, PTRACE_SYSCALL, 0, status)) {
    if (!signal_of(*status) || held->count == HELD_MAX ||
        ptrace(PTRACE_GETSIGINFO, tid, NULL, &held->signals[held->count]) != 0)
      return;
    held->count++;
  }
}

/* Sends the signals again, and delivers SIGNAL before them. Each stops the thread once more, and
 * gets its own facts back. */
static int deliver(pid_t pid, pid_t tid, held_t *held, int signal) {
  int status;
  for (int i = 0; i < held->count; i++)
    (void)syscall(SYS_tgkill, pid, tid, held->signals[i].si_signo);
  for (int i = 0; held->count && i < ROUNDS; i++) {
    if (!go_on(tid, PTRACE_CONT, signal, &status)) return 0;
    signal = signal_of(status);
    int at = 0;
    while (at < held->count && held->signals[at].si_signo != signal)
      at++;
    if (at == held->count) continue;
    (void)ptrace(PTRACE_SETSIGINFO, tid, NULL, &held->signals[at]);
    held->signals[at] = held->signals[--held->count];
  }
  return signal;
}

static pid_t process_of_thread(pid_t tid) {
  char text[8192];
  return proc_file_read(tid, "status", text, sizeof text) > 0
             ? (pid_t)proc_file_number(text, "\nTgid:")
             : -1;
}

/* Signals that arrived since the stop must interrupt the call, not come before it: a program may
 * wait for just that. So the thread enters the call before it gets them. Costs one more stop. Not
 * so with a call that fails with EINTR, as the detach would let it fail once more. */
void stop_release(pid_t tid, const struct user_regs_struct *regs, const waiting_t *waiting) {
  held_t held = {.count = 0};
  int status = 0, signal = 0;
  if (!waiting->restarted && is_call_at(tid, regs->pc)) {
    (void)ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD);
    enter(tid, &held, &status);
    signal = signal_of(status);
    if (held.count) signal = deliver(process_of_thread(tid), tid, &held, signal);
  }
  ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal);
}
