/* SPDX-License-Identifier: MIT
 *
 * What a program tells the recorder of its event loops, in the scratch.
 *
 * A loop is a thread that comes back, again and again, to one wait: its home. A *turn* is the time
 * between the return of that wait and the next entry into it. The thread stores the moment its turn
 * began, and 0 when it waits again; everything else is the recorder's work.
 *
 * The recorder sleeps while every loop waits, and says so in `asleep`; the thread whose turn begins
 * then wakes it, once. The recorder announces its sleep, looks again some milliseconds later, and
 * only then sleeps without limit: a store that the announcement overtook has arrived by then, so
 * the thread needs no fence.
 *
 * A running thread is asked for its stack by signal. The question names it by tid in a place of the
 * table below; the answer, the id of a stack, is put there by the thread's own handler.
 */
#ifndef SONDE_RECORD_SHM_LOOPS_H
#define SONDE_RECORD_SHM_LOOPS_H

#include <stdint.h>

#define SHM_LOOPS          256u
#define SHM_STACK_REQUESTS 16u

/* One cache line; written by the thread, but for `watched`. Times are shifted ticks. */
typedef struct shm_loop {
  uint64_t turn;       /* when the present turn began; 0: the thread waits, or is no loop so far */
  uint64_t site;       /* the home wait: where it returns to … */
  uint64_t frame;      /* … and how deep in the stack it stands; 0: there is none yet */
  uint64_t ended;      /* when the turn that was watched ended … */
  uint64_t ended_of;   /* … and when that one had begun */
  uint32_t tid;        /* 0: a free place */
  uint32_t watched;    /* what the recorder wants of the present turn: SCRATCH_WATCH_… */
  uint32_t turns;      /* completed or not, modulo 2^32 */
  uint32_t moved;      /* how often the loop was found to be elsewhere than thought */
  uint32_t allowed_ms; /* the program has declared that a turn may take so long: … */
  uint32_t allowed_of; /* … the one that began at a moment with these lower 32 bits */
} __attribute__((aligned(64))) shm_loop_t;

_Static_assert(sizeof(shm_loop_t) == 64, "one cache line");

#define SHM_WATCH_END  1u /* when it ends */
#define SHM_WATCH_CALL 2u /* that, and to be called then */

#define SHM_FREE      0u
#define SHM_REQUESTED 1u
#define SHM_CAPTURED  2u

typedef struct shm_stack_request {
  uint32_t state; /* SCRATCH_… */
  uint32_t tid;
  uint32_t stack; /* 0: the capture failed */
  uint32_t reserved;
  uint64_t time; /* shifted ticks */
} shm_stack_request_t;

typedef struct shm_loops {
  uint32_t asleep;  /* 1: the recorder sleeps until a turn begins */
  uint32_t missed;  /* threads that found no place in the table */
  uint32_t used;    /* places below this may be in use */
  uint32_t sampler; /* 1: questions are answered */
  uint32_t bell;    /* what the recorder sleeps on: changed, and woken, to call it */
  uint32_t reserved;
  shm_stack_request_t stack_requests[SHM_STACK_REQUESTS];
  shm_loop_t loops[SHM_LOOPS];
} shm_loops_t;

#endif
