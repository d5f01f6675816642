/* SPDX-License-Identifier: MIT
 *
 * Files and memory of a recording: descriptors that do not collide with the program's, memory
 * shared with the recorder, and limits that must be known so that a write never raises a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/call.h"
#include "os/os.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HIGH_DESCRIPTOR 512

static int as_high(int fd) {
  if (fd < 0 || fd >= HIGH_DESCRIPTOR) return fd;
  int high = (int)call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
  if (high < 0) return fd; /* the limit on descriptors is lower */
  os_close(fd);
  return high;
}

int os_open_high(const char *path) {
  return as_high((int)call4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOCTTY, 0));
}

int os_open_of_process(uint32_t pid, uint32_t fd) {
  char path[48], *p = text_append(path, "/proc/");
  p = decimal_append(p, pid);
  p = text_append(p, "/fd/");
  p = decimal_append(p, fd);
  *p = 0;
  return os_open_high(path);
}

int os_create_high(const char *path) {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY;
  return as_high((int)call4(SYS_openat, AT_FDCWD, path, flags, 0600));
}

int os_memory_file(const char *name) {
  return as_high((int)call2(SYS_memfd_create, name, 1 /* MFD_CLOEXEC */));
}

int os_file_resize(int fd, uint64_t size) { return (int)call2(SYS_ftruncate, fd, size); }
void os_remove(const char *path) { (void)call3(SYS_unlinkat, AT_FDCWD, path, 0); }

/* statx has the same layout on every CPU. */
bool os_file_id(int fd, os_file_id_t *out) {
  struct {
    uint32_t mask, block;
    uint64_t attributes;
    uint32_t links, uid, gid;
    uint16_t mode, pad;
    uint64_t inode, size, blocks, attributes_mask;
    uint64_t times[8];
    uint32_t rdev_major, rdev_minor, device_major, device_minor;
    uint64_t spare[14];
  } found = {0};
  const int empty_path = 0x1000, want_inode = 0x100;
  if (fd < 0 || call5(SYS_statx, fd, "", empty_path, want_inode, &found) < 0) return false;
  out->device = (uint64_t)found.device_major << 32 | found.device_minor;
  out->inode = found.inode;
  return true;
}

ssize_t os_pwrite(int fd, const void *data, size_t size, uint64_t offset) {
  return (ssize_t)call4(SYS_pwrite64, fd, data, size, offset);
}

int os_file_punch(int fd, uint64_t offset, uint64_t size) {
  return (int)call4(SYS_fallocate, fd, 3 /* KEEP_SIZE | PUNCH_HOLE */, offset, size);
}

ssize_t os_socket_request(const char *name, const char *text, char *answer, size_t size) {
  struct {
    uint16_t family;
    char path[108];
  } address = {.family = AF_UNIX};
  uint32_t n = 0;
  for (; name[n] && n + 1 < sizeof address.path; n++)
    address.path[n + 1] = name[n];
  const int64_t patience[2] = {2, 0};
  int fd = (int)call3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  (void)call5(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, patience, sizeof patience);
  (void)call5(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, patience, sizeof patience);
  size_t length = 0;
  while (text[length])
    length++;
  long status = call3(SYS_connect, fd, &address, sizeof address.family + 1 + n);
  if (status == 0) status = call6(SYS_sendto, fd, text, length, MSG_NOSIGNAL, 0, 0);
  ssize_t done = status < 0 ? status : 0;
  while (done >= 0 && (size_t)done < size) {
    long got = call3(SYS_read, fd, answer + done, size - (size_t)done);
    if (got == -EINTR) continue;
    if (got < 0) done = got;
    if (got <= 0) break;
    done += got;
  }
  os_close(fd);
  return done;
}

ssize_t os_read_link(const char *path, char *out, size_t size) {
  if (size == 0) return -EINVAL;
  ssize_t n = (ssize_t)call4(SYS_readlinkat, AT_FDCWD, path, out, size - 1);
  if (n >= 0) out[n] = '\0';
  return n;
}

uint64_t os_file_size_limit(void) {
  uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
  if (call4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, limit) < 0) return UINT64_MAX;
  return limit[0];
}

void *os_map_shared(int fd, uint64_t offset, size_t size) {
  long r = call6(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
  return r < 0 && r > -4096 ? NULL : (void *)r;
}

/* Kernels before 5.14 lack MADV_POPULATE_WRITE and return EINVAL. Their pages are allocated at
 * first use, which succeeds unless the machine has no memory left. */
bool os_populate(void *address, size_t size) {
  long r = call3(SYS_madvise, address, size, MADV_POPULATE_WRITE);
  return r == 0 || r == -EINVAL;
}

bool os_hide_from_fork(void *address, size_t size) {
  return call3(SYS_madvise, address, size, MADV_DONTFORK) == 0;
}

bool os_process_alive(pid_t pid) { return pid > 0 && call2(SYS_kill, pid, 0) != -ESRCH; }
