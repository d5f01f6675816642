/* SPDX-License-Identifier: MIT
 *
 * Stalls, told by the program itself: for threads that are no event loop, or wait in a way that
 * cannot be seen from outside.
 *
 * Event loops that wait by epoll_wait, poll or select need nothing of this under `sonde record
 * --stall`. These functions speak to a program's recorder; without one, to the program's own
 * monitor (sonde_stall_monitor, below); without either they return SONDE_EUNSUPPORTED and cost two
 * loads and two branches. A thread that has called one of them is watched by them alone: its waits
 * do not count any more.
 *
 * All but the monitor may be called by any thread, inside malloc and in a signal handler, and after
 * fork, where they are without effect: a child is not watched. They return 0 or one of the statuses
 * named.
 */
#ifndef SONDE_STALL_H
#define SONDE_STALL_H

#include <stdint.h>
#include <sys/types.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread is alive: its turn ends and the next one begins. A thread that does not come
 * back within the threshold has stalled, until its next heartbeat or sonde_stall_end.
 * SONDE_EUNSUPPORTED: nobody listens; SONDE_EFULL: too many threads are watched. */
SONDE_API int sonde_heartbeat(void);

/* What follows must not take longer than LIMIT_MS milliseconds, 0 for the threshold of the
 * recording. A limit below the threshold is the threshold. Scopes do not nest: a second one ends
 * the first. Statuses as above. */
SONDE_API int sonde_stall_begin(uint32_t limit_ms);

/* The present turn may take LIMIT_MS milliseconds from its beginning: the program knows that it is
 * long, or waits for its user. To be called before the threshold is reached. For a turn of an event
 * loop as well, whose waits go on to count. SONDE_EINVAL: there is no turn. */
SONDE_API int sonde_stall_expect(uint32_t limit_ms);

/* The scope, or the thread's heartbeats, are over: it is not watched until it begins again. */
SONDE_API int sonde_stall_end(void);

/* ---- a program that watches itself -------------------------------------------------------- */

typedef enum sonde_stall_phase {
  SONDE_STALL_BEGAN,   /* a turn has reached its limit */
  SONDE_STALL_GOES_ON, /* it has got twice as long since the last call */
  SONDE_STALL_ENDED,
} sonde_stall_phase_t;

typedef struct sonde_stall {
  sonde_stall_phase_t phase;
  uint32_t number; /* of the stall, from 1 up: that of its calls is the same */
  pid_t tid;       /* whose turn it is */
  uint64_t limit_ns;
  uint64_t length_ns; /* so far, or in all; without time in which the thread was stopped, ready and
                         given no CPU, or not watched as the whole program stood still */
  const uintptr_t *pcs; /* where the thread is now, as sonde_stack_of_thread has it; until the call
                           returns. None once the stall has ended */
  int count;            /* how many, or why there are none: one of the statuses */

  /* Who held the turn up so far, by stacks taken all through it, not by the last one: the innermost
   * function outside system images that owned at least half of its time, then its callers, at most
   * to the 256th frame; until the call returns. sonde_name takes the first one as a return address
   * unless PCS[0] is the same. */
  const uintptr_t *culprit;
  int culprit_count;   /* how many; 0: no stack could be taken; SONDE_EFULL: eight threads are
                          stalled already, whose culprits are being looked for */
  int culprit_percent; /* of the turn's time that is the culprit's */
} sonde_stall_t;

/* Runs in the thread that called sonde_stall_monitor; may do what that thread may. */
typedef void sonde_stall_call_t(const sonde_stall_t *stall, void *context);

/* Watches the turns that this program's threads declare, THRESHOLD_MS (at least 10) or their own
 * limit long, and calls CALL while a stall lasts and when it has ended. Occupies the calling
 * thread, which the program has made for it, until sonde_stall_monitor_stop; it sleeps without
 * limit while no turn is open, and looks ten times a threshold while one is, from then on with a
 * stack each time. A running thread is asked for its stack by SIGURG, a blocked one is read where
 * it is (sonde/thread.h says which alone is asked too); on Apple's systems it is suspended for a
 * moment, and the main thread's run loop is watched by itself, if CoreFoundation is loaded by then.
 * Returns 0 when it was stopped; SONDE_EINVAL, SONDE_EBUSY: there is a monitor already, or the
 * program is recorded; not after fork in the child of a program that has one. */
SONDE_API int sonde_stall_monitor(uint32_t threshold_ms, sonde_stall_call_t *call, void *context);

/* Ends sonde_stall_monitor, at once or when it is called next. Any thread, also CALL. */
SONDE_API int sonde_stall_monitor_stop(void);

#ifdef __cplusplus
}

namespace sonde {

/* sonde_stall_begin and sonde_stall_end of a block: { sonde::stall_scope scope(200); … } */
class stall_scope {
public:
  explicit stall_scope(uint32_t limit_ms = 0) : status_(sonde_stall_begin(limit_ms)) {}
  ~stall_scope() {
    if (status_ == 0) (void)sonde_stall_end();
  }
  stall_scope(const stall_scope &) = delete;
  stall_scope &operator=(const stall_scope &) = delete;
  int status() const { return status_; } /* of sonde_stall_begin */

private:
  int status_;
};

} // namespace sonde
#endif
#endif
