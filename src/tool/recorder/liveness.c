/* SPDX-License-Identifier: MIT */
#include "recorder/liveness.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
