/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack, as program counters or as one id.
 *
 * Everything here may be called by any thread, in a signal handler, inside malloc and after fork,
 * unless a declaration says otherwise. Nothing here allocates with malloc, takes a lock that the
 * program may hold, asks the dynamic loader, writes to the program's stack frames or changes errno.
 *
 * A stack is listed innermost first. Entry 0 is the address the capturing function returns to; all
 * entries are return addresses (the call is before them), except the pc of a context that the
 * caller passed and the pc that a signal interrupted, which are exact.
 */
#ifndef SONDE_STACK_H
#define SONDE_STACK_H

#include <stdint.h>
#include <sys/types.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a stack ends. */
typedef enum sonde_stack_status {
  SONDE_STACK_COMPLETE = 0,    /* the thread's entry was reached, every frame by its unwind rule */
  SONDE_STACK_TRUNCATED = 1,   /* correct as far as it goes; more frames than there was room for */
  SONDE_STACK_BROKEN = 2,      /* the walk ended early: no rule, unreadable or impossible frame */
  SONDE_STACK_UNAVAILABLE = 3, /* no frames; `reason` says why */
} sonde_stack_status_t;

/* What a reader should know of a stack; a set of bits. */
#define SONDE_FLAG_HEURISTIC    1u /* at least one frame was found by frame pointer, not by a rule */
#define SONDE_FLAG_INFERRED     2u  /* the frame register was recovered by proof, not read */
#define SONDE_FLAG_SIGNAL_FRAME 4u  /* the stack passes through a signal frame */
#define SONDE_FLAG_SIGNALED     8u  /* the thread was asked by a signal */
#define SONDE_FLAG_ASYNC        16u /* a Swift async frame was met */

/* Swift's async functions, whose frames the thread's stack holds only while they run: what called
 * them is in a chain of contexts on the heap. An async frame is known by bit 60 of the frame
 * pointer that it saved. */
typedef enum sonde_async {
  SONDE_ASYNC_IGNORE = 0, /* the thread's stack; async frames are not looked for */
  SONDE_ASYNC_DETECT =
      1, /* the thread's stack; SONDE_FLAG_ASYNC tells that an async frame was met */
  SONDE_ASYNC_FOLLOW = 2, /* from the innermost async frame on, the async calls instead: each entry
                             is the address its function resumes at, plus 1 so that it reads as a
                             return address */
} sonde_async_t;

/* One capture: where to start and where to put the answer. Zero it, then set what is wanted. */
typedef struct sonde_capture {
  uintptr_t *pcs;       /* in: memory of the caller for MAX program counters */
  int max;              /* in: how many fit; > 0 */
  int skip;             /* in: this many innermost frames are left out; >= 0 */
  const void *ucontext; /* in: start at this ucontext_t (third argument of an SA_SIGINFO handler);
                           NULL: start at the caller */
  uintptr_t pc, sp, fp; /* in: if pc is not 0 and ucontext is NULL, start at this frame */
  sonde_async_t async;  /* in: how to treat async frames */
  int count;            /* out: program counters written */
  sonde_stack_status_t status; /* out */
  int reason;     /* out: a SONDE_E… for SONDE_STACK_BROKEN and SONDE_STACK_UNAVAILABLE, else 0 */
  unsigned flags; /* out: SONDE_FLAG_… */
  uint64_t async_task; /* out: the id of the Swift task; 0 when it has none or the system does not
                          tell: on Linux nothing but Swift's own library knows it */
} sonde_capture_t;

/* Writes the calling thread's stack, at most MAX entries, to PCS. Returns how many were written, or
 * SONDE_EINVAL. */
SONDE_API int sonde_stack(uintptr_t *pcs, int max);

/* As sonde_stack, with a choice of where to start, and with the mark. Returns the count, which is
 * also in CAPTURE, or a negative status. */
SONDE_API int sonde_capture(sonde_capture_t *capture);

/* Gives the calling thread's stack as an id, never 0. Equal stacks have equal ids and different
 * stacks different ones, for the life of the process and in its forked children. Returns 0;
 * SONDE_EFULL when the table of stacks is full; SONDE_ENOMEM. */
SONDE_API int sonde_stack_id(uint32_t *id);

/* Writes the program counters of the stack ID to PCS. Returns the count (at most MAX; the innermost
 * ones are given), or SONDE_ENOTFOUND. */
SONDE_API int sonde_stack_of_id(uint32_t id, uintptr_t *pcs, int max);

#ifdef __cplusplus
}
#endif
#endif
