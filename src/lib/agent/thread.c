/* SPDX-License-Identifier: MIT
 *
 * pthread_create: lets the sampler know a new thread from its start.
 */
#include "agent/agent.h"

#include <errno.h>

#include "os/os.h"
#include "sensor/sample.h"

static int (*real_create)(void **, const void *, void *(*)(void *), void *);

void thread_find_real(void) {
  static const char *const names[] = {"pthread_create"};
  agent_real(names, (uint64_t *)&real_create, 1);
}

/* A pthread_t is a word in every C library for Linux. */
__attribute__((visibility("default"))) int pthread_create(void **made, const void *attributes,
                                                          void *(*start)(void *), void *argument);

int pthread_create(void **made, const void *attributes, void *(*start)(void *), void *argument) {
  agent_enter();
  int status = real_create ? real_create(made, attributes, start, argument) : EAGAIN;
  uint64_t handle = 0; /* the thread may already have unmapped the memory of *MADE */
  if (status == 0 &&
      os_read_memory((uint64_t)(uintptr_t)made, &handle, sizeof handle) == sizeof handle)
    sample_thread_created(handle);
  return status;
}
