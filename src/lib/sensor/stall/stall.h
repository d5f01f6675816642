/* SPDX-License-Identifier: MIT
 *
 * The stall sensor: reports the iterations of event loops to the recorder.
 *
 * An *event loop* is a thread that returns again and again to one wait (epoll_wait, poll, select,
 * …), called from one place at one stack depth: its *wait site*. An *iteration* is the time between
 * the return of that wait and the next entry into it. A *stall* is an iteration whose active time
 * reaches the threshold; active time excludes time stopped or waiting for a CPU (stall/rules.h).
 *
 * Life of a stall
 * 1. The program calls a wait. A hook (agent/wait.c) calls stall_wait_begin and stall_wait_end.
 *    After SITE_WAITS visits of one place stall_wait_slow (linux/stall.c) makes it the wait site.
 * 2. stall_wait_end stores the iteration's start time into the thread's entry in the shared buffers
 *    (record/shared/loops.h), and wakes the recorder if it sleeps. stall_wait_begin stores 0.
 * 3. A thread of the recorder (tool/recorder/monitor/stall.c) polls all entries. It reads the state
 *    and CPU times of a thread that is still in the same iteration (monitor/stall_loop.c).
 * 4. Pure functions (stall/rules.c) decide from each poll: capture a stack, report a stall, wait.
 * 5. The recorder reads the stack of a blocked thread (monitor/thread_stacks.c). A running thread
 *    gets a stack request by signal, and captures its own stack in on_request (linux/stall.c).
 * 6. The recorder writes begin, stacks and end of the stall as records of its own stream
 *    (monitor/writer.c; docs/format.md describes them). A note on stderr names the stall at once.
 * 7. When the wait site is reached, stall_end_watched stores the end time.
 * 8. A reader replays the records (tool/analysis/stalls.c) and attributes the iteration's time to
 *    its hot path (stall/hot_path.c). `sonde report FILE stalls` prints the stall and its hot path
 *    (tool/report/sections/stalls.c).
 * Without a recorder, a thread of the program does steps 3 to 8 (stall/self_monitor.c).
 *
 * Waits at other places are judged by depth. A deeper wait, such as the poll of a client library,
 * is part of the iteration. A deeper wait that repeats within one iteration is the wait of a nested
 * loop (a modal dialog), and ends iterations too. A wait at the same depth or further out ends the
 * iteration, and soon becomes the wait site: the thread has a new loop.
 *
 * Threads: each thread writes its own entry. Memory order: the start time is stored with release,
 * after the fields that belong to it. Cost: a comparison, a load and a store before the wait; a
 * clock reading, two stores and a load after it. No lock, no read-modify-write; a system call only
 * if the recorder sleeps. errno is not changed. A forked child is not watched.
 */
#ifndef SONDE_SENSOR_STALL_STALL_H
#define SONDE_SENSOR_STALL_STALL_H

#include "record/writer.h"

/* Identifies the call of a wait: its return address, and its stack pointer or any address at a
 * fixed distance from that. */
typedef struct wait_site {
  uint64_t site, frame;
} wait_site_t;

/* Passed from stall_wait_begin to stall_wait_end; NULL: the wait does not end an iteration. */
typedef shm_loop_t *stall_wait_t;

NOINLINE stall_wait_t stall_wait_slow(wait_site_t place);
NOINLINE void stall_end_watched(shm_loop_t *loop);
NOINLINE void stall_wake_recorder(void);

/* The calling thread is about to wait at PLACE: ends its iteration if this is its wait site. */
static ALWAYS_INLINE stall_wait_t stall_wait_begin(wait_site_t place) {
  writer_t *w = writer_tls;
  shm_loop_t *loop = LIKELY(w != NULL) ? w->loop : NULL;
  if (UNLIKELY(!loop || loop->site != place.site || loop->frame != place.frame))
    return stall_wait_slow(place);
  if (UNLIKELY(load_relaxed(&loop->watched))) stall_end_watched(loop);
  store_release(&loop->began, (uint64_t)0);
  return loop;
}

/* The wait is over: begins an iteration. WAIT is what stall_wait_begin returned. */
static ALWAYS_INLINE void stall_wait_end(stall_wait_t wait) {
  writer_t *w = writer_tls;
  if (!wait || UNLIKELY(w->loop != wait)) return; /* a signal handler forked: this is the child */
  store_relaxed(&wait->iterations, wait->iterations + 1);
  store_release(&wait->began, writer_now(w));
  if (UNLIKELY(load_relaxed(&w->control->stall.asleep))) stall_wake_recorder();
}

/* ---- iterations that the program declares (sonde/stall.h) -------------------------------------
 */

int stall_heartbeat(void);
int stall_begin(uint32_t limit_ms);
int stall_expect(uint32_t limit_ms);
int stall_end(void);

/* ---- the rule, without a clock or a thread, for tests ---------------------------------------- */

/* Visits that make a place the wait site. */
#define SITE_WAITS 3
/* Visits of a deeper place within one iteration that make it a nested loop. */
#define NESTED_WAITS 8

/* The place that may become a thread's wait site. */
typedef struct wait_candidate {
  wait_site_t place;
  uint32_t visits;
  uint32_t iterations; /* that had begun when the place was last visited */
} wait_candidate_t;

typedef enum wait_kind {
  WAIT_INSIDE, /* part of the iteration, or the thread has no wait site */
  WAIT_IDLE,   /* ends the iteration */
  WAIT_SITE,   /* ends the iteration, and is the wait site from now on */
} wait_kind_t;

/* Classifies a wait at PLACE and updates CANDIDATE. The thread's wait site is SITE (site 0: none),
 * and it has begun ITERATIONS iterations. */
wait_kind_t wait_classify(wait_candidate_t *candidate, wait_site_t site, uint32_t iterations,
                          wait_site_t place);

#endif
