/* SPDX-License-Identifier: MIT */
#include "base/proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t proc_file_read(pid_t pid, const char *name, char *out, size_t size) {
  char path[96];
  out[0] = 0;
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t n = 0;
  ssize_t r = 0;
  while (n < size - 1 && (r = read(fd, out + n, size - 1 - n)) > 0)
    n += (size_t)r;
  int error = errno;
  close(fd);
  errno = error;
  out[n] = 0;
  return r < 0 && !n ? -1 : (ssize_t)n;
}

long proc_file_number(const char *status, const char *field) {
  const char *line = strstr(status, field);
  return line ? strtol(line + strlen(field), NULL, 10) : -1;
}
