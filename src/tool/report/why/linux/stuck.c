/* SPDX-License-Identifier: MIT */
#include "report/why/stuck.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/monitor/thread_file.h"
#include "target/interpreter/interpreter.h"

/* ---- /proc -------------------------------------------------------------------------------- */

/* Calls VISIT for each process until it returns false. */
static void each_process(bool (*visit)(void *context, pid_t pid), void *context) {
  DIR *folder = opendir("/proc");
  struct dirent *entry;
  while (folder && (entry = readdir(folder))) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid > 0 && !visit(context, pid)) break;
  }
  if (folder) closedir(folder);
}

typedef struct process_stat {
  char state;
  pid_t parent;
  int session;
} process_stat_t;

/* The name of a process may contain any character; the last parenthesis ends it. */
static bool read_stat(pid_t pid, process_stat_t *out) {
  char text[1024];
  if (!thread_file_read(-1, pid, pid, "stat", text, sizeof text)) return false;
  const char *end = strrchr(text, ')');
  return end && sscanf(end + 1, " %c %d %*d %d", &out->state, &out->parent, &out->session) == 3;
}

/* ---- signals ------------------------------------------------------------------------------ */

static bool is_python(const target_t *target) {
  return target->interpreter && target->interpreter->kind->language == LANGUAGE_PYTHON;
}

/* A handler may write to a pipe or post a semaphore. Handlers of faults do not run in a thread that
 * waits. glibc uses 32 and 33 itself. Python catches SIGINT to end the program. */
static bool catches_signals(const target_t *target) {
  pid_t pid = target->pid;
  static const int harmless[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, 32, 33};
  char text[4096];
  if (!thread_file_read(-1, pid, pid, "status", text, sizeof text)) return true;
  const char *line = strstr(text, "\nSigCgt:");
  if (!line) return true;
  unsigned long long caught = strtoull(line + strlen("\nSigCgt:"), NULL, 16);
  for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
    caught &= ~(1ULL << (harmless[i] - 1));
  if (is_python(target)) caught &= ~(1ULL << (SIGINT - 1));
  return caught != 0;
}

/* ---- pipes -------------------------------------------------------------------------------- */

typedef struct writers {
  const char *pipe; /* "pipe:[123]" */
  pid_t pid;
  int session; /* of PID */
  bool itself, others;
} writers_t;

/* Whether process PID has a descriptor that writes to the pipe. A process that may not be read
 * counts if it may have inherited one. */
static bool can_write(const writers_t *w, pid_t pid) {
  char path[PATH_MAX], link[80];
  struct dirent *entry;
  struct stat mode;
  bool found = false;
  process_stat_t stat;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  if (!folder) return errno == EACCES && read_stat(pid, &stat) && stat.session == w->session;
  while (!found && (entry = readdir(folder))) {
    ssize_t size = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
    if (size <= 0) continue;
    link[size] = 0;
    found = !strcmp(link, w->pipe) &&
            fstatat(dirfd(folder), entry->d_name, &mode, AT_SYMLINK_NOFOLLOW) == 0 &&
            (mode.st_mode & S_IWUSR);
  }
  closedir(folder);
  return found;
}

static bool look_for_writer(void *context, pid_t pid) {
  writers_t *w = context;
  if (!can_write(w, pid)) return true;
  if (pid != w->pid) w->others = true;
  w->itself |= pid == w->pid;
  return !w->others;
}

/* Whether only the process itself can write to the pipe. If it cannot either, the writer is outside
 * of this container. */
static bool only_itself_writes(pid_t pid, const char *pipe) {
  process_stat_t stat;
  if (strncmp(pipe, "pipe:[", 6) != 0 || !read_stat(pid, &stat)) return false;
  writers_t w = {.pipe = pipe, .pid = pid, .session = stat.session};
  each_process(look_for_writer, &w);
  return w.itself && !w.others;
}

/* ---- waits -------------------------------------------------------------------------------- */

static bool has_thread(const target_t *target, uint64_t tid) {
  for (size_t i = 0; i < target->thread_count; i++)
    if ((uint64_t)target->threads[i].tid == tid) return true;
  return false;
}

/* pthread_join waits for the word in which the kernel clears the thread's number. */
static bool is_endless_futex(const target_t *target, const wait_t *wait) {
  int operation = (int)wait->args[1], command = operation & FUTEX_CMD_MASK;
  if ((command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) || wait->args[3]) return false;
  return (operation & FUTEX_PRIVATE_FLAG) || has_thread(target, wait->args[2]);
}

static bool is_endless(const target_t *target, const thread_t *t) {
  const wait_t *wait = &t->wait;
  if (t->state != 'S' || !wait->syscall) return false;
  if (!strcmp(wait->syscall, "futex")) return is_endless_futex(target, wait);
  return !strcmp(wait->syscall, "read") && wait->path &&
         only_itself_writes(target->pid, wait->path);
}

bool stuck_for_ever(const target_t *target) {
  for (size_t i = 0; i < target->thread_count; i++)
    if (!is_endless(target, &target->threads[i])) return false;
  return target->thread_count && !catches_signals(target);
}

/* ---- children ----------------------------------------------------------------------------- */

typedef struct children {
  pid_t parent;
  unsigned zombies;
} children_t;

static bool count_zombie(void *context, pid_t pid) {
  children_t *c = context;
  process_stat_t stat;
  if (read_stat(pid, &stat) && stat.parent == c->parent && stat.state == 'Z') c->zombies++;
  return true;
}

unsigned stuck_zombies(pid_t pid) {
  children_t c = {.parent = pid};
  each_process(count_zombie, &c);
  return c.zombies;
}
