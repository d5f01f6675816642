/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/coverage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "os/os.h"
#include "recorder/monitor/coverage_calls.h"
#include "recorder/monitor/outside/join.h"
#include "recorder/monitor/outside/program.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define OPTIONS      (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)
/* Tells the tracer of a process that it has joined to end. */
#define SIGNAL_LEAVE SIGUSR1
/* For the first stop of the threads that were joined; one may wait uninterruptibly for longer. */
#define JOIN_NS UINT64_C(5000000000)
/* For a thread in a call that must not be interrupted when the tracer leaves. */
#define LEAVE_NS UINT64_C(1000000000)
#define PAUSE_NS 10000000
/* Stops that are handled before a look at the signals. */
#define BATCH 256

typedef struct tracer {
  coverage_calls_t calls;
  pid_t pid;
  /* the child has executed the program */
  bool begun;
  /* operations submitted by io_uring_enter, and rings created */
  uint64_t rings;
  /* system calls in another architecture's convention */
  uint64_t foreign;
  /* detached before an exec that gains rights */
  bool detached;
  /* interrupted threads that have not stopped yet */
  size_t joining;
  /* lets each thread go at its next stop that is not the entry of a call */
  bool leaving;
} tracer_t;

/* ---- one system call ------------------------------------------------------------------------ */

/* A traced program gains rights only if the tracer has this capability (credentials(7)). */
static bool may_trace_all(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  return syscall(SYS_capget, &header, data) == 0 && data[0].effective >> CAP_SYS_PTRACE & 1;
}

