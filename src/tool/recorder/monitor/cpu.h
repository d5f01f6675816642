/* SPDX-License-Identifier: MIT
 *
 * The CPU monitor (--cpu): a thread of the recorder that reads, once a second, the CPU time of the
 * program's threads, how long they waited for a CPU and how often they woke up. It sends no
 * signals. The samples in the same recording show where the time was used.
 */
#ifndef SONDE_RECORDER_MONITOR_CPU_H
#define SONDE_RECORDER_MONITOR_CPU_H

#include "sensor/cpu/rules.h"
#include "recorder/recording_file.h"

typedef struct cpu_monitor cpu_monitor_t;

typedef struct cpu_options {
  cpu_rules_t rules;
  /* called in the monitor's thread with one line about an episode */
  void (*note)(const char *line);
} cpu_options_t;

/* NULL if memory or threads run out. */
cpu_monitor_t *cpu_monitor_start(recording_t *recording, const cpu_options_t *options);

/* Writes the totals and stops. Call it before recording_finish. MONITOR may be NULL. */
void cpu_monitor_stop(cpu_monitor_t *monitor);

#endif
