/* SPDX-License-Identifier: MIT
 *
 * Threads and their stacks: lists, passive capture, signal capture, all at once.
 */
#define _GNU_SOURCE
#include "unit/subject.h"
#include "os/linux/internal.h"

/* ---- lists ---------------------------------------------------------------------------------- */

static const sonde_thread_t *find_thread(const sonde_thread_t *threads, int count, pid_t tid) {
  for (int i = 0; i < count; i++)
    if (threads[i].tid == tid) return &threads[i];
  return NULL;
}

static void threads_have_ids_names_and_states(void **state) {
  (void)state;
  static const char *const names[] = {"plain",           "a) b (c", "with\nnewline", "back\\slash",
                                      "exactly15bytes.", "",        "S R D"};
  enum { N = sizeof names / sizeof *names };
  /* main's, and one of the emulator's if there is one. */
  int before = sonde_threads(NULL, 0);
  assert_int_equal(before, is_emulated() ? 2 : 1);
  static subject_t subjects[N];
  for (int i = 0; i < N; i++) {
    subjects[i].name = names[i];
    subject_start(&subjects[i], i == 1 ? SPIN : SEM);
    if (i != 1) wait_until_blocked(&subjects[i]);
  }
  sonde_thread_t threads[64];
  int count = sonde_threads(threads, 64);
  assert_int_equal(count, N + before);
  assert_int_equal(sonde_threads(NULL, 0), count);
  assert_int_equal(sonde_threads(threads, 2), count);
  assert_int_equal(sonde_threads(threads, 64), count);
  for (int i = 0; i < N; i++) {
    const sonde_thread_t *t = find_thread(threads, count, subjects[i].tid);
    assert_non_null(t);
    assert_string_equal(t->name, names[i]);
    assert_int_equal(t->state, i == 1 ? 'R' : 'S');
    pid_t found[4];
    assert_int_equal(sonde_threads_named(names[i], found, 4), 1);
    assert_int_equal(found[0], subjects[i].tid);
    pid_t by_handle = sonde_thread_of_pthread(subjects[i].thread);
    if (by_handle != SONDE_EUNSUPPORTED) assert_int_equal(by_handle, subjects[i].tid);
  }
  assert_int_equal(sonde_main_thread(), getpid());
  assert_non_null(find_thread(threads, count, sonde_main_thread()));
  assert_int_equal(sonde_threads_named("no such name", NULL, 0), 0);
  /* The kernel keeps 15 bytes; they find a longer name. */
  assert_int_equal(sonde_threads_named("exactly15bytes.and more", NULL, 0), 1);
  assert_int_equal(sonde_thread_of_pthread(pthread_self()), os_tid());
  assert_int_equal(sonde_thread_of_mach_port(1), SONDE_EUNSUPPORTED);
  assert_int_equal(sonde_thread_of_nsthread(threads), SONDE_EUNSUPPORTED);
  assert_int_equal(sonde_thread_of_nsthread(NULL), SONDE_EINVAL);
  for (int i = 0; i < N; i++)
    subject_stop(&subjects[i]);
  assert_int_equal(sonde_thread(subjects[0].tid, &threads[0]), SONDE_ENOTHREAD);
}

