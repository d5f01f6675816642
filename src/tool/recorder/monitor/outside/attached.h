/* SPDX-License-Identifier: MIT
 *
 * The agent in a process that already ran (`sonde record -p` with --malloc): loads it, and removes
 * it when the recording ends.
 *
 * The agent requests descriptors from the recorder's socket if it has no right to open them, so the
 * socket is served meanwhile. All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_ATTACHED_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_ATTACHED_H

#include "recorder/control.h"
#include "target/target.h"

/* The sensors that need the agent. The others work from outside. */
#define ATTACHED_MODES (RECORD_ANY_BLOCKS | RECORD_MAPPINGS | RECORD_AUDIT)

/* Loads the agent into the process of CONTROL with SETTINGS, or wakes a dormant one (dormant.h).
 * False with PROBLEM. */
bool attached_load(control_t *control, const char *settings, problem_t *problem);

typedef enum attached_left {
  ATTACHED_LEFT,
  /* it does nothing, but is still mapped */
  ATTACHED_ASLEEP,
  /* it was not stopped */
  ATTACHED_WORKS
} attached_left_t;

/* Makes the agent leave. PROBLEM is set unless it left. */
attached_left_t attached_unload(control_t *control, problem_t *problem);

#endif
