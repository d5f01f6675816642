/* SPDX-License-Identifier: MIT
 *
 * Files and memory of a recording: descriptors that do not collide with the program's, memory
 * shared with the recorder, and limits that must be known so that a write never raises a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HIGH_DESCRIPTOR 512

static int as_high(int fd) {
  if (fd < 0 || fd >= HIGH_DESCRIPTOR) return fd;
  int high = (int)call3(fcntl_high, fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
  if (high < 0) return fd; /* the limit on descriptors is lower */
  os_close(fd);
  return high;
}

int os_open_high(const char *path) {
  return as_high((int)call4(openat_write, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOCTTY, 0));
}

bool os_keep_at_exec(int fd) { return call2(fcntl_keep, fd, F_SETFD) == 0; }

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
  return as_high((int)call4(openat_create, AT_FDCWD, path, flags, 0600));
}

int os_memory_file(const char *name) {
  return as_high((int)call2(memfd_create, name, 1 /* MFD_CLOEXEC */));
}

int os_file_resize(int fd, uint64_t size) { return (int)call2(ftruncate, fd, size); }
void os_remove(const char *path) { (void)call3(unlinkat, AT_FDCWD, path, 0); }

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
  const int empty_path = 0x1000, want_inode_and_size = 0x300;
  if (fd < 0 || call5(statx, fd, "", empty_path, want_inode_and_size, &found) < 0) return false;
  out->device = (uint64_t)found.device_major << 32 | found.device_minor;
  out->inode = found.inode;
  out->size = found.size;
  return true;
}

ssize_t os_pwrite(int fd, const void *data, size_t size, uint64_t offset) {
  return (ssize_t)call4(pwrite64, fd, data, size, offset);
}

int os_file_punch(int fd, uint64_t offset, uint64_t size) {
  return (int)call4(fallocate, fd, 3 /* KEEP_SIZE | PUNCH_HOLE */, offset, size);
}

/* Connects FD to the socket with the abstract name NAME. */
static long connect_to(int fd, const char *name) {
  struct {
    uint16_t family;
    char path[108];
  } address = {.family = AF_UNIX};
  uint32_t n = 0;
  for (; name[n] && n + 1 < sizeof address.path; n++)
    address.path[n + 1] = name[n];
  return call3(connect, fd, &address, sizeof address.family + 1 + n);
}

static long send_text(int fd, const char *text) {
  return call6(sendto, fd, text, text_length(text), MSG_NOSIGNAL, 0, 0);
}

