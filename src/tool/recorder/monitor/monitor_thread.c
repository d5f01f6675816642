/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/monitor_thread.h"

#include <signal.h>

bool monitor_thread_start(pthread_t *thread, void *(*run)(void *), void *monitor) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(thread, NULL, run, monitor) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}
