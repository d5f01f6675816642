/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/monitor_thread.h"

#include <signal.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"

static const char no_thread[] =
    "no thread could be started (ulimit -u, -v): waits, stalls, CPU time or resources are missing";
static uint32_t failures;

const char *monitor_thread_problem(void) { return load_relaxed(&failures) ? no_thread : NULL; }

bool monitor_thread_start(monitor_thread_t *thread, void *(*run)(void *), void *monitor) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread->runs = pthread_create(&thread->id, NULL, run, monitor) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!thread->runs && !add_relaxed(&failures, 1)) message_note("%s", no_thread);
  return thread->runs;
}

void monitor_thread_stop(monitor_thread_t *thread, uint32_t *stop, uint32_t *bell) {
  store_release(stop, 1u);
  store_release(bell, 1u);
  (void)os_futex_wake(bell, 1);
  monitor_thread_join(thread);
}

void monitor_thread_join(monitor_thread_t *thread) {
  if (thread->runs) pthread_join(thread->id, NULL);
  thread->runs = false;
}
