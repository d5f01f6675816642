/* SPDX-License-Identifier: MIT
 *
 * What looks from outside at a program that is recorded, and at each of its children with --follow.
 */
#ifndef SONDE_RECORDER_MONITORS_H
#define SONDE_RECORDER_MONITORS_H

#include "recorder/monitor/stall.h"
#include "recorder/monitor/wall.h"

/* How. */
typedef struct watches {
  stall_options_t stalls;
  uint64_t wall_ns; /* between two looks; 0: none */
} monitors_t;

/* Those of one process. */
typedef struct watching {
  stall_monitor_t *stall; /* NULL: event loops are not watched */
  wall_monitor_t *wall;
} watching_t;

void monitors_start(const monitors_t *how, recording_t *recording, bool stalls, watching_t *out);

/* Before recording_finish; STATUS is how the process ended, as far as that is known. */
void monitors_stop(const watching_t *watching, int status);

#endif