static void bad_arguments(void **state) {
  (void)state;
  uintptr_t pcs[8];
  sonde_thread_t thread;
  sonde_capture_t c = {.pcs = pcs, .max = 8};
  sonde_all_t all = {0};
  sonde_thread_options_t both = {.flags = SONDE_NO_SIGNAL | SONDE_SIGNAL_BLOCKED}, odd = {64, 0};
  assert_int_equal(sonde_threads(NULL, 1), SONDE_EINVAL);
  assert_int_equal(sonde_threads(&thread, -1), SONDE_EINVAL);
  assert_int_equal(sonde_threads_named(NULL, NULL, 0), SONDE_EINVAL);
  assert_int_equal(sonde_thread(0, &thread), SONDE_EINVAL);
  /* Of another process. */
  assert_int_equal(sonde_thread(1, &thread), SONDE_ENOTHREAD);
  assert_int_equal(sonde_stack_of_thread(os_tid(), NULL, 8), SONDE_EINVAL);
  assert_int_equal(sonde_stack_of_thread(os_tid(), pcs, 0), SONDE_EINVAL);
  assert_int_equal(sonde_stack_of_thread(0, pcs, 8), SONDE_EINVAL);
  assert_int_equal(sonde_stack_of_thread(1, pcs, 8), SONDE_ENOTHREAD);
  assert_int_equal(sonde_capture_thread(os_tid(), &c, &both), SONDE_EINVAL);
  assert_int_equal(sonde_capture_thread(os_tid(), &c, &odd), SONDE_EINVAL);
  c.skip = -1;
  assert_int_equal(sonde_capture_thread(os_tid(), &c, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_capture_thread(os_tid(), NULL, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_capture_all(NULL), SONDE_EINVAL);
  assert_int_equal(sonde_capture_all(&all), SONDE_EINVAL);
}

/* ---- the calling thread --------------------------------------------------------------------- */

NOINLINE static void own_stack_starts_here(void) {
  uintptr_t by_thread[DEPTH], plain[DEPTH], here = (uintptr_t)&own_stack_starts_here;
  void *caller = __builtin_return_address(0);
  int n = sonde_stack_of_thread(os_tid(), by_thread, DEPTH);
  assert_true(n > 2);
  assert_in_range(by_thread[0], here, here + 2000);
  assert_ptr_equal((void *)by_thread[1], caller);
  assert_int_equal(sonde_stack(plain, DEPTH), n);
  assert_memory_equal(by_thread + 1, plain + 1, (size_t)(n - 1) * sizeof *plain);
  sonde_capture_t c = {.pcs = by_thread, .max = DEPTH, .skip = 1};
  assert_int_equal(sonde_capture_thread(os_tid(), &c, NULL), n - 1);
  assert_ptr_equal((void *)by_thread[0], caller);
  assert_int_equal(c.status, SONDE_STACK_COMPLETE);
}

static void own_stack(void **state) {
  (void)state;
  own_stack_starts_here();
  sink++;
}

/* ---- blocked -------------------------------------------------------------------------------- */

static void without_a_clock_switches_are_counted(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[DEPTH];
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  uint32_t before = linux_cpu_clock;
  subject_start(&s, EPOLL);
  wait_until_blocked(&s);
  linux_cpu_clock = 2;
  assert_true(os_thread_cpu_ns(s.tid) < 0);
  for (int i = 0; i < 100; i++) {
    if (i == 50) linux_schedstat = 2;
    sonde_thread_stack_t stacks[4];
    uintptr_t all_pcs[4 * DEPTH];
    sonde_all_t all = {.threads = stacks, .max = 4, .pcs = all_pcs, .depth = DEPTH};
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
    assert_true(sonde_capture_thread(s.tid, &c, NULL) > 0);
    check_stack(&s, &c);
    assert_true(sonde_capture_all(&all) >= 2);
    for (int row = 0; row < all.count; row++)
      if (stacks[row].thread.tid == s.tid) check_stack(&s, &stacks[row].stack);
  }
  linux_cpu_clock = before;
  linux_schedstat = 0;
  assert_int_equal(s.interrupted, 0);
  subject_stop(&s);
}

static void blocked_threads_are_read_in_place(void **state) {
  (void)state;
  static subject_t subjects[SPIN];
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  for (int k = 0; k < SPIN; k++) {
    subject_start(&subjects[k], (kind_t)k);
    wait_until_blocked(&subjects[k]);
  }
  int proven = 0;
  for (int round = 0; round < 200; round++)
    for (int k = 0; k < SPIN; k++) {
      uintptr_t pcs[DEPTH];
      sonde_thread_options_t options = {.flags = round % 2 ? SONDE_NO_SIGNAL : 0};
      sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
      /* A signaled thread runs until it is back in its call. */
      wait_until_blocked(&subjects[k]);
      errno = 77;
      int n = sonde_capture_thread(subjects[k].tid, &c, &options);
      assert_int_equal(errno, 77);
      assert_int_equal(n, c.count);
      assert_false(c.flags & SONDE_FLAG_HEURISTIC);
      if (!may_be_broken(&subjects[k]) || options.flags)
        assert_false(c.flags & SONDE_FLAG_SIGNALED);
      if (is_reported_broken(&subjects[k], &c)) continue;
      check_stack(&subjects[k], &c);
      proven += (c.flags & SONDE_FLAG_INFERRED) != 0;
      /* Fewer frames than the stack has. */
      uintptr_t few[4], all[DEPTH];
      memcpy(all, pcs, sizeof all);
      assert_int_equal(sonde_stack_of_thread(subjects[k].tid, few, 4), 4);
      assert_memory_equal(few, all, sizeof few);
      sonde_capture_t skipping = {.pcs = pcs, .max = 4, .skip = 3};
      assert_int_equal(sonde_capture_thread(subjects[k].tid, &skipping, &options), 4);
      assert_memory_equal(pcs, all + 3, sizeof few);
      assert_int_equal(skipping.status, SONDE_STACK_TRUNCATED);
    }
  print_message("%d of %d stacks needed the frame register by proof\n", proven, 200 * SPIN);
#if defined(__x86_64__) && !defined(__clang__)
  assert_true(proven >= 200);
#endif
  for (int k = 0; k < SPIN; k++) {
    assert_int_equal(subjects[k].interrupted, 0);
    subject_stop(&subjects[k]);
  }
}

/* ---- running -------------------------------------------------------------------------------- */

static void running_threads_are_signaled(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[DEPTH];
  subject_start(&s, SPIN);
  int signaled = 0;
  for (int i = 0; i < 200; i++) {
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
    assert_true(sonde_capture_thread(s.tid, &c, &patiently) > 0);
    check_stack(&s, &c);
    signaled += (c.flags & SONDE_FLAG_SIGNALED) != 0;
  }
  assert_int_equal(signaled, 200);
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
  sonde_thread_options_t quiet = {.flags = SONDE_NO_SIGNAL};
  assert_int_equal(sonde_capture_thread(s.tid, &c, &quiet), SONDE_ERUNNING);
  assert_int_equal(c.status, SONDE_STACK_UNAVAILABLE);
  assert_int_equal(c.reason, SONDE_ERUNNING);
  assert_int_equal(c.count, 0);
  /* It continues when it gets a CPU. */
  for (uint64_t before = s.spins; s.spins == before;)
    usleep(1000);
  subject_stop(&s);
}

static void blocked_threads_are_signaled_on_request(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[DEPTH];
  sonde_thread_options_t options = {SONDE_SIGNAL_BLOCKED, PATIENCE_NS};
  for (int k = 0; k < 2; k++) {
    s = (subject_t){.ready = 0};
    subject_start(&s, k ? ALLOCA : COND);
    wait_until_blocked(&s);
    for (int i = 0; i < 50; i++) {
      sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
      assert_true(sonde_capture_thread(s.tid, &c, &options) > 0);
      assert_true(c.flags & SONDE_FLAG_SIGNALED);
      check_stack(&s, &c);
    }
    subject_stop(&s);
  }
}

/* Immediate: a wait for the signal would take an hour here. */
static void a_thread_that_blocks_the_signal_is_left_alone(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[DEPTH];
  s.blocks_sigurg = true;
  subject_start(&s, SPIN);
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
  assert_int_equal(sonde_capture_thread(s.tid, &c, &patiently), SONDE_EBLOCKED);
  subject_stop(&s);
}

static volatile int sigwait_result;
static void *wait_for_sigurg(void *argument) {
  subject_t *s = argument;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  s->tid = (pid_t)syscall(SYS_gettid);
  s->ready = 1;
  int signal = 0;
  sigwait(&set, &signal);
  sigwait_result = signal;
  return NULL;
}

static void a_thread_that_waits_for_the_signal_is_left_alone(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[DEPTH];
  assert_int_equal(pthread_create(&s.thread, NULL, wait_for_sigurg, &s), 0);
  while (!s.ready)
    usleep(200);
  wait_until_blocked(&s);
  for (int i = 0; i < 20; i++) {
    sonde_thread_options_t options = {i % 2 ? SONDE_SIGNAL_BLOCKED : 0, PATIENCE_NS};
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
    int n = sonde_capture_thread(s.tid, &c, &options);
    if (can_read_in_place()) {
      assert_true(n > 2);
      assert_int_equal(c.status, SONDE_STACK_COMPLETE);
      assert_false(c.flags & SONDE_FLAG_SIGNALED);
    } else if (!is_emulated())
      assert_int_equal(n, SONDE_EBLOCKED);
  }
  if (!is_emulated()) assert_int_equal(sigwait_result, 0);
  pthread_kill(s.thread, SIGURG);
  pthread_join(s.thread, NULL);
  wait_until_gone(s.tid);
  assert_int_equal(sigwait_result, SIGURG);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static sonde_thread_stack_t rows[512];
static uintptr_t row_pcs[512 * DEPTH];

static const sonde_thread_stack_t *row_of(const sonde_all_t *all, pid_t tid) {
  for (int i = 0; i < all->count; i++)
    if (all->threads[i].thread.tid == tid) return &all->threads[i];
  return NULL;
}

static void all_threads_at_once(void **state) {
  (void)state;
  static subject_t subjects[2 * KINDS];
  const int expected = 2 * KINDS + sonde_threads(NULL, 0);
  for (int i = 0; i < 2 * KINDS; i++) {
    subject_start(&subjects[i], (kind_t)(i % KINDS));
    if (subjects[i].kind != SPIN) wait_until_blocked(&subjects[i]);
  }
  for (int round = 0; round < 50; round++) {
    sonde_all_t all = {.threads = rows, .max = 512, .pcs = row_pcs, .depth = DEPTH};
    all.options = patiently;
    if (round % 2) all.options.flags = SONDE_NO_THREAD_NAMES;
    for (int i = 0; i < 2 * KINDS; i++)
      if (subjects[i].kind != SPIN) wait_until_blocked(&subjects[i]);
    assert_int_equal(sonde_capture_all(&all), expected);
    assert_int_equal(all.total, expected);
    for (int i = 0; i < 2 * KINDS; i++) {
      const sonde_thread_stack_t *row = row_of(&all, subjects[i].tid);
      assert_non_null(row);
      if (subjects[i].kind != SPIN && !can_read_in_place()) {
        assert_int_equal(row->stack.reason, SONDE_EUNSUPPORTED);
        continue;
      }
      if (is_reported_broken(&subjects[i], &row->stack)) continue;
      check_stack(&subjects[i], &row->stack);
      if (!may_be_broken(&subjects[i]))
        assert_int_equal(!!(row->stack.flags & SONDE_FLAG_SIGNALED), subjects[i].kind == SPIN);
      if (round % 2 == 0) assert_int_equal(row->thread.state, subjects[i].kind == SPIN ? 'R' : 'S');
    }
    const sonde_thread_stack_t *own = row_of(&all, os_tid());
    assert_non_null(own);
    assert_int_equal(own->stack.status, SONDE_STACK_COMPLETE);
    uintptr_t here = (uintptr_t)&all_threads_at_once;
    assert_in_range(own->stack.pcs[0], here, here + 4000);
  }
  sonde_all_t few = {.threads = rows, .max = 3, .pcs = row_pcs, .depth = 5};
  assert_int_equal(sonde_capture_all(&few), 3);
  assert_int_equal(few.total, expected);
  for (int i = 0; i < 2 * KINDS; i++) {
    assert_int_equal(subjects[i].interrupted, 0);
    subject_stop(&subjects[i]);
  }
}

/* ---- deep ones among others ------------------------------------------------------------------ */

#define DIGGERS    40
#define DIG_MAX    2000
#define DIG_FRAMES (DIG_MAX + 48)

typedef struct digger {
  pthread_t thread;
  int depth;
  pid_t tid;
  sem_t down, up;
} digger_t;

NOINLINE static int dig(digger_t *d, int depth) {
  volatile char room[48];
  room[0] = 1;
  if (depth > 0)
    room[0] = (char)(dig(d, depth - 1) + 1);
  else {
    sem_post(&d->down);
    sem_wait(&d->up);
  }
  return room[0] + 1;
}

static void *digs(void *argument) {
  digger_t *d = argument;
  d->tid = os_tid();
  sink += dig(d, d->depth);
  return NULL;
}

static void start_digger(digger_t *d, int depth) {
  pthread_attr_t attributes;
  d->depth = depth;
  sem_init(&d->down, 0, 0);
  sem_init(&d->up, 0, 0);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 2 << 20);
  assert_int_equal(pthread_create(&d->thread, &attributes, digs, d), 0);
  pthread_attr_destroy(&attributes);
  sem_wait(&d->down);
}

/* The longest run of one pc: the recursive frames. */
static int recursion(const sonde_capture_t *c) {
  int longest = 0;
  for (int i = 1, run = 1; i < c->count; i++) {
    run = c->pcs[i] == c->pcs[i - 1] ? run + 1 : 1;
    if (run > longest) longest = run;
  }
  return longest;
}

/* Stacks of one frame and of two thousand, in random order, which are copied together. */
static void deep_stacks_among_others(void **state) {
  (void)state;
  static digger_t diggers[DIGGERS];
  static uintptr_t pcs[(DIGGERS + 8) * DIG_FRAMES];
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  unsigned random = 12345;
  for (int i = 0; i < DIGGERS; i++) {
    random = random * 1103515245 + 12345;
    start_digger(&diggers[i], 2 + (int)(random >> 8) % ((random >> 24) & 1 ? DIG_MAX : 60));
  }
  for (int i = 0; i < DIGGERS; i++)
    while (!is_blocked(diggers[i].tid))
      usleep(100);
  for (int round = 0; round < 5; round++) {
    sonde_all_t all = {.threads = rows, .max = DIGGERS + 8, .pcs = pcs, .depth = DIG_FRAMES};
    assert_true(sonde_capture_all(&all) > DIGGERS);
    for (int i = 0; i < DIGGERS; i++) {
      const sonde_thread_stack_t *row = row_of(&all, diggers[i].tid);
      assert_non_null(row);
      assert_int_equal(row->stack.status, SONDE_STACK_COMPLETE);
      assert_int_equal(recursion(&row->stack), diggers[i].depth);
    }
  }
  for (int i = 0; i < DIGGERS; i++) {
    sem_post(&diggers[i].up);
    pthread_join(diggers[i].thread, NULL);
    wait_until_gone(diggers[i].tid);
  }
}

int main(void) {
  if (skips_under_tsan()) return 77;
  void *warm[4];
  /* Loads libgcc_s now, not in a thread. */
  (void)backtrace(warm, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_have_ids_names_and_states),
      cmocka_unit_test(bad_arguments),
      cmocka_unit_test(own_stack),
      cmocka_unit_test(blocked_threads_are_read_in_place),
      cmocka_unit_test(without_a_clock_switches_are_counted),
      cmocka_unit_test(running_threads_are_signaled),
      cmocka_unit_test(blocked_threads_are_signaled_on_request),
      cmocka_unit_test(a_thread_that_blocks_the_signal_is_left_alone),
      cmocka_unit_test(a_thread_that_waits_for_the_signal_is_left_alone),
      cmocka_unit_test(all_threads_at_once),
      cmocka_unit_test(deep_stacks_among_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
