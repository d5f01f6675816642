/* SPDX-License-Identifier: MIT
 *
 * The set of live blocks against an array: random additions and removals, at addresses that are
 * used again and at new ones, so that the set grows and drops removed blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/malloc/live_set.h"

#define SLOTS 400000
#define STEPS 3000000
#define BASE  UINT64_C(0x7f0000000000)

typedef struct truth {
  bool is_live, was_live; /* WAS_LIVE: removed, and not dropped since */
  live_block_t block;
} truth_t;

static truth_t *truth;
static uint64_t dropped;

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state >> 18 ^ *state;
  return x ^ x >> 31;
}

static uint64_t address_of(size_t slot) { return BASE + 48 * (uint64_t)slot; }

static void on_drop(void *context, uint64_t address) {
  truth_t *t = &((truth_t *)context)[(address - BASE) / 48];
  assert_true(t->was_live && !t->is_live);
  t->was_live = false;
  dropped++;
}

static void add(live_set_t *set, size_t slot, uint64_t random) {
  truth_t *t = &truth[slot];
  t->block = (live_block_t){.address = address_of(slot),
                            .size = random & LIVE_SIZE_MAX,
                            .stream = random >> 20 & LIVE_STREAM_MASK,
                            .stack = (uint32_t)random,
                            .weight = (uint32_t)(random >> 32)};
  if (t->block.stream > LIVE_STREAM_MAX) t->block.stream = LIVE_STREAM_MAX;
  assert_true(live_set_add(set, &t->block));
  t->is_live = true;
  t->was_live = false;
}

static void check(const live_set_t *set, size_t slot) {
  const truth_t *t = &truth[slot];
  const live_block_t *block = live_set_find(set, address_of(slot));
  assert_int_equal(block != NULL, t->is_live);
  assert_int_equal(live_set_place(set, address_of(slot)) != NULL, t->is_live || t->was_live);
  if (block) assert_memory_equal(block, &t->block, sizeof *block);
}

static void check_all(const live_set_t *set) {
  size_t count = 0, at = 0, found = 0;
  for (size_t i = 0; i < SLOTS; i++) {
    check(set, i);
    count += truth[i].is_live;
  }
  assert_int_equal(set->count, count);
  while (live_set_next(set, &at))
    found++;
  assert_int_equal(found, count);
}

/* With a limit of address space, the first table has 262,144 places, so that the set moves to a
 * larger one. */
static void init_small(live_set_t *set) {
  struct rlimit before, limit;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  limit = before;
  limit.rlim_cur = UINT64_C(400) << 20;
  bool limited = setrlimit(RLIMIT_AS, &limit) == 0;
  bool started = live_set_init(set);
  if (limited) setrlimit(RLIMIT_AS, &before);
  if (started) return;
  assert_true(live_set_init(set)); /* a sanitizer needs more than the limit */
}

/* The slots in use grow to all, and most blocks are removed soon. */
static void the_set_is_what_was_added(void **unused) {
  (void)unused;
  const char *given = getenv("SONDE_SEED");
  uint64_t state = given ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 2654435761u;
  print_message("SONDE_SEED=%llu\n", (unsigned long long)state);
  live_set_t set;
  init_small(&set);
  set.on_drop = on_drop;
  set.on_drop_context = truth;
  for (size_t step = 0; step < STEPS; step++) {
    uint64_t random = next_random(&state);
    size_t slot = (size_t)(next_random(&state) % (1 + step * SLOTS / STEPS));
    check(&set, slot);
    if (!truth[slot].is_live && random % 4) {
      add(&set, slot, random);
    } else if (truth[slot].is_live) {
      live_set_remove(&set, live_set_find(&set, address_of(slot)));
      truth[slot].is_live = false;
      truth[slot].was_live = true;
    }
    if (step % (STEPS / 8) == 0) check_all(&set);
  }
  check_all(&set);
  assert_true(dropped > 0);
  live_set_drop_removed(&set);
  for (size_t i = 0; i < SLOTS; i++)
    assert_false(truth[i].was_live);
  check_all(&set);
  live_set_clear(&set);
  for (size_t i = 0; i < SLOTS; i++)
    truth[i].is_live = truth[i].was_live = false;
  check_all(&set);
  add(&set, 7, next_random(&state));
  check_all(&set);
  live_set_free(&set);
}

int main(void) {
  truth = calloc(SLOTS, sizeof *truth);
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_set_is_what_was_added)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(truth);
  return failed;
}
