/* SPDX-License-Identifier: MIT
 *
 * What the kernel says of one thread of another process, read again and again (thread_file.h).
 */
#ifndef SONDE_RECORDER_MONITOR_THREAD_FACTS_H
#define SONDE_RECORDER_MONITOR_THREAD_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct thread_facts {
  char state;       /* as in proc(5); 0: the thread is gone */
  bool frozen;      /* by a cgroup's freezer */
  bool exiting;     /* it runs nothing of the program's any more */
  uint64_t run_ns;  /* on a CPU, … */
  uint64_t runq_ns; /* … waiting for one (booked when it gets it), … */
  uint64_t slices;  /* … and how often it was given one */
  uint64_t minor_faults, major_faults;
  uint64_t user_ticks, system_ticks; /* of 10 ms */
  uint64_t blocked_signals;
  long call;        /* the system call it is in, -1: none or not known */
  uint64_t args[3]; /* of the call */
} thread_stats_t;

#define THREAD_STATS_FILES 4

typedef struct thread_stats_files {
  pid_t pid, tid;              /* 0: of nobody */
  int fds[THREAD_STATS_FILES]; /* -1: opened at each look */
} thread_stats_files_t;

void thread_stats_open(thread_stats_files_t *files, pid_t pid, pid_t tid);
void thread_stats_close(thread_stats_files_t *files);

/* False when the thread is gone. What may not be read stays 0, or -1. */
bool thread_stats_read(const thread_stats_files_t *files, thread_stats_t *out);

/* Only what it used of the CPUs: run_ns, runq_ns and slices. KEPT is its `schedstat` as
 * thread_file_open gave it. Where the kernel does not count (without CONFIG_SCHED_INFO the file is
 * not there, or all 0), run_ns is what `stat` says in steps of 10 ms, and the others are 0. False
 * when the thread is gone. */
bool thread_stats_read_use(int kept, pid_t pid, pid_t tid, thread_stats_t *out);

/* What /proc/PID/task/TID/stat and schedstat say; false when it is not that. For tests. */
bool thread_stats_parse_stat(const char *text, thread_stats_t *out);
bool thread_stats_parse_schedstat(const char *text, thread_stats_t *out);

#endif
