/* SPDX-License-Identifier: MIT
 *
 * Other threads' stacks in difficult situations: the program's own handlers, late results, threads
 * that end, start or cannot be interrupted, no descriptors, forks and signal handlers.
 */
#define _GNU_SOURCE
#include "unit/subject.h"

/* ---- the handler ---------------------------------------------------------------------------- */

static volatile int first_calls, second_calls, plain_calls;
static volatile uintptr_t value_seen;
static void (*handed_on)(int, siginfo_t *, void *);

static void first_handler(int signal, siginfo_t *info, void *context) {
  (void)context;
  assert_int_equal(signal, SIGURG);
  value_seen = (uintptr_t)info->si_value.sival_ptr;
  first_calls++;
}

static int frames_of(pid_t tid) {
  uintptr_t pcs[DEPTH];
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
  return sonde_capture_thread(tid, &c, &patiently);
}

static void capture_running(pid_t tid) { assert_true(frames_of(tid) > 5); }

/* Unwinders pass through sonde's frames (the handler's and the one it returns to) to the program's.
 */
static void *through_handler[DEPTH], *from_outside[DEPTH];
static volatile int through_count;
static void unwinding_handler(int signal) {
  (void)signal;
  through_count = backtrace(through_handler, DEPTH);
}

static void check_unwinding(pid_t running) {
  struct sigaction action = {.sa_handler = unwinding_handler};
  assert_int_equal(sigaction(SIGURG, &action, NULL), 0);
  capture_running(running);
  int count = backtrace(from_outside, DEPTH);
  raise(SIGURG);
  assert_true(through_count > count);
  /* All but this function's own. */
  for (int i = 1; i < count - 1; i++)
    assert_ptr_equal(through_handler[through_count - i], from_outside[count - i]);
}

static void second_handler(int signal, siginfo_t *info, void *context) {
  second_calls++;
  if (handed_on != NULL) handed_on(signal, info, context);
}
static void plain_handler(int signal) {
  assert_int_equal(signal, SIGURG);
  plain_calls++;
}

static void queue_sigurg(uintptr_t value) {
  union sigval v = {.sival_ptr = (void *)value};
  assert_int_equal(sigqueue(getpid(), SIGURG, v), 0);
}

/* The program's handlers get every SIGURG of the program and none of sonde's, in either order of
 * installation, and also if the program's handler calls sonde's. */
static void handlers_are_chained(void **state) {
  (void)state;
  static subject_t s;
  s.blocks_sigurg = false;
  subject_start(&s, SPIN);
  /* Installs the handler, if no case before did. */
  capture_running(s.tid);

  struct sigaction first = {.sa_sigaction = first_handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct sigaction old;
  assert_int_equal(sigaction(SIGURG, &first, &old), 0);
  queue_sigurg(0x1234);
  assert_int_equal(first_calls, 1);
  /* Installs sonde's handler in front of first_handler. */
  capture_running(s.tid);
  assert_int_equal(first_calls, 1);
  queue_sigurg(0x5678);
  assert_int_equal(first_calls, 2);
  assert_int_equal(value_seen, 0x5678);
  raise(SIGURG);
  assert_int_equal(first_calls, 3);

  /* The program's second handler calls the one that it found, which is sonde's. */
  struct sigaction second = {.sa_sigaction = second_handler, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGURG, &second, &old), 0);
  handed_on = old.sa_sigaction;
  capture_running(s.tid);
  raise(SIGURG);
  assert_int_equal(second_calls, 1);
  /* sonde's, second, sonde's earlier one, first. */
  assert_int_equal(first_calls, 4);
  capture_running(s.tid);
  assert_int_equal(second_calls, 1);

  struct sigaction plain = {.sa_handler = plain_handler};
  assert_int_equal(sigaction(SIGURG, &plain, NULL), 0);
  capture_running(s.tid);
  raise(SIGURG);
  assert_int_equal(plain_calls, 1);
  assert_int_equal(first_calls, 4);

  check_unwinding(s.tid);

  struct sigaction ignore = {.sa_handler = SIG_IGN};
  assert_int_equal(sigaction(SIGURG, &ignore, NULL), 0);
  capture_running(s.tid);
  raise(SIGURG);
  subject_stop(&s);
}

/* ---- the deadline --------------------------------------------------------------------------- */

