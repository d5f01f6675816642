/* SPDX-License-Identifier: MIT
 *
 * Time, waiting and files. libSystem's functions are the only system call interface that Apple
 * keeps stable, so this file calls them and restores errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <mach/thread_switch.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/os.h"

uint64_t os_monotonic_ns(void) { return clock_gettime_nsec_np(CLOCK_UPTIME_RAW); }
uint64_t os_process_cpu_ns(void) { return clock_gettime_nsec_np(CLOCK_PROCESS_CPUTIME_ID); }

#define PAUSE_MAX_MS UINT64_C(16)

/* There is no public futex before macOS 14.4. So the thread sleeps for a millisecond, or for an
 * eighth of the time waited so far, and then reads the word again. */
int os_futex_wait(const uint32_t *word, uint32_t value, uint64_t timeout_ns) {
  uint64_t start = os_monotonic_ns();
  if (load_acquire(word) != value) return -EAGAIN;
  while (load_acquire(word) == value) {
    uint64_t waited = os_monotonic_ns() - start, pause_ms = 1 + waited / 8000000;
    if (timeout_ns && waited >= timeout_ns) return -ETIMEDOUT;
    if (timeout_ns && pause_ms > 1 + (timeout_ns - waited) / 1000000)
      pause_ms = 1 + (timeout_ns - waited) / 1000000;
    if (pause_ms > PAUSE_MAX_MS) pause_ms = PAUSE_MAX_MS;
    (void)thread_switch(MACH_PORT_NULL, SWITCH_OPTION_WAIT, (mach_msg_timeout_t)pause_ms);
  }
  return 0;
}

int os_futex_wake(const uint32_t *word, int count) {
  (void)word;
  return count;
}

#define WITH_ERRNO_KEPT(type, call)                                                                \
  int saved = errno;                                                                               \
  type result = (type)(call);                                                                      \
  if (result < 0) result = -errno;                                                                 \
  errno = saved;                                                                                   \
  return result

int os_open_read(const char *path) {
  WITH_ERRNO_KEPT(int, open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

ssize_t os_read(int fd, void *out, size_t size) { WITH_ERRNO_KEPT(ssize_t, read(fd, out, size)); }

ssize_t os_pread(int fd, void *out, size_t size, uint64_t offset) {
  WITH_ERRNO_KEPT(ssize_t, pread(fd, out, size, (off_t)offset));
}

ssize_t os_write(int fd, const void *data, size_t size) {
  WITH_ERRNO_KEPT(ssize_t, write(fd, data, size));
}

void os_close(int fd) {
  int saved = errno;
  (void)close(fd);
  errno = saved;
}

ssize_t os_pwrite(int fd, const void *data, size_t size, uint64_t offset) {
  WITH_ERRNO_KEPT(ssize_t, pwrite(fd, data, size, (off_t)offset));
}
