/* SPDX-License-Identifier: MIT
 *
 * The functions that name a thread. Most programs name a thread some time after its start, when it
 * may have allocated already; so each new name is recorded.
 */
#include <errno.h>
#include <linux/prctl.h>
#include <stddef.h>

#include "agent/agent.h"
#include "os/os.h"
#include "record/writer.h"

#define EXPORT __attribute__((visibility("default")))

static struct {
  int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
  int (*pthread_setname_np)(uint64_t, const char *);
  int *(*errno_location)(void);
} real;

void thread_name_find_real(void) {
  static const char *const names[] = {"prctl", "pthread_setname_np", "__errno_location"};
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

static void record_name(pid_t tid, const char *name) {
  if (tid > 0 && agent_in_recorded_process()) writer_thread_renamed(tid, name);
}

/* Variadic in the header, with the same calling convention; arguments that were not passed are
 * unused. */
EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  agent_enter();
  if (!real.prctl) {
    if (real.errno_location) *real.errno_location() = ENOSYS;
    return -1;
  }
  int status = real.prctl(option, a, b, c, d);
  if (UNLIKELY(option == PR_SET_NAME) && status == 0) record_name(os_tid(), (const char *)a);
  return status;
}

EXPORT int pthread_setname_np(uint64_t thread, const char *name);

int pthread_setname_np(uint64_t thread, const char *name) {
  agent_enter();
  int status = real.pthread_setname_np ? real.pthread_setname_np(thread, name) : ENOSYS;
  if (status == 0) record_name(os_thread_of_handle(thread), name);
  return status;
}
