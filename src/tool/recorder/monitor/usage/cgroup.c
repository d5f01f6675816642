/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/usage/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 2048 };

/* ---- files -------------------------------------------------------------------------------- */

/* Where version 2 is mounted: beside version 1, or alone. */
static bool find_root(char *out, size_t size) {
  FILE *mounts = setmntent("/proc/self/mounts", "r");
  struct mntent entry;
  char text[PATH_MAX];
  bool found = false;
  while (mounts && !found && getmntent_r(mounts, &entry, text, sizeof text)) {
    found = !strcmp(entry.mnt_type, "cgroup2");
    if (found) found = snprintf(out, size, "%s", entry.mnt_dir) < (int)size;
  }
  if (mounts) endmntent(mounts);
  return found;
}

/* The line "0::PATH" of /proc/PID/cgroup. */
static bool find_path(pid_t pid, char *out, size_t size) {
  char name[40], line[PATH_MAX];
  snprintf(name, sizeof name, "/proc/%d/cgroup", (int)pid);
  FILE *file = fopen(name, "re");
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    found = !strncmp(line, "0::/", 4) && snprintf(out, size, "%s", line + 3) < (int)size;
  }
  if (file) fclose(file);
  return found;
}

static int open_in(const char *root, const char *path, const char *name) {
  char whole[2 * PATH_MAX + 32];
  snprintf(whole, sizeof whole, "%s%s/%s", root, path, name);
  return open(whole, O_RDONLY | O_CLOEXEC);
}

void cgroup_open_at(cgroup_files_t *f, const char *root, const char *path) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  *f = (cgroup_files_t){.memory = open_in(root, folder, "memory.current"),
                        .events = open_in(root, folder, "memory.events"),
                        .cpu_stat = open_in(root, folder, "cpu.stat")};
  for (int i = 0; i < CGROUP_DEPTH; i++) {
    f->memory_limits[i] = open_in(root, folder, "memory.max");
    f->cpu_limits[i] = open_in(root, folder, "cpu.max");
    char *last = strrchr(folder, '/');
    if (!last || !*folder) break;
    *last = 0;
  }
}

void cgroup_open(cgroup_files_t *f, pid_t pid) {
  char root[PATH_MAX], path[PATH_MAX];
  *f = (cgroup_files_t){0};
  if (find_root(root, sizeof root) && find_path(pid, path, sizeof path))
    cgroup_open_at(f, root, path);
}

void cgroup_close(cgroup_files_t *f) {
  const int fds[] = {f->memory, f->events, f->cpu_stat};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
    if (fds[i] > 0) close(fds[i]);
  for (int i = 0; i < CGROUP_DEPTH; i++) {
    if (f->memory_limits[i] > 0) close(f->memory_limits[i]);
    if (f->cpu_limits[i] > 0) close(f->cpu_limits[i]);
  }
}

/* ---- values ------------------------------------------------------------------------------- */

static bool read_text(int fd, char *out) {
  ssize_t n = fd <= 0 ? -1 : pread(fd, out, TEXT_BYTES - 1, 0);
  out[n > 0 ? n : 0] = 0;
  return n > 0;
}

static bool parse_value(const char *text, uint64_t *out) {
  char *end;
  *out = strtoull(text, &end, 10);
  return end != text;
}

/* The value after "NAME " at the start of a line. */
static bool find_value(const char *text, const char *name, uint64_t *out) {
  size_t size = strlen(name);
  for (const char *p = text; p && *p; p = strchr(p, '\n')) {
    p += *p == '\n';
    if (!strncmp(p, name, size) && p[size] == ' ') return parse_value(p + size + 1, out);
  }
  return false;
}

static void read_line(int fd, const char *name, usage_field_t field, uint64_t unit,
                      usage_values_t *out) {
  char text[TEXT_BYTES];
  uint64_t value;
  if (read_text(fd, text) && find_value(text, name, &value)) usage_set(out, field, value * unit);
}

/* "100000 50000": at most 100 ms of CPU time in each 50 ms: two CPUs. */
static bool read_cpu_limit(int fd, uint64_t *out) {
  char text[TEXT_BYTES], *end;
  if (!read_text(fd, text)) return false;
  uint64_t quota = strtoull(text, &end, 10), period;
  if (end == text || !parse_value(end, &period) || !period) return false;
  *out = quota * 1000 / period;
  return true;
}

static bool read_limit(int fd, uint64_t *out) {
  char text[TEXT_BYTES];
  return read_text(fd, text) && parse_value(text, out);
}

static void read_limits(const int *fds, bool (*read_one)(int fd, uint64_t *out),
                        usage_field_t field, usage_values_t *out) {
  uint64_t least = UINT64_MAX, value;
  for (int i = 0; i < CGROUP_DEPTH; i++)
    if (read_one(fds[i], &value) && value < least) least = value;
  if (least != UINT64_MAX) usage_set(out, field, least);
}

void cgroup_read(const cgroup_files_t *f, usage_values_t *out) {
  uint64_t memory;
  if (read_limit(f->memory, &memory)) usage_set(out, USAGE_CGROUP_MEMORY, memory);
  read_line(f->events, "oom", USAGE_CGROUP_OOM, 1, out);
  read_line(f->events, "oom_kill", USAGE_CGROUP_OOM_KILLS, 1, out);
  read_line(f->cpu_stat, "throttled_usec", USAGE_CGROUP_THROTTLED, 1000, out);
  read_limits(f->memory_limits, read_limit, USAGE_CGROUP_LIMIT, out);
  read_limits(f->cpu_limits, read_cpu_limit, USAGE_CGROUP_CPU, out);
}
