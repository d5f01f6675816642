/* SPDX-License-Identifier: MIT
 *
 * Borrows one thread of the program for one system call. Only the tracer calls these functions.
 */
#ifndef SONDE_ATTACH_BORROW_H
#define SONDE_ATTACH_BORROW_H

#include "attach/session.h"
#include "target/stop/stop.h"

/* A thread that is stopped. */
typedef struct borrowed {
  pid_t tid;
  waiting_t waiting;
  uint64_t begun_ns;
  cpu_state_t state;
} borrowed_t;

typedef enum taken {
  TAKEN,
  /* it has ended, or is where it cannot be borrowed */
  TAKEN_NOT,
  /* the program is stopped by a signal */
  TAKEN_STOPPED,
  /* another tracer is attached, or the system forbids it */
  TAKEN_TRACED,
  /* no stop in time: released when the tracer ends */
  TAKEN_LATE,
} taken_t;

/* Borrows the thread `tid` of BORROWED now. */
taken_t borrow_one(attach_t *attach, borrowed_t *borrowed);

/* Borrows a thread of the program. False with PROBLEM if none can be borrowed within a second. */
bool borrow_thread(attach_t *attach, borrowed_t *borrowed, problem_t *problem);

/* How a call is made. */
typedef struct borrow_call {
  cpu_call_t call;
  cpu_code_t code;
  uint64_t frame; /* where the signal frame is written; 0: nowhere */
  pid_t child;    /* result: the thread that clone made, traced and stopped; 0: none */
} borrow_call_t;

/* Lets the thread make the call, then gives it back and writes the pause to PAUSE_NS. Returns the
 * result, or -ECANCELED if the thread did not make it; it is given back in any case. */
int64_t borrow_call(attach_t *attach, borrowed_t *borrowed, borrow_call_t *call,
                    uint64_t *pause_ns);

/* Memory that no code of the program uses, for a frame; 0: none. */
uint64_t borrow_place(attach_t *attach);

#endif
