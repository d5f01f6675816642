/* SPDX-License-Identifier: MIT
 *
 * The wall-clock sampler (--wall): a thread of the recorder that polls every thread of the program
 * at a fixed rate and records the stacks of the blocked ones.
 *
 * It neither signals nor stops a thread: it reads the stack of a blocked thread in place
 * (target/stacks.c), so no call of the program returns early. A thread that did not get a CPU since
 * the last poll has the same stack, which is not read again. The CPU-time samples of
 * sensor/sample.h cover running threads. Together they account for all time of a thread.
 *
 * A poll represents the time since the previous poll, however long that is. So polls can be
 * delayed, and the delays keep the sampler below a tenth of a CPU.
 */
#ifndef SONDE_RECORDER_MONITOR_WALL_H
#define SONDE_RECORDER_MONITOR_WALL_H

#include "recorder/recording_file.h"

typedef struct wall_monitor wall_monitor_t;

/* NULL if memory runs out. */
wall_monitor_t *wall_monitor_new(recording_t *recording, uint64_t interval_ns);

/* Starts the thread. MONITOR may be NULL. */
void wall_monitor_run(wall_monitor_t *monitor);

/* Writes pending samples and the totals, and stops. Call it before recording_finish. MONITOR may be
 * NULL. */
void wall_monitor_stop(wall_monitor_t *monitor);

#endif
