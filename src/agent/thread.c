/* SPDX-License-Identifier: MIT
 *
 * pthread_create, so that a new thread is known to the sampler from its start.
 */
#include "agent/agent.h"

#include <errno.h>

#include "sensor/sample.h"

static int (*real_create)(void *, const void *, void *(*)(void *), void *);

void thread_find_real(void) {
  static const char *const names[] = {"pthread_create"};
  agent_real(names, (uint64_t *)&real_create, 1);
}

__attribute__((visibility("default"))) int pthread_create(void *thread, const void *attributes,
                                                          void *(*start)(void *), void *argument);

int pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument) {
  agent_enter();
  int status = real_create ? real_create(thread, attributes, start, argument) : EAGAIN;
  if (status == 0) sample_look();
  return status;
}