static void late_results_touch_nothing(void **state) {
  (void)state;
  static subject_t s;
  subject_start(&s, SPIN);
  int late = 0;
  for (int i = 0; i < 2000; i++) {
    uintptr_t pcs[DEPTH];
    memset(pcs, 0xab, sizeof pcs);
    sonde_thread_options_t options = {.timeout_ns = 1};
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
    int n = sonde_capture_thread(s.tid, &c, &options);
    if (n > 0) {
      check_stack(&s, &c);
      continue;
    }
    late++;
    assert_int_equal(n, SONDE_ETIMEDOUT);
    assert_int_equal(c.reason, SONDE_ETIMEDOUT);
    assert_int_equal(c.status, SONDE_STACK_UNAVAILABLE);
    /* Lets the result arrive. */
    if (i % 20 == 0) usleep(1000);
    for (int k = 0; k < DEPTH; k++)
      assert_true(pcs[k] == (uintptr_t)0xababababababababu);
  }
  print_message("%d of 2000 answers were late\n", late);
  /* No slot was lost. */
  capture_running(s.tid);
  subject_stop(&s);
}

/* A thread that was signaled before blocks the signal, as sonde's handler does at its start and
 * end, and loses its CPU there. It leaves that state with the next instruction that it executes. */
typedef struct starved {
  subject_t s;
  volatile int blocks, go_on;
} starved_t;

static void stay_on_one_cpu(void) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

NOINLINE static void block_and_spin(starved_t *starved) {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  while (!starved->s.stop) {
    pthread_sigmask(SIG_BLOCK, &set, &before);
    starved->blocks = 1;
    while (!starved->go_on && !starved->s.stop)
      starved->s.spins++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (starved->go_on && !starved->s.stop)
      starved->s.spins++;
  }
}

static void *starve(void *argument) {
  starved_t *starved = argument;
  starved->s.tid = os_tid();
  stay_on_one_cpu();
  (void)setpriority(PRIO_PROCESS, (id_t)starved->s.tid, 19);
  block_and_spin(starved);
  return NULL;
}

static volatile int stop_hogging;
static void *hog(void *argument) {
  stay_on_one_cpu();
  while (!stop_hogging)
    continue;
  return argument;
}

static void a_starved_thread_does_not_block_the_signal(void **state) {
  (void)state;
  static starved_t starved;
  pthread_t hogging;
  if (is_emulated()) SKIP_BECAUSE("the emulator's own work for a thread counts as the thread's");
  starved.go_on = 1;
  assert_int_equal(pthread_create(&starved.s.thread, NULL, starve, &starved), 0);
  /* It does not block the signal now. */
  while (starved.s.spins == 0)
    usleep(1000);
  assert_in_range(frames_of(starved.s.tid), 3, DEPTH);
  stop_hogging = 0;
  assert_int_equal(pthread_create(&hogging, NULL, hog, NULL), 0);
  for (int i = 0; i < 4; i++) {
    starved.blocks = starved.go_on = 0;
    while (!starved.blocks)
      usleep(1000);
    /* The other one takes the CPU. */
    usleep(10000);
    starved.go_on = 1;
    assert_in_range(frames_of(starved.s.tid), 3, DEPTH);
  }
  starved.s.stop = stop_hogging = 1;
  pthread_join(hogging, NULL);
  pthread_join(starved.s.thread, NULL);
  wait_until_gone(starved.s.tid);
}

static void ended_threads_are_reported(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[DEPTH];
  subject_start(&s, SEM);
  pid_t tid = s.tid;
  subject_stop(&s);
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
  assert_int_equal(sonde_capture_thread(tid, &c, NULL), SONDE_ENOTHREAD);
  assert_int_equal(c.status, SONDE_STACK_UNAVAILABLE);
}

/* A thread that waits as after vfork is in state D, which no signal interrupts, until its child
 * ends. (vfork() itself keeps its return address in a register, which the kernel does not report;
 * so the child has its own memory here.) */
static void *wait_for_child(void *argument) {
  subject_t *s = argument;
  s->tid = (pid_t)syscall(SYS_gettid);
  s->ready = 1;
  pid_t child = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) {
    char c;
    syscall(SYS_read, s->ends[0], &c, 1);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return NULL;
}

