/* SPDX-License-Identifier: MIT
 *
 * Files, opened for the moment they are needed and closed again: the program's descriptors are the
 * program's.
 */
#include <errno.h>
#include <fcntl.h>

#include "os/linux/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

int os_open_read(const char *path) {
  return (int)call4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
}

ssize_t os_read(int fd, void *out, size_t size) { return (ssize_t)call3(SYS_read, fd, out, size); }

ssize_t os_pread(int fd, void *out, size_t size, uint64_t offset) {
  return (ssize_t)call4(SYS_pread64, fd, out, size, offset);
}

ssize_t os_write(int fd, const void *data, size_t size) {
  return (ssize_t)call3(SYS_write, fd, data, size);
}

void os_close(int fd) { (void)call1(SYS_close, fd); }

/* A file of /proc may come in pieces, and a signal may come between them. */
ssize_t os_read_file(const char *path, char *out, size_t size) {
  if (size == 0) return -EINVAL;
  int fd = os_open_read(path);
  if (fd < 0) return fd;
  size_t count = 0;
  ssize_t r = 0;
  while (count < size - 1) {
    r = os_read(fd, out + count, size - 1 - count);
    if (r == -EINTR) continue;
    if (r <= 0) break;
    count += (size_t)r;
  }
  os_close(fd);
  if (r < 0) return r;
  out[count] = '\0';
  return (ssize_t)count;
}
