/* SPDX-License-Identifier: MIT
 *
 * A file as memory, for readers that must not keep a descriptor: opened, mapped, closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "os/linux/call.h"
#include "os/os.h"

/* The kernel's struct stat is libc's on both of our machines. O_NONBLOCK keeps the open of a FIFO
 * from waiting for a writer; on a regular file it means nothing. */
int os_map_file(const char *path, const void **data, uint64_t *size) {
  struct stat st;
  long fd = call4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
  if (fd < 0) return (int)fd;
  long result = call2(SYS_fstat, fd, &st);
  if (result == 0 && (!S_ISREG(st.st_mode) || st.st_size <= 0)) result = -EINVAL;
  if (result == 0) {
    result = call6(SYS_mmap, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (result > 0 || result < -4095) {
      *data = (const void *)result;
      *size = (uint64_t)st.st_size;
      result = 0;
    }
  }
  (void)call1(SYS_close, fd);
  return (int)result;
}
