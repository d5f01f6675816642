/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/process_facts.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/proc_file.h"
#include "recorder/preload_check.h"

const char process_facts_apart[] =
    "it is in another network namespace, without the recorder's socket";

const char process_facts_statically[] = "it is statically linked";

#define ENVIRONMENT_MAX (1u << 17)

static const char *const verdicts[] = {[PRELOAD_WORKS] = NULL,
                                       [PRELOAD_STATIC] = process_facts_statically,
                                       [PRELOAD_32_BIT] = "it is a 32-bit program",
                                       [PRELOAD_GAINS_RIGHTS] =
                                           "it gains rights (setuid, setgid, capabilities)"};

bool process_facts_parse(const char *text, uint64_t ticks_per_second, process_facts_t *out) {
  unsigned long long faults, major, user, system, birth;
  int parent;
  const char *p = strrchr(text, ')');
  if (!p || sscanf(p,
                   ") %c %d %*d %*d %*d %*d %*u %*u %llu %*u %llu %llu %llu %*d %*d %*d %*d "
                   "%*d %*d %llu",
                   &out->state, &parent, &faults, &major, &user, &system, &birth) != 7)
    return false;
  uint64_t tick_ns = 1000000000 / ticks_per_second;
  out->parent = parent;
  out->birth = birth;
  out->cpu_ns = (user + system) * tick_ns;
  out->children_faults = faults + major;
  return true;
}

