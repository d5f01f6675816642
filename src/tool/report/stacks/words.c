/* SPDX-License-Identifier: MIT
 *
 * What a thread does, in words; the same in text and in JSON.
 */
#include <stdio.h>

#include "report/stacks/stacks.h"

const char *stacks_state_word(char state) {
  switch (state) {
  case 'R': return "running";
  case 'S': return "sleeping";
  case 'D': return "uninterruptible";
  case 'T': return "stopped";
  case 't': return "traced";
  case 'Z': return "zombie";
  case 'X': return "dead";
  case 'I': return "idle";
  case 'P': return "parked";
  default: return NULL;
  }
}

void stacks_wait_text(const thread_t *thread, char *out, size_t size) {
  const wait_t *wait = &thread->wait;
  out[0] = 0;
  if (wait->number < 0) return;
  if (!wait->syscall)
    snprintf(out, size, "system call %ld", wait->number);
  else if (wait->is_mutex && wait->owner)
    snprintf(out, size, "%s(mutex 0x%llx, held by thread %d)", wait->syscall,
             (unsigned long long)wait->address, wait->owner);
  else if (wait->is_mutex)
    snprintf(out, size, "%s(mutex 0x%llx, holder unknown)", wait->syscall,
             (unsigned long long)wait->address);
  else if (wait->address)
    snprintf(out, size, "%s(0x%llx)", wait->syscall, (unsigned long long)wait->address);
  else if (wait->fd >= 0 && wait->path)
    snprintf(out, size, "%s(fd %d, %s)", wait->syscall, wait->fd, wait->path);
  else if (wait->fd >= 0)
    snprintf(out, size, "%s(fd %d)", wait->syscall, wait->fd);
  else
    snprintf(out, size, "%s", wait->syscall);
}
