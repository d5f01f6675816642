/* SPDX-License-Identifier: MIT
 *
 * The states that attach refuses, in the order in which a user can act on them.
 */
#define _GNU_SOURCE
#include "attach/permit.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/filters.h"
#include "attach/session.h"
#include "base/proc_file.h"
#include "target/access.h"

#define STATUS_BYTES 8192u

static char status_state(const char *status) {
  const char *line = strstr(status, "\nState:");
  for (line = line ? line + 7 : ""; isspace((unsigned char)*line);)
    line++;
  return *line;
}

/* A sampler of the recorder stops threads for some microseconds. */
static bool is_own_thread(pid_t tid) {
  char status[STATUS_BYTES];
  return proc_file_read(tid, "status", status, sizeof status) > 0 &&
         proc_file_number(status, "\nTgid:") == getpid();
}

static bool check_tracer(pid_t pid, const char *status, problem_t *problem) {
  char name[64] = "";
  long tracer = proc_file_number(status, "\nTracerPid:");
  if (tracer <= 0 || is_own_thread((pid_t)tracer)) return true;
  if (proc_file_read((pid_t)tracer, "comm", name, sizeof name) > 0) name[strcspn(name, "\n")] = 0;
  problem_set(problem,
              "process %d is traced by process %ld%s%s%s: end that debugger or tracer first", pid,
              tracer, name[0] ? " (" : "", name, name[0] ? ")" : "");
  return false;
}

static bool check_state(pid_t pid, const char *status, problem_t *problem) {
  char state = status_state(status);
  if (state != 'T') return true;
  problem_set(problem, "process %d is stopped by a signal: `kill -CONT %d` continues it", pid, pid);
  return false;
}

static bool check_filter(pid_t pid, const char *status, bool reads_filters, problem_t *problem) {
  if (proc_file_number(status, "\nSeccomp:") <= 0 || reads_filters) return true;
  problem_set(
      problem,
      "process %d has a seccomp filter, which may kill it at a system call of the agent, and "
      "which only root outside of a filter can read: run sonde with sudo, start it with "
      "`sonde record -- COMMAND`, or without the filter",
      pid);
  return false;
}

/* A filter may be that of one thread. BY_TRACER: the agent is loaded by a tracer, which may read
 * filters (attach/filters.h). */
static bool check_threads(pid_t pid, bool by_tracer, problem_t *problem) {
  bool reads_filters = by_tracer && filters_are_readable();
  char path[64], status[STATUS_BYTES];
  bool ok = true;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *directory = opendir(path);
  struct dirent *entry;
  while (ok && directory && (entry = readdir(directory))) {
    pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (tid > 0 && proc_file_read(tid, "status", status, sizeof status) > 0)
      ok = (!by_tracer || check_tracer(pid, status, problem)) &&
           check_filter(pid, status, reads_filters, problem);
  }
  if (directory) closedir(directory);
  return ok;
}

bool permit_check_filters(pid_t pid, problem_t *problem) {
  return check_threads(pid, false, problem);
}

/* A frozen thread stops, but does not run when it is resumed. */
static bool check_frozen(pid_t pid, problem_t *problem) {
  char text[4096], path[4400], events[256];
  if (proc_file_read(pid, "cgroup", text, sizeof text) <= 0) return true;
  const char *line = strstr(text, "0::/");
  if (!line) return true;
  snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/cgroup.events", (int)strcspn(line + 3, "\n"),
           line + 3);
  FILE *file = fopen(path, "re");
  bool is_frozen = false;
  while (file && fgets(events, sizeof events, file))
    is_frozen |= strcmp(events, "frozen 1\n") == 0;
  if (file) fclose(file);
  if (!is_frozen) return true;
  problem_set(problem, "process %d is in a frozen cgroup: write 0 to its cgroup.freeze first", pid);
  return false;
}

#if defined(__x86_64__)
#define MACHINE_NUMBER EM_X86_64
#else
#define MACHINE_NUMBER EM_AARCH64
#endif

static bool check_machine(pid_t pid, pid_t reader, problem_t *problem) {
  char path[64];
  Elf64_Ehdr header;
  snprintf(path, sizeof path, "/proc/%d/exe", reader);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, &header, sizeof header);
  if (fd >= 0) close(fd);
  if (n != (ssize_t)sizeof header) return true; /* not a reason to refuse it */
  if (header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == MACHINE_NUMBER) return true;
  problem_set(problem,
              "process %d is a %s, and the agent is a 64-bit library for this CPU: use a command "
              "and an agent built for that program",
              pid,
              header.e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit program" : "program of another CPU");
  return false;
}

bool permit_check(pid_t pid, pid_t *reader, problem_t *problem) {
  char status[STATUS_BYTES];
  if (pid == getpid()) {
    problem_set(problem, "sonde cannot attach to itself");
    return false;
  }
  /* The tracer comes first: while there is one, the kernel may answer EPERM for no other reason. */
  if (proc_file_read(pid, "status", status, sizeof status) > 0 &&
      !check_tracer(pid, status, problem))
    return false;
  if (!access_check(pid, reader, problem)) return false;
  if (proc_file_read(*reader, "status", status, sizeof status) <= 0) {
    access_explain_empty(pid, problem);
    return false;
  }
  return check_state(pid, status, problem) && check_threads(pid, true, problem) &&
         check_machine(pid, *reader, problem) && check_frozen(pid, problem);
}