/* A process' CPU clock (linux/posix-timers_types.h). */
uint64_t process_facts_cpu_ns(pid_t pid) {
  struct timespec t;
  if (clock_gettime((clockid_t)(~(unsigned)pid << 3 | 2), &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool process_facts_idle(pid_t pid, uint64_t *last_ns) {
  uint64_t now_ns = process_facts_cpu_ns(pid);
  bool idle = now_ns && now_ns == *last_ns;
  *last_ns = now_ns;
  return idle;
}

bool process_facts_read(pid_t pid, process_facts_t *out) {
  char text[1024];
  if (proc_file_read(pid, "stat", text, sizeof text) <= 0 ||
      !process_facts_parse(text, (uint64_t)sysconf(_SC_CLK_TCK), out))
    return false;
  uint64_t exact_ns = process_facts_cpu_ns(pid); /* finer than the ticks of /proc */
  if (exact_ns > out->cpu_ns) out->cpu_ns = exact_ns;
  return true;
}

/* Fields 26 and 28, startcode and startstack. The kernel sets startcode last (fs/binfmt_elf.c); it
 * is 0 in a process without memory, too, and 1 without the right to see it. */
bool process_facts_stack(pid_t pid, uint64_t *stack) {
  char text[1024];
  uint64_t code;
  *stack = 0;
  if (proc_file_read(pid, "stat", text, sizeof text) <= 0) return true;
  const char *p = strrchr(text, ')');
  for (int field = 2; p && field < 26; field++)
    p = strchr(p + 1, ' ');
  if (!p || sscanf(p, " %" SCNu64 " %*u %" SCNu64, &code, stack) != 2) return true;
  return code != 0;
}

void process_facts_command(pid_t pid, char *out, size_t size) {
  ssize_t n = proc_file_read(pid, "cmdline", out, size);
  for (ssize_t i = 0; i + 1 < n; i++)
    if (!out[i]) out[i] = ' ';
  if (n < 0) out[0] = 0;
}

void process_facts_started_as(pid_t pid, char *out, size_t size) {
  if (proc_file_read(pid, "cmdline", out, size) < 0) out[0] = 0;
}

bool process_facts_runs(pid_t pid, const char *file) {
  char path[64], exe[PATH_MAX];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  ssize_t n = readlink(path, exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = 0;
  return !strcmp(basename(exe), basename(file));
}

/* ---- pid namespaces ------------------------------------------------------------------------ */

/* KIND: "pid" or "net"; 0: unknown. */
static uint64_t namespace_of(pid_t pid, const char *kind) {
  char path[48];
  struct stat s;
  snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, kind);
  return stat(path, &s) == 0 ? s.st_ino : 0;
}

/* The innermost number of a line "NSpid: 812 7 1" of /proc/PID/status. */
pid_t process_facts_own_pid(pid_t pid) {
  char text[4096];
  if (proc_file_read(pid, "status", text, sizeof text) <= 0) return 0;
  const char *line = strstr(text, "\nNSpid:");
  if (!line) return 0;
  long number = 0;
  char *end = (char *)(uintptr_t)line + strlen("\nNSpid:");
  for (const char *p = end; *p && *p != '\n' && isspace((unsigned char)*p); p = end)
    number = strtol(p, &end, 10);
  return (pid_t)number;
}

pid_t process_facts_of_namespace(pid_t viewer, pid_t pid) {
  uint64_t space = namespace_of(viewer, "pid");
  if (!space || space == namespace_of(getpid(), "pid")) return pid;
  DIR *processes = opendir("/proc");
  pid_t found = 0;
  for (struct dirent *e; processes && !found && (e = readdir(processes));) {
    pid_t candidate = (pid_t)atoi(e->d_name);
    if (candidate > 0 && namespace_of(candidate, "pid") == space &&
        process_facts_own_pid(candidate) == pid)
      found = candidate;
  }
  if (processes) closedir(processes);
  return found;
}

/* ---- why the agent does not run ------------------------------------------------------------ */

/* The effective user and group: the owner of /proc/PID, unless the process cannot be dumped. */
static void read_user(pid_t pid, uid_t *user, gid_t *group) {
  char text[4096];
  unsigned u, g;
  *user = geteuid();
  *group = getegid();
  if (proc_file_read(pid, "status", text, sizeof text) <= 0) return;
  const char *line = strstr(text, "\nUid:");
  if (line && sscanf(line, "\nUid: %*u %u", &u) == 1) *user = u;
  line = strstr(text, "\nGid:");
  if (line && sscanf(line, "\nGid: %*u %u", &g) == 1) *group = g;
}

/* Whether the loader of the process ignores LD_PRELOAD: AT_SECURE of getauxval(3). */
static bool is_secure(pid_t pid) {
  char bytes[2048];
  uint64_t pair[2];
  ssize_t n = proc_file_read(pid, "auxv", bytes, sizeof bytes);
  if (n < 0) return errno == EACCES || errno == EPERM;
  for (ssize_t at = 0; at + (ssize_t)sizeof pair <= n; at += (ssize_t)sizeof pair) {
    memcpy(pair, bytes + at, sizeof pair);
    if (pair[0] == AT_SECURE) return pair[1] != 0;
  }
  return false;
}

/* Whether the initial environment has SETTINGS; true if it cannot be read. */
static bool has_settings(pid_t pid, const char *settings) {
  char *text = malloc(ENVIRONMENT_MAX);
  ssize_t n = text ? proc_file_read(pid, "environ", text, ENVIRONMENT_MAX) : -1;
  bool has = n < 0 || memmem(text, (size_t)n, settings, strlen(settings));
  free(text);
  return has;
}

const char *process_facts_why(pid_t pid, const char *settings) {
  char path[48];
  uid_t user;
  gid_t group;
  uint64_t stack;
  if (!process_facts_stack(pid, &stack)) return NULL;
  read_user(pid, &user, &group);
  if (is_secure(pid)) return verdicts[PRELOAD_GAINS_RIGHTS];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  const char *why = verdicts[preload_check_file("", path, user, group)];
  uint64_t network = namespace_of(pid, "net");
  if (!why && network && network != namespace_of(getpid(), "net")) why = process_facts_apart;
  if (!why && !has_settings(pid, settings))
    why = "a parent that is not recorded cleared its environment";
  return why;
}

char *process_facts_remedy(const char *why, const char *command, char *out, size_t size) {
  int word = (int)strcspn(command, " ");
  const char *rest = command[word] ? " \u2026" : "";
  *out = 0;
  if (why == process_facts_statically && word)
    snprintf(out, size, "; 'sonde record -- %.*s%s' records it from outside", word, command, rest);
  return out;
}

const char *process_facts_why_file(pid_t pid, const char *file) {
  char root[32], path[PATH_MAX];
  uid_t user;
  gid_t group;
  if (!*file) return NULL;
  read_user(pid, &user, &group);
  snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
  if (!strncmp(file, "/proc/self/", 11)) {
    root[0] = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file + 11);
  } else if (*file == '/') {
    snprintf(path, sizeof path, "%s", file);
  } else {
    root[0] = 0;
    snprintf(path, sizeof path, "/proc/%d/cwd/%s", (int)pid, file);
  }
  return verdicts[preload_check_file(root, path, user, group)];
}
