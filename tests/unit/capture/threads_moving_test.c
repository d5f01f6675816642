/* SPDX-License-Identifier: MIT
 *
 * Stacks of other threads that ran while they were read, and saved stacks of threads that did not
 * run: a returned stack is one that its thread had.
 */
#define _GNU_SOURCE
#include "unit/subject.h"
#include "os/linux/internal.h"
#include "capture/capture_cache.h"

/* A thread that blocks for short times, alternately under one chain of calls and under another.
 * Both end at the same place with the same stack pointer, and their outer frames are so far out
 * that they are copied later than the inner ones. */
typedef struct flipper {
  volatile int stop;
  pid_t tid;
  void *calls[2][DEPTH];
  atomic_int count[2];
} flipper_t;

static void rest(flipper_t *f, int chain) {
  struct timespec moment = {0, 1000};
  if (f->count[chain] == 0) f->count[chain] = backtrace(f->calls[chain], DEPTH);
  nanosleep(&moment, NULL);
}
#define CHAIN(name, next, chain, size)                                                             \
  NOINLINE static void name(flipper_t *f) {                                                        \
    volatile char room[size];                                                                      \
    room[0] = 1;                                                                                   \
    next;                                                                                          \
    sink += room[0];                                                                               \
  }
CHAIN(a4, rest(f, 0), 0, 40)
CHAIN(a3, a4(f), 0, 72)
CHAIN(a2, a3(f), 0, 20024)
CHAIN(a1, a2(f), 0, 136)
CHAIN(b4, rest(f, 1), 1, 24)
CHAIN(b3, b4(f), 1, 136)
CHAIN(b2, b3(f), 1, 20040)
CHAIN(b1, b2(f), 1, 72)

static void *flip(void *argument) {
  flipper_t *f = argument;
  f->tid = (pid_t)syscall(SYS_gettid);
  while (!f->stop) {
    a1(f);
    b1(f);
  }
  return NULL;
}

static bool called_in(const flipper_t *f, int chain, uintptr_t pc) {
  for (int i = 0; i < f->count[chain]; i++)
    if ((uintptr_t)f->calls[chain][i] == pc) return true;
  return false;
}

static bool called_only_in(const flipper_t *f, int chain, uintptr_t pc) {
  return called_in(f, chain, pc) && !called_in(f, 1 - chain, pc);
}

typedef struct tally {
  int seen[2], mixed, elsewhere, running;
} tally_t;

static void count_stack(const flipper_t *f, const sonde_capture_t *c, tally_t *tally) {
  int hits[2] = {0, 0};
  if (c->status == SONDE_STACK_UNAVAILABLE) {
    assert_int_equal(c->reason, SONDE_ERUNNING);
    tally->running++;
    return;
  }
  assert_int_equal(c->status, SONDE_STACK_COMPLETE);
  for (int i = 0; i < c->count; i++)
    for (int chain = 0; chain < 2; chain++)
      hits[chain] += called_only_in(f, chain, c->pcs[i]);
  if (hits[0] > 0 && hits[1] > 0)
    tally->mixed++;
  else if (hits[0] >= 4 || hits[1] >= 4)
    tally->seen[hits[1] >= 4]++;
  else
    tally->elsewhere++;
}

#define FLIPPERS 8

static void look_at_all(const flipper_t *flippers, tally_t *tally) {
  static sonde_thread_stack_t stacks[FLIPPERS + 8];
  static uintptr_t pcs[(FLIPPERS + 8) * DEPTH];
  sonde_all_t all = {.threads = stacks, .max = FLIPPERS + 8, .pcs = pcs, .depth = DEPTH};
  all.options.flags = SONDE_NO_SIGNAL | SONDE_NO_THREAD_NAMES;
  assert_true(sonde_capture_all(&all) > FLIPPERS);
  for (int row = 0; row < all.count; row++)
    for (int i = 0; i < FLIPPERS; i++)
      if (stacks[row].thread.tid == flippers[i].tid)
        count_stack(&flippers[i], &stacks[row].stack, tally);
}

static void look_at_one(const flipper_t *f, tally_t *tally) {
  uintptr_t pcs[DEPTH];
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
  sonde_thread_options_t options = {.flags = SONDE_NO_SIGNAL};
  int n = sonde_capture_thread(f->tid, &c, &options);
  assert_int_equal(n, c.status == SONDE_STACK_UNAVAILABLE ? c.reason : c.count);
  count_stack(f, &c, tally);
}