/* Whether an exec of this file may gain rights. True if the file cannot be examined. */
static bool gives_rights(const tracer_t *t, const stopped_call_t *call) {
  char name[4096], path[4200];
  struct stat st;
  bool at = call->number == SYS_execveat;
  memory_t *memory = (memory_t *)(uintptr_t)&t->calls.memory.memory;
  size_t n = 0;
  while (n < sizeof name - 1 && memory->read(memory, call->arguments[at] + n, name + n, 1) &&
         name[n])
    n++;
  name[n] = 0;
  if (n == 0 && !memory->read(memory, call->arguments[at], name, 1)) return true;
  if (at && !n)
    snprintf(path, sizeof path, "/proc/%d/fd/%d", t->pid, (int)call->arguments[0]);
  else if (at && *name != '/' && (int)call->arguments[0] != AT_FDCWD)
    snprintf(path, sizeof path, "/proc/%d/fd/%d/%s", t->pid, (int)call->arguments[0], name);
  else
    snprintf(path, sizeof path, "/proc/%d/%s/%s", t->pid, *name == '/' ? "root" : "cwd", name);
  if (stat(path, &st) < 0) return errno == EACCES || errno == EPERM;
  return st.st_mode & (S_ISUID | S_ISGID) || getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool moves_code(const stopped_call_t *call) {
  if (call->number == SYS_munmap || call->number == SYS_mremap) return true;
  return (call->number == SYS_mmap || call->number == SYS_mprotect) &&
         call->arguments[2] & PROT_EXEC;
}

/* Whether an unmapped or moved range belongs to an image that was read. */
static void note_moved(tracer_t *t, const stopped_call_t *call) {
  const modules_t *modules = t->calls.target ? &t->calls.target->modules : NULL;
  uint64_t start = call->arguments[0], end = start + call->arguments[1];
  bool unmaps = call->number == SYS_munmap || call->number == SYS_mremap;
  for (size_t i = 0; modules && i < modules->count; i++)
    if (!unmaps || (modules->items[i].start < end && start < modules->items[i].end)) {
      coverage_calls_moved(&t->calls);
      return;
    }
}

/* At the entry of a system call. False: detach from the thread. */
static bool entered(tracer_t *t, const stopped_call_t *call) {
  if (call->number == SYS_io_uring_enter) t->rings += (uint32_t)call->arguments[1];
  if (call->number == SYS_io_uring_setup) t->rings++;
  if (moves_code(call)) note_moved(t, call);
  if (coverage_calls_wants(&t->calls, call)) coverage_calls_add(&t->calls, call);
  bool executes = call->number == SYS_execve || call->number == SYS_execveat;
  if (!executes || may_trace_all() || !gives_rights(t, call)) return true;
  t->detached = true;
  return false;
}

/* False: detach from the thread. */
static bool at_call(tracer_t *t, pid_t tid) {
  struct __ptrace_syscall_info info;
  if (!t->begun || ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0) return true;
  if (info.op == PTRACE_SYSCALL_INFO_EXIT)
    coverage_calls_returned(&t->calls, tid, info.exit.rval, info.exit.is_error);
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return !t->leaving;
  if (info.arch != OWN_ARCHITECTURE) {
    t->foreign++;
    return true;
  }
  stopped_call_t call = {.tid = tid,
                         .number = info.entry.nr,
                         .pc = info.instruction_pointer,
                         .sp = info.stack_pointer};
  memcpy(call.arguments, info.entry.args, sizeof call.arguments);
  return entered(t, &call);
}

/* ---- stops ---------------------------------------------------------------------------------- */

/* Writes what was seen of one program. */
static void write_program(tracer_t *t) {
  coverage_calls_flush(&t->calls);
  const shm_audit_t *audit = &t->calls.recording->control->audit;
  uint32_t used = load_relaxed(&audit->used);
  monitor_writer_begin(t->calls.writer, EXTENDED_COVERAGE);
  monitor_writer_value(t->calls.writer, t->rings);
  monitor_writer_value(t->calls.writer, t->foreign);
  monitor_writer_value(t->calls.writer, used > SHM_AUDITED ? used - SHM_AUDITED : 0);
  monitor_writer_value(t->calls.writer, t->detached);
  monitor_writer_end(t->calls.writer);
  (void)monitor_writer_flush(t->calls.writer);
  t->rings = t->foreign = 0;
}

static void executed(tracer_t *t) {
  shm_audit_t *audit = &t->calls.recording->control->audit;
  if (t->begun) write_program(t);
  t->begun = true;
  bool alone = t->calls.options->alone;
  if (alone) { /* no agent and no monitor does it */
    (void)add_relaxed(&t->calls.recording->control->exec_index, 1);
    program_write(t->calls.writer, t->calls.recording);
    (void)monitor_writer_flush(t->calls.writer);
  }
  store_relaxed(&audit->used, 0u); /* the previous program wrote it */
  memset(audit->threads, 0, sizeof audit->threads);
  store_release(&audit->ready, alone);
}

static bool is_ours(const tracer_t *t, pid_t tid) {
  return syscall(SYS_tgkill, t->pid, tid, 0) == 0;
}

static bool is_group_stop(int status) {
  int number = WSTOPSIG(status);
  return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

typedef enum way { GO_ON, STAY_STOPPED, LET_GO } way_t;

static void resume(pid_t tid, way_t way, intptr_t signal_number) {
  void *data = (void *)signal_number;
  if (way == GO_ON)
    (void)ptrace(PTRACE_SYSCALL, tid, NULL, data);
  else if (way == LET_GO)
    (void)ptrace(PTRACE_DETACH, tid, NULL, data);
  else
    (void)ptrace(PTRACE_LISTEN, tid, NULL, NULL);
}

/* Handles a stop of thread TID and resumes it. */
static void stopped(tracer_t *t, pid_t tid, int status) {
  int event = status >> 16;
  way_t way = GO_ON;
  intptr_t signal_number = 0;
  if (WSTOPSIG(status) == SYSCALL_STOP) {
    if (!at_call(t, tid)) way = LET_GO;
    if (t->leaving) join_stopped(tid); /* this stop takes the place of the interruption's own */
  } else if (event == PTRACE_EVENT_STOP) {
    if (!is_ours(t, tid)) /* a process created by clone */
      way = LET_GO;
    else if (is_group_stop(status))
      way = t->leaving ? LET_GO : STAY_STOPPED;
    else if (t->calls.options->joins) {
      join_stopped(tid);
      if (t->leaving) way = LET_GO;
    }
    t->joining -= t->joining > 0;
  } else if (event == PTRACE_EVENT_EXEC) {
    executed(t);
  } else if (!event) {
    signal_number = WSTOPSIG(status);
  }
  resume(tid, way, signal_number);
}

static void trace(tracer_t *t) {
  for (;;) {
    int status;
    pid_t tid = waitpid(-1, &status, __WALL);
    if (tid < 0 && errno == EINTR) continue;
    if (tid < 0) return;
    if (WIFSTOPPED(status)) stopped(t, tid, status);
  }
}

/* Handles the stops that have come. Sets *MORE if others may have come. False: no thread is left.
 */
static bool handle_stops(tracer_t *t, bool *more) {
  *more = true;
  for (int i = 0; i < BATCH; i++) {
    int status;
    pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
    if (tid < 0 && errno != EINTR) return false;
    if (tid > 0 && WIFSTOPPED(status)) stopped(t, tid, status);
    if (tid != 0) continue;
    *more = false;
    break;
  }
  return true;
}

/* Waits for a stop or SIGNAL_LEAVE, for PAUSE_NS at most if IS_SHORT. */
static int wait_for_signal(bool more, bool is_short) {
  const struct timespec moment = {.tv_nsec = more ? 0 : PAUSE_NS};
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  sigaddset(&wanted, SIGNAL_LEAVE);
  return sigtimedwait(&wanted, NULL, more || is_short ? &moment : NULL);
}

/* Handles the stops until the program has ended, the recorder asks to leave, or, if it is not 0,
 * until all joined threads have stopped or END_NS. */
static void trace_joined(tracer_t *t, uint64_t end_ns) {
  bool more;
  while (handle_stops(t, &more)) {
    if (end_ns && (!t->joining || os_monotonic_ns() > end_ns)) return;
    if (wait_for_signal(more, end_ns) == SIGNAL_LEAVE) return;
  }
}

/* Lets all threads go. If the tracer ended while a thread is at the entry of a call, the kernel
 * would wake the thread as for a signal, and calls such as epoll_wait would fail with EINTR. A
 * thread that makes calls is let go after its next one. The others are interrupted, as for the
 * join. A thread that transfers data is left to the tracer's end: it is not stopped. */
static void leave(tracer_t *t) {
  bool more;
  uint64_t now = os_monotonic_ns(), end_ns = now + LEAVE_NS, next_ns = now + PAUSE_NS;
  t->leaving = true;
  for (; handle_stops(t, &more) && now < end_ns; now = os_monotonic_ns()) {
    if (now >= next_ns) {
      join_interrupt(t->pid);
      next_ns = now + PAUSE_NS;
    }
    (void)wait_for_signal(more, true);
  }
}

/* Joins the process. The recorder's end is a reason to leave, too. Returns 0 or an errno. */
static int join(tracer_t *t, pid_t recorder) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigaddset(&blocked, SIGNAL_LEAVE);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGNAL_LEAVE, SIG_DFL);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  prctl(PR_SET_PDEATHSIG, SIGNAL_LEAVE);
  if (getppid() != recorder) return ESRCH;
  t->begun = true;
  int error = join_threads(t->pid, OPTIONS, &t->joining);
  trace_joined(t, os_monotonic_ns() + JOIN_NS); /* also after a failure: no EINTR must be seen */
  t->joining = 0;
  return error;
}

