/* SPDX-License-Identifier: MIT
 *
 * sigaction and signal hide the crash handler that replaces the default action (sensor/crash.h): a
 * request for the default installs the handler, and a query that finds the handler returns the
 * default. All other calls pass through. The sensor is notified before its handler is replaced and
 * after it is restored: in between, faults are not recorded.
 *
 * sigaltstack hides the alternate stack that a thread got for a stack overflow
 * (os_fault_stack_give); a thread that disables its own gets that one again.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "agent/agent.h"
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

/* Applies in a child of fork, too, which inherits the handler. */
static int hide(int status, struct sigaction *old) {
  if (status == 0 && old && is_ours(old)) memset(old, 0, sizeof *old);
  return status;
}

EXPORT int sigaction(int number, const struct sigaction *wanted, struct sigaction *old) {
  agent_enter();
  if (!real.sigaction) return -1;
  if (!crash_wants(number)) return hide(real.sigaction(number, wanted, old), old);
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
  handler_t *before = function(number, handler);
  if (wants && handler == SIG_DFL && before != SIG_ERR) {
    const struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &action, NULL);
  }
  return (uintptr_t)before == (uintptr_t)crash_handler ? SIG_DFL : before;
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
