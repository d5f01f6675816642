/* SPDX-License-Identifier: MIT
 *
 * Files. Each descriptor is closed soon after its use, so that the program's descriptors stay the
 * program's.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

/* With O_NONBLOCK the open of a FIFO does not wait for a writer. */
int os_open_read(const char *path) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  return (int)call4(openat_read, AT_FDCWD, path, flags, 0);
}

ssize_t os_read(int fd, void *out, size_t size) { return (ssize_t)call3(read, fd, out, size); }

ssize_t os_pread(int fd, void *out, size_t size, uint64_t offset) {
  return (ssize_t)call4(pread64, fd, out, size, offset);
}

ssize_t os_write(int fd, const void *data, size_t size) {
  return (ssize_t)call3(write, fd, data, size);
}

void os_close(int fd) { (void)call1(close, fd); }

/* A read of a /proc file may return a part of it, and a signal may interrupt it. */
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

/* struct stat of the kernel equals that of libc on both CPUs. */
int os_map_file(const char *path, const void **data, uint64_t *size) {
  struct stat st;
  long fd = call4(openat_image, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
  if (fd < 0) return (int)fd;
  long result = call2(fstat, fd, &st);
  if (result == 0 && (!S_ISREG(st.st_mode) || st.st_size <= 0)) result = -EINVAL;
  if (result == 0) {
    result = call6(mmap_image, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (result > 0 || result < -4095) {
      *data = (const void *)result;
      *size = (uint64_t)st.st_size;
      result = 0;
    }
  }
  (void)call1(close, fd);
  return (int)result;
}