static void look_at_flippers(const char *how, const flipper_t *flippers, int looks) {
  tally_t tally = {.mixed = 0};
  /* Until each chain was met. Without a CPU the thread is only seen waiting for one. */
  for (int i = 0; i < looks || tally.seen[0] == 0 || tally.seen[1] == 0; i++) {
    look_at_one(&flippers[i % FLIPPERS], &tally);
    if (i % 8 == 0) look_at_all(flippers, &tally);
  }
  print_message("%s: first chain %d, second chain %d, mixed %d, elsewhere %d, running %d\n", how,
                tally.seen[0], tally.seen[1], tally.mixed, tally.elsewhere, tally.running);
  assert_int_equal(tally.mixed, 0);
}

static void samples_of_running_threads_are_discarded(void **state) {
  (void)state;
  static flipper_t flippers[FLIPPERS];
  pthread_t threads[FLIPPERS];
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  for (int i = 0; i < FLIPPERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, flip, &flippers[i]), 0);
  for (int i = 0; i < FLIPPERS; i++)
    while (flippers[i].count[0] == 0 || flippers[i].count[1] == 0)
      usleep(200);
  look_at_flippers("as this system tells", flippers, 5000);
  uint32_t clock = linux_cpu_clock;
  linux_cpu_clock = 2;
  look_at_flippers("by how often they were put on a CPU", flippers, 5000);
  linux_schedstat = 2;
  look_at_flippers("by how often they were taken off one", flippers, 5000);
  linux_schedstat = 0;
  linux_cpu_clock = clock;
  for (int i = 0; i < FLIPPERS; i++) {
    flippers[i].stop = 1;
    pthread_join(threads[i], NULL);
  }
}

/* sonde_capture_all saves the stacks of threads that did not run; the stack of one that ran must be
 * new. */
static volatile int walker_stage;
static sem_t walker_steps;
NOINLINE static void stage_a(void) {
  sem_wait(&walker_steps);
  sink++;
}
NOINLINE static void stage_b(void) {
  sem_wait(&walker_steps);
  sink--;
}
static void *walker(void *argument) {
  *(volatile pid_t *)argument = (pid_t)syscall(SYS_gettid);
  for (int i = 0; i < 400; i++) {
    walker_stage = i + 1;
    if (i % 2)
      stage_b();
    else
      stage_a();
  }
  return NULL;
}

static bool passes_through(const sonde_capture_t *c, void (*function)(void)) {
  for (int i = 0; i < c->count; i++)
    if (c->pcs[i] > (uintptr_t)function && c->pcs[i] < (uintptr_t)function + 40) return true;
  return false;
}

static void keep_no_old_stacks(const char *counter) {
  print_message("%s\n", counter);
  static sonde_thread_stack_t stacks[8];
  static uintptr_t pcs[8 * DEPTH];
  volatile pid_t tid = 0;
  pthread_t thread;
  sem_init(&walker_steps, 0, 0);
  walker_stage = 0;
  assert_int_equal(pthread_create(&thread, NULL, walker, (void *)&tid), 0);
  for (int i = 0; i < 400; i++) {
    while (walker_stage != i + 1)
      sched_yield();
    /* Until it has come to rest, and then again. */
    for (int look = 0; look < 5;) {
      sonde_all_t all = {.threads = stacks, .max = 8, .pcs = pcs, .depth = DEPTH};
      all.options.flags = SONDE_NO_SIGNAL | SONDE_NO_THREAD_NAMES;
      assert_true(sonde_capture_all(&all) >= 2);
      for (int row = 0; row < all.count; row++) {
        const sonde_capture_t *c = &stacks[row].stack;
        assert_true(c->pc == 0);
        if (stacks[row].thread.tid != tid || c->status != SONDE_STACK_COMPLETE) continue;
        look++;
        assert_false(passes_through(c, i % 2 ? stage_a : stage_b));
        if (look > 2) assert_true(passes_through(c, i % 2 ? stage_b : stage_a));
      }
    }
    sem_post(&walker_steps);
  }
  pthread_join(thread, NULL);
}

static void saved_stacks_are_current(void **state) {
  (void)state;
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  uint32_t clock = linux_cpu_clock;
  keep_no_old_stacks("as this system tells");
  linux_cpu_clock = 2;
  keep_no_old_stacks("by how often they were put on a CPU");
  linux_schedstat = 2;
  keep_no_old_stacks("by how often they were taken off one");
  linux_schedstat = 0;
  linux_cpu_clock = clock;
}

/* ---- a clock that stood still ---------------------------------------------------------------- */

/* The CPU clock of a thread that ran for a moment can show the same time as before. So these tests
 * save the old stack of a thread under its new time, as if the clock had stood still. */
static bool find_identity(pid_t tid, uint64_t identity, void *context) {
  capture_cache_key_t *key = context;
  if (tid == key->tid) key->identity = identity;
  return tid != key->tid;
}

static capture_cache_key_t key_of(pid_t tid) {
  capture_cache_key_t key = {.tid = tid, .epoch = os_loader_epoch()};
  (void)os_threads(find_identity, &key);
  key.progress = os_thread_progress(-1, tid);
  return key;
}

