/* SPDX-License-Identifier: MIT
 *
 * The predictor (capture/predictor.h): however wrong a prediction is, the captured stack is the
 * true one.
 *
 * A random program with a few routes runs repeatedly, so predictions are mostly correct. It has
 * frames of equal size that differ only in their return addresses, and frames of different size
 * that differ only in their frame pointers. Occasionally it takes another route, jumps out by
 * longjmp, continues in a fiber, or a library is loaded. The table of predictions is shuffled too,
 * so that a lookup finds another stack's prediction, as after a hash collision. Every id is
 * compared with the shadow stack.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "oracle.h"
#include "skip.h"
#include "capture/stack.h"
#include "capture/thread_state.h"

static volatile int zero;
static uint64_t random_state;
static long captures, predicted, jumps, fibers, shuffles;
/* Shuffle the predictions. */
static bool disturb;

static predictor_t *predictor(void) { return &thread_state_current->cache.predictor; }

/* ---- captures -------------------------------------------------------------------------------- */

static void shuffle(void) {
  predictor_t *t = predictor();
  for (uint32_t i = 0; i < t->count; i++)
    t->table[chance(&random_state) % t->count] = t->table[chance(&random_state) % t->count];
  t->last = t->table[chance(&random_state) % t->count].id;
  shuffles++;
}

/* Moves to every place a prediction with the same stack pointer, if there is one: only the pc or
 * the outer frames are wrong then. */
static void mislead(uint64_t sp) {
  predictor_t *t = predictor();
  const prediction_t *found[PREDICTOR_LARGE_SIZE];
  uint32_t count = 0;
  for (uint32_t i = 0; i < t->count; i++)
    if (t->table[i].sp == sp) found[count++] = &t->table[i];
  if (count == 0) return;
  prediction_t chosen = *found[chance(&random_state) % count];
  for (uint32_t i = 0; i < t->count; i++)
    t->table[i] = chosen;
  shuffles++;
}

static uint64_t last_sp;

