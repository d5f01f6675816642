/* SPDX-License-Identifier: MIT
 *
 * Other threads' stacks that moved while they were read, and those that are kept because their
 * threads did not move: a stack is one that its thread had, or it is not given.
 */
#define _GNU_SOURCE
#include "unit/subject.h"
#include "unwind/kept.h"

/* A thread that blocks for moments, now at the end of one chain of calls, now of another. */
typedef struct flipper {
  volatile int stop;
  pid_t tid;
  void *calls[2][DEPTH];
  int count[2];
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
CHAIN(a2, a3(f), 0, 24)
CHAIN(a1, a2(f), 0, 136)
CHAIN(b4, rest(f, 1), 1, 24)
CHAIN(b3, b4(f), 1, 136)
CHAIN(b2, b3(f), 1, 40)
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

static void torn_samples_are_thrown_away(void **state) {
  (void)state;
  static flipper_t f;
  pthread_t thread;
  int seen[2] = {0, 0}, running = 0, other = 0;
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  assert_int_equal(pthread_create(&thread, NULL, flip, &f), 0);
  while (f.count[1] == 0)
    usleep(200);
  /* Until each chain was met: where it gets no CPU it is seen waiting for one and nowhere else. */
  for (int i = 0; i < 20000 || seen[0] == 0 || seen[1] == 0; i++) {
    uintptr_t pcs[DEPTH];
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH};
    sonde_thread_options_t options = {.flags = SONDE_NO_SIGNAL};
    int n = sonde_capture_thread(f.tid, &c, &options), hits[2] = {0, 0};
    if (n < 0) {
      assert_int_equal(n, SONDE_ERUNNING);
      running++;
      continue;
    }
    assert_int_equal(c.mark, SONDE_COMPLETE);
    for (int k = 0; k < n; k++)
      for (int chain = 0; chain < 2; chain++)
        hits[chain] += called_only_in(&f, chain, pcs[k]);
    if (hits[0] > 0 && hits[1] > 0) print_error("mixed: %d and %d\n", hits[0], hits[1]);
    assert_true(hits[0] == 0 || hits[1] == 0);
    if (hits[0] >= 4)
      seen[0]++;
    else if (hits[1] >= 4)
      seen[1]++;
    else
      other++;
  }
  print_message("first chain %d, second chain %d, elsewhere %d, running %d\n", seen[0], seen[1],
                other, running);
  f.stop = 1;
  pthread_join(thread, NULL);
}

/* All threads at once keeps the stacks of those that did not move: what it says of one that did
 * must be new. */
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

static void kept_stacks_are_not_old(void **state) {
  (void)state;
  static sonde_thread_stack_t stacks[8];
  static uintptr_t pcs[8 * DEPTH];
  volatile pid_t tid = 0;
  pthread_t thread;
  if (!can_read_in_place()) SKIP_BECAUSE("this system does not tell where a thread is blocked");
  sem_init(&walker_steps, 0, 0);
  walker_stage = 0;
  assert_int_equal(pthread_create(&thread, NULL, walker, (void *)&tid), 0);
  for (int i = 0; i < 400; i++) {
    while (walker_stage != i + 1)
      sched_yield();
    for (int look = 0; look < 5;) { /* until it has come to rest, and then again */
      sonde_all_t all = {.threads = stacks, .max = 8, .pcs = pcs, .depth = DEPTH};
      all.options.flags = SONDE_NO_SIGNAL | SONDE_NO_THREAD_NAMES;
      assert_true(sonde_capture_all(&all) >= 2);
      for (int row = 0; row < all.count; row++) {
        const sonde_capture_t *c = &stacks[row].stack;
        assert_true(c->pc == 0);
        if (stacks[row].thread.tid != tid || c->mark != SONDE_COMPLETE) continue;
        look++;
        assert_false(passes_through(c, i % 2 ? stage_a : stage_b));
        if (look > 2) assert_true(passes_through(c, i % 2 ? stage_b : stage_a));
      }
    }
    sem_post(&walker_steps);
  }
  pthread_join(thread, NULL);
}

static void kept_by_the_whole_key(void **state) {
  (void)state;
  uintptr_t pcs[6] = {1, 2, 3, 4, 5, 6}, out[6];
  kept_key_t key = {4711, 5, 6, 7};
  sonde_capture_t c = {.pcs = pcs, .max = 6, .count = 6, .flags = SONDE_FLAG_PROVEN};
  kept_store(&key, &c);
  for (int field = 0; field < 5; field++) {
    kept_key_t other = key;
    other.tid += field == 0 ? 1024 : 0; /* the same place in the table */
    other.identity += field == 1;
    other.cpu_ns += field == 2;
    other.epoch += field == 3;
    sonde_capture_t found = {.pcs = out, .max = 6};
    assert_int_equal(kept_find(&other, &found), field == 4);
    if (field == 4) {
      assert_int_equal(found.count, 6);
      assert_int_equal(found.mark, SONDE_COMPLETE);
      assert_int_equal(found.flags, SONDE_FLAG_PROVEN);
      assert_memory_equal(out, pcs, sizeof pcs);
    }
  }
  sonde_capture_t part = {.pcs = out, .max = 2, .skip = 1};
  assert_true(kept_find(&key, &part));
  assert_int_equal(part.count, 2);
  assert_int_equal(part.mark, SONDE_CUT);
  assert_memory_equal(out, pcs + 1, 2 * sizeof *pcs);
  sonde_capture_t beyond = {.pcs = out, .max = 2, .skip = 9};
  assert_true(kept_find(&key, &beyond));
  assert_int_equal(beyond.count, 0);
  c.mark = SONDE_TORN;
  key.cpu_ns++;
  kept_store(&key, &c);
  assert_false(kept_find(&key, &part));
}

int main(void) {
  if (skips_under_tsan()) return 77;
  void *warm[4];
  (void)backtrace(warm, 4); /* loads libgcc_s now, not in a thread */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(torn_samples_are_thrown_away),
      cmocka_unit_test(kept_stacks_are_not_old),
      cmocka_unit_test(kept_by_the_whole_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