/* Waits until the thread has moved on and come to rest. */
static capture_cache_key_t key_after(const capture_cache_key_t *old) {
  while (os_thread_progress(-1, old->tid) == old->progress || !is_blocked(old->tid))
    usleep(200);
  return key_of(old->tid);
}

typedef struct seen {
  uintptr_t pcs[DEPTH];
  sonde_capture_t capture;
} seen_t;

static void look_at(pid_t tid, seen_t *seen) {
  static sonde_thread_stack_t stacks[8];
  static uintptr_t pcs[8 * DEPTH];
  sonde_all_t all = {.threads = stacks, .max = 8, .pcs = pcs, .depth = DEPTH};
  all.options.flags = SONDE_NO_SIGNAL | SONDE_NO_THREAD_NAMES;
  assert_in_range(sonde_capture_all(&all), 2, 8);
  for (int row = 0; row < all.count; row++)
    if (stacks[row].thread.tid == tid) seen->capture = stacks[row].stack;
  memcpy(seen->pcs, seen->capture.pcs, sizeof seen->pcs);
  seen->capture.pcs = seen->pcs;
}

typedef void stage_t(void);
static sem_t stand;
/* Blocks at the same place as under sem_wait, but in a frame of its own. */
NOINLINE static void deeper(volatile char *room) {
  sem_wait(&stand);
  sink += room[0];
}
/* Without a sanitizer's checks, with which it would be longer than passes_through expects. */
NOINLINE __attribute__((no_sanitize("address", "undefined"))) static void stage_deeper(void) {
  volatile char room[200];
  room[0] = 1;
  deeper(room);
  sink += room[0];
}
NOINLINE static void stage_plain(void) {
  sem_wait(&stand);
  sink++;
}
NOINLINE static void stage_other(void) {
  sem_wait(&stand);
  sink--;
}
static stage_t *const stages[] = {stage_plain, stage_other, stage_deeper};
enum { STAGES = sizeof stages / sizeof *stages };

typedef struct stander {
  volatile pid_t tid;
  int from, to;
} stander_t;

static void *stand_twice(void *argument) {
  stander_t *s = argument;
  s->tid = (pid_t)syscall(SYS_gettid);
  stages[s->from]();
  stages[s->to]();
  return NULL;
}

/* Waits until the thread has come to rest in STAGE. */
static void await_stage(const stander_t *s, stage_t *stage, seen_t *seen) {
  do {
    usleep(200);
    look_at(s->tid, seen);
  } while (seen->capture.status != SONDE_STACK_COMPLETE || !passes_through(&seen->capture, stage));
}

static void move_without_time(int from, int to) {
  stander_t s = {.from = from, .to = to};
  pthread_t thread;
  seen_t before, after;
  capture_place_t place;
  sem_init(&stand, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, stand_twice, &s), 0);
  while (s.tid == 0)
    sched_yield();
  await_stage(&s, stages[from], &before);
  capture_cache_key_t old = key_of(s.tid);
  assert_true(capture_cache_find(&old, &place));
  sem_post(&stand);
  capture_cache_key_t moved = key_after(&old);
  capture_cache_store(&moved, &place, &before.capture);
  look_at(s.tid, &after);
  assert_int_equal(after.capture.status, SONDE_STACK_COMPLETE);
  assert_true(passes_through(&after.capture, stages[to]));
  if (from != to) assert_false(passes_through(&after.capture, stages[from]));
  /* The old stack is no longer saved; the new one is. */
  assert_true(capture_cache_find(&moved, &place));
  assert_true(capture_cache_confirm(&moved, &place, &after.capture));
  sem_post(&stand);
  pthread_join(thread, NULL);
}

static void a_clock_that_stood_still_hides_nothing(void **state) {
  (void)state;
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  for (int from = 0; from < STAGES; from++)
    for (int to = 0; to < STAGES; to++)
      move_without_time(from, to);
}

/* Two system calls without a wrapper in one frame: the stack pointer and the return addresses are
 * the same. Only a call in between wrote to the stack, below the stack pointer. */
#if defined(__x86_64__)
static inline void read_here(int fd, volatile char *c) {
  long r = SYS_read;
  __asm__ volatile("syscall" : "+a"(r) : "D"(fd), "S"(c), "d"(1) : "rcx", "r11", "memory");
}
#else
static inline void read_here(int fd, volatile char *c) {
  register long number __asm__("x8") = SYS_read;
  register long a __asm__("x0") = fd;
  register volatile char *b __asm__("x1") = c;
  register long size __asm__("x2") = 1;
  __asm__ volatile("svc 0" : "+r"(a) : "r"(number), "r"(b), "r"(size) : "memory");
}
#endif