static void uninterruptible_threads(void **state) {
  (void)state;
  static subject_t s;
  uintptr_t pcs[2][DEPTH];
  sonde_capture_t captured[2];
  int counts[2];
  sonde_thread_t t = {0};
  if (is_emulated()) SKIP_BECAUSE("qemu-user makes vfork a fork");
  assert_int_equal(pipe2(s.ends, O_CLOEXEC), 0);
  assert_int_equal(pthread_create(&s.thread, NULL, wait_for_child, &s), 0);
  while (!s.ready)
    usleep(200);
  while (t.state != 'D') {
    usleep(200);
    sonde_thread(s.tid, &t);
  }
  for (int i = 0; i < 2; i++) {
    sonde_thread_options_t options = {.flags = i ? SONDE_SIGNAL_BLOCKED : 0};
    captured[i] = (sonde_capture_t){.pcs = pcs[i], .max = DEPTH};
    counts[i] = sonde_capture_thread(s.tid, &captured[i], &options);
  }
  /* Nothing waits any more if a check fails. */
  assert_int_equal(write(s.ends[1], "x", 1), 1);
  pthread_join(s.thread, NULL);
  close(s.ends[0]);
  close(s.ends[1]);
  for (int i = 0; i < 2; i++) {
    const sonde_capture_t *c = &captured[i];
    /* syscall() again. */
    if (LEAF_HIDES_CALLER) {
      assert_int_equal(c->status, SONDE_STACK_BROKEN);
      assert_int_equal(c->reason, SONDE_ENOTFOUND);
      continue;
    }
    if (counts[i] <= 2)
      print_error("%d frames, mark %d reason %d\n", counts[i], c->status, c->reason);
    assert_true(counts[i] > 2);
    assert_int_equal(c->status, SONDE_STACK_COMPLETE);
    assert_false(c->flags & SONDE_FLAG_SIGNALED);
  }
}

/* ---- coming and going ----------------------------------------------------------------------- */

static volatile int stop_stress;
static void *short_life(void *argument) {
  usleep((useconds_t)(uintptr_t)argument);
  return NULL;
}
static void *make_short_lives(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  while (!stop_stress) {
    pthread_t t[8];
    int n = 0;
    for (; n < 8; n++)
      if (pthread_create(&t[n], NULL, short_life, (void *)(uintptr_t)(rand_r(&seed) % 500)) != 0)
        break;
    while (n > 0)
      pthread_join(t[--n], NULL);
  }
  return NULL;
}

static void *capture_all_often(void *argument) {
  sonde_thread_stack_t *own_rows = calloc(256, sizeof *own_rows);
  uintptr_t *pcs = calloc(256 * 32, sizeof *pcs);
  int *failures = argument;
  while (!stop_stress) {
    sonde_all_t all = {.threads = own_rows, .max = 256, .pcs = pcs, .depth = 32};
    all.options.timeout_ns = 200000000;
    int n = sonde_capture_all(&all);
    if (n < 1 || n != all.count || all.total < n) ++*failures;
    for (int i = 0; i < n; i++) {
      const sonde_capture_t *c = &own_rows[i].stack;
      bool none = c->status == SONDE_STACK_UNAVAILABLE;
      if (none != (c->count == 0) || c->count > 32) ++*failures;
      if (none && c->reason != SONDE_ENOTHREAD && c->reason != SONDE_ETIMEDOUT &&
          c->reason != SONDE_ERUNNING && c->reason != SONDE_EBLOCKED &&
          c->reason != SONDE_EUNINTERRUPTIBLE && c->reason != SONDE_EUNSUPPORTED) {
        printf("reason %d\n", c->reason);
        ++*failures;
      }
    }
  }
  free(own_rows);
  free(pcs);
  return NULL;
}

/* Three threads capture all threads, including each other, while others start and end. */
static void threads_come_and_go(void **state) {
  (void)state;
  pthread_t makers[2], capturers[3];
  int failures[3] = {0};
  stop_stress = 0;
  for (uintptr_t i = 0; i < 2; i++)
    pthread_create(&makers[i], NULL, make_short_lives, (void *)(i + 1));
  for (int i = 0; i < 3; i++)
    pthread_create(&capturers[i], NULL, capture_all_often, &failures[i]);
  sleep(3);
  stop_stress = 1;
  for (int i = 0; i < 2; i++)
    pthread_join(makers[i], NULL);
  for (int i = 0; i < 3; i++) {
    pthread_join(capturers[i], NULL);
    assert_int_equal(failures[i], 0);
  }
}

