/* SPDX-License-Identifier: MIT
 *
 * Lets one system call of a command fail: the N-th of a class that the command itself makes, in all
 * of its processes and threads. Programs that it starts run undisturbed. The loader's calls are not
 * counted, nor those of other programs.
 *
 * With AGENT in the environment, the calls are those of sonde's agent, in the programs that the
 * command starts: the call's instruction is in its library, or, if AGENT is "woken", in that of the
 * dormant agent or in the memory without a file to which this one loads the agent.
 *
 * usage: inject CLASS N LOG COMMAND…
 * LOG gets the number of calls of the class, the one that failed, and processes that are left over.
 * Exits like the command; with N 0 no call fails. A call of kill(-1) is prevented, and the status
 * is 97.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS_MAX = 256, NUMBERS_MAX = 8, LINE_MAX_BYTES = 512, KILLS_ALL = 97 };

/* The calls of a class, and the error with which one fails. */
typedef struct class {
  const char *name;
  int error;
  long numbers[NUMBERS_MAX]; /* up to a -1 */
} class_t;

static const class_t classes[] = {
    {"open", EMFILE, {SYS_open, SYS_openat, SYS_memfd_create, SYS_pipe2, SYS_eventfd2, -1}},
    {"read", EIO, {SYS_read, SYS_pread64, SYS_readlink, SYS_readlinkat, SYS_getdents64, -1}},
    {"write", ENOSPC, {SYS_write, SYS_pwrite64, SYS_writev, SYS_ftruncate, SYS_fallocate, -1}},
    {"mmap", ENOMEM, {SYS_mmap, SYS_mremap, SYS_mprotect, -1}},
    {"clone", EAGAIN, {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork, -1}},
    {"futex", EAGAIN, {SYS_futex, -1}},
    {"ptrace", ESRCH, {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, -1}},
    {"socket", ENOMEM, {SYS_socket, SYS_bind, SYS_listen, SYS_connect, SYS_accept4, -1}},
    {"rename", EACCES, {SYS_rename, SYS_renameat, SYS_renameat2, SYS_unlink, SYS_fsync, -1}}};

/* A traced thread. */
typedef struct task {
  pid_t tid;
  bool fails; /* the system call that it is in fails */
} task_t;

static task_t tasks[TASKS_MAX];
static const class_t *wanted;
static unsigned long count, nth;
static bool kills_all;    /* the command would have killed every process */
static bool is_running;   /* the command, not this program's child before it */
static const char *agent; /* its calls are counted, not those of the command; NULL: the command's */
static char program[PATH_MAX], told[LINE_MAX_BYTES];

static void die(const char *what) {
  perror(what);
  exit(99);
}

static task_t *task_of(pid_t tid) {
  task_t *empty = NULL;
  for (int i = 0; i < TASKS_MAX; i++) {
    if (tasks[i].tid == tid) return &tasks[i];
    if (!tasks[i].tid && !empty) empty = &tasks[i];
  }
  if (!empty) die("too many threads");
  *empty = (task_t){.tid = tid};
  return empty;
}

/* Whether TID runs the command itself, and not a program that it has started. */
static bool is_own(pid_t tid) {
  char link[64], path[PATH_MAX];
  (void)snprintf(link, sizeof link, "/proc/%d/exe", tid);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size < 0 ? 0 : size] = 0;
  return strcmp(path, program) == 0;
}

/* The line of /proc/TID/maps that contains ADDRESS. */
static bool find_mapping(pid_t tid, uint64_t address, char *line, int size) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/maps", tid);
  FILE *maps = fopen(path, "r");
  unsigned long start, end;
  bool found = false;
  while (maps && !found && fgets(line, size, maps))
    found = sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= address && address < end;
  if (maps) fclose(maps);
  return found;
}

static bool is_of(const char *image, pid_t tid, uint64_t pc) {
  char line[LINE_MAX_BYTES];
  return find_mapping(tid, pc, line, sizeof line) && strstr(line, image);
}

static bool has_no_file(pid_t tid, uint64_t pc) {
  char line[LINE_MAX_BYTES];
  return find_mapping(tid, pc, line, sizeof line) && strstr(line, " 00:00 0 ") &&
         !strchr(line, '[');
}

/* Whether the code at PC is that whose calls may fail. */
static bool is_tried(pid_t tid, uint64_t pc) {
  if (!agent) return !is_of("/ld-", tid, pc);
  if (strcmp(agent, "woken") != 0) return is_of("/libsonde-agent.so", tid, pc);
  return is_of("/libsonde-dormant.so", tid, pc) || has_no_file(tid, pc);
}

/* Waits alone: a wake that fails leaves the waiter asleep for ever, and no kernel does that. */
static bool is_wait(const struct __ptrace_syscall_info *info) {
  int what = (int)info->entry.args[1] & 127;
  return what == 0 || what == 9;
}

static bool is_wanted(const struct __ptrace_syscall_info *info) {
  for (int i = 0; wanted->numbers[i] >= 0; i++)
    if ((long)info->entry.nr == wanted->numbers[i])
      return info->entry.nr != SYS_futex || is_wait(info);
  return false;
}