typedef struct reader {
  volatile pid_t tid;
  int ends[2];
  volatile char c;
} reader_t;

NOINLINE static void write_to_stack(void) {
  volatile char room[48];
  for (size_t i = 0; i < sizeof room; i++)
    room[i] = (char)i;
  sink += room[7];
}

NOINLINE static void read_twice(reader_t *r) {
  read_here(r->ends[0], &r->c);
  write_to_stack();
  read_here(r->ends[0], &r->c);
  sink++;
}

static void *read_main(void *argument) {
  reader_t *r = argument;
  r->tid = (pid_t)syscall(SYS_gettid);
  read_twice(r);
  return NULL;
}

static void a_call_in_between_is_noticed(void **state) {
  (void)state;
  reader_t r = {.tid = 0};
  pthread_t thread;
  seen_t before, after;
  capture_place_t place;
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  assert_int_equal(pipe2(r.ends, O_CLOEXEC), 0);
  assert_int_equal(pthread_create(&thread, NULL, read_main, &r), 0);
  while (r.tid == 0 || !is_blocked(r.tid))
    sched_yield();
  look_at(r.tid, &before);
  capture_cache_key_t old = key_of(r.tid);
  assert_true(capture_cache_find(&old, &place));
  assert_int_equal(write(r.ends[1], "x", 1), 1);
  capture_cache_key_t moved = key_after(&old);
  capture_cache_store(&moved, &place, &before.capture);
  look_at(r.tid, &after);
  assert_int_equal(after.capture.count, before.capture.count);
  assert_true(after.pcs[0] > before.pcs[0]);
  assert_memory_equal(after.pcs + 1, before.pcs + 1,
                      (size_t)(after.capture.count - 1) * sizeof *after.pcs);
  assert_int_equal(write(r.ends[1], "x", 1), 1);
  pthread_join(thread, NULL);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void saved_under_the_whole_key(void **state) {
  (void)state;
  uintptr_t pcs[6] = {1, 2, 3, 4, 5, 6}, odd[6] = {1, 2, 3, 4, 5, 7};
  capture_cache_key_t key = {4711, 5, 6, 7};
  capture_place_t place = {.pc = 1, .sp = 64, .below = 11, .fp = 9, .has_fp = true}, found;
  sonde_capture_t c = {.pcs = pcs, .max = 6, .count = 6};
  capture_cache_store(&key, &place, &c);
  for (int field = 0; field < 5; field++) {
    capture_cache_key_t other = key;
    /* The same entry of the table. */
    other.tid += field == 0 ? 1024 : 0;
    other.identity += field == 1;
    other.progress += field == 2;
    other.epoch += field == 3;
    assert_int_equal(capture_cache_find(&other, &found), field == 4);
    assert_int_equal(capture_cache_confirm(&other, &place, &c), field == 4);
  }
  assert_true(found.pc == 1 && found.sp == 64 && found.below == 11 && found.fp == 9);
  /* With a limit, without the innermost frame, and beyond the last one. */
  sonde_capture_t part = {
      .pcs = pcs + 1, .max = 2, .skip = 1, .count = 2, .status = SONDE_STACK_TRUNCATED};
  assert_true(capture_cache_confirm(&key, &place, &part));
  sonde_capture_t beyond = {.pcs = pcs, .max = 2, .skip = 9};
  assert_true(capture_cache_confirm(&key, &place, &beyond));
  c.status = SONDE_STACK_BROKEN;
  key.progress++;
  capture_cache_store(&key, &place, &c);
  assert_false(capture_cache_find(&key, &found));
  /* A stack that differs is removed. */
  c.status = SONDE_STACK_COMPLETE;
  for (int difference = 0; difference < 4; difference++) {
    sonde_capture_t other = c;
    capture_place_t now = place;
    capture_cache_store(&key, &place, &c);
    assert_true(capture_cache_confirm(&key, &place, &c));
    if (difference == 0) other.pcs = odd;
    if (difference == 1) other.count = 5;
    if (difference == 2) other.status = SONDE_STACK_TRUNCATED;
    if (difference == 3) now.below++;
    assert_false(capture_cache_confirm(&key, &now, &other));
    assert_false(capture_cache_find(&key, &found));
  }
}

int main(void) {
  if (skips_under_tsan()) return 77;
  void *warm[4];
  /* Loads libgcc_s now, not in a thread. */
  (void)backtrace(warm, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_of_running_threads_are_discarded),
      cmocka_unit_test(saved_stacks_are_current),
      cmocka_unit_test(a_clock_that_stood_still_hides_nothing),
      cmocka_unit_test(a_call_in_between_is_noticed),
      cmocka_unit_test(saved_under_the_whole_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
