/* SPDX-License-Identifier: MIT
 *
 * Lists the threads of a live process from /proc/PID/task and samples what each one does.
 *
 * /proc/PID/task/TID/syscall (proc_pid_syscall(5)) has the stack pointer and pc of a thread that
 * does not run, and its system call with arguments. It is not a snapshot of memory, so the caller
 * samples again after it has read the stack. Each sample also reads how often the thread ran:
 * before the first read of `syscall` and after the last one. In another order, these counts would
 * miss a thread that woke just after the first read or one that is not asleep again.
 *
 * The count is the third field of schedstat. Kernels without it, or where it is 0, have the context
 * switches in `status`, which take seven times as long to read.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

#include "target/process.h"

/* ---- which -------------------------------------------------------------------------------- */

static bool add_thread(target_t *target, size_t *capacity, pid_t tid) {
  if (!ARRAY_GROW(target->threads, target->thread_count, *capacity)) return false;
  thread_t *thread = &target->threads[target->thread_count++];
  memset(thread, 0, sizeof *thread);
  thread->tid = tid;
  thread->wait.number = -1;
  thread->wait.fd = -1;
  return true;
}

static int by_tid(const void *a, const void *b) {
  const thread_t *x = a, *y = b;
  return x->tid < y->tid ? -1 : x->tid > y->tid;
}

bool process_list_threads(target_t *target) {
  size_t capacity = 0;
  target_forget_threads(target);
  int fd = dup(process_of(target)->task);
  DIR *directory = fd < 0 ? NULL : fdopendir(fd);
  if (!directory) {
    if (fd >= 0) close(fd);
    return false;
  }
  rewinddir(directory); /* a duplicated descriptor shares its position with earlier reads */
  struct dirent *entry;
  while ((entry = readdir(directory))) {
    pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (tid > 0 && !add_thread(target, &capacity, tid)) break;
  }
  closedir(directory);
  if (target->thread_count == 0) return false;
  qsort(target->threads, target->thread_count, sizeof *target->threads, by_tid);
  return true;
}

/* ---- what it does ------------------------------------------------------------------------- */

static int open_file(const process_t *process, pid_t tid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "%d/%s", tid, name);
  return openat(process->task, path, O_RDONLY | O_CLOEXEC);
}

static ssize_t read_again(int fd, char *out, size_t size) {
  ssize_t n = fd < 0 ? -1 : pread(fd, out, size - 1, 0);
  if (n >= 0) out[n] = 0;
  return n;
}

/* How often the thread got a CPU; 0 if the kernel does not count that. */
static uint64_t arrivals(const thread_files_t *files) {
  char text[128];
  if (read_again(files->schedstat, text, sizeof text) <= 0) return 0;
  const char *at = strrchr(text, ' ');
  return at ? strtoull(at, NULL, 10) : 0;
}

bool thread_files_open(const process_t *process, pid_t tid, thread_files_t *files) {
  files->status = -1;
  files->syscall = open_file(process, tid, "syscall");
  files->schedstat = open_file(process, tid, "schedstat");
  if (files->syscall >= 0 && arrivals(files) == 0)
    files->status = open_file(process, tid, "status");
  return files->syscall >= 0;
}

void thread_files_close(thread_files_t *files) {
  if (files->syscall >= 0) close(files->syscall);
  if (files->schedstat >= 0) close(files->schedstat);
  if (files->status >= 0) close(files->status);
}

/* The same from `status`: its context switches; 0 if unknown. */
static uint64_t departures(const thread_files_t *files) {
  static const char left[] = "\nvoluntary_ctxt_switches:";
  static const char driven[] = "\nnonvoluntary_ctxt_switches:";
  char text[8192];
  if (read_again(files->status, text, sizeof text) <= 0) return 0;
  const char *a = strstr(text, left), *b = strstr(text, driven);
  if (!a || !b) return 0;
  return strtoull(a + strlen(left), NULL, 10) + strtoull(b + strlen(driven), NULL, 10);
}

static uint64_t switches(const thread_files_t *files) {
  return files->status >= 0 ? departures(files) : arrivals(files);
}

/* "running", or "-1 SP PC", or "NR A0 … A5 SP PC". */
static bool parse_syscall(const char *text, sample_t *sample) {
  char *at;
  sample->number = strtol(text, &at, 10);
  if (at == text) return false;
  uint64_t values[8];
  int count = 0;
  while (*at == ' ' && count < 8)
    values[count++] = strtoull(at, &at, 16);
  if (count == 2 && sample->number < 0) {
    sample->sp = values[0];
    sample->pc = values[1];
    return true;
  }
  if (count != 8) return false;
  memcpy(sample->args, values, sizeof sample->args);
  sample->sp = values[6];
  sample->pc = values[7];
  return true;
}

void thread_sample(const thread_files_t *files, sample_t *sample) {
  char text[512];
  memset(sample, 0, sizeof *sample);
  sample->number = -1;
  sample->switches = switches(files);
  errno = 0;
  ssize_t n = read_again(files->syscall, text, sizeof text);
  if (n <= 0) {
    sample->activity = errno == EPERM || errno == EACCES ? ACTIVITY_DENIED : ACTIVITY_GONE;
    return;
  }
  if (parse_syscall(text, sample) && sample->sp != 0)
    sample->activity = ACTIVITY_BLOCKED;
  else
    sample->activity = ACTIVITY_RUNNING;
  sample->switches_after = switches(files);
}

bool sample_same(const sample_t *a, const sample_t *b) {
  return a->activity == b->activity && a->switches != 0 && a->switches == b->switches_after &&
         a->number == b->number && a->sp == b->sp && a->pc == b->pc &&
         memcmp(a->args, b->args, sizeof a->args) == 0;
}

bool process_read_stat(const process_t *process, thread_t *thread) {
  char text[1024];
  int fd = open_file(process, thread->tid, "stat");
  ssize_t n = read_again(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  if (n <= 0) return false;
  char *open_paren = strchr(text, '('), *close_paren = strrchr(text, ')');
  if (!open_paren || !close_paren || close_paren < open_paren) return false;
  *close_paren = 0;
  snprintf(thread->name, sizeof thread->name, "%s", open_paren + 1);
  thread->state = close_paren[1] == ' ' ? close_paren[2] : 0;
  return true;
}

pid_t process_inner_tid(const process_t *process, pid_t tid) {
  if (!process->nested) return tid;
  char text[8192];
  int fd = open_file(process, tid, "status");
  ssize_t n = read_again(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  char *line = n > 0 ? strstr(text, "\nNSpid:") : NULL;
  if (!line) return 0;
  char *end = strchr(++line, '\n'), *last = line;
  if (end) *end = 0;
  for (char *p = line; *p; p++)
    if (*p == '\t' || *p == ' ') last = p + 1;
  return (pid_t)strtol(last, NULL, 10);
}
