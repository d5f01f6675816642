/* SPDX-License-Identifier: MIT
 *
 * Declares the iterations of a thread's loop, so that stalls in it are reported.
 *
 * `sonde record --stall` finds event loops that wait in epoll_wait, poll or select without these
 * functions. These functions serve threads that have no event loop, or that wait in another way. If
 * a thread has declared an iteration, only its declarations begin and end its iterations; its waits
 * are ignored.
 *
 * Under `sonde record` the recorder watches the iterations. Otherwise the program's monitor watches
 * them (sonde_stall_monitor). Without a recorder and a monitor, the functions return
 * SONDE_EUNSUPPORTED and cost two loads and two branches.
 *
 * Unless a declaration says otherwise, a function may be called by any thread, inside malloc, in a
 * signal handler and after fork. A forked child is not watched; calls there have no effect. No
 * function changes errno.
 */
#ifndef SONDE_STALL_H
#define SONDE_STALL_H

#include <stdint.h>
#include <sys/types.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the calling thread's iteration and begins the next one. The thread stalls if it does not
 * call this function again within the threshold. sonde_stall_end ends the last iteration.
 * Returns 0; SONDE_EUNSUPPORTED without a recorder or monitor; SONDE_EFULL if too many threads are
 * watched (256). */
SONDE_API int sonde_heartbeat(void);

/* Begins an iteration that stalls after LIMIT_MS milliseconds; 0 or a limit below the threshold
 * means the threshold. Iterations do not nest: a second begin ends the first iteration.
 * Returns as sonde_heartbeat. */
SONDE_API int sonde_stall_begin(uint32_t limit_ms);

/* Allows the current iteration LIMIT_MS milliseconds from its beginning, for example if it does
 * long work or waits for the user. Call it before the threshold is reached. The limit also applies
 * to an iteration of an event loop; the loop's waits still begin and end its iterations. Returns 0;
 * SONDE_EINVAL if no iteration is open; SONDE_EUNSUPPORTED as above. */
SONDE_API int sonde_stall_expect(uint32_t limit_ms);

/* Ends the calling thread's iteration. The thread is not watched until the next begin or heartbeat.
 * Returns as sonde_heartbeat. */
SONDE_API int sonde_stall_end(void);

/* ---- a program that watches itself ----------------------------------------------------------- */

typedef enum sonde_stall_phase {
  /* an iteration has reached its limit */
  SONDE_STALL_BEGAN,
  /* the iteration is twice as long as at the last call of the callback */
  SONDE_STALL_CONTINUES,
  SONDE_STALL_ENDED,
} sonde_stall_phase_t;

/* The cause of a stall: what the thread did during at least half of its time. */
typedef enum sonde_stall_cause {
  /* its state could not be read */
  SONDE_STALL_UNKNOWN,
  SONDE_STALL_ON_CPU,
  /* it waited for a mutex, a rwlock or, on Apple's systems, an unfair lock */
  SONDE_STALL_LOCK,
  /* the same, and the holder of the lock waits for the thread, through further locks or not */
  SONDE_STALL_DEADLOCK,
  /* blocked in another system call */
  SONDE_STALL_BLOCKED,
  /* blocked in a call that no signal ends, often for a disk */
  SONDE_STALL_UNINTERRUPTIBLE,
  /* waiting for pages of a file; not detected on Apple's systems */
  SONDE_STALL_PAGES,
  /* ready, but without a CPU: the rest of its time is below the tenth part of that wait */
  SONDE_STALL_NO_CPU,
  /* no cause has half of the time */
  SONDE_STALL_SEVERAL,
} sonde_stall_cause_t;

