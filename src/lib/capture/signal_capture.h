/* SPDX-License-Identifier: MIT
 *
 * The stack of a running thread: asked for by signal, answered in the thread's own handler.
 *
 * A question is a slot. The handler takes it by compare-and-swap, writes the stack into the slot,
 * and marks it answered; the asker copies it out. Slots are mapped once and never unmapped, and
 * each use has a number of its own: an answer that comes after the asker gave up finds nobody
 * waiting, and touches nothing of the asker's.
 */
#ifndef SONDE_CAPTURE_SIGNAL_CAPTURE_H
#define SONDE_CAPTURE_SIGNAL_CAPTURE_H

#include "os/os.h"
#include "sonde/stack.h"

#define SIGNAL_CAPTURE_SLOTS 128
#define SIGNAL_CAPTURE_PCS   8000 /* an answer holds no more; what is deeper is cut */

/* A question under way. */
typedef struct signal_request {
  sonde_capture_t *capture;
  pid_t tid;
  int request_slot;
  uint32_t requested; /* the slot's state when it was asked */
} signal_request_t;

/* Asks TID for the stack that CAPTURE describes by pcs, skip and max. Its mark says what it is when
 * no answer comes: SONDE_STACK_UNAVAILABLE, or what was read in place, which then stays. Returns 0
 * and the question in OUT, which must be collected by the same thread; or SONDE_ENOTHREAD,
 * SONDE_ENOMEM, SONDE_EFULL when all slots are in use, SONDE_EPERM when the program does not let us
 * keep the handler. */
int signal_capture_send(pid_t tid, sonde_capture_t *capture, signal_request_t *out);

/* Waits for the answers to COUNT questions until the clock says DEADLINE_NS, and sets count, mark,
 * reason and flags of every capture that is answered. One that is not and holds nothing has
 * SONDE_ETIMEDOUT or SONDE_ENOTHREAD as its reason. The questions are used up. */
void signal_capture_collect(signal_request_t *requests, int count, uint64_t deadline_ns);

/* What is said of CAPTURE when its thread gave no answer, for REASON. */
void signal_capture_set_unavailable(sonde_capture_t *capture, int reason);

/* True while TID is in the handler, where it blocks the signal on our account. */
bool signal_capture_in_handler(pid_t tid);

/* True when TID was asked not long ago: it may be just about to leave the handler. */
bool signal_capture_was_requested(pid_t tid);

#endif
