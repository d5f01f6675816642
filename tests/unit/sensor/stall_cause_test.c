/* SPDX-License-Identifier: MIT
 *
 * sonde/stall.h: the cause of a stall, and the lock and its owner. Each stall lasts until the
 * monitor has told its cause.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "os/os.h"
#include "sensor/stall/stall_locks.h"
#include "skip.h"
#include "sonde/stall.h"

#define THRESHOLD_MS 50

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int wanted, owner, ending, end_owner;
static atomic_bool is_told, has_lock, has_ended;
static _Atomic uintptr_t lock, end_lock;
static int ends[2];

static void on_stall(const sonde_stall_t *s, void *unused) {
  (void)unused;
  if (s->phase == SONDE_STALL_ENDED) {
    if (s->tid != atomic_load(&ending)) return;
    atomic_store(&end_lock, s->lock);
    atomic_store(&end_owner, s->lock_owner);
    atomic_store(&has_ended, true);
    return;
  }
  if ((int)s->cause != atomic_load(&wanted)) return;
  atomic_store(&lock, s->lock);
  atomic_store(&owner, s->lock_owner);
  atomic_store(&is_told, true);
}

static void *monitor(void *unused) {
  (void)sonde_stall_monitor(THRESHOLD_MS, on_stall, NULL);
  return unused;
}

static void wait_for(atomic_bool *flag) {
  while (!atomic_load(flag))
    usleep(1000);
}

/* Runs WORK as an iteration that stalls. */
static pthread_t begin(void *(*work)(void *), sonde_stall_cause_t cause) {
  pthread_t thread;
  atomic_store(&is_told, false);
  atomic_store(&wanted, (int)cause);
  pthread_create(&thread, NULL, work, NULL);
  return thread;
}

static void *spin(void *unused) {
  assert_int_equal(sonde_stall_begin(0), 0);
  while (!atomic_load(&is_told)) {
  }
  assert_int_equal(sonde_stall_end(), 0);
  return unused;
}

static void the_cpu(void **unused) {
  (void)unused;
  pthread_join(begin(spin, SONDE_STALL_ON_CPU), NULL);
  assert_int_equal(atomic_load(&lock), 0);
}

static void *block(void *unused) {
  char byte;
  assert_int_equal(sonde_stall_begin(0), 0);
  assert_int_equal(read(ends[0], &byte, 1), 1);
  assert_int_equal(sonde_stall_end(), 0);
  return unused;
}

static void a_call(void **unused) {
  (void)unused;
  assert_int_equal(pipe(ends), 0);
  pthread_t thread = begin(block, SONDE_STALL_BLOCKED);
  wait_for(&is_told);
  assert_int_equal(write(ends[1], "x", 1), 1);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&owner), 0);
}

static void skip_without_owners(void) {
  if (is_emulated()) SKIP_BECAUSE("the emulator's /proc does not show a thread's system call");
#if !defined(__GLIBC__)
  SKIP_BECAUSE("musl's plain mutexes and its rwlocks do not name their owner");
#endif
}

static void *take_one(void *unused) {
  assert_int_equal(sonde_stall_begin(0), 0);
  pthread_mutex_lock(&one);
  pthread_mutex_unlock(&one);
  assert_int_equal(sonde_stall_end(), 0);
  return unused;
}

static void a_mutex_and_its_owner(void **unused) {
  (void)unused;
  skip_without_owners();
  pthread_mutex_lock(&one);
  pthread_t thread = begin(take_one, SONDE_STALL_LOCK);
  wait_for(&is_told);
  pthread_mutex_unlock(&one);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&owner), os_tid());
  assert_true(atomic_load(&lock) == (uintptr_t)&one);
}

static void *take_one_and_go_on(void *unused) {
  atomic_store(&ending, os_tid());
  assert_int_equal(sonde_stall_begin(0), 0);
  pthread_mutex_lock(&one);
  pthread_mutex_unlock(&one);
  usleep(THRESHOLD_MS * 1000); /* ten polls find the thread after its wait */
  assert_int_equal(sonde_stall_end(), 0);
  return unused;
}

static void the_end_names_the_lock_of_the_longest_wait(void **unused) {
  (void)unused;
  skip_without_owners();
  pthread_mutex_lock(&one);
  pthread_t thread = begin(take_one_and_go_on, SONDE_STALL_LOCK);
  wait_for(&is_told);
  pthread_mutex_unlock(&one);
  pthread_join(thread, NULL);
  wait_for(&has_ended);
  assert_true(atomic_load(&end_lock) == (uintptr_t)&one);
  assert_int_equal(atomic_load(&end_owner), os_tid());
}

