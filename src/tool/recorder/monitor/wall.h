/* SPDX-License-Identifier: MIT
 *
 * The wall-clock sampler: a thread of the recorder that polls at every thread of the program so
 * many times a second, and records where those are that do not run.
 *
 * It signals and stops nobody: a blocked thread's stack is read in place, from outside
 * (target/stacks.c), so no call of the program returns early. One that has not been given a CPU
 * since the last look has the stack it had, and is not read again. Those that run are no business
 * of it: their stacks are the ticks of their CPU time (sensor/sample.h). The two together are all
 * of a thread's time.
 *
 * A look stands for the time since the one before it, however long that was; so polls may be put
 * off, which they are when they would take more than a tenth of a CPU.
 */
#ifndef SONDE_RECORDER_MONITOR_WALL_H
#define SONDE_RECORDER_MONITOR_WALL_H

#include "recorder/recording_file.h"

typedef struct wall_monitor wall_monitor_t;

/* NULL when there is no memory or no thread. */
wall_monitor_t *wall_monitor_start(recording_t *recording, uint64_t interval_ns);

/* Records what is open and the sums, and stops. Before recording_finish. MONITOR may be NULL. */
void wall_monitor_stop(wall_monitor_t *monitor);

#endif
