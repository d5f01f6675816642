/* SPDX-License-Identifier: MIT
 *
 * Reads the memory and CPU limits of a process's cgroup, version 2, and how they took effect
 * (cgroups(7), Documentation/admin-guide/cgroup-v2.rst). The files stay open between readings. A
 * process that changes its cgroup later is not followed. One thread uses a set of files.
 */
#ifndef SONDE_RECORDER_MONITOR_USAGE_CGROUP_H
#define SONDE_RECORDER_MONITOR_USAGE_CGROUP_H

#include <sys/types.h>

#include "recorder/monitor/usage/usage_read.h"

enum { CGROUP_DEPTH = 8 };

/* A descriptor of 0 or less: the cgroup has no such file. */
typedef struct cgroup_files {
  int memory, events, cpu_stat;
  /* of the cgroup and of those that contain it: the smallest limit counts */
  int memory_limits[CGROUP_DEPTH], cpu_limits[CGROUP_DEPTH];
} cgroup_files_t;

void cgroup_open(cgroup_files_t *files, pid_t pid);
/* As cgroup_open, for the cgroup PATH ("/a/b") of the hierarchy that is mounted at ROOT. */
void cgroup_open_at(cgroup_files_t *files, const char *root, const char *path);
void cgroup_close(cgroup_files_t *files);

/* Updates the values of the cgroup. A limit of "max" is left out. */
void cgroup_read(const cgroup_files_t *files, usage_values_t *values);

#endif
