/* SPDX-License-Identifier: MIT
 *
 * A lock for slow paths that may take long, such as patching code. Waiters sleep.
 *
 * The lock records its owner. A thread that holds it, for example in a callback or in a signal
 * handler, does not get it again; neither does the child of a fork that was made while another
 * thread held it. Both would wait forever. Initially zeros.
 */
#ifndef SONDE_OS_LOCK_H
#define SONDE_OS_LOCK_H

#include "base/bits.h"
#include "os/os.h"

typedef struct lock {
  uint32_t owner; /* its tid; 0: free */
  uint32_t waiters;
  pid_t process;
} lock_t;

/* The time after which a waiter looks again, in case that it was not woken. */
#define LOCK_WAIT_NS 10000000u

static inline bool lock_try(lock_t *lock) {
  uint32_t none = 0;
  if (!cas_acq_rel(&lock->owner, &none, (uint32_t)os_tid())) return false;
  store_relaxed(&lock->process, os_pid());
  return true;
}

/* Takes the lock, after at most PATIENCE_NS (0: no limit). Returns false if it cannot be had, also
 * if the thread that holds it has ended. */
static inline bool lock_take(lock_t *lock, uint64_t patience_ns) {
  uint64_t end = patience_ns ? os_monotonic_ns() + patience_ns : UINT64_MAX;
  while (!lock_try(lock)) {
    uint32_t owner = load_relaxed(&lock->owner);
    if (owner == 0) continue;
    if (owner == (uint32_t)os_tid() || load_relaxed(&lock->process) != os_pid()) return false;
    if (os_monotonic_ns() >= end) return false;
    __atomic_fetch_add(&lock->waiters, 1, __ATOMIC_SEQ_CST);
    (void)os_futex_wait(&lock->owner, owner, LOCK_WAIT_NS);
    __atomic_fetch_sub(&lock->waiters, 1, __ATOMIC_SEQ_CST);
    if (!os_thread_alive((pid_t)owner) && load_relaxed(&lock->owner) == owner) return false;
  }
  return true;
}

static inline void lock_release(lock_t *lock) {
  __atomic_store_n(&lock->owner, 0, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&lock->waiters, __ATOMIC_SEQ_CST)) (void)os_futex_wake(&lock->owner, 1);
}

#endif
