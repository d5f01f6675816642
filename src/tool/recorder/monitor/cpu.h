/* SPDX-License-Identifier: MIT
 *
 * The CPU monitor: a thread of the recorder that reads, once a second, what the program's threads
 * have used of the CPUs, how long they waited for one and how often they woke up. It signals
 * nobody. Where the time went is told by the samples that are recorded beside.
 */
#ifndef SONDE_RECORDER_MONITOR_CPU_H
#define SONDE_RECORDER_MONITOR_CPU_H

#include "recorder/monitor/cpu_rules.h"
#include "recorder/recording_file.h"

typedef struct cpu_monitor cpu_monitor_t;

typedef struct cpu_options {
  cpu_rules_t rules;
  void (*note)(const char *line); /* of an episode, by the monitor's thread */
} cpu_options_t;

/* NULL when there is no memory or no thread. */
cpu_monitor_t *cpu_monitor_start(recording_t *recording, const cpu_options_t *options);

/* Records the sums and stops. Before recording_finish. MONITOR may be NULL. */
void cpu_monitor_stop(cpu_monitor_t *monitor);

#endif
