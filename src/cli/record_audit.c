/* SPDX-License-Identifier: MIT
 *
 * The policy of `sonde record --audit`: one file in memory, the flat form first, then the YAML it
 * was made of and, behind a 0, that which this builds on. The agent opens it through /proc, as it
 * does with the scratch, and copies it into the recording.
 */
#define _GNU_SOURCE
#include "cli/record_audit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/policy_file.h"

static int policy_fd = -1;
static uint32_t policy_size;

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
  policy_fd = memfd_create("sonde-policy", MFD_CLOEXEC);
  bool done = policy_fd >= 0 && put_all(policy, flat, source);
  if (!done) (void)cli_fail("there is no memory for the policy: %s", strerror(errno));
  free(flat);
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

void record_audit_offer(recording_t *r) {
  r->control->policy_fd = policy_fd;
  r->control->policy_size = policy_fd < 0 ? 0 : policy_size;
}
