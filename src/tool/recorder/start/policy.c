/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/start/policy.h"

#include <sys/mman.h>
#include <unistd.h>

int policy_share(const audit_policy_t *policy, size_t size) {
  int fd = memfd_create("sonde-policy", MFD_CLOEXEC);
  for (size_t done = 0; fd >= 0 && done < size;) {
    ssize_t n = write(fd, (const char *)policy + done, size - done);
    if (n <= 0) {
      close(fd);
      return -1;
    }
    done += (size_t)n;
  }
  return fd;
}
