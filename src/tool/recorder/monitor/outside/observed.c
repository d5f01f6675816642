/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/outside/observed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "recorder/monitor/outside/dormant.h"
#include "recorder/monitor/outside/program.h"
#include "recorder/process_facts.h"
#include "target/access.h"

static volatile sig_atomic_t stopped_by;

static void stop(int signal_number) { stopped_by = signal_number; }

void observed_take_signals(sigset_t *waiting) {
  static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = stop};
  sigset_t blocked;
  sigemptyset(&blocked);
  for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
    sigaction(ending[i], &action, NULL);
    sigaddset(&blocked, ending[i]);
  }
  sigprocmask(SIG_BLOCK, &blocked, waiting);
  for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
    sigdelset(waiting, ending[i]);
}

/* ---- the program -------------------------------------------------------------------------- */

/* Unreadable facts are 0. False: an execve is under way, or the process is ending. */
static bool read_program(pid_t pid, observed_program_t *out) {
  struct stat file = {0};
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  (void)stat(path, &file);
  *out = (observed_program_t){.device = file.st_dev, .inode = file.st_ino};
  return process_facts_stack(pid, &out->stack) && out->inode;
}

bool observed_has_executed(observed_t *o) {
  if (o->writer) (void)monitor_writer_flush(o->writer); /* what a gap delayed */
  if (process_facts_idle(o->pid, &o->process_ns)) return false;
  observed_program_t now, before = o->program;
  if (!read_program(o->pid, &now)) return false;
  o->program = now;
  return now.device != before.device || now.inode != before.inode || now.stack != before.stack;
}

static const char *after_slash(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Whether TEXT can name a file that is easy to type: a program may have changed its arguments. */
static bool is_plain(const char *text) {
  static const char letters[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
  return *text && *text != '-' && *text != '.' && text[strspn(text, letters)] == 0;
}

/* The name by which the process was started; else that of its executable. */
static void read_name(observed_t *o) {
  char path[32], text[PATH_MAX];
  process_facts_started_as(o->pid, text, sizeof text);
  text[strcspn(text, ": ")] = 0; /* "nginx: worker process" */
  if (!is_plain(after_slash(text))) {
    snprintf(path, sizeof path, "/proc/%d/exe", (int)o->pid);
    ssize_t n = readlink(path, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    char *deleted = strstr(text, " (deleted)");
    if (deleted) *deleted = 0;
  }
  const char *name = after_slash(text);
  snprintf(o->name, sizeof o->name, "%.*s", NAME_MAX, *name ? name : "process");
}

/* ---- opening ------------------------------------------------------------------------------ */

/* Reading the memory once shows whether the monitors can. */
static bool is_readable(pid_t pid, problem_t *problem) {
  pid_t reader;
  if (!access_check(pid, &reader, problem)) return false;
  target_t *target = target_open_process(pid, problem);
  target_close(target);
  return target != NULL;
}

bool observed_open(observed_t *o, pid_t pid, long seconds, bool reads_memory, problem_t *problem) {
  process_facts_t facts = {0};
  (void)process_facts_read(pid, &facts);
  *o = (observed_t){.pid = pid, .pidfd = -1, .birth = facts.birth, .deadline_ns = UINT64_MAX};
  if (pid == getpid()) {
    problem_set(problem, "process %d is sonde itself", (int)pid);
    return false;
  }
  if ((reads_memory || !dormant_is_in(pid)) && !is_readable(pid, problem)) return false;
  o->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (o->pidfd < 0 && errno != ENOSYS) {
    access_explain(pid, errno, problem);
    return false;
  }
  read_name(o);
  (void)read_program(pid, &o->program);
  if (seconds) o->deadline_ns = os_monotonic_ns() + (uint64_t)seconds * 1000000000u;
  return true;
}

void observed_close(observed_t *o) {
  if (o->pidfd >= 0) close(o->pidfd);
  o->pidfd = -1;
  monitor_writer_free(o->writer);
  o->writer = NULL;
}

/* ---- its end ------------------------------------------------------------------------------ */

bool observed_has_ended(const observed_t *o) {
  process_facts_t facts;
  struct pollfd end = {.fd = o->pidfd, .events = POLLIN};
  if (o->pidfd >= 0) return poll(&end, 1, 0) > 0;
  return !process_facts_read(o->pid, &facts) || facts.birth != o->birth || facts.state == 'Z';
}

bool observed_is_over(const observed_t *o) {
  return stopped_by || os_monotonic_ns() >= o->deadline_ns || observed_has_ended(o);
}

uint64_t observed_time_left_ns(const observed_t *o, uint64_t limit_ns) {
  uint64_t now_ns = os_monotonic_ns();
  uint64_t left_ns = o->deadline_ns > now_ns ? o->deadline_ns - now_ns : 0;
  return left_ns < limit_ns ? left_ns : limit_ns;
}

void observed_record(observed_t *o, recording_t *recording) {
  if (!o->writer) o->writer = monitor_writer_new(recording, MONITOR_STREAM + 7);
  if (!o->writer) return;
  program_write(o->writer, recording);
  (void)monitor_writer_flush(o->writer);
}

void observed_begin(observed_t *o, recording_t *recording) {
  (void)read_program(o->pid, &o->program);
  store_relaxed(&recording->control->from_outside, 1u);
  store_release(&recording->control->exec_index, 1u);
  observed_record(o, recording);
}
