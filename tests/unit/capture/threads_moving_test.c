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

static void saved_under_the_whole_key(void **state) {
  (void)state;
  uintptr_t pcs[6] = {1, 2, 3, 4, 5, 6}, out[6];
  capture_cache_key_t key = {4711, 5, 6, 7};
  sonde_capture_t c = {.pcs = pcs, .max = 6, .count = 6, .flags = SONDE_FLAG_INFERRED};
  capture_cache_store(&key, &c);
  for (int field = 0; field < 5; field++) {
    capture_cache_key_t other = key;
    /* The same entry of the table. */
    other.tid += field == 0 ? 1024 : 0;
    other.identity += field == 1;
    other.progress += field == 2;
    other.epoch += field == 3;
    sonde_capture_t found = {.pcs = out, .max = 6};
    assert_int_equal(capture_cache_find(&other, &found), field == 4);
    if (field == 4) {
      assert_int_equal(found.count, 6);
      assert_int_equal(found.status, SONDE_STACK_COMPLETE);
      assert_int_equal(found.flags, SONDE_FLAG_INFERRED);
      assert_memory_equal(out, pcs, sizeof pcs);
    }
  }
  sonde_capture_t part = {.pcs = out, .max = 2, .skip = 1};
  assert_true(capture_cache_find(&key, &part));
  assert_int_equal(part.count, 2);
  assert_int_equal(part.status, SONDE_STACK_TRUNCATED);
  assert_memory_equal(out, pcs + 1, 2 * sizeof *pcs);
  sonde_capture_t beyond = {.pcs = out, .max = 2, .skip = 9};
  assert_true(capture_cache_find(&key, &beyond));
  assert_int_equal(beyond.count, 0);
  c.status = SONDE_STACK_BROKEN;
  key.progress++;
  capture_cache_store(&key, &c);
  assert_false(capture_cache_find(&key, &part));
}

int main(void) {
  if (skips_under_tsan()) return 77;
  void *warm[4];
  /* Loads libgcc_s now, not in a thread. */
  (void)backtrace(warm, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_of_running_threads_are_discarded),
      cmocka_unit_test(saved_stacks_are_current),
      cmocka_unit_test(saved_under_the_whole_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
