/* SPDX-License-Identifier: MIT */
#include "analysis/futex_calls.h"

#include <stdbool.h>
#include <string.h>

#define LOCK      "a lock"
#define CONDITION "a condition variable"
#define SEMAPHORE "a semaphore"
#define THREAD    "the end of a thread"

/* A longer name comes before one that it begins with. Some functions of glibc jump into others:
 * sem_wait into __new_sem_wait_slow64, pthread_join into __pthread_clockjoin_ex. */
static const futex_wait_t waits[] = {
    {"pthread_mutex_lock", "pthread_mutex_lock", LOCK},
    {"pthread_mutex_timedlock", "pthread_mutex_timedlock", LOCK},
    {"pthread_mutex_", NULL, LOCK},
    {"pthread_rwlock_rdlock", "pthread_rwlock_rdlock", LOCK},
    {"pthread_rwlock_wrlock", "pthread_rwlock_wrlock", LOCK},
    {"pthread_rwlock_", NULL, LOCK},
    {"pthread_cond_wait", "pthread_cond_wait", CONDITION},
    {"pthread_cond_timedwait", "pthread_cond_timedwait", CONDITION},
    {"pthread_cond_clockwait", "pthread_cond_clockwait", CONDITION},
    {"pthread_cond_", NULL, CONDITION},
    {"cnd_wait", "cnd_wait", CONDITION},
    {"cnd_timedwait", "cnd_timedwait", CONDITION},
    {"sem_wait", "sem_wait", SEMAPHORE},
    {"sem_timedwait", "sem_timedwait", SEMAPHORE},
    {"sem_", NULL, SEMAPHORE},
    {"new_sem_wait", "sem_wait", SEMAPHORE},
    {"new_sem_", NULL, SEMAPHORE},
    {"pthread_barrier_wait", "pthread_barrier_wait", "a barrier"},
    {"pthread_barrier_", NULL, "a barrier"},
    {"pthread_join", "pthread_join", THREAD},
    {"pthread_clockjoin", "pthread_join", THREAD},
    {"pthread_timedjoin", "pthread_timedjoin_np", THREAD},
    /* Rust's standard library, and parking_lot */
    {"::lock_contended", "Mutex::lock", LOCK},
    {"::read_contended", "RwLock::read", LOCK},
    {"::write_contended", "RwLock::write", LOCK},
    {"::lock_slow", "Mutex::lock", LOCK},
    {"::lock_shared_slow", "RwLock::read", LOCK},
    {"::lock_exclusive_slow", "RwLock::write", LOCK},
    {"::wait_optional_timeout", "Condvar::wait", CONDITION},
    {"::wait_until_internal", "Condvar::wait", CONDITION},
    /* Python's module threading, whose locks are semaphores */
    {"Condition.wait", NULL, CONDITION},
    {"Thread.join", NULL, THREAD},
};

static bool matches(const char *function, const char *symbol) {
  size_t size = strlen(symbol), length = strlen(function);
  if (symbol[0] != ':') return !strncmp(function, symbol, size);
  return length >= size && !strcmp(function + length - size, symbol);
}

const futex_wait_t *futex_wait_of_function(const char *function) {
  function += strspn(function, "_");
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
    if (matches(function, waits[i].symbol)) return &waits[i];
  return NULL;
}
