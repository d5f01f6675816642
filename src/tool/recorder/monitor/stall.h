/* SPDX-License-Identifier: MIT
 *
 * The stall monitor: a thread of the recorder that watches the turns of the program's event loops.
 *
 * It lives in the recorder, not in the program: a thread more would change the program, and a
 * process that merely shared its memory would, unlike its parent, not be allowed to look into it
 * under Yama's rule 1. What it cannot see from there, the stack of a running thread, the thread
 * itself answers (thread_stacks.h).
 *
 * It sleeps without limit while every loop waits. While turns pass it polls ten times a threshold,
 * and at a turn that it finds unchanged it polls closer (stall_rules.h). What it found is in the
 * recording when a stall has reached the threshold, and from then on as it happens.
 */
#ifndef SONDE_RECORDER_MONITOR_STALL_H
#define SONDE_RECORDER_MONITOR_STALL_H

#include "recorder/recording_file.h"

typedef struct stall_monitor stall_monitor_t;

typedef struct stall_options {
  uint64_t threshold_ns;
  /* Called by the monitor's thread with one line about a stall that goes on. */
  void (*note)(const char *line);
} stall_options_t;

/* Starts context the program of RECORDING, whose mode has RECORD_STALLS. NULL when there is no
 * memory or no thread. */
stall_monitor_t *stall_monitor_start(recording_t *recording, const stall_options_t *options);

/* The program has ended with WAIT_STATUS: records the end of what still lasted, and stops. Before
 * recording_finish. MONITOR may be NULL. */
void stall_monitor_stop(stall_monitor_t *monitor, int wait_status);

#endif
