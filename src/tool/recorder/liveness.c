/* SPDX-License-Identifier: MIT */
#include "recorder/liveness.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_SECONDS = 60 };

/* The start time of PID in ns of CLOCK_BOOTTIME; 0: it does not run; UINT64_MAX: unknown. */
static uint64_t start_of(uint32_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || errno == ESRCH ? 0 : UINT64_MAX;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return n < 0 && errno != ESRCH ? UINT64_MAX : 0;
  text[n] = 0;
  const char *p = strrchr(text, ')'); /* the name may contain any character */
  if (p && p[1] == ' ' && (p[2] == 'Z' || p[2] == 'X')) return 0; /* a zombie */
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  uint64_t ticks = p ? strtoull(p, NULL, 10) : 0;
  return ticks ? ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK)) : UINT64_MAX;
}

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether PID runs and had started when the recording began. */
static bool lives(uint32_t pid, const record_header_t *h) {
  uint64_t start = pid ? start_of(pid) : 0;
  if (!start || start == UINT64_MAX) return start != 0;
  uint64_t real_start = now_ns(CLOCK_REALTIME) - (now_ns(CLOCK_BOOTTIME) - start);
  return real_start <= h->start_realtime_ns + 2000000000u; /* the clock may have been set */
}

static bool has_open(const char *pid, const struct stat *file) {
  char folder[300], path[600];
  struct stat s;
  bool found = false;
  snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    found = isdigit((unsigned char)e->d_name[0]) && stat(path, &s) == 0 &&
            s.st_dev == file->st_dev && s.st_ino == file->st_ino;
  }
  if (d) closedir(d);
  return found;
}

/* Whether a process that we may examine has FILE open, other than this one. */
static bool is_open_somewhere(const struct stat *file) {
  char self[16];
  bool found = false;
  snprintf(self, sizeof self, "%d", (int)getpid());
  DIR *d = opendir("/proc");
  for (struct dirent *e; d && !found && (e = readdir(d));)
    found = isdigit((unsigned char)e->d_name[0]) && strcmp(e->d_name, self) &&
            has_open(e->d_name, file);
  if (d) closedir(d);
  return found;
}

uint64_t liveness_pid_space(void) {
  struct stat space;
  return stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
}

bool liveness_can_tell(const record_header_t *header) {
  return header->pid_space && header->pid_space == liveness_pid_space();
}

bool liveness_is_recent(const struct stat *file) {
  return time(NULL) - file->st_mtime < QUIET_SECONDS;
}

bool liveness_is_written(const struct stat *file, const record_header_t *header) {
  return lives(header->pid, header) || lives(header->recorder_pid, header) ||
         is_open_somewhere(file);
}

bool liveness_of_part(uint32_t pid, const struct stat *file) {
  return start_of(pid) || is_open_somewhere(file);
}

/* ---- orphans ------------------------------------------------------------------------------ */

orphan_verdict_t orphan_judge(int fd, const struct stat *file) {
  record_header_t h;
  if (pread(fd, &h, sizeof h, 0) != sizeof h || memcmp(h.magic, RECORD_MAGIC, 8))
    return ORPHAN_NOT_OURS;
  if (h.state != RECORD_OPEN) return ORPHAN_FINISHED;
  bool recent = !liveness_can_tell(&h) && liveness_is_recent(file);
  return recent || liveness_is_written(file, &h) ? ORPHAN_LIVING : ORPHAN_YES;
}

/* The length of COMMAND and the dot in "COMMAND.PID.sonde"; 0: not such a name. */
static size_t command_length(const char *name) {
  static const char ending[] = ".sonde";
  size_t n = strlen(name), digits = 0;
  if (n < sizeof ending || strcmp(name + n - (sizeof ending - 1), ending)) return 0;
  n -= sizeof ending - 1;
  while (n > digits && isdigit((unsigned char)name[n - 1 - digits]))
    digits++;
  n -= digits;
  return digits && n > 1 && name[n - 1] == '.' ? n : 0;
}

static bool is_old_orphan(int folder, const char *name) {
  struct stat file;
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  if (fd < 0) return false;
  bool is = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
            time(NULL) - file.st_mtime > ORPHAN_KEPT_SECONDS &&
            orphan_judge(fd, &file) == ORPHAN_YES;
  close(fd);
  return is;
}

unsigned orphans_remove_old(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path;
  size_t length = command_length(own);
  unsigned removed = 0;
  if (!length) return 0;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  DIR *dir = opendir(folder);
  struct dirent *entry;
  while (dir && (entry = readdir(dir)))
    if (command_length(entry->d_name) == length && !strncmp(entry->d_name, own, length) &&
        is_old_orphan(dirfd(dir), entry->d_name) && unlinkat(dirfd(dir), entry->d_name, 0) == 0)
      removed++;
  if (dir) closedir(dir);
  return removed;
}
