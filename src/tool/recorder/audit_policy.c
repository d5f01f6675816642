/* SPDX-License-Identifier: MIT
 *
 * The policy of `sonde record --audit`: a file in memory. The agent opens it through /proc, as it
 * does with the scratch, and copies it into the recording.
 */
#define _GNU_SOURCE
#include "recorder/audit_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/message.h"
#include "recorder/monitor/coverage.h"
#include "target/access.h"

static int policy_fd = -1;
static uint32_t policy_size;
static audit_policy_t *policy_flat; /* kept for as long as the command runs */

static bool put(const void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = write(policy_fd, (const char *)data + done, size - done);
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

bool record_audit_keep(audit_policy_t *flat, size_t size) {
  if (policy_fd >= 0) close(policy_fd); /* the last one named is meant */
  policy_fd = memfd_create("sonde-policy", MFD_CLOEXEC);
  bool done = policy_fd >= 0 && put(flat, size);
  if (!done) (void)message_fail("there is no memory for the policy: %s", strerror(errno));
  policy_size = done ? (uint32_t)size : 0;
  free(policy_flat);
  policy_flat = flat;
  return done;
}

void record_audit_offer(recording_t *r) {
  r->control->policy_fd = policy_fd;
  r->control->policy_size = policy_fd < 0 ? 0 : policy_size;
}

pid_t record_audit_watch(recording_t *r, pid_t pid, const int *closed, int count) {
  pid_t tracer = coverage_start(r, pid, policy_flat, closed, count);
  if (tracer > 0) return tracer;
  if (errno == EPERM && access_yama_scope() > 1)
    (void)message_fail("system calls cannot be watched: kernel.yama.ptrace_scope is %d; "
                       "'sysctl kernel.yama.ptrace_scope=1' lets a program's starter trace it",
                       access_yama_scope());
  else
    (void)message_fail("system calls cannot be watched: %s%s", strerror(errno),
                       errno == EPERM ? "; where ptrace is not allowed, leave out --coverage" : "");
  return -1;
}
