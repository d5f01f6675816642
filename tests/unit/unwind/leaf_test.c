/* SPDX-License-Identifier: MIT
 *
 * Threads blocked in a leaf whose caller is only in a register. Passively their stack ends there.
 * Signaled, where the program does not notice, it is complete and contains the leaf once.
 */
#define _GNU_SOURCE
#include <linux/futex.h>

#include "leaf.h"
#include "unit/subject.h"

typedef struct waiter {
  pthread_t thread;
  pid_t tid;
  atomic_int ready;
  /* The thread waits while this is 0. */
  uint32_t word;
  bool has_limit, blocks_sigurg;
  long result;
  /* Return addresses, from that of waits_in_leaf on. */
  void *expected[DEPTH];
  int first, count;
} waiter_t;

NOINLINE static void waits_in_leaf(waiter_t *w) {
  struct timespec day = {86400, 0};
  void *caller = __builtin_extract_return_addr(__builtin_return_address(0));
  w->count = backtrace(w->expected, DEPTH);
  while (w->expected[w->first] != caller)
    w->first++;
  w->ready = 1;
  w->result = leaf_call(SYS_futex, (long)&w->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0,
                        w->has_limit ? (long)&day : 0);
  sink++;
}

static void *waiter_main(void *argument) {
  waiter_t *w = argument;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  if (w->blocks_sigurg) pthread_sigmask(SIG_BLOCK, &set, NULL);
  w->tid = os_tid();
  waits_in_leaf(w);
  sink++;
  return NULL;
}

/* A signaled thread runs until it is back in its call. */
static void wait_until_it_waits(const waiter_t *w) {
  while (!w->ready || !is_blocked(w->tid))
    usleep(200);
}

static void waiter_start(waiter_t *w) {
  assert_int_equal(pthread_create(&w->thread, NULL, waiter_main, w), 0);
  wait_until_it_waits(w);
}

/* Its call has waited all the time, and ends like an undisturbed call. */
static void waiter_stop(waiter_t *w) {
  assert_true(os_thread_alive(w->tid));
  __atomic_store_n(&w->word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &w->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
  pthread_join(w->thread, NULL);
  wait_until_gone(w->tid);
  /* If the call is restarted just after the wake-up, it finds another word. */
  if (w->result != -EAGAIN) assert_int_equal(w->result, 0);
}

static bool is_in_leaf(uintptr_t pc) {
  return pc > (uintptr_t)leaf_call && pc < (uintptr_t)leaf_call_end;
}

static void check_whole(const waiter_t *w, const sonde_capture_t *c) {
  int outer = w->count - w->first;
  uintptr_t caller = (uintptr_t)&waits_in_leaf;
  assert_int_equal(c->status, SONDE_STACK_COMPLETE);
  assert_int_equal(c->count, outer + 2);
  assert_true(is_in_leaf(c->pcs[0]));
  assert_in_range(c->pcs[1], caller + 1, caller + 2000);
  assert_memory_equal(c->pcs + 2, w->expected + w->first, (size_t)outer * sizeof *c->pcs);
  assert_true(c->flags & SONDE_FLAG_SIGNALED);
}

static void check_torn(const sonde_capture_t *c) {
  assert_int_equal(c->status, SONDE_STACK_BROKEN);
  assert_int_equal(c->reason, SONDE_ENOTFOUND);
  assert_int_equal(c->count, 1);
  assert_true(is_in_leaf(c->pcs[0]));
  assert_int_equal(c->flags, 0);
}

static sonde_capture_t capture_with(const waiter_t *w, unsigned flags, uintptr_t *pcs) {
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
  const sonde_thread_options_t options = {flags, PATIENCE_NS};
  int n = sonde_capture_thread(w->tid, &c, &options);
  assert_int_equal(n, c.count);
  return c;
}

#define NEEDS_PLACE()                                                                              \
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked")

/* ---- one thread ----------------------------------------------------------------------------- */

static void a_leaf_is_signaled_for_its_caller(void **state) {
  (void)state;
  waiter_t w = {0};
  uintptr_t pcs[DEPTH];
  NEEDS_PLACE();
  waiter_start(&w);
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = capture_with(&w, 0, pcs);
    check_whole(&w, &c);
  }
  waiter_stop(&w);
}

static void no_signal_is_sent_if_the_caller_forbids_it(void **state) {
  (void)state;
  waiter_t w = {0};
  uintptr_t pcs[DEPTH];
  NEEDS_PLACE();
  waiter_start(&w);
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = capture_with(&w, SONDE_NO_SIGNAL, pcs);
    check_torn(&c);
  }
  waiter_stop(&w);
}

/* The kernel would end the call with EINTR. */
static void a_call_that_would_end_is_not_interrupted(void **state) {
  (void)state;
  waiter_t w = {.has_limit = true};
  uintptr_t pcs[DEPTH];
  NEEDS_PLACE();
  waiter_start(&w);
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = capture_with(&w, 0, pcs);
    check_torn(&c);
  }
  waiter_stop(&w);
}

static void a_thread_that_blocks_the_signal_is_not_signaled(void **state) {
  (void)state;
  waiter_t w = {.blocks_sigurg = true};
  uintptr_t pcs[DEPTH];
  NEEDS_PLACE();
  waiter_start(&w);
  for (int i = 0; i < 2; i++) {
    sonde_capture_t c = capture_with(&w, i ? SONDE_SIGNAL_BLOCKED : 0, pcs);
    check_torn(&c);
  }
  waiter_stop(&w);
}