/* Connects to the socket NAME and sends TEXT. Returns the connection or a negative errno. */
static int send_request(const char *name, const char *text, uint32_t patience_s) {
  const int64_t patience[2] = {patience_s, 0};
  int fd = (int)call3(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  (void)call5(setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, patience, sizeof patience);
  (void)call5(setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, patience, sizeof patience);
  long status = connect_to(fd, name);
  if (status == 0) status = send_text(fd, text);
  if (status >= 0) return fd;
  os_close(fd);
  return (int)status;
}

ssize_t os_socket_request(const char *name, const char *text, char *answer, size_t size,
                          uint32_t patience_s) {
  int fd = send_request(name, text, patience_s);
  ssize_t done = fd < 0 ? fd : 0;
  while (done >= 0 && (size_t)done < size) {
    long got = call3(read, fd, answer + done, size - (size_t)done);
    if (got == -EINTR) continue;
    if (got < 0) done = got;
    if (got <= 0) break;
    done += got;
  }
  if (fd >= 0) os_close(fd);
  return done;
}

int os_socket_descriptor(const char *name, const char *text) {
  char byte;
  union {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  int connection = send_request(name, text, 2), fd = -ENOENT;
  if (connection < 0) return connection;
  long n;
  do
    n = call3(recvmsg, connection, &message, MSG_CMSG_CLOEXEC);
  while (n == -EINTR);
  if (n > 0 && message.msg_controllen >= CMSG_LEN(sizeof fd) &&
      control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS)
    memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
  os_close(connection);
  return as_high(fd);
}

int os_socket_calls(const char *name) {
  int fd = as_high((int)call3(socket_calls, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd >= HIGH_DESCRIPTOR && connect_to(fd, name) == 0) return fd;
  if (fd >= 0) os_close(fd);
  return -1;
}

int os_socket_call(int fd, const char *text) { return send_text(fd, text) < 0 ? -1 : 0; }

ssize_t os_read_link(const char *path, char *out, size_t size) {
  if (size == 0) return -EINVAL;
  ssize_t n = (ssize_t)call4(readlinkat, AT_FDCWD, path, out, size - 1);
  if (n >= 0) out[n] = '\0';
  return n;
}

uint64_t os_file_size_limit(void) {
  uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
  if (call4(prlimit64, 0, RLIMIT_FSIZE, NULL, limit) < 0) return UINT64_MAX;
  return limit[0];
}

void *os_map_shared(int fd, uint64_t offset, size_t size) {
  long r =
      call6(mmap_shared, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
  if (r < 0 && r > -4096) return NULL;
#if defined(SONDE_ATTACHED)
  linux_list_own((uint64_t)r, size); /* it goes with the agent */
#endif
  return (void *)r;
}

uint32_t os_user(void) { return (uint32_t)call0(geteuid); }

static bool is_own_file(int fd) {
  struct stat s;
  return call2(fstat, fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == os_user() &&
         !(s.st_mode & 077) && s.st_nlink == 1;
}

/* A FIFO or a device is opened without waiting, and refused. */
void *os_map_own_file(const char *path, size_t size) {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  int fd = (int)call4(openat_own, AT_FDCWD, path, flags, 0600);
  if (fd < 0) return NULL;
  bool good = is_own_file(fd) && call4(fallocate_own, fd, 0, 0, size) == 0;
  void *map = good ? os_map_shared(fd, 0, size) : NULL;
  os_close(fd);
  return map;
}

#define PAGE_MIN 4096u
#define PAGE_MAX 65536u

/* Kernels before 5.14 lack MADV_POPULATE_WRITE and return EINVAL, and a seccomp filter may forbid
 * it. The pages are then allocated at first use, which succeeds unless the machine has no memory
 * left. The kernel also returns EINVAL if the start is not at a page of its own size. */
bool os_populate(void *address, size_t size) {
  uint64_t at = (uintptr_t)address;
  long r = -EINVAL;
  for (uint64_t page = PAGE_MIN; r == -EINVAL && page <= PAGE_MAX; page *= 4) {
    uint64_t start = ALIGN_DOWN(at, page);
    r = call3(madvise_populate, start, at + size - start, MADV_POPULATE_WRITE);
  }
  return r == 0 || r == -EINVAL || r == -EPERM;
}

bool os_hide_from_fork(void *address, size_t size) {
  return call3(madvise_hide, address, size, MADV_DONTFORK) == 0;
}

/* The state follows the name in parentheses, which may contain any character (proc(5)). */
static bool is_zombie(pid_t pid) {
  char path[48], text[512], *p = decimal_append(text_append(path, "/proc/"), (uint64_t)pid);
  *text_append(p, "/stat") = 0;
  ssize_t n = os_read_file(path, text, sizeof text);
  while (n > 0 && text[n - 1] != ')')
    n--;
  return n > 0 && (text[n + 1] == 'Z' || text[n + 1] == 'X');
}

bool os_process_alive(pid_t pid) {
  return pid > 0 && call2(kill, pid, 0) != -ESRCH && !is_zombie(pid);
}

uint64_t os_pid_space(void) {
  os_file_id_t space = {0};
  int fd = os_open_read("/proc/self/ns/pid");
  if (fd < 0) return 0;
  (void)os_file_id(fd, &space);
  os_close(fd);
  return space.inode;
}
