/* SPDX-License-Identifier: MIT
 *
 * The watched side of the stall monitor: the turns of event loops.
 *
 * A thread is a loop when it comes back to one wait (epoll_wait, poll, select, …) from one place at
 * one depth of its stack: its *home*, after SITE_WAITS visits. From then on its turns are told to
 * the recorder (record/shm_loops.h), which watches them from outside.
 *
 * A wait at another place is judged by its depth. Deeper than home it stands inside a turn: a
 * blocking call, such as a client library's poll, and the turn goes on; unless it comes again and
 * again within one turn, which is what a nested loop does (a modal dialog): then it ends turns as
 * the home does. At home's depth or further out the loop itself, or one that replaced it, waits
 * elsewhere: that ends the turn, and soon becomes the home.
 *
 * The usual path is a comparison, a load and a store before the wait, and a clock reading, two
 * stores and a load after it. No lock, no read-modify-write; a system call only when the recorder
 * sleeps.
 */
#ifndef SONDE_SENSOR_STALL_STALL_H
#define SONDE_SENSOR_STALL_STALL_H

#include "record/writer.h"

/* How a wait looks from where it is called: its return address and its stack pointer, or any
 * address that stands at a fixed distance from that. */
typedef struct wait_site {
  uint64_t site, frame;
} wait_site_t;

/* Whether the thread is at home: what stall_wait_begin says and stall_wait_end is told. */
typedef shm_loop_t *stall_wait_t;

NOINLINE stall_wait_t stall_wait_slow(wait_site_t place);
NOINLINE void stall_end_watched(shm_loop_t *loop);
NOINLINE void stall_wake_recorder(void);

/* The calling thread is about to wait at PLACE. */
static ALWAYS_INLINE stall_wait_t stall_wait_begin(wait_site_t place) {
  writer_t *w = writer_tls;
  shm_loop_t *loop = LIKELY(w != NULL) ? w->loop : NULL;
  if (UNLIKELY(!loop || loop->site != place.site || loop->frame != place.frame))
    return stall_wait_slow(place);
  if (UNLIKELY(load_relaxed(&loop->watched))) stall_end_watched(loop);
  store_release(&loop->turn, (uint64_t)0);
  return loop;
}

/* The wait is over. HOME is what stall_wait_begin returned. */
static ALWAYS_INLINE void stall_wait_end(stall_wait_t home) {
  writer_t *w = writer_tls;
  if (!home || UNLIKELY(w->loop != home)) return; /* this may be a child of a fork in a handler */
  store_relaxed(&home->turns, home->turns + 1);
  store_release(&home->turn, writer_now(w));
  if (UNLIKELY(load_relaxed(&w->control->stall.asleep))) stall_wake_recorder();
}

/* ---- what the program itself declares (sonde/stall.h) ------------------------------------- */

int stall_heartbeat(void);
int stall_begin(uint32_t limit_ms);
int stall_expect(uint32_t limit_ms);
int stall_end(void);

/* ---- the rule, without a clock or a thread, for tests ------------------------------------- */

#define SITE_WAITS   3 /* visits that make a home */
#define NESTED_WAITS 8 /* visits within one turn that make a nested loop */

/* A thread's guess of where its loop may be. */
typedef struct wait_candidate {
  wait_site_t place;
  uint32_t visits;
  uint32_t turns; /* of the home when it was last visited */
} wait_candidate_t;

typedef enum wait_kind {
  WAIT_INSIDE, /* a turn, or nothing known: the turn goes on */
  WAIT_IDLE,   /* it ends the turn */
  WAIT_SITE,   /* it ends the turn, and is the home from now on */
} wait_kind_t;

/* What the wait at PLACE is to a thread whose home is HOME (site 0: none), where TURNS turns have
 * begun. */
wait_kind_t wait_classify(wait_candidate_t *guess, wait_site_t home, uint32_t turns,
                          wait_site_t place);

#endif