static NOINLINE int leaf(void) {
  SHADOW_ENTER();
  static uintptr_t pcs[ORACLE_MAX];
  uint32_t id = 0, before = thread_state_current ? predictor()->right : 0;
  EXPECT_EQUAL(sonde_stack_id(&id), 0);
  captures++;
  predicted += predictor()->right == before + 1;
  shadow_check(pcs, sonde_stack_of_id(id, pcs, ORACLE_MAX), 1, "a predicted stack");
  if (disturb) predictor()->paused = 0;
  const frame_cache_t *cache = &thread_state_current->cache;
  last_sp = cache->entries[cache->top].slot + 8;
  if (disturb && chance(&random_state) % 8 == 0) mislead(last_sp);
  if (disturb && chance(&random_state) % 64 == 0) shuffle();
  SHADOW_LEAVE();
  return zero;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static NOINLINE int follow(uint64_t route);

#define EQUAL(name)                                                                                \
  static NOINLINE int name(uint64_t route) {                                                       \
    SHADOW_ENTER();                                                                                \
    int result = follow(route >> 4) + zero;                                                        \
    SHADOW_LEAVE();                                                                                \
    return result;                                                                                 \
  }
EQUAL(equal_a)
EQUAL(equal_b)
EQUAL(equal_c)
EQUAL(equal_d)

/* 64 and 192 alternate and lead to the same stack pointer as 192 and 64. */
static NOINLINE int of_size(uint64_t route, size_t size) {
  SHADOW_ENTER();
  volatile char *room = __builtin_alloca(size);
  room[0] = 1;
  int result = follow(route >> 4) + zero * room[0];
  SHADOW_LEAVE();
  return result;
}

static NOINLINE int fixed(uint64_t route) {
  SHADOW_ENTER();
  volatile char room[3000];
  room[zero] = 1;
  int result = follow(route >> 4) + zero * room[zero];
  SHADOW_LEAVE();
  return result;
}

static NOINLINE int follow(uint64_t route) {
  SHADOW_ENTER();
  int result = zero;
  switch (route & 15) {
  case 1: result += equal_a(route); break;
  case 2: result += equal_b(route); break;
  case 3: result += equal_c(route); break;
  case 4: result += equal_d(route); break;
  case 5: result += of_size(route, 64); break;
  case 6: result += of_size(route, 192); break;
  case 7: result += fixed(route); break;
  case 8: result += leaf() + follow(route >> 4); break;
  default: result += leaf();
  }
  SHADOW_LEAVE();
  return result + zero;
}

static uint64_t random_route(void) {
  uint64_t route = 0;
  for (uint32_t n = 2 + chance(&random_state) % 10; n > 0; n--)
    route = route << 4 | (1 + chance(&random_state) % 8);
  return route;
}

/* Two frames of a route are exchanged; often everything else stays at its place. */
static uint64_t twist(uint64_t route) {
  unsigned at = 4 * (chance(&random_state) % 8);
  uint64_t pair = route >> at & 0xff;
  if (!(pair >> 4) || !(pair & 15)) return route;
  return (route & ~((uint64_t)0xff << at)) | (pair >> 4 | (pair & 15) << 4) << at;
}

/* ---- longjmp and fibers ---------------------------------------------------------------------- */

static jmp_buf out;

static NOINLINE void jump_out(uint64_t route) {
  SHADOW_ENTER();
  if (setjmp(out) == 0) {
    follow(route);
    leaf();
    longjmp(out, 1);
  }
  jumps++;
  SHADOW_LEAVE();
}

static ucontext_t outside, inside;
static uint64_t fiber_route;
static shadow_t fiber_shadow;

static void run_fiber(void) {
  shadow_t *outer = shadow;
  shadow_start(&fiber_shadow);
  follow(fiber_route);
  shadow = outer;
  swapcontext(&inside, &outside);
}

static void in_fiber(uint64_t route) {
  /* Always the same, so stack pointers repeat. */
  static char room[1 << 16];
  fiber_route = route;
  getcontext(&inside);
  inside.uc_stack.ss_sp = room;
  inside.uc_stack.ss_size = sizeof room;
  inside.uc_link = NULL;
  makecontext(&inside, run_fiber, 0);
  swapcontext(&outside, &inside);
  fibers++;
}

/* ---- the tests ------------------------------------------------------------------------------- */

#define ROUTES 6

static NOINLINE void run_routes(uint64_t *routes, long rounds) {
  SHADOW_ENTER();
  for (long i = 0; i < rounds; i++) {
    for (int k = 0; k < ROUTES; k++) {
      follow(routes[k]);
      uint32_t what = chance(&random_state) % 512;
      if (what < 4) follow(twist(routes[k]));
      if (what == 5) follow(random_route());
      if (what == 6) jump_out(twist(routes[k]));
      if (what == 7) in_fiber(routes[k]);
      if (what == 8) routes[k] = twist(routes[k]);
    }
  }
  SHADOW_LEAVE();
}

static shadow_t own;

static NOINLINE void run_programs(long until) {
  uint64_t routes[ROUTES];
  shadow_start(&own);
  for (captures = predicted = 0; captures < until;) {
    for (int k = 0; k < ROUTES; k++)
      routes[k] = random_route();
    run_routes(routes, 100);
  }
  shadow = NULL;
}

static void predictions_are_verified(void **state) {
  (void)state;
  random_state = seed_given();
  disturb = false;
  run_programs(repeats(400000));
  printf("  %ld captures, %ld predicted; %ld longjmps, %ld fibers\n", captures, predicted, jumps,
         fibers);
  assert_true(jumps > 10 && fibers > 10);
  if (PREDICTOR_ENABLED) assert_true(predicted > captures / 3);
}

static void wrong_predictions_are_detected(void **state) {
  (void)state;
  random_state = seed_given();
  disturb = true;
  shuffles = 0;
  run_programs(repeats(400000));
  disturb = false;
  printf("  %ld captures, %ld predicted after %ld shuffles\n", captures, predicted, shuffles);
  if (PREDICTOR_ENABLED) assert_true(shuffles > 1000 && predicted > 1000 && predicted < captures);
}

/* Every wrong word of a prediction is detected. */
static NOINLINE void damaged_predictions(uint64_t route) {
  SHADOW_ENTER();
  static prediction_t saved[PREDICTOR_LARGE_SIZE];
  for (int i = 0; i < 4; i++)
    follow(route);
  const predictor_t *t = predictor();
  uint32_t count = t->count;
  memcpy(saved, t->table, count * sizeof *saved);
  for (uint32_t prediction = 0; prediction < count; prediction++) {
    if (!saved[prediction].sp) continue;
    for (int word = 0; word < saved[prediction].count; word++) {
      memcpy(t->table, saved, count * sizeof *saved);
      prediction_t *damaged = &t->table[prediction];
      /* Another content. */
      damaged->words[word] ^= 8;
      /* If the prediction were used, the id would be wrong. */
      damaged->id = 1;
      damaged->join_id ^= word == 0;
      follow(route);
    }
  }
  SHADOW_LEAVE();
}

static void damage_is_noticed(void **state) {
  (void)state;
  random_state = seed_given();
  shadow_start(&own);
  for (int i = 0; i < repeats(20); i++)
    damaged_predictions(random_route());
  shadow = NULL;
}

/* Two stacks with the same innermost stack pointer and pc, whose outer frames differ only in the
 * frame pointer. Where one has a return address, the other has never written, and finds what the
 * first left there. */
static NOINLINE int sized_leaf(size_t size) {
  SHADOW_ENTER();
  static uintptr_t pcs[ORACLE_MAX];
  uint32_t id;
  volatile char *room = __builtin_alloca(size);
  room[0] = 1;
  EXPECT_EQUAL(sonde_stack_id(&id), 0);
  shadow_check(pcs, sonde_stack_of_id(id, pcs, ORACLE_MAX), 1, "a stack of sized frames");
  const frame_cache_t *cache = &thread_state_current->cache;
  mislead(cache->entries[cache->top].slot + 8);
  predictor()->paused = 0;
  int result = room[0] * zero;
  SHADOW_LEAVE();
  return result;
}

static NOINLINE int sized_frame(size_t size) {
  SHADOW_ENTER();
  volatile char *room = __builtin_alloca(size);
  room[0] = 1;
  int result = size == 64 ? 1 - sized_leaf(192) : sized_leaf(64) + zero;
  result += room[0] * zero;
  SHADOW_LEAVE();
  return result;
}

static void frame_pointers_matter(void **state) {
  (void)state;
  random_state = seed_given();
  shadow_start(&own);
  for (int i = 0; i < 2000; i++)
    sized_frame(chance(&random_state) & 1 ? 64 : 192);
  shadow = NULL;
}

/* The predictions of code that may have been unloaded are cleared. */
static NOINLINE int predictions_of(uint64_t route) {
  SHADOW_ENTER();
  long before = predicted;
  follow(route);
  SHADOW_LEAVE();
  return (int)(predicted - before);
}

static void a_library_ends_them(void **state) {
  (void)state;
  if (is_sanitized())
    SKIP_BECAUSE("what the library's libstdc++ keeps when it goes counts as a leak");
  const uint64_t route = 0x151;
  random_state = 1;
  disturb = false;
  shadow_start(&own);
  for (int i = 0; i < 50; i++) {
    predictor()->paused = predictor()->wrong = 0;
    int predictions[4];
    /* One call site, even if the compiler unrolls the loop. */
    for (int k = 0; k < 4 + zero; k++)
      predictions[k] = predictions_of(route);
    if (PREDICTOR_ENABLED) EXPECT_EQUAL(predictions[3], 1);
    void *library = dlopen(SONDE_FIXTURES "/libstress_throw.so", RTLD_NOW);
    if (!library) oracle_fail("%s", dlerror());
    EXPECT_EQUAL(predictions_of(route), 0);
    dlclose(library);
    EXPECT_EQUAL(predictions_of(route), 0);
  }
  shadow = NULL;
}

static NOINLINE void random_routes(void) {
  SHADOW_ENTER();
  for (int i = 0; i < 4000; i++)
    follow(random_route());
  SHADOW_LEAVE();
}

/* If no prediction is correct, the predictor pauses most of the time. */
static void useless_predictor_pauses(void **state) {
  (void)state;
  random_state = seed_given();
  if (!PREDICTOR_ENABLED) return;
  shadow_start(&own);
  random_routes();
  shadow = NULL;
  predictor()->right = 0;
  predictor()->wrong = PREDICTOR_WRONG_MAX - 1;
  predictor()->paused = 0;
  assert_false(predictor_count_wrong(predictor()));
  assert_int_equal(predictor()->paused, PREDICTOR_PAUSE);
  for (int i = 0; i < PREDICTOR_PAUSE; i++)
    assert_false(predictor_count_wrong(predictor()));
  assert_true(predictor_count_wrong(predictor()));
  predictor()->right = PREDICTOR_RIGHT_MIN;
  predictor()->wrong = PREDICTOR_WRONG_MAX - 1;
  assert_true(predictor_count_wrong(predictor()));
}

#define TURNS 40
#define MANY  150
#define SETS  16

static NOINLINE void follow_all(const uint64_t *routes) {
  SHADOW_ENTER();
  for (int k = 0; k < MANY; k++)
    follow(routes[k]);
  SHADOW_LEAVE();
}

/* A program alternates between more stacks than a thread's own table holds; many are predicted all
 * the same. Its own table could predict 48 of 270. Chance decides which stacks are too deep for a
 * prediction and which share a place in the table, so several sets are counted together. */
static void many_stacks_get_more_room(void **state) {
  (void)state;
  random_state = seed_given();
  if (!PREDICTOR_ENABLED) return;
  disturb = false;
  long of = 0, right = 0;
  shadow_start(&own);
  for (int set = 0; set < SETS; set++) {
    uint64_t routes[MANY];
    for (int k = 0; k < MANY; k++)
      routes[k] = random_route();
    for (int turn = 0; turn < TURNS; turn++) {
      predictor()->paused = 0;
      captures = predicted = 0;
      follow_all(routes);
    }
    of += captures;
    right += predicted;
  }
  shadow = NULL;
  assert_int_equal(predictor()->count, PREDICTOR_LARGE_SIZE);
  printf("  %ld of %ld predicted\n", right, of);
  assert_true(right > of * 2 / 5);
}

static void *one_capture(void *barrier) {
  uint32_t id;
  /* All of them exist at once, so none takes over another's state. */
  pthread_barrier_wait(barrier);
  EXPECT_EQUAL(sonde_stack_id(&id), 0);
  thread_state_current->cache.predictor.right = 0;
  predictor_evaluate(&thread_state_current->cache.predictor);
  pthread_barrier_wait(barrier);
  return (void *)(uintptr_t)thread_state_current->cache.predictor.count;
}

/* The number of large tables is limited, however many threads need one. */
static void large_tables_are_limited(void **state) {
  (void)state;
  enum { THREADS = 4 * PREDICTOR_LARGE_TABLES_MAX };
  if (!PREDICTOR_ENABLED) return;
  pthread_t threads[THREADS];
  pthread_barrier_t barrier;
  int larger = 0;
  assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, one_capture, &barrier), 0);
  for (int i = 0; i < THREADS; i++) {
    void *count;
    pthread_join(threads[i], &count);
    assert_true((uintptr_t)count == PREDICTOR_OWN_SIZE || (uintptr_t)count == PREDICTOR_LARGE_SIZE);
    larger += (uintptr_t)count == PREDICTOR_LARGE_SIZE;
  }
  pthread_barrier_destroy(&barrier);
  printf("  %d of %d threads have a larger table\n", larger, THREADS);
  bool own_is_lent = thread_state_current && predictor()->count == PREDICTOR_LARGE_SIZE;
  assert_int_equal(larger, PREDICTOR_LARGE_TABLES_MAX - own_is_lent);
}

int main(void) {
  void *found[4];
  backtrace_of_libc()(found, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_are_verified),  cmocka_unit_test(wrong_predictions_are_detected),
      cmocka_unit_test(damage_is_noticed),         cmocka_unit_test(frame_pointers_matter),
      cmocka_unit_test(a_library_ends_them),       cmocka_unit_test(useless_predictor_pauses),
      cmocka_unit_test(many_stacks_get_more_room), cmocka_unit_test(large_tables_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
