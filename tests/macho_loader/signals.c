/* SPDX-License-Identifier: MIT
 *
 * Signals: the host's arrive, and the program's handler is called with the numbers, the siginfo_t
 * and the ucontext_t that Apple's headers declare, filled from the host's. A handler that changes
 * its context is none of the tests'. What lies between a handler and what it interrupted on macOS
 * (_sigtramp) is not here: the handler is called from the host's code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader.h"

typedef void mac_handler_t(int number, void *info, void *context);
static mac_handler_t *handlers[32]; /* by the program's number */

static const struct {
  int here, there;
} numbers[] = {{SIGUSR1, FACT_SIGUSR1}, {SIGUSR2, FACT_SIGUSR2}, {SIGSEGV, FACT_SIGSEGV}};
#define NUMBERS (sizeof numbers / sizeof *numbers)

static int there_of(int here) {
  for (unsigned i = 0; i < NUMBERS; i++)
    if (numbers[i].here == here) return numbers[i].there;
  die("signal %d has no number of Apple's here", here);
}

static int here_of(int there) {
  for (unsigned i = 0; i < NUMBERS; i++)
    if (numbers[i].there == there) return numbers[i].here;
  die("signal %d of Apple's is not known", there);
}

static void put(uint8_t *to, uint64_t offset, const void *value, size_t size) {
  memcpy(to + offset, value, size);
}

static void arrived(int number, siginfo_t *info, void *context) {
  uint8_t about[FACT_sizeof_siginfo] = {0}, user[FACT_sizeof_ucontext] = {0};
  uint8_t machine[FACT_sizeof_mcontext] __attribute__((aligned(16))) = {0}, before[sizeof machine];
  uint64_t size = sizeof machine;
  const uint8_t *at = machine;
  int saved = errno, there = there_of(number);
  put(about, FACT_siginfo_signo, &there, sizeof there);
  if (number == SIGSEGV) put(about, FACT_siginfo_addr, &info->si_addr, 8);
  mac_fill_state(machine + FACT_mcontext_ss, context);
  put(user, FACT_ucontext_mcsize, &size, sizeof size);
  put(user, FACT_ucontext_mcontext, &at, sizeof at);
  memcpy(before, machine, sizeof machine);
  compare_stopped(thread_self(), context);
  handlers[there](there, about, user);
  if (memcmp(before, machine, sizeof machine) != 0) die("a handler changed its context");
  errno = saved;
}

static int mac_sigaction(int number, const uint8_t *wanted, uint8_t *old) {
  uint64_t handler;
  uint32_t mask, flags;
  if (!wanted || old) die("sigaction asks what was there");
  memcpy(&handler, wanted + FACT_sigaction_handler, sizeof handler);
  memcpy(&mask, wanted + FACT_sigaction_mask, sizeof mask);
  memcpy(&flags, wanted + FACT_sigaction_flags, sizeof flags);
  if (mask || flags != (FACT_SA_SIGINFO | FACT_SA_RESTART)) die("sigaction of another form");
  handlers[number & 31] = (mac_handler_t *)(uintptr_t)handler;
  struct sigaction own = {.sa_sigaction = arrived, .sa_flags = SA_SIGINFO | SA_RESTART};
  return sigaction(here_of(number), &own, NULL);
}

static int mac_pthread_kill(const mac_thread_t *thread, int number) {
  return syscall(SYS_tgkill, getpid(), thread->tid, here_of(number)) == 0 ? 0 : mac_error(errno);
}

const stand_in_t signal_stand_ins[] = {
    {"_sigaction", mac_sigaction},
    {"_pthread_kill", mac_pthread_kill},
    {NULL, NULL},
};
