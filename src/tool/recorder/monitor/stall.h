/* SPDX-License-Identifier: MIT
 *
 * The stall monitor: a thread of the recorder that finds iterations of the program's event loops
 * that take too long.
 *
 *   1. The agent stores in shared memory when a thread of the program begins an iteration (returns
 *      from a wait such as epoll_wait) and ends it (enters the wait again): sensor/stall.
 *   2. The monitor polls that memory ten times per threshold. While all loops wait, it sleeps.
 *   3. If an iteration is unchanged since the last poll, the monitor samples the thread: its state
 *      and its stack (stall_loop.h, thread_stacks.h). sensor/stall/rules.h decides when.
 *   4. When the iteration exceeds the threshold, the monitor writes the stall with its samples, and
 *      from then on each further sample at once.
 *   5. When the iteration ends, the monitor writes the end.
 *
 * The monitor is in the recorder, not in the program, because another thread would change the
 * program. The recorder is the program's parent and so may read its memory under Yama's scope 1.
 * Only the stack of a running thread is captured by the thread itself, on request.
 */
#ifndef SONDE_RECORDER_MONITOR_STALL_H
#define SONDE_RECORDER_MONITOR_STALL_H

#include "recorder/recording_file.h"

typedef struct stall_monitor stall_monitor_t;

typedef struct stall_options {
  uint64_t threshold_ns;
  /* Called in the monitor's thread with one line about a stall that lasts. */
  void (*note)(const char *line);
} stall_options_t;

/* A monitor of RECORDING, whose mode has RECORD_STALLS. NULL if memory runs out. */
stall_monitor_t *stall_monitor_new(recording_t *recording, const stall_options_t *options);

/* Starts the thread. MONITOR may be NULL. */
void stall_monitor_run(stall_monitor_t *monitor);

/* After the program ended with WAIT_STATUS: writes the end of stalls that lasted until then, and
 * stops the monitor. RECORD_STATUS_RUNNING: the program runs on, and such stalls have no end.
 * Call it before recording_finish. MONITOR may be NULL. */
void stall_monitor_stop(stall_monitor_t *monitor, int wait_status);

/* The same after the process has executed another program. */
void stall_monitor_leave(stall_monitor_t *monitor);

#endif
