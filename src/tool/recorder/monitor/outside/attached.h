/* SPDX-License-Identifier: MIT
 *
 * The agent in a process that already ran (`sonde record -p` with --malloc): loads it, has it copy
 * the process for a search for leaks, and removes it when the recording ends.
 *
 * The agent requests descriptors from the recorder's socket if it has no right to open them, so the
 * socket is served meanwhile. All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_ATTACHED_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_ATTACHED_H

#include "recorder/control.h"
#include "target/target.h"

/* The sensors that need the agent. The others work from outside. */
#define ATTACHED_MODES (RECORD_ANY_BLOCKS | RECORD_MAPPINGS | RECORD_AUDIT | RECORD_CALLS)

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

/* Loads the agent, and then records MODE: blocks are recorded once every slot is hooked, so all
 * earlier ones are known as such. Sets CONTROL's is_attached. False with PROBLEM. */
bool attached_begin(control_t *control, uint32_t mode, uint64_t sample_bytes, problem_t *problem);

/* Has the process copied for a search for leaks, through the exchange EXCHANGE_FD. Another thread
 * must save the live blocks meanwhile. *REAPED_AS is for attached_reap; 0: there is no copy. False
 * with PROBLEM; there may be a copy nevertheless. */
bool attached_copy(control_t *control, int exchange_fd, pid_t *reaped_as, problem_t *problem);

/* Lets the process reap the copy, which has ended or is about to. Prints a note if that fails. */
void attached_reap(control_t *control, pid_t reaped_as);

/* Ends what attached_begin began, if the agent is there and the process has not ended. Prints a
 * note if the agent is still mapped. */
void attached_end(control_t *control);

#endif