static void tell(pid_t tid, const struct __ptrace_syscall_info *info) {
  char line[LINE_MAX_BYTES] = "?\n", link[64], file[128] = "";
  (void)find_mapping(tid, info->instruction_pointer, line, sizeof line);
  (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", tid, (int)info->entry.args[0]);
  ssize_t size = readlink(link, file, sizeof file - 1);
  file[size < 0 ? 0 : size] = 0;
  (void)snprintf(told, sizeof told, "system call %lu(%#lx, %#lx, %#lx) %s",
                 (unsigned long)info->entry.nr, (unsigned long)info->entry.args[0],
                 (unsigned long)info->entry.args[1], (unsigned long)info->entry.args[2], file);
}

/* kill(-1, …), which a command may call with the result of a fork that failed, would end every
 * process of this machine. It is not carried out. */
static bool is_kill_of_all(const struct __ptrace_syscall_info *info) {
  return info->op == PTRACE_SYSCALL_INFO_ENTRY && info->entry.nr == SYS_kill &&
         (int)info->entry.args[0] == -1;
}

static void stop_kill_of_all(pid_t tid, struct user_regs_struct *regs) {
  fprintf(stderr, "\nprocess %d called kill(-1)\n", tid);
  kills_all = true;
  regs->orig_rax = -1ul;
  (void)ptrace(PTRACE_SETREGS, tid, NULL, regs);
}

/* Begins or ends a system call of TASK. */
static void on_system_call(task_t *task) {
  struct __ptrace_syscall_info info;
  struct user_regs_struct regs;
  if (ptrace(PTRACE_GET_SYSCALL_INFO, task->tid, sizeof info, &info) <= 0) return;
  if (is_kill_of_all(&info) && ptrace(PTRACE_GETREGS, task->tid, NULL, &regs) == 0) {
    stop_kill_of_all(task->tid, &regs);
    return;
  }
  bool fails = false;
  if (is_running && info.op == PTRACE_SYSCALL_INFO_ENTRY && is_wanted(&info) &&
      is_tried(task->tid, info.instruction_pointer))
    fails = ++count == nth;
  if (!fails && !(info.op == PTRACE_SYSCALL_INFO_EXIT && task->fails)) return;
  if (ptrace(PTRACE_GETREGS, task->tid, NULL, &regs) != 0) return;
  if (fails) {
    regs.orig_rax = -1ul;
    tell(task->tid, &info);
  } else {
    regs.rax = (unsigned long)-(long)wanted->error;
  }
  task->fails = fails;
  (void)ptrace(PTRACE_SETREGS, task->tid, NULL, &regs);
}

static void go_on(pid_t tid, int sent) {
  (void)ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(intptr_t)sent);
}

static void on_stop(task_t *task, int status) {
  int sent = WSTOPSIG(status), event = status >> 16;
  if (sent == (SIGTRAP | 0x80)) {
    on_system_call(task);
    go_on(task->tid, 0);
  } else if (event == PTRACE_EVENT_EXEC && !is_own(task->tid) && !agent) {
    (void)ptrace(PTRACE_DETACH, task->tid, NULL, NULL);
    task->tid = 0;
  } else if (event == PTRACE_EVENT_EXEC) {
    is_running = true;
    go_on(task->tid, 0);
  } else if (event == PTRACE_EVENT_STOP && sent != SIGTRAP) {
    (void)ptrace(PTRACE_LISTEN, task->tid, NULL, NULL); /* the group stops */
  } else {
    go_on(task->tid, event ? 0 : sent);
  }
}

/* Follows all processes of the command until the first has ended. Its wait status. */
static int follow(pid_t first) {
  int status;
  for (;;) {
    pid_t tid = waitpid(-1, &status, __WALL);
    if (tid < 0 && errno == EINTR) continue;
    if (tid < 0) die("waitpid");
    if (WIFSTOPPED(status)) {
      on_stop(task_of(tid), status);
      continue;
    }
    task_of(tid)->tid = 0;
    if (tid == first) return status;
  }
}

/* Lets what is left run on for a moment, then kills it. The number of processes that were killed.
 */
static int end_others(void) {
  for (int ms = 0; ms < 3000; ms++) {
    int status;
    pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
    if (tid < 0) return 0;
    if (tid > 0 && WIFSTOPPED(status)) on_stop(task_of(tid), status);
    if (tid == 0) usleep(1000);
  }
  char path[64], list[256] = "";
  (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *children = fopen(path, "r");
  if (children && !fgets(list, sizeof list, children)) list[0] = 0;
  int killed = 0;
  for (char *at = strtok(list, " "); at; at = strtok(NULL, " "))
    killed += kill((pid_t)atoi(at), SIGKILL) == 0;
  return killed;
}

int main(int argc, char **argv) {
  for (size_t i = 0; argc > 4 && i < sizeof classes / sizeof *classes; i++)
    if (strcmp(classes[i].name, argv[1]) == 0) wanted = &classes[i];
  if (!wanted || !realpath(argv[4], program)) die("usage: inject CLASS N LOG COMMAND…");
  nth = strtoul(argv[2], NULL, 10);
  agent = getenv("AGENT");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ready[2];
  if (pipe2(ready, 0) != 0) die("pipe");
  pid_t first = fork();
  if (first == 0) {
    char byte;
    close(ready[1]);
    if (read(ready[0], &byte, 1) < 0) _exit(99);
    close(ready[0]);
    execv(argv[4], argv + 4);
    _exit(98);
  }
  unsigned long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                          PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SEIZE, first, NULL, (void *)options) != 0) die("ptrace");
  if (ptrace(PTRACE_INTERRUPT, first, NULL, NULL) != 0) die("ptrace");
  close(ready[0]);
  close(ready[1]);
  int status = follow(first), left = end_others();
  FILE *log = fopen(argv[3], "w");
  if (!log || fprintf(log, "%lu\n%d\n%s\n", count, left, told) < 0 || fclose(log) != 0)
    die(argv[3]);
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    kill(getpid(), WTERMSIG(status));
  }
  return kills_all ? KILLS_ALL : WEXITSTATUS(status);
}
