/* SPDX-License-Identifier: MIT
 *
 * Stalls of threads that wait for a lock: which one, and who holds it. The locks are made here as
 * libplatform and libpthread make them, on the kernel's calls: an os_unfair_lock, a pthread mutex
 * of macOS 12 and an older one, and a pthread rwlock, which a writer or readers hold. A wait on the
 * same call that is none for a lock has no owner.
 */
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "sonde/stall.h"
#include "sonde/thread.h"

#define THRESHOLD_MS 20

extern int __ulock_wait(uint32_t operation, void *address, uint64_t value, uint32_t timeout);
extern uint32_t __psynch_mutexwait(void *mutex, uint32_t mgen, uint32_t ugen, uint64_t tid,
                                   uint32_t flags);
extern uint32_t __psynch_rw_rdlock(void *lock, uint32_t lgen, uint32_t ugen, uint32_t sequence,
                                   int flags);
extern uint32_t __psynch_rw_wrlock(void *lock, uint32_t lgen, uint32_t ugen, uint32_t sequence,
                                   int flags);
extern uint32_t __psynch_rw_unlock(void *lock, uint32_t lgen, uint32_t ugen, uint32_t sequence,
                                   int flags);
extern int __ulock_wake(uint32_t operation, void *address, uint64_t value);
extern uint32_t __psynch_mutexdrop(void *mutex, uint32_t mgen, uint32_t ugen, uint64_t tid,
                                   uint32_t flags);

#define UL_COMPARE_AND_WAIT 1u
#define UL_UNFAIR_LOCK      2u
#define ULF_WAKE_ALL        0x00000100u
#define ULF_NO_ERRNO        0x01000000u

/* Rwlocks by who holds them and what the other thread wants: WRITE_READ, a writer and to read. */
typedef enum kind { UNFAIR, MUTEX, OLDER_MUTEX, WORD, WRITE_READ, WRITE_WRITE, READ_WRITE } kind_t;

/* pthread_mutex_t of libpthread, and the beginning of its pthread_rwlock_t, whose `tid` is the
 * writer's; of the other kinds, `word` alone is used. */
typedef struct lock {
  uint64_t signature;
  uint32_t own_lock, options;
  uint16_t ceiling, priority;
  uint32_t padding;
  union {
    uint32_t word;
    uint64_t tid;
  };
  uint32_t sequence[2];
  uint32_t more[6];
} lock_t;
_Static_assert(sizeof(lock_t) == sizeof(pthread_mutex_t), "as large as a mutex");

