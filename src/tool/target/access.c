/* SPDX-License-Identifier: MIT
 *
 * Reading another process needs ptrace access (ptrace(2), "Ptrace access mode checking"): the same
 * user and a dumpable process, or CAP_SYS_PTRACE; and under Yama a descendant, unless
 * kernel.yama.ptrace_scope is 0. /proc/PID/syscall, process_vm_readv and ptrace need the same mode,
 * attach, so reading that file tests all three.
 */
#define _GNU_SOURCE
#include "target/access.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc_file.h"

int access_yama_scope(void) {
  int scope = -1;
  FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
  if (file && fscanf(file, "%d", &scope) != 1) scope = -1;
  if (file) fclose(file);
  return scope;
}

#define FLAG_KERNEL_THREAD 0x00200000u /* PF_KTHREAD of linux/sched.h */

/* The state letter of PID, 0 if there is none, and its flags (proc_pid_stat(5), field 9). */
static char state_and_flags(pid_t pid, unsigned *flags) {
  char text[1024], state = 0;
  *flags = 0;
  if (proc_file_read(pid, "stat", text, sizeof text) <= 0) return 0;
  const char *end = strrchr(text, ')');
  if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u", &state, flags) < 1) return 0;
  return state;
}

static char state_of(pid_t pid) {
  unsigned flags;
  return state_and_flags(pid, &flags);
}

/* A thread of PID that has not ended; 0 if there is none. */
static pid_t living_thread(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *directory = opendir(path);
  struct dirent *entry;
  pid_t found = 0;
  while (directory && !found && (entry = readdir(directory))) {
    pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
    char state = tid > 0 ? state_of(tid) : 0;
    if (state != 0 && state != 'Z' && state != 'X') found = tid;
  }
  if (directory) closedir(directory);
  return found;
}

/* The thread group of TID; 0 if unknown. */
static pid_t group_of(pid_t tid) {
  char text[4096];
  (void)proc_file_read(tid, "status", text, sizeof text);
  long group = proc_file_number(text, "\nTgid:");
  return group > 0 ? (pid_t)group : 0;
}

static void explain_denied(pid_t pid, problem_t *problem) {
  char path[64];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d", pid);
  bool ours = stat(path, &st) == 0 && st.st_uid == geteuid();
  int scope = access_yama_scope();
  if (geteuid() == 0)
    problem_set(problem,
                "root may not read process %d: this container lacks "
                "CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)",
                pid);
  else if (ours && scope == 1)
    problem_set(problem,
                "no permission to read process %d: Yama allows it only for child processes; "
                "`sudo sysctl kernel.yama.ptrace_scope=0` grants it, or run sonde with sudo",
                pid);
  else if (ours && scope < 1)
    problem_set(problem,
                "no permission to read process %d, which is not dumpable (set-user-ID or with "
                "capabilities): run sonde with sudo",
                pid);
  else
    problem_set(problem,
                "no permission to read process %d%s: run sonde with sudo, or once "
                "`sudo setcap cap_sys_ptrace+ep $(command -v sonde)`",
                pid, ours ? "" : " of another user");
}

void access_explain_empty(pid_t pid, problem_t *problem) {
  char state = state_of(pid);
  if (state == 'Z')
    problem_set(problem, "process %d has ended and was not reaped by its parent (a zombie)", pid);
  else if (state == 0 || state == 'X')
    problem_set(problem, "process %d ended while it was read", pid);
  else
    problem_set(problem, "process %d has no memory: it is ending", pid);
}

void access_explain(pid_t pid, int error, problem_t *problem) {
  if (error == EACCES || error == EPERM)
    explain_denied(pid, problem);
  else if (error == ESRCH || error == ENOENT)
    problem_set(problem, "process %d ended while it was read", pid);
  else
    problem_set(problem, "cannot read process %d: %s", pid, strerror(error));
}

bool access_check(pid_t pid, pid_t *reader, problem_t *problem) {
  char text[512];
  unsigned flags;
  char state = state_and_flags(pid, &flags);
  *reader = pid;
  if (state == 0) {
    if (kill(pid, 0) == 0 || errno == EPERM) /* /proc is mounted with hidepid */
      problem_set(problem, "process %d is hidden from this user: run sonde with sudo", pid);
    else
      problem_set(problem, "no process has the id %d (`pgrep -a NAME` finds one by name)", pid);
    return false;
  }
  pid_t group = group_of(pid);
  if (group > 0 && group != pid) {
    problem_set(
        problem,
        "%d is a thread of process %d: name the process (`sonde stacks %d --tid %d` shows one "
        "thread)",
        pid, group, group, pid);
    return false;
  }
  if (flags & FLAG_KERNEL_THREAD) {
    problem_set(problem, "process %d is a kernel thread: it has no user stack", pid);
    return false;
  }
  if ((state == 'Z' || state == 'X') && (*reader = living_thread(pid)) == 0) {
    access_explain_empty(pid, problem);
    return false;
  }
  if (proc_file_read(*reader, "syscall", text, sizeof text) < 0 &&
      (errno == EACCES || errno == EPERM)) {
    explain_denied(pid, problem);
    return false;
  }
  return true;
}
