/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/thread_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/proc_file.h"

/* Descriptors that all monitors keep open. */
static size_t open_count;

static int open_file(pid_t pid, pid_t tid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static size_t open_limit(void) {
  struct rlimit files;
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur / 4 : 0;
}

int thread_file_open(pid_t pid, pid_t tid, const char *name) {
  int fd = add_relaxed(&open_count, 1) < open_limit() ? open_file(pid, tid, name) : -1;
  if (fd < 0) add_relaxed(&open_count, (size_t)-1);
  return fd;
}

DIR *thread_file_folder(pid_t pid) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  return opendir(path);
}

pid_t thread_file_next(DIR *folder) {
  struct dirent *entry;
  pid_t tid = 0;
  while (tid <= 0 && folder && (entry = readdir(folder)))
    tid = (pid_t)strtol(entry->d_name, NULL, 10);
  return tid;
}

void thread_file_close(int fd) {
  if (fd < 0) return;
  close(fd);
  add_relaxed(&open_count, (size_t)-1);
}

bool thread_file_read(int open_fd, pid_t pid, pid_t tid, const char *name, char *out, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "task/%d/%s", (int)tid, name);
  if (open_fd < 0) return proc_file_read(pid, path, out, size) > 0;
  ssize_t n = pread(open_fd, out, size - 1, 0);
  out[n > 0 ? n : 0] = 0;
  return n > 0;
}

void thread_file_name(pid_t pid, pid_t tid, char out[THREAD_NAME_MAX]) {
  char text[THREAD_NAME_MAX + 1];
  if (thread_file_read(-1, pid, tid, "comm", text, sizeof text))
    snprintf(out, THREAD_NAME_MAX, "%.*s", (int)strcspn(text, "\n"), text);
}