/* ---- the process ---------------------------------------------------------------------------- */

static int begin(tracer_t *t, pid_t recorder) {
  if (t->calls.options->joins) return join(t, recorder);
  if (ptrace(PTRACE_SEIZE, t->pid, NULL, (void *)(intptr_t)OPTIONS) < 0) return errno;
  return ptrace(PTRACE_INTERRUPT, t->pid, NULL, NULL) < 0 ? errno : 0;
}

static _Noreturn void be_tracer(recording_t *recording, pid_t pid,
                                const coverage_options_t *options, pid_t recorder, int status_fd) {
  /* A stopped tracer would stop the program too. */
  static const int ignored[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGUSR1,
                                SIGUSR2, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    signal(ignored[i], SIG_IGN);
  prctl(PR_SET_NAME, "sonde-coverage");
  tracer_t t = {.pid = pid};
  int error = coverage_calls_open(&t.calls, recording, pid, options) ? 0 : ENOMEM;
  if (!error) error = begin(&t, recorder);
  bool begins = write(status_fd, &error, sizeof error) > 0 && !error;
  close(status_fd);
  if (begins && options->joins)
    trace_joined(&t, 0);
  else if (begins)
    trace(&t);
  if (options->joins) leave(&t);
  if (!begins) _exit(1);
  write_program(&t);
  coverage_calls_close(&t.calls);
  _exit(0);
}

pid_t coverage_start(recording_t *recording, pid_t pid, const coverage_options_t *options,
                     const int *closed, int count) {
  int status_pipe[2], error = 0;
  pid_t recorder = getpid();
  if (pipe2(status_pipe, O_CLOEXEC) < 0) return -1;
  recording->control->audit.watched = 1;
  pid_t tracer = fork();
  if (tracer == 0) {
    close(status_pipe[0]);
    for (int i = 0; i < count; i++)
      close(closed[i]);
    be_tracer(recording, pid, options, recorder, status_pipe[1]);
  }
  close(status_pipe[1]);
  if (tracer < 0) error = errno;
  if (!error && read(status_pipe[0], &error, sizeof error) != sizeof error) error = ECHILD;
  close(status_pipe[0]);
  if (!error) return tracer;
  if (tracer > 0) waitpid(tracer, NULL, 0);
  recording->control->audit.watched = 0;
  errno = error;
  return -1;
}

void coverage_leave(pid_t tracer) { (void)kill(tracer, SIGNAL_LEAVE); }

bool coverage_finish(pid_t tracer) {
  int status;
  while (waitpid(tracer, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
