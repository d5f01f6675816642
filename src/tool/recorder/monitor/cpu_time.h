/* SPDX-License-Identifier: MIT
 *
 * The monitor of CPU time: a thread of the recorder that accounts for the CPU time of each thread
 * of the program, sampled or not, and samples the threads that do not sample themselves.
 *
 * The kernel's clock of a thread is the measure. Samples cover a part of it; each other part has a
 * cause (no_sample_cause_t). A thread is sampled from outside (outside/outside.h) while its ticks
 * do not arrive: it blocks SIGURG, or the program has replaced the handler, or it has no timer.
 */
#ifndef SONDE_RECORDER_MONITOR_CPU_TIME_H
#define SONDE_RECORDER_MONITOR_CPU_TIME_H

#include "recorder/recording_file.h"

typedef struct cpu_time_monitor cpu_time_monitor_t;

/* NULL if memory runs out. */
cpu_time_monitor_t *cpu_time_monitor_new(recording_t *recording);

/* The program of a recording from outside is stopped at its first instruction: it is sampled from
 * there on. Call it before cpu_time_monitor_run. MONITOR may be NULL. */
void cpu_time_monitor_begin(cpu_time_monitor_t *monitor);

/* Starts the thread. Without it, cpu_time_monitor_stop reads the clocks once. MONITOR may be NULL.
 */
void cpu_time_monitor_run(cpu_time_monitor_t *monitor);

/* Writes the rest and stops. Call it before recording_finish, and if the program is a child of the
 * recorder, before it is reaped: its clocks can then still be read. EXECUTED: the process has just
 * executed another program. MONITOR may be NULL. */
void cpu_time_monitor_stop(cpu_time_monitor_t *monitor, bool executed);

#endif
