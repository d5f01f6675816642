/* SPDX-License-Identifier: MIT
 *
 * Seizing a thread does not stop it. So all threads are listed and seized first; then all are asked
 * to stop, before the first is waited for, so that they stop together and soon. A thread that still
 * runs may start another: the list is read again until it has no new thread.
 *
 * Between the first stop and the last release, each thread costs four calls: PTRACE_INTERRUPT,
 * waitid, PTRACE_GETREGSET and PTRACE_DETACH, and a fifth if a call is to start again. The tracer
 * goes before all other programs meanwhile, as it would else wait for a CPU while all are stopped.
 * What remains is the time in which each thread gets a CPU to stop (bench/pause_bench.c).
 */
#define _GNU_SOURCE
#include "attach/stop_all.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/session.h"
#include "attach/tracer.h"
#include "base/proc_file.h"
#include "os/os.h"
#include "target/stop/stop.h"

static bool is_known(const stop_all_t *all, pid_t tid) {
  for (size_t i = all->threads.count; i-- > 0;)
    if (all->threads.items[i].tid == tid) return true;
  return false;
}

/* A sampler of the recorder stops a thread for some microseconds, as its tracer. */
#define SAMPLER_TRIES 200
#define SAMPLER_US    100u

static bool has_ended(pid_t pid, pid_t tid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/exe", (int)pid, (int)tid);
  return readlink(path, (char[1]){0}, 1) < 0;
}

/* Whether TID runs the agent for another tracer of this command. It is in the agent until it ends.
 */
static bool runs_agent(pid_t pid, pid_t tid) {
  char name[64], text[4096];
  snprintf(name, sizeof name, "task/%d/status", (int)tid);
  if (proc_file_read(pid, name, text, sizeof text) <= 0 ||
      strncmp(text, "Name:\t" SESSION_THREAD_NAME "\n", strlen("Name:\t" SESSION_THREAD_NAME "\n")))
    return false;
  pid_t tracer = (pid_t)proc_file_number(text, "\nTracerPid:");
  return tracer > 0 && proc_file_read(tracer, "status", text, sizeof text) > 0 &&
         proc_file_number(text, "\nPPid:") == getppid();
}

/* How often the list is read before the first thread is stopped. */
#define SEIZE_ROUNDS 3

typedef enum seized { SEIZED, SEIZED_NEEDLESS, SEIZED_NOT } seized_t;

static seized_t seize(pid_t pid, pid_t tid) {
  for (int i = 0; i < SAMPLER_TRIES; i++) {
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0) return SEIZED;
    if (errno == ESRCH || has_ended(pid, tid) || runs_agent(pid, tid)) return SEIZED_NEEDLESS;
    usleep(SAMPLER_US);
  }
  return SEIZED_NOT;
}

/* False if TID, which exists, cannot be traced. */
static bool add(stop_all_t *all, pid_t tid, problem_t *problem) {
  seized_t seized = seize(all->pid, tid);
  if (seized == SEIZED_NEEDLESS) return true;
  if (seized == SEIZED_NOT) {
    problem_set(problem,
                "thread %d cannot be stopped: a debugger or strace is attached to it, or Yama "
                "forbids it",
                (int)tid);
    return false;
  }
  stopped_thread_t *thread = ARRAY_ADD(all->threads);
  if (!thread) {
    problem_set(problem, "out of memory");
    return false;
  }
  *thread = (stopped_thread_t){.tid = tid, .waiting = stop_waiting(tid)};
  return true;
}

/* Seizes the threads that are not known yet. Sets *COUNT to their number. */
static bool seize_new(stop_all_t *all, size_t *count, problem_t *problem) {
  char path[64];
  size_t before = all->threads.count;
  bool good = true;
  snprintf(path, sizeof path, "/proc/%d/task", (int)all->pid);
  DIR *folder = opendir(path);
  if (!folder) {
    problem_set(problem, "process %d has ended", (int)all->pid);
    return false;
  }
  for (const struct dirent *entry; good && (entry = readdir(folder));) {
    pid_t tid = (pid_t)atoi(entry->d_name);
    if (tid > 0 && tid != all->except && !is_known(all, tid)) good = add(all, tid, problem);
  }
  closedir(folder);
  *count = all->threads.count - before;
  return good;
}

static void interrupt_new(stop_all_t *all, size_t from) {
  for (size_t i = from; i < all->threads.count; i++)
    (void)ptrace(PTRACE_INTERRUPT, all->threads.items[i].tid, NULL, NULL);
}

/* Waits for the threads that were asked, also after one that does not stop: only a stopped thread
 * can be released unnoticed. One that has ended is not stopped. */
static bool wait_for_all(stop_all_t *all, problem_t *problem) {
  bool good = true;
  for (size_t i = 0; i < all->threads.count; i++) {
    stopped_thread_t *thread = &all->threads.items[i];
    if (thread->is_stopped) continue;
    int stopped = stop_wait(thread->tid, &thread->status);
    if (stopped == 0) {
      problem_set(problem, "thread %d does not stop: it is in an uninterruptible wait",
                  (int)thread->tid);
      good = false;
    }
    thread->is_stopped = stopped > 0 && cpu_read_regs(thread->tid, &thread->regs);
  }
  return good;
}

bool stop_all_begin(stop_all_t *all, pid_t pid, problem_t *problem) {
  size_t count = 0, asked = 0;
  all->pid = pid;
  bool good = seize_new(all, &count, problem);
  for (int i = 0; good && count && i < SEIZE_ROUNDS; i++)
    good = seize_new(all, &count, problem);
  tracer_hurry(true);
  all->begun_ns = os_monotonic_ns();
  while (good && asked < all->threads.count) {
    interrupt_new(all, asked);
    asked = all->threads.count;
    good = wait_for_all(all, problem) && seize_new(all, &count, problem);
  }
  return good;
}

static void release(stopped_thread_t *thread) {
  bool own = thread->status >> 16 == PTRACE_EVENT_STOP;
  if (own && stop_is_interrupted(thread->tid, &thread->regs, &thread->waiting)) {
    stop_restart_call(&thread->regs, &thread->waiting);
    (void)cpu_write_regs(thread->tid, &thread->regs);
    stop_release(thread->tid, &thread->regs, &thread->waiting);
    return;
  }
  intptr_t withheld = thread->status >> 16 ? 0 : WSTOPSIG(thread->status);
  ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)withheld);
}

void stop_all_end(stop_all_t *all) {
  for (size_t i = 0; i < all->threads.count; i++)
    if (all->threads.items[i].is_stopped) release(&all->threads.items[i]);
  tracer_hurry(false);
  free(all->threads.items);
  *all = (stop_all_t){0};
}
