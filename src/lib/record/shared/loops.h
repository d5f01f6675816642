/* SPDX-License-Identifier: MIT
 *
 * The event loops of the program, in the shared buffers.
 *
 * A loop is a thread that returns to one wait again and again: its wait site. An *iteration* is the
 * time from the return of that wait to the next entry into it. The thread stores the time at which
 * its iteration began, and 0 when it waits again. The recorder does everything else.
 *
 * The recorder sleeps while every loop waits, and sets `asleep`; the thread whose iteration begins
 * then wakes it, once. After setting `asleep`, the recorder polls again some milliseconds later and
 * only then sleeps without a limit. A store that the flag overtook has arrived by then, so the
 * thread needs no fence.
 *
 * To capture a running thread, the recorder puts a stack request with its tid into the table below
 * and signals the thread; the thread's handler stores the id of the stack there.
 */
#ifndef SONDE_RECORD_SHARED_LOOPS_H
#define SONDE_RECORD_SHARED_LOOPS_H

#include <stdint.h>

#define SHM_LOOPS          256u
#define SHM_STACK_REQUESTS 16u

/* One cache line; written by the thread, except for `watched`. Times are shifted ticks. */
typedef struct shm_loop {
  uint64_t began; /* start of the current iteration; 0: the thread waits, or is not a loop yet */
  uint64_t site;  /* the wait site: its return address, … */
  uint64_t frame; /* … and its stack pointer; 0: none yet */
  /* End and start of the last watched iteration. */
  uint64_t ended;
  uint64_t ended_of;
  uint32_t tid;        /* 0: a free entry */
  uint32_t watched;    /* what the recorder needs of the current iteration: SHM_WATCH_… */
  uint32_t iterations; /* completed or not, modulo 2^32 */
  uint32_t moved;      /* how often the wait site turned out to be elsewhere */
  /* The program has declared this limit for the iteration that began at a time with the lower 32
   * bits `allowed_of`. */
  uint32_t allowed_ms;
  uint32_t allowed_of;
} __attribute__((aligned(64))) shm_loop_t;

_Static_assert(sizeof(shm_loop_t) == 64, "one cache line");

#define SHM_WATCH_END  1u /* the time of its end */
#define SHM_WATCH_CALL 2u /* the same, and to be woken then */

#define SHM_FREE      0u
#define SHM_REQUESTED 1u
#define SHM_CAPTURED  2u

typedef struct shm_stack_request {
  uint32_t state; /* SHM_FREE … */
  uint32_t tid;
  uint32_t stack; /* 0: the capture failed */
  uint32_t reserved;
  uint64_t time; /* shifted ticks */
} shm_stack_request_t;

typedef struct shm_loops {
  uint32_t asleep;    /* 1: the recorder sleeps until an iteration begins */
  uint32_t missed;    /* threads without an entry in the table */
  uint32_t used;      /* entries below this may be in use */
  uint32_t sampler;   /* 1: the program serves stack requests */
  uint32_t bell;      /* the futex that the recorder sleeps on; changed to wake it */
  uint32_t requested; /* 1: there has been a stack request */
  shm_stack_request_t stack_requests[SHM_STACK_REQUESTS];
  shm_loop_t loops[SHM_LOOPS];
} shm_loops_t;

#endif