static bool exchange(uint32_t *word, uint32_t *from, uint32_t to) {
  return __atomic_compare_exchange_n(word, from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Who waits clears the lowest bit of the owner's port. */
static void take_word(lock_t *lock, uint32_t mask) {
  uint32_t self = pthread_mach_thread_np(pthread_self()) & mask, seen = 0;
  while (!exchange(&lock->word, &seen, self)) {
    uint32_t waited = seen & ~1u;
    if (waited == seen || exchange(&lock->word, &seen, waited))
      (void)__ulock_wait(UL_UNFAIR_LOCK | ULF_NO_ERRNO, &lock->word, waited, 0);
    self &= ~1u;
    seen = 0;
  }
}

static bool is_rwlock(kind_t kind) { return kind >= WRITE_READ; }

static void wait_for_sequence(lock_t *lock, kind_t kind) {
  if (kind == WRITE_READ)
    (void)__psynch_rw_rdlock(lock, 1, 0, 0, 0);
  else if (is_rwlock(kind))
    (void)__psynch_rw_wrlock(lock, 1, 0, 0, 0);
  else
    (void)__psynch_mutexwait(lock, 1, 0, __atomic_load_n(&lock->tid, __ATOMIC_RELAXED), 0);
}

static void take_sequence(lock_t *lock, kind_t kind) {
  uint32_t seen = 0;
  uint64_t self;
  (void)pthread_threadid_np(NULL, &self);
  while (!exchange(&lock->sequence[0], &seen, 1)) {
    wait_for_sequence(lock, kind);
    seen = 0;
  }
  __atomic_store_n(&lock->tid, kind == READ_WRITE ? 0 : self, __ATOMIC_RELAXED);
}

static void take(lock_t *lock, kind_t kind) {
  if (kind == OLDER_MUTEX || is_rwlock(kind)) return take_sequence(lock, kind);
  if (kind != WORD) return take_word(lock, kind == UNFAIR ? ~0u : ~3u);
  while (__atomic_load_n(&lock->word, __ATOMIC_ACQUIRE))
    (void)__ulock_wait(UL_COMPARE_AND_WAIT, &lock->word, lock->word, 0);
}

static void give(lock_t *lock, kind_t kind) {
  uint32_t operation = kind == WORD ? UL_COMPARE_AND_WAIT : UL_UNFAIR_LOCK;
  if (kind == OLDER_MUTEX || is_rwlock(kind)) {
    __atomic_store_n(&lock->tid, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lock->sequence[0], 0, __ATOMIC_RELEASE);
    if (is_rwlock(kind))
      (void)__psynch_rw_unlock(lock, 1, 0, 0, 0);
    else
      (void)__psynch_mutexdrop(lock, 1, 0, 0, 0);
  } else {
    __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
    (void)__ulock_wake(operation | ULF_WAKE_ALL | ULF_NO_ERRNO, &lock->word, 0);
  }
}

/* ---- who waits, and what is told ------------------------------------------------------------ */

static lock_t locks[2];
static kind_t kind;
static pid_t waiters[2];
static volatile int held;
/* What the monitor has to say, and has said. */
static volatile sonde_stall_cause_t wanted_cause;
static volatile uintptr_t wanted_lock;
static volatile pid_t wanted_owner;
static volatile bool is_told;
/* ends of stalls in locks, and those of them without a lock */
static volatile int lock_ends, unnamed_ends;

static void on_lock_stall(const sonde_stall_t *s, void *context) {
  (void)context;
  if (s->phase == SONDE_STALL_ENDED &&
      (s->cause == SONDE_STALL_LOCK || s->cause == SONDE_STALL_DEADLOCK)) {
    lock_ends++;
    if (!s->lock) unnamed_ends++;
  }
  if (s->tid != waiters[0] || s->phase == SONDE_STALL_ENDED) return;
  if (s->cause == wanted_cause && s->lock == wanted_lock && s->lock_owner == wanted_owner)
    is_told = true;
}

static void *watch_locks(void *context) {
  *(int *)context = sonde_stall_monitor(THRESHOLD_MS, on_lock_stall, NULL);
  return NULL;
}

static pid_t own_id(void) {
  uint64_t id;
  (void)pthread_threadid_np(NULL, &id);
  return (pid_t)id;
}

static void *wait_for_lock(void *context) {
  waiters[0] = own_id();
  while (sonde_stall_begin(0) != 0) /* the monitor begins */
    usleep(1000);
  take(&locks[0], kind);
  (void)sonde_stall_end();
  if (kind != WORD) give(&locks[0], kind);
  return context;
}

static uintptr_t address_of(lock_t *lock) {
  return kind == UNFAIR ? (uintptr_t)&lock->word : (uintptr_t)lock;
}

static void begin_with(kind_t how) {
  uint64_t signature = is_rwlock(how) ? 0x52574C4B : 0x4D555458 | (how == MUTEX ? 2 : 0);
  for (int i = 0; i < 2; i++)
    locks[i] = (lock_t){.signature = how == UNFAIR ? 0 : signature};
  kind = how;
  is_told = false;
}

static void wait_until_told(void) {
  while (!is_told)
    usleep(1000);
}

/* The main thread holds the lock until the stall was told with it. */
static void check_lock(kind_t how, const char *what) {
  pthread_t thread;
  void *result;
  begin_with(how);
  wanted_cause = how == WORD ? SONDE_STALL_BLOCKED : SONDE_STALL_LOCK;
  wanted_lock = how == WORD ? 0 : address_of(&locks[0]);
  wanted_owner = how == WORD || how == READ_WRITE ? 0 : sonde_main_thread();
  if (how == WORD)
    locks[0].word = 1;
  else
    take(&locks[0], how);
  pthread_create(&thread, NULL, wait_for_lock, NULL);
  wait_until_told();
  give(&locks[0], how);
  pthread_join(thread, &result);
  check(is_told, what);
}

/* The second thread holds the first lock and waits for the second one, which the first one holds.
 */
static void *hold_and_wait(void *context) {
  waiters[1] = own_id();
  take(&locks[0], kind);
  held++;
  while (held < 2)
    usleep(1000);
  take(&locks[1], kind);
  return context;
}

static void *wait_for_each_other(void *context) {
  while (held < 1)
    usleep(1000);
  take(&locks[1], kind);
  held++;
  return wait_for_lock(context);
}

static void check_deadlock(kind_t how, const char *what) {
  pthread_t threads[2];
  void *result;
  begin_with(how);
  held = 0;
  wanted_cause = SONDE_STALL_DEADLOCK;
  wanted_lock = address_of(&locks[0]);
  wanted_owner = -1;
  pthread_create(&threads[1], NULL, hold_and_wait, NULL);
  while (held < 1)
    usleep(1000);
  wanted_owner = waiters[1];
  pthread_create(&threads[0], NULL, wait_for_each_other, NULL);
  wait_until_told();
  give(&locks[0], how);
  give(&locks[1], how);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], &result);
  check(is_told, what);
}

void check_locks(void) {
  pthread_t watcher;
  void *result;
  int status = 1;
  pthread_create(&watcher, NULL, watch_locks, &status);
  check_lock(UNFAIR, "an unfair lock and its owner");
  check_lock(MUTEX, "a mutex and its owner");
  check_lock(OLDER_MUTEX, "an older mutex and its owner");
  check_lock(WRITE_READ, "an rwlock that a writer holds and a thread wants to read");
  check_lock(WRITE_WRITE, "the same, for a thread that wants to write");
  check_lock(READ_WRITE, "an rwlock that is read has no owner");
  check_lock(WORD, "a word that is no lock has no owner");
  check_deadlock(UNFAIR, "two threads that wait for each other");
  check_deadlock(OLDER_MUTEX, "the same, with older mutexes");
  check_deadlock(WRITE_WRITE, "the same, with rwlocks");
  check(sonde_stall_monitor_stop() == 0, "the monitor is stopped once more");
  pthread_join(watcher, &result);
  check(status == 0, "and comes back once more");
  check(lock_ends && !unnamed_ends, "the end of a wait for a lock names the lock");
}
