/* SPDX-License-Identifier: MIT
 *
 * Functions of libSystem that images find by name, as an audit hooks them: an image of Mach-O code
 * exports them, under the names that Apple's headers give them. What they answer is the host's.
 */
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#define EXPORT __attribute__((noinline, visibility("default")))

int mac_host_stat(const char *path, struct stat *out);
int mac_host_lstat(const char *path, struct stat *out);
int mac_host_fstat(int fd, struct stat *out);
int mac_host_statvfs(const char *path, uint64_t blocks[3]); /* their size, all, free */
uint64_t mach_absolute_time(void);

EXPORT int stat(const char *path, struct stat *out) { return mac_host_stat(path, out); }
EXPORT int lstat(const char *path, struct stat *out) { return mac_host_lstat(path, out); }
EXPORT int fstat(int fd, struct stat *out) { return mac_host_fstat(fd, out); }

EXPORT int statfs(const char *path, struct statfs *out) {
  uint64_t blocks[3];
  memset(out, 0, sizeof *out);
  if (mac_host_statvfs(path, blocks) != 0) return -1;
  out->f_bsize = (uint32_t)blocks[0];
  out->f_blocks = blocks[1];
  out->f_bfree = out->f_bavail = blocks[2];
  return 0;
}

EXPORT uint64_t mach_absolute_time(void) { return clock_gettime_nsec_np(CLOCK_UPTIME_RAW); }