/* A stall. The arrays are valid until the callback returns. */
typedef struct sonde_stall {
  sonde_stall_phase_t phase;
  /* counts stalls from 1; the same in all calls about one stall */
  uint32_t number;
  /* the stalled thread */
  pid_t tid;
  uint64_t limit_ns;
  /* active time of the iteration, so far or in all: excludes time in which the thread was stopped,
   * waited for a CPU, or was not watched because the whole program stood still */
  uint64_t length_ns;
  /* the thread's stack now, as from sonde_stack_of_thread; none in SONDE_STALL_ENDED */
  const uintptr_t *pcs;
  /* entries of PCS, or a negative SONDE_E… */
  int count;

  /* The hot path: the code that used the time, found in stacks sampled during the whole iteration.
   * The first entry is in the innermost function that used at least half of the sampled time and is
   * not in a system image. Its callers follow, up to 256 frames. When you pass the first entry to
   * sonde_name, treat it as a return address, or as an exact address (SONDE_NAME_EXACT) if it
   * equals PCS[0]. */
  const uintptr_t *hot_path;
  /* entries; 0: no stack was captured; SONDE_EFULL: eight stalls are being sampled already */
  int hot_path_count;
  /* share of the iteration's time, in percent */
  int hot_path_percent;

  sonde_stall_cause_t cause;
  /* the lock that the thread waited for when it was last polled; in SONDE_STALL_ENDED, the lock of
   * the longest wait in the whole iteration. 0: none. If CAUSE is SONDE_STALL_LOCK or
   * SONDE_STALL_DEADLOCK at the end, a lock is named. A futex that is not a lock is not
   * reported here. */
  uintptr_t lock;
  /* the thread that held it at the last poll of that wait; 0: unknown, or several readers */
  pid_t lock_owner;
} sonde_stall_t;

/* Called in the thread that called sonde_stall_monitor; may do whatever that thread may do. */
typedef void sonde_stall_call_t(const sonde_stall_t *stall, void *context);

/* Watches the declared iterations of this program's threads. An iteration that takes
 * THRESHOLD_MS (at least 10), or its declared limit if that is larger, is a stall. CALL is called
 * while the stall lasts and when it ends.
 *
 * The function occupies the calling thread, which should be a thread of its own, until
 * sonde_stall_monitor_stop. That thread sleeps while no iteration is open. While one is open, the
 * thread polls ten times per threshold, and each poll captures a stack. A running thread is sent
 * SIGURG. The stack of a blocked thread is read in place, without a signal except in the cases that
 * sonde/thread.h lists. On Apple's systems the thread is suspended for a moment, and the main
 * thread's run loop is watched without declarations if CoreFoundation is loaded.
 *
 * Returns 0 after sonde_stall_monitor_stop; SONDE_EINVAL; SONDE_EBUSY if a monitor runs or `sonde
 * record` records the program. Do not call it in a signal handler, nor in a forked child of a
 * program that has a monitor. */
SONDE_API int sonde_stall_monitor(uint32_t threshold_ms, sonde_stall_call_t *call, void *context);

/* Makes sonde_stall_monitor return, now or when it is next called. Returns 0. The callback
 * of the monitor may call this function. */
SONDE_API int sonde_stall_monitor_stop(void);

/* Returns the text of CAUSE, such as "waiting for a lock"; "unknown cause" for any other value. The
 * text is static. May be called anywhere, also in a signal handler. */
SONDE_API const char *sonde_stall_cause_text(sonde_stall_cause_t cause);

#ifdef __cplusplus
}

namespace sonde {

/* Begins an iteration, and ends it at the end of the block: { sonde::stall_scope scope(200); … } */
class stall_scope {
public:
  explicit stall_scope(uint32_t limit_ms = 0) : status_(sonde_stall_begin(limit_ms)) {}
  ~stall_scope() {
    if (status_ == 0) (void)sonde_stall_end();
  }
  stall_scope(const stall_scope &) = delete;
  stall_scope &operator=(const stall_scope &) = delete;
  /* what sonde_stall_begin returned */
  int status() const { return status_; }

private:
  int status_;
};

} // namespace sonde
#endif
#endif
