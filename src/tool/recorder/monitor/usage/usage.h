/* SPDX-License-Identifier: MIT
 *
 * The monitor of resources: a thread of the recorder that reads the memory, page faults,
 * descriptors, CPU time and context switches of the program ten times a second (five times after
 * a minute), and the limits and events of its cgroup once a second. It writes only values that
 * changed (EXTENDED_USAGE).
 *
 * A reading takes about 12 µs. The monitor never uses more than a thousandth of a CPU: after a
 * reading that took n ns it waits at least 1,000 n.
 */
#ifndef SONDE_RECORDER_MONITOR_USAGE_USAGE_H
#define SONDE_RECORDER_MONITOR_USAGE_USAGE_H

#include "recorder/recording_file.h"

typedef struct usage_monitor usage_monitor_t;

/* NULL if memory runs out. */
usage_monitor_t *usage_monitor_new(recording_t *recording);

/* Reads the program and the first values of a process that is stopped. Call it before
 * usage_monitor_run. MONITOR may be NULL. */
void usage_monitor_begin(usage_monitor_t *monitor);

/* Starts the thread. Without it, usage_monitor_stop reads once. MONITOR may be NULL. */
void usage_monitor_run(usage_monitor_t *monitor);

/* Reads for the last time, unless the process has EXECUTED another program; writes the rest and
 * stops. Call it before recording_finish, and if the program is a child of the recorder, before it
 * is reaped. MONITOR may be NULL. */
void usage_monitor_stop(usage_monitor_t *monitor, bool executed);

#endif
