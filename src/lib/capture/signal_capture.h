/* SPDX-License-Identifier: MIT
 *
 * Signal capture: requests the stack of a running thread by a signal, and the thread captures its
 * own stack in the handler.
 *
 * A request is a slot. The handler claims it by compare-and-swap, writes the stack into it and
 * marks it done; the requester copies it out. Slots are mapped once and never unmapped, and each
 * use has its own number. So a handler that runs after the requester gave up writes only to the
 * slot, never to the requester's memory.
 *
 * Any thread may call these functions, in a signal handler too.
 */
#ifndef SONDE_CAPTURE_SIGNAL_CAPTURE_H
#define SONDE_CAPTURE_SIGNAL_CAPTURE_H

#include "os/os.h"
#include "sonde/stack.h"

#define SIGNAL_CAPTURE_SLOTS 128
/* Depth limit of a signal capture; a deeper stack is truncated. */
#define SIGNAL_CAPTURE_PCS 8000

/* A pending request. */
typedef struct signal_request {
  sonde_capture_t *capture;
  pid_t tid;
  int slot;
  /* The slot's state at the time of the request. */
  uint32_t requested;
} signal_request_t;

/* Requests from TID the stack that CAPTURE describes by pcs, skip and max. If no stack arrives,
 * CAPTURE's status on entry decides the result: SONDE_STACK_UNAVAILABLE is reported as such, and a
 * passively captured stack is kept. Returns 0 and the request in OUT, which the same thread must
 * collect; or SONDE_ENOTHREAD, SONDE_ENOMEM, SONDE_EFULL if all slots are in use, SONDE_EPERM if
 * the program replaced the handler. */
int signal_capture_send(pid_t tid, sonde_capture_t *capture, signal_request_t *out);

/* Waits until the clock reaches DEADLINE_NS for the stacks of COUNT requests, and sets count,
 * status, reason and flags of every capture that arrives. A capture that does not arrive and holds
 * no stack gets the reason SONDE_ETIMEDOUT or SONDE_ENOTHREAD. Consumes the requests. */
void signal_capture_collect(signal_request_t *requests, int count, uint64_t deadline_ns);

/* Sets the reason of CAPTURE if it holds no stack. */
void signal_capture_set_unavailable(sonde_capture_t *capture, int reason);

/* True while TID runs the handler, where sonde itself blocks the signal. */
bool signal_capture_in_handler(pid_t tid);

/* True if TID was signaled recently. It may be about to leave the handler. */
bool signal_capture_was_requested(pid_t tid);

#endif
