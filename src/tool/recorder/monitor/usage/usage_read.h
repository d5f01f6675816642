/* SPDX-License-Identifier: MIT
 *
 * Reads the resources that a process uses: /proc/PID/status, stat and fd (proc(5)). The files stay
 * open between readings. One thread uses a set of files.
 */
#ifndef SONDE_RECORDER_MONITOR_USAGE_USAGE_READ_H
#define SONDE_RECORDER_MONITOR_USAGE_USAGE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/format.h"

/* By usage_field_t. A value that is not known stays as it was. */
typedef struct usage_values {
  bool known[USAGE_FIELDS];
  uint64_t value[USAGE_FIELDS];
} usage_values_t;

static inline void usage_set(usage_values_t *values, usage_field_t field, uint64_t value) {
  values->known[field] = true;
  values->value[field] = value;
}

/* The last known switches of a thread; the kernel has no total of a process. */
typedef struct thread_switches {
  pid_t tid;
  bool here;
  uint64_t voluntary, involuntary;
} thread_switches_t;

typedef struct usage_files {
  pid_t pid;
  int status, stat, fd;
  uint64_t classified; /* the count of descriptors when their kinds were read; 0: never */
  uint64_t tick_ns;
  thread_switches_t *threads;
  size_t count, capacity;
  /* of threads that ended */
  uint64_t ended_voluntary, ended_involuntary;
} usage_files_t;

void usage_files_open(usage_files_t *files, pid_t pid);
void usage_files_close(usage_files_t *files);

/* The process executed another program: VALUES lose what is of the program before. */
void usage_files_begin(usage_files_t *files, usage_values_t *values);

/* Updates VALUES. With WITH_THREADS also reads the switches of each thread; the switches of a
 * process with one thread are always read. A process that has ended still has page faults and CPU
 * time until it is reaped. */
void usage_read(usage_files_t *files, bool with_threads, usage_values_t *values);

/* Updates the kinds of descriptors in VALUES, if their count has doubled: a millisecond for 512. */
void usage_read_kinds(usage_files_t *files, usage_values_t *values);

/* Parses the text of a status file. False if it has no memory: the process has ended. */
bool usage_parse_status(const char *text, usage_values_t *values);

#endif
