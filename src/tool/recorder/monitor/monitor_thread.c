/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/monitor_thread.h"

#include <signal.h>

#include "base/bits.h"
#include "os/os.h"

bool monitor_thread_start(monitor_thread_t *thread, void *(*run)(void *), void *monitor) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread->runs = pthread_create(&thread->id, NULL, run, monitor) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
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
