/* SPDX-License-Identifier: MIT
 *
 * sigaction and signal hide the crash handler that replaces the default action (sensor/crash.h): a
 * request for the default installs the handler, and a query that finds the handler returns the
 * default. A query that finds sonde's handler of SIGURG (os/linux/signal.c) returns the action that
 * it replaced; after a change, that handler is in front again. All other calls pass through. The
 * sensor is notified before its handler is replaced and after it is restored: in between, faults
 * are not recorded.
 *
 * sigaltstack hides the alternate stack that a thread got for a stack overflow
 * (os_fault_stack_give); a thread that disables its own gets that one again.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "agent/agent.h"
#include "os/linux/internal.h"
#include "os/os.h"
#include "sensor/crash.h"

#define EXPORT __attribute__((visibility("default")))

typedef void handler_t(int);

static struct {
  int (*sigaction)(int, const struct sigaction *, struct sigaction *);
  handler_t *(*signal)(int, handler_t *);
  handler_t *(*bsd_signal)(int, handler_t *);
  handler_t *(*sysv_signal)(int, handler_t *);
  handler_t *(*sigset)(int, handler_t *);
  int (*sigaltstack)(const stack_t *, stack_t *);
} real;

void signals_find_real(void) {
  static const char *const names[] = {"sigaction",   "signal", "bsd_signal",
                                      "sysv_signal", "sigset", "sigaltstack"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

static bool is_ours(const struct sigaction *action) {
  return (uintptr_t)action->sa_sigaction == (uintptr_t)crash_handler;
}

static bool is_default(const struct sigaction *action) { return action->sa_handler == SIG_DFL; }

/* Applies in a child of fork, too, which inherits the handlers. */
static int hide(int status, struct sigaction *old) {
  linux_action_t theirs = {0};
  if (status != 0 || !old) return status;
  uint64_t handler = (uint64_t)(uintptr_t)old->sa_sigaction;
  if (!is_ours(old) && !linux_signal_replaced(handler, &theirs)) return status;
  memset(old, 0, sizeof *old);
  old->sa_handler = (handler_t *)(uintptr_t)theirs.handler;
  old->sa_flags = (int)theirs.flags;
  memcpy(&old->sa_mask, &theirs.mask, sizeof theirs.mask);
  old->sa_restorer = (void (*)(void))(uintptr_t)theirs.restorer;
  return status;
}

/* As `hide`, of a handler alone. */
static handler_t *hidden(handler_t *before) {
  struct sigaction old = {.sa_handler = before};
  (void)hide(before == SIG_ERR ? -1 : 0, &old);
  return old.sa_handler;
}

/* The program is about to set the action of NUMBER. A tick that comes before sonde's handler is in
 * front again would reach the program's, so this thread's wait. Returns the signal mask. */
static uint64_t will_set(int number) { return number == SIGURG ? os_signals_block() : 0; }

/* In a child of vfork this process's memory is not changed. A signal that is ignored must stay so
 * after exec. */
static void was_set(int number, bool is_done, handler_t *handler, uint64_t signals) {
  if (number != SIGURG) return;
  if (is_done && handler != SIG_IGN && agent_in_recorded_process()) linux_signal_was_set();
  os_signals_restore(signals);
}

static int pass(int number, const struct sigaction *wanted, struct sigaction *old) {
  if (!wanted) return hide(real.sigaction(number, wanted, old), old);
  uint64_t signals = will_set(number);
  int status = real.sigaction(number, wanted, old);
  was_set(number, status == 0, wanted->sa_handler, signals);
  return hide(status, old);
}

EXPORT int sigaction(int number, const struct sigaction *wanted, struct sigaction *old) {
  agent_enter();
  if (!real.sigaction) return -1;
  if (!crash_wants(number)) return pass(number, wanted, old);
  struct sigaction ours;
  if (wanted && is_default(wanted)) {
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = (void (*)(int, siginfo_t *, void *))(uintptr_t)crash_handler;
    ours.sa_flags = crash_flags;
    wanted = &ours;
  }
  bool stays = !wanted || is_ours(wanted);
  if (!stays) crash_set_handled(number, false);
  int status = real.sigaction(number, wanted, old);
  if (status == 0 && wanted && stays) crash_set_handled(number, true);
  return hide(status, old);
}

/* FUNCTION has the type of signal. */
static handler_t *set(handler_t *(*function)(int, handler_t *), int number, handler_t *handler) {
  if (!function) return SIG_ERR;
  bool wants = crash_wants(number); /* not in a child of vfork, which shares `handled` */
  if (wants) crash_set_handled(number, false);
  uint64_t signals = will_set(number);
  handler_t *before = function(number, handler);
  was_set(number, before != SIG_ERR, handler, signals);
  if (wants && handler == SIG_DFL && before != SIG_ERR) {
    const struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &action, NULL);
  }
  return hidden(before);
}

#define DEFINE(name)                                                                               \
  EXPORT handler_t *name(int number, handler_t *handler);                                          \
  handler_t *name(int number, handler_t *handler) {                                                \
    agent_enter();                                                                                 \
    return set(real.name, number, handler);                                                        \
  }
DEFINE(signal)
DEFINE(bsd_signal)
DEFINE(sysv_signal)
DEFINE(sigset)

EXPORT int sigaltstack(const stack_t *wanted, stack_t *old) {
  agent_enter();
  if (!real.sigaltstack) return -1;
  int status = real.sigaltstack(wanted, old);
  if (status == 0 && old && os_is_fault_stack((uint64_t)(uintptr_t)old->ss_sp))
    *old = (stack_t){.ss_flags = SS_DISABLE};
  if (status == 0 && wanted && wanted->ss_flags & SS_DISABLE && agent_in_recorded_process())
    crash_thread_starts();
  return status;
}
