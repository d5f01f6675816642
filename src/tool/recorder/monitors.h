/* SPDX-License-Identifier: MIT
 *
 * The monitors of one process: threads of the recorder that watch the program, or a child of it
 * with --follow.
 */
#ifndef SONDE_RECORDER_MONITORS_H
#define SONDE_RECORDER_MONITORS_H

#include "recorder/monitor/code_names.h"
#include "recorder/monitor/cpu_time.h"
#include "recorder/monitor/stall.h"
#include "recorder/monitor/usage/usage.h"
#include "recorder/monitor/wall.h"

typedef struct monitor_options {
  stall_options_t stalls;
  /* between two samples of all threads; 0: none */
  uint64_t wall_interval_ns;
} monitor_options_t;

/* NULL: not running. */
typedef struct monitors {
  recording_t *recording;
  stall_monitor_t *stall;
  wall_monitor_t *wall;
  cpu_time_monitor_t *cpu_time;
  usage_monitor_t *usage;
  code_names_t *code_names;
  /* when their threads start; 0: they have started */
  uint64_t due_ns;
  /* gets lines about missing names */
  void (*note)(const char *line);
} monitors_t;

/* Prepares all monitors. */
void monitors_new(monitors_t *monitors, recording_t *recording, bool stalls,
                  const monitor_options_t *options);

/* The program is recorded from outside and stopped at its first instruction: reads what would be
 * gone if it ended soon, and samples it from there on. */
void monitors_begin(const monitors_t *monitors);

/* Starts the wall-clock sampler. */
void monitors_run_wall(const monitors_t *monitors);

/* Starts the threads of the others. */
void monitors_run(monitors_t *monitors);

/* Starts them when the program has run for 5 ms. Returns the time until then, at most LIMIT_NS. */
uint64_t monitors_run_when_due(monitors_t *monitors, uint64_t limit_ns);

/* Reads the CPU clocks and the resources for the last time. Call it before the process is reaped,
 * if that is possible, and before monitors_stop. */
void monitors_end_time(monitors_t *monitors);

/* The process has executed another program, which gets other monitors: stops these. None may be
 * there. */
void monitors_leave(monitors_t *monitors);

/* Call it before recording_finish. STATUS is the wait status of the process, 0 if unknown. */
void monitors_stop(const monitors_t *monitors, int status);

#endif
