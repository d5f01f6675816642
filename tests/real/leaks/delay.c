/* SPDX-License-Identifier: MIT
 *
 * Delays the answers of a process's threads: every SIGURG reaches its thread MS milliseconds later
 * than the kernel would have it. A busy machine does that too, but not when a test asks for it.
 * Says "ready"; ends with the process.
 *
 * usage: delay PID MS
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int seize_threads(const char *pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/task", pid);
  DIR *tasks = opendir(path);
  if (!tasks) return -1;
  for (struct dirent *e; (e = readdir(tasks));)
    if (e->d_name[0] != '.' && ptrace(PTRACE_SEIZE, atoi(e->d_name), 0, 0)) return -1;
  return closedir(tasks);
}

int main(int argc, char **argv) {
  int status;
  pid_t tid;
  if (argc != 3 || seize_threads(argv[1])) {
    perror("the threads cannot be traced");
    return 1;
  }
  puts("ready");
  fflush(stdout);
  while ((tid = waitpid(-1, &status, __WALL)) > 0) {
    if (!WIFSTOPPED(status)) continue;
    int signal = status >> 16 ? 0 : WSTOPSIG(status); /* ptrace(2): an event, or a signal */
    if (signal == SIGURG) usleep((useconds_t)atoi(argv[2]) * 1000);
    if (ptrace(PTRACE_CONT, tid, 0, signal) && errno != ESRCH) return 1;
  }
  return 0;
}
