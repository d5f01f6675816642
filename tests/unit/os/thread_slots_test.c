/* SPDX-License-Identifier: MIT
 *
 * Thread slots of an attached agent, which has no thread-local storage: the file is compiled here
 * as for that agent.
 */
#define _GNU_SOURCE
#define SONDE_ATTACHED
#include "os/linux/pthread/thread_slots.c"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"

#define THREADS 64

#define STACK_BYTES 262144

static int marks[THREADS];
/* The threads of a round get the stacks, and so the thread pointers, of those of the last one. */
static char stacks[THREADS][STACK_BYTES] __attribute__((aligned(65536)));

static int init(void **state) {
  (void)state;
  return os_thread_slots_init() ? 0 : -1;
}

static pthread_barrier_t all_are_here;

/* True if the thread had no value, and sees only its own afterwards. */
static void *use_own(void *mark) {
  bool none = !os_thread_slot(SLOT_WRITER) && os_thread_slots_claim();
  os_set_thread_slot(SLOT_WRITER, mark);
  os_set_thread_slot(SLOT_THREAD_STATE, (char *)mark + 1);
  pthread_barrier_wait(&all_are_here);
  bool own = os_thread_slots_claim() && os_thread_slot(SLOT_WRITER) == mark &&
             os_thread_slot(SLOT_THREAD_STATE) == (char *)mark + 1 && !os_thread_slot(SLOT_TRACE);
  return (void *)(uintptr_t)(none && own);
}

static void run_threads(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&all_are_here, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stacks[i], STACK_BYTES), 0);
    assert_int_equal(pthread_create(&threads[i], &attributes, use_own, &marks[i]), 0);
    pthread_attr_destroy(&attributes);
  }
  for (int i = 0; i < THREADS; i++) {
    void *good;
    pthread_join(threads[i], &good);
    assert_non_null(good);
  }
  pthread_barrier_destroy(&all_are_here);
}

static void threads_see_their_own_values(void **state) {
  (void)state;
  run_threads();
}

static uint32_t used_entries(void) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < ENTRIES; i++)
    used += table[i].key != 0;
  return used;
}

static void ended_threads_leave_their_entries(void **state) {
  (void)state;
  for (int i = 0; i < repeats(100); i++)
    run_threads();
  assert_in_range(used_entries(), THREADS, THREADS + 1); /* and perhaps this thread */
}

static void the_first_value_claims_slots(void **state) {
  (void)state;
  os_set_thread_slot(SLOT_TRACE, NULL); /* this thread has not claimed any */
  assert_null(os_thread_slot(SLOT_TRACE));
  os_set_thread_slot(SLOT_TRACE, marks);
  assert_ptr_equal(os_thread_slot(SLOT_TRACE), marks);
  os_set_thread_slot(SLOT_TRACE, NULL);
}

static void a_child_has_no_values(void **state) {
  (void)state;
  assert_true(os_thread_slots_claim());
  os_set_thread_slot(SLOT_WRITER, marks);
  pid_t child = fork();
  if (child == 0) _exit(os_thread_slot(SLOT_WRITER) ? 1 : !os_thread_slots_claim() ? 2 : 0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_ptr_equal(os_thread_slot(SLOT_WRITER), marks);
}

/* A process made by the system call has its parent's id behind the thread pointer. */
static void a_thread_with_a_foreign_id_is_refused(void **state) {
  (void)state;
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(os_thread_slots_claim());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void *claim_and_report(void *unused) {
  (void)unused;
  return (void *)(uintptr_t)os_thread_slots_claim();
}

static bool thread_gets_slots(void) {
  pthread_t thread;
  void *claimed;
  assert_int_equal(pthread_create(&thread, NULL, claim_and_report, NULL), 0);
  pthread_join(thread, &claimed);
  return claimed != NULL;
}

/* Fills the table with threads of the id TID. */
static void fill(pid_t tid) {
  for (uint32_t i = 0; i < ENTRIES; i++)
    table[i].key = (uint64_t)(i + 1) << TID_BITS | (uint32_t)tid;
}

static void a_full_table_refuses_threads(void **state) {
  (void)state;
  fill(os_tid());
  assert_false(thread_gets_slots());
  table[ENTRIES / 2].key = 0;
  assert_true(thread_gets_slots());
  memset(table, 0, sizeof table);
}

static void entries_of_ended_threads_are_used_again(void **state) {
  (void)state;
  pid_t ended = fork();
  if (ended == 0) _exit(0);
  assert_int_equal(waitpid(ended, NULL, 0), ended);
  fill(ended);
  for (uint32_t i = 0; i < ENTRIES; i++)
    table[i].values[SLOT_WRITER] = marks;
  run_threads(); /* they expect no values */
  memset(table, 0, sizeof table);
}

/* ---- a signal at any instruction of a claim ----------------------------------------------------
 */

static volatile sig_atomic_t handled;

static void claim_in_handler(int number) {
  (void)number;
  handled = 1 + (os_thread_slots_claim() && (os_set_thread_slot(SLOT_TRACE, marks), true) &&
                 os_thread_slot(SLOT_TRACE) == marks);
}

static void *be_interrupted(void *claimed) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  *(bool *)claimed = os_thread_slots_claim();
  while (!handled) /* the signal is on its way; ThreadSanitizer delays it until a call that waits */
    usleep(1);
  return NULL;
}

static void signals_may_interrupt_a_claim(void **state) {
  (void)state;
  struct sigaction action = {.sa_handler = claim_in_handler}, before;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, NULL); /* threads inherit it */
  sigaction(SIGUSR1, &action, &before);
  for (int i = 0; i < repeats(2000); i++) {
    pthread_t thread;
    bool claimed = false;
    handled = 0;
    assert_int_equal(pthread_create(&thread, NULL, be_interrupted, &claimed), 0);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    assert_true(claimed);
    assert_int_equal(handled, 2);
  }
  sigaction(SIGUSR1, &before, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_value_claims_slots),
      cmocka_unit_test(threads_see_their_own_values),
      cmocka_unit_test(ended_threads_leave_their_entries),
      cmocka_unit_test(a_child_has_no_values),
      cmocka_unit_test(a_thread_with_a_foreign_id_is_refused),
      cmocka_unit_test(a_full_table_refuses_threads),
      cmocka_unit_test(entries_of_ended_threads_are_used_again),
      cmocka_unit_test(signals_may_interrupt_a_claim),
  };
  return cmocka_run_group_tests(tests, init, NULL);
}