/* The timeout is too short for the signal: the passive stack remains. */
static void without_a_result_the_passive_stack_remains(void **state) {
  (void)state;
  static const sonde_thread_options_t hasty = {.timeout_ns = 1};
  waiter_t w = {0};
  uintptr_t pcs[DEPTH];
  NEEDS_PLACE();
  waiter_start(&w);
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
    wait_until_it_waits(&w);
    int n = sonde_capture_thread(w.tid, &c, &hasty);
    assert_int_equal(n, c.count);
    if (c.status == SONDE_STACK_COMPLETE)
      check_whole(&w, &c);
    else
      check_torn(&c);
  }
  waiter_stop(&w);
}

static void signaled_first_the_stack_is_complete(void **state) {
  (void)state;
  waiter_t w = {0};
  uintptr_t pcs[DEPTH];
  waiter_start(&w);
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = capture_with(&w, SONDE_SIGNAL_BLOCKED, pcs);
    check_whole(&w, &c);
  }
  waiter_stop(&w);
}

/* ---- a signal of the program's own ----------------------------------------------------------- */

static uintptr_t interrupted_pcs[DEPTH];
static sonde_capture_t interrupted;
static sem_t handled;

static void on_usr1(int number, siginfo_t *info, void *ucontext) {
  (void)number, (void)info;
  interrupted = (sonde_capture_t){.pcs = interrupted_pcs, .max = DEPTH, .ucontext = ucontext};
  (void)sonde_capture(&interrupted);
  /* As check_whole expects. */
  interrupted.flags |= SONDE_FLAG_SIGNALED;
  sem_post(&handled);
}

static void a_handler_sees_the_complete_stack(void **state) {
  (void)state;
  waiter_t w = {0};
  const struct sigaction action = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO | SA_RESTART};
  assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
  sem_init(&handled, 0, 0);
  waiter_start(&w);
  for (int i = 0; i < 100; i++) {
    pthread_kill(w.thread, SIGUSR1);
    while (sem_wait(&handled) != 0) {
    }
    check_whole(&w, &interrupted);
    wait_until_it_waits(&w);
  }
  waiter_stop(&w);
}

/* ---- all of them ---------------------------------------------------------------------------- */

#define WAITERS 40

static void all_of_them(void **state) {
  (void)state;
  static waiter_t waiters[WAITERS];
  static sonde_thread_stack_t rows[WAITERS + 8];
  static uintptr_t pcs[(WAITERS + 8) * DEPTH];
  NEEDS_PLACE();
  for (int i = 0; i < WAITERS; i++) {
    waiters[i].has_limit = i % 4 == 3;
    waiter_start(&waiters[i]);
  }
  for (int round = 0; round < 20; round++) {
    sonde_all_t all = {.threads = rows, .max = WAITERS + 8, .pcs = pcs, .depth = DEPTH};
    all.options = patiently;
    if (round % 2) all.options.flags = SONDE_NO_SIGNAL;
    int found = 0;
    for (int i = 0; i < WAITERS; i++)
      wait_until_it_waits(&waiters[i]);
    assert_true(sonde_capture_all(&all) > WAITERS);
    for (int row = 0; row < all.count; row++)
      for (int i = 0; i < WAITERS; i++) {
        if (rows[row].thread.tid != waiters[i].tid) continue;
        found++;
        if (round % 2 || waiters[i].has_limit)
          check_torn(&rows[row].stack);
        else
          check_whole(&waiters[i], &rows[row].stack);
      }
    assert_int_equal(found, WAITERS);
  }
  for (int i = 0; i < WAITERS; i++)
    waiter_stop(&waiters[i]);
}

/* ---- a handler that ends calls: the last, since it stays --------------------------------------
 */

static void on_urgent(int number) { sink += number; }

/* The program requested that calls end at SIGURG, and sonde's handler, in front of its own, behaves
 * the same. */
static void a_program_whose_handler_ends_calls_is_not_disturbed(void **state) {
  (void)state;
  waiter_t w = {0};
  static subject_t spinning;
  uintptr_t pcs[DEPTH];
  const struct sigaction action = {.sa_handler = on_urgent};
  NEEDS_PLACE();
  assert_int_equal(sigaction(SIGURG, &action, NULL), 0);
  waiter_start(&w);
  subject_start(&spinning, SPIN);
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = capture_with(&w, 0, pcs);
    check_torn(&c);
    /* From now on sonde's handler is in front. */
    if (i != 50) continue;
    c = (sonde_capture_t){.pcs = pcs, .max = DEPTH};
    assert_true(sonde_capture_thread(spinning.tid, &c, &patiently) > 0);
    assert_true(c.flags & SONDE_FLAG_SIGNALED);
  }
  subject_stop(&spinning);
  waiter_stop(&w);
}

int main(void) {
  if (skips_under_tsan()) return 77;
  void *warm[4];
  /* Loads libgcc_s now, not in a thread. */
  (void)backtrace(warm, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_leaf_is_signaled_for_its_caller),
      cmocka_unit_test(no_signal_is_sent_if_the_caller_forbids_it),
      cmocka_unit_test(a_call_that_would_end_is_not_interrupted),
      cmocka_unit_test(a_thread_that_blocks_the_signal_is_not_signaled),
      cmocka_unit_test(without_a_result_the_passive_stack_remains),
      cmocka_unit_test(signaled_first_the_stack_is_complete),
      cmocka_unit_test(a_handler_sees_the_complete_stack),
      cmocka_unit_test(all_of_them),
      cmocka_unit_test(a_program_whose_handler_ends_calls_is_not_disturbed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
