/* SPDX-License-Identifier: MIT
 *
 * The kernel looks at the limit when the first thread's stack grows, so a new limit holds at once.
 * glibc has read it at the start, as the size of the stacks of other threads.
 */
#define _GNU_SOURCE
#include "cli/linux/start/stack_room.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/message.h"

#define NEEDED_BYTES (UINT64_C(1) << 20)
#define WANTED_BYTES (UINT64_C(8) << 20)

static void size_threads(void) {
#if defined(__GLIBC__)
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  (void)pthread_attr_setstacksize(&attributes, WANTED_BYTES);
  (void)pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
#endif
}

bool stack_room(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= NEEDED_BYTES) return true;
  if (limit.rlim_max < NEEDED_BYTES)
    return message_fail("the limit on the stack is %llu KB (ulimit -s), and sonde needs %llu KB",
                        (unsigned long long)limit.rlim_max >> 10,
                        (unsigned long long)NEEDED_BYTES >> 10),
           false;
  limit.rlim_cur = limit.rlim_max < WANTED_BYTES ? limit.rlim_max : WANTED_BYTES;
  if (setrlimit(RLIMIT_STACK, &limit) == 0) size_threads();
  return true;
}