/* Polls of 10 ms: of the lock LOCK held by OWNER, which may wait for the thread. */
static void poll(stall_locks_t *locks, uint64_t address, pid_t holder, bool deadlock) {
  const stall_lock_t seen = {address, holder, deadlock, 10};
  stall_locks_add(locks, &seen);
}

static void assert_lock(const stall_lock_t *found, uint64_t address, pid_t holder, bool deadlock) {
  assert_true(found->address == address);
  assert_int_equal(found->owner, holder);
  assert_true(found->deadlock == deadlock);
}

static void the_longest_wait_is_kept(void **unused) {
  (void)unused;
  stall_locks_t locks = {0};
  poll(&locks, 0, 0, false);
  assert_lock(&locks.longest, 0, 0, false);
  poll(&locks, 0x100, 7, false);
  poll(&locks, 0, 0, false); /* awake for a moment: the same wait */
  poll(&locks, 0x100, 0, false);
  assert_lock(&locks.longest, 0x100, 7, false);
  poll(&locks, 0x200, 8, true);
  assert_lock(&locks.longest, 0x100, 7, false);
  assert_lock(&locks.current, 0x200, 8, true);
  poll(&locks, 0x200, 9, true); /* as long: the later one */
  assert_lock(&locks.longest, 0x200, 9, true);
  poll(&locks, 0, 0, false);
  assert_lock(&locks.longest, 0x200, 9, true);
  assert_lock(&locks.current, 0, 0, false);
  poll(&locks, 0x200, 9, false); /* the deadlock is over */
  assert_lock(&locks.longest, 0x200, 9, false);
}

static void *take_shared(void *unused) {
  assert_int_equal(sonde_stall_begin(0), 0);
  pthread_rwlock_rdlock(&shared);
  pthread_rwlock_unlock(&shared);
  assert_int_equal(sonde_stall_end(), 0);
  return unused;
}

static void a_rwlock_and_its_writer(void **unused) {
  (void)unused;
  skip_without_owners();
  pthread_rwlock_wrlock(&shared);
  pthread_t thread = begin(take_shared, SONDE_STALL_LOCK);
  wait_for(&is_told);
  pthread_rwlock_unlock(&shared);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&owner), os_tid());
  assert_true(atomic_load(&lock) == (uintptr_t)&shared);
}

static void *take_other_then_one(void *unused) {
  assert_int_equal(sonde_stall_begin(0), 0);
  pthread_mutex_lock(&other);
  atomic_store(&has_lock, true);
  pthread_mutex_lock(&one);
  pthread_mutex_unlock(&one);
  pthread_mutex_unlock(&other);
  assert_int_equal(sonde_stall_end(), 0);
  return unused;
}

static void a_deadlock(void **unused) {
  (void)unused;
  skip_without_owners();
  pthread_mutex_lock(&one);
  pthread_t thread = begin(take_other_then_one, SONDE_STALL_DEADLOCK);
  wait_for(&has_lock);
  while (!atomic_load(&is_told)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    assert_int_not_equal(pthread_mutex_timedlock(&other, &until), 0);
  }
  pthread_mutex_unlock(&one);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&owner), os_tid());
}

static void causes_have_texts(void **unused) {
  (void)unused;
  assert_string_equal(sonde_stall_cause_text(SONDE_STALL_LOCK), "waiting for a lock");
  assert_string_equal(sonde_stall_cause_text(SONDE_STALL_UNKNOWN), "unknown cause");
  assert_string_equal(sonde_stall_cause_text((sonde_stall_cause_t)99), "unknown cause");
  for (int c = SONDE_STALL_ON_CPU; c <= SONDE_STALL_SEVERAL; c++)
    assert_string_not_equal(sonde_stall_cause_text((sonde_stall_cause_t)c), "unknown cause");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_cpu),
                                     cmocka_unit_test(a_call),
                                     cmocka_unit_test(a_mutex_and_its_owner),
                                     cmocka_unit_test(a_rwlock_and_its_writer),
                                     cmocka_unit_test(a_deadlock),
                                     cmocka_unit_test(the_end_names_the_lock_of_the_longest_wait),
                                     cmocka_unit_test(the_longest_wait_is_kept),
                                     cmocka_unit_test(causes_have_texts)};
  pthread_t thread;
  if (skips_under_tsan()) return 77;
  pthread_create(&thread, NULL, monitor, NULL);
  while (sonde_heartbeat() == SONDE_EUNSUPPORTED)
    usleep(1000);
  sonde_stall_end();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  sonde_stall_monitor_stop();
  pthread_join(thread, NULL);
  return failed;
}
