/* SPDX-License-Identifier: MIT
 *
 * State, CPU time and system call of a thread of another process, as the kernel reports them in
 * /proc/PID/task/TID (proc(5)).
 */
#ifndef SONDE_RECORDER_MONITOR_THREAD_STATS_H
#define SONDE_RECORDER_MONITOR_THREAD_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct thread_facts {
  /* a letter of proc(5); 0: the thread has ended */
  char state;
  /* by a cgroup's freezer */
  bool frozen;
  /* it runs no more code of the program */
  bool exiting;
  /* it is an io_uring worker, which never runs code of the program */
  bool kernel;
  /* on a CPU */
  uint64_t run_ns;
  /* waiting for a CPU; updated when it gets one */
  uint64_t runq_ns;
  /* how often it got a CPU */
  uint64_t slices;
  uint64_t minor_faults, major_faults;
  /* of 10 ms */
  uint64_t user_ticks, system_ticks;
  /* the system call that blocks it; -1: none or unknown */
  long call;
  /* of the call */
  uint64_t args[3];
} thread_stats_t;

#define THREAD_STATS_FILES 4

typedef struct thread_stats_files {
  /* 0: unused */
  pid_t pid, tid;
  /* -1: opened for each read */
  int fds[THREAD_STATS_FILES];
} thread_stats_files_t;

void thread_stats_open(thread_stats_files_t *files, pid_t pid, pid_t tid);
void thread_stats_close(thread_stats_files_t *files);

/* False if the thread has ended. Unreadable values stay 0, or -1. */
bool thread_stats_read(const thread_stats_files_t *files, thread_stats_t *out);

/* Reads only run_ns, runq_ns and slices. SCHEDSTAT_FD is from thread_file_open. Without
 * CONFIG_SCHED_INFO, the file is missing or all 0; then run_ns is from `stat` in steps of 10 ms,
 * and the others are 0. False if the thread has ended. */
bool thread_stats_read_use(int schedstat_fd, pid_t pid, pid_t tid, thread_stats_t *out);

/* Parse the text of `stat` and `schedstat`; false if it is malformed. */
bool thread_stats_parse_stat(const char *text, thread_stats_t *out);
bool thread_stats_parse_schedstat(const char *text, thread_stats_t *out);

#endif
