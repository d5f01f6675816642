/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/monitor_thread.h"

#include <errno.h>
#include <signal.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"

/* Monitors used at most 16 KB, measured with all sensors, Python and Lua. Reading a symbol table
 * takes 33 KB. No signal frame is added, as signals are blocked. The C library adds a page without
 * access, so an overflow is a fault. */
#define STACK_BYTES ((size_t)256 << 10)

static const char no_thread[] =
    "no thread could be started (ulimit -u, -v): waits, stalls, CPU time or resources are missing";
static uint32_t failures;

const char *monitor_thread_problem(void) { return load_relaxed(&failures) ? no_thread : NULL; }

/* Address space may be limited (ulimit -v): the usual stack has 8 MB, and glibc reserves 64 MB for
 * the allocations of each thread. */
bool monitor_thread_create(pthread_t *id, void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
#if defined(__GLIBC__)
  (void)mallopt(M_ARENA_MAX, 1);
#endif
  bool runs = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
              (errno = pthread_create(id, &attributes, run, argument)) == 0;
  pthread_attr_destroy(&attributes);
  return runs;
}

bool monitor_thread_start(monitor_thread_t *thread, void *(*run)(void *), void *monitor) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread->runs = monitor_thread_create(&thread->id, run, monitor);
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
