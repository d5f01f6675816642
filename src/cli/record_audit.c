/* SPDX-License-Identifier: MIT
 *
 * The policy of `sonde record --audit`: one file in memory, the flat form first, then the YAML it
 * was made of and, behind a 0, that which this builds on. The agent opens it through /proc, as it
 * does with the scratch, and copies it into the recording.
 */
#define _GNU_SOURCE
#include "cli/record_audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/policy_file.h"
#include "monitor/coverage.h"
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
  policy_size += (uint32_t)size;
  return true;
}

static bool put_all(const policy_t *policy, const audit_policy_t *flat,
                    const policy_source_t *source) {
  if (!put(flat, flat->size) || !put(source->text, strnlen(source->text, source->size)))
    return false;
  return !policy->base || (put("", 1) && put(policy->base->text, policy->base->size));
}

static bool compile(const policy_t *policy, const policy_source_t *source) {
  const char *home = getenv("HOME");
  audit_policy_t *flat = policy_flatten(policy, home ? home : "");
  if (!flat) {
    (void)cli_fail("the policy is too large: its functions and patterns take more than 1 MB");
    return false;
  }
  if (policy_fd >= 0) close(policy_fd); /* the last one named is meant */
  policy_size = 0;
  policy_fd = memfd_create("sonde-policy", MFD_CLOEXEC);
  bool done = policy_fd >= 0 && put_all(policy, flat, source);
  if (!done) (void)cli_fail("there is no memory for the policy: %s", strerror(errno));
  free(policy_flat);
  policy_flat = flat;
  return done;
}

bool record_audit_read(const char *name) {
  policy_source_t source;
  policy_t *policy = policy_file_read(name, time(NULL), &source);
  if (!policy) return false;
  bool done = compile(policy, &source);
  free((char *)(uintptr_t)source.text);
  policy_free(policy);
  return done;
}

bool record_audit_save(const char *path) {
  int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool done = out >= 0;
  for (off_t at = 0; done && at < (off_t)policy_size;)
    done = sendfile(out, policy_fd, &at, policy_size - (size_t)at) > 0;
  if (out >= 0 && close(out) < 0) done = false;
  if (!done) (void)cli_fail("'%s' cannot be written: %s", path, strerror(errno));
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
    (void)cli_fail("system calls cannot be watched: kernel.yama.ptrace_scope is %d; "
                   "'sysctl kernel.yama.ptrace_scope=1' lets a program's starter trace it",
                   access_yama_scope());
  else
    (void)cli_fail("system calls cannot be watched: %s%s", strerror(errno),
                   errno == EPERM ? "; where ptrace is not allowed, leave out --coverage" : "");
  return -1;
}