/* ---- hard circumstances --------------------------------------------------------------------- */

static void without_descriptors(void **state) {
  (void)state;
  static subject_t s, spinning;
  struct rlimit limit, none;
  uintptr_t pcs[DEPTH];
  subject_start(&s, SEM);
  subject_start(&spinning, SPIN);
  wait_until_blocked(&s);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = limit;
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  int listed = sonde_threads(NULL, 0), blocked = sonde_stack_of_thread(s.tid, pcs, DEPTH);
  int running = sonde_stack_of_thread(spinning.tid, pcs, DEPTH);
  int own = sonde_stack_of_thread(os_tid(), pcs, DEPTH);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  /* The emulator's own descriptors count otherwise. */
  if (!is_emulated()) {
    assert_int_equal(listed, SONDE_EUNSUPPORTED);
    assert_int_equal(blocked, SONDE_EUNSUPPORTED);
    assert_int_equal(running, SONDE_EUNSUPPORTED);
  }
  assert_true(own > 2);
  if (can_read_in_place()) assert_true(sonde_stack_of_thread(s.tid, pcs, DEPTH) > 5);
  subject_stop(&s);
  subject_stop(&spinning);
}

static void children_capture_their_own(void **state) {
  (void)state;
  static subject_t s;
  subject_start(&s, SPIN);
  capture_running(s.tid);
  pid_t child = fork();
  if (child == 0) {
    static subject_t mine;
    uintptr_t pcs[DEPTH];
    sonde_thread_t t[4];
    if (sonde_threads(t, 4) != (is_emulated() ? 2 : 1) || t[0].tid != getpid()) _exit(1);
    if (sonde_stack_of_thread(s.tid, pcs, DEPTH) != SONDE_ENOTHREAD) _exit(2);
    /* qemu 7.2 crashes when a forked child starts a thread. */
    if (is_emulated()) _exit(0);
    subject_start(&mine, SPIN);
    /* More than there are slots. */
    for (int i = 0; i < 300; i++)
      if (frames_of(mine.tid) < 5) _exit(3);
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  if (!is_emulated()) {
    child = vfork();
    if (child == 0) {
      /* The parent's threads are not the child's. */
      uintptr_t pcs[DEPTH];
      _exit(sonde_stack_of_thread(s.tid, pcs, DEPTH) == SONDE_ENOTHREAD ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  subject_stop(&s);
}

static volatile int in_handler_result;
static pid_t tid_for_handler;
static void capture_in_handler(int signal) {
  (void)signal;
  in_handler_result = frames_of(tid_for_handler);
}

static void from_a_signal_handler(void **state) {
  (void)state;
  static subject_t s, spinning;
  struct sigaction action = {.sa_handler = capture_in_handler, .sa_flags = SA_ONSTACK}, old;
  static char alternate[65536];
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, before;
  assert_int_equal(sigaltstack(&stack, &before), 0);
  sigaction(SIGUSR1, &action, &old);
  subject_start(&s, SEM);
  subject_start(&spinning, SPIN);
  wait_until_blocked(&s);
  tid_for_handler = spinning.tid;
  raise(SIGUSR1);
  assert_true(in_handler_result > 5);
  if (can_read_in_place()) {
    tid_for_handler = s.tid;
    raise(SIGUSR1);
    assert_true(in_handler_result > 5);
  }
  sigaction(SIGUSR1, &old, NULL);
  sigaltstack(&before, NULL);
  subject_stop(&s);
  subject_stop(&spinning);
}

int main(void) {
  if (skips_under_tsan()) return 77;
  void *warm[4];
  /* Loads libgcc_s now, not in a thread. */
  (void)backtrace(warm, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(handlers_are_chained),
      cmocka_unit_test(late_results_touch_nothing),
      cmocka_unit_test(a_starved_thread_does_not_block_the_signal),
      cmocka_unit_test(ended_threads_are_reported),
      cmocka_unit_test(uninterruptible_threads),
      cmocka_unit_test(threads_come_and_go),
      cmocka_unit_test(without_descriptors),
      cmocka_unit_test(children_capture_their_own),
      cmocka_unit_test(from_a_signal_handler),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
