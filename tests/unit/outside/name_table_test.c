/* SPDX-License-Identifier: MIT
 *
 * The table of named stacks: bounded, dropped with images, used by threads at once, and at most a
 * twentieth of naming a stack afresh from a warm index.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"
#include "symbol/name_table.h"

#define DEPTH 12

/* The stack with id N: each frame tells N and its depth; it passes through images N % 7 and 100. */
static bool add(name_table_t *table, uint64_t epoch, uint64_t n) {
  char names[DEPTH][32];
  symbol_frame_t frames[DEPTH] = {0};
  uint32_t images[] = {(uint32_t)(n % 7), 100};
  for (int i = 0; i < DEPTH; i++) {
    snprintf(names[i], sizeof names[i], "f%llu_%d", (unsigned long long)n, i);
    frames[i] = (symbol_frame_t){.function = names[i], .raw = names[i], .file = "a.c"};
    frames[i].line = (uint32_t)n;
  }
  return name_table_add(table, epoch, n, frames, DEPTH, images, 2);
}

static bool is_right(const table_answer_t *answer, uint64_t n) {
  char name[32];
  snprintf(name, sizeof name, "f%llu_%d", (unsigned long long)n, DEPTH - 1);
  return answer->count == DEPTH && answer->frames[3].line == (uint32_t)n &&
         !strcmp(answer->frames[DEPTH - 1].function, name) &&
         !strcmp(answer->frames[0].file, "a.c");
}

static void finds_what_was_added(void **state) {
  (void)state;
  name_table_t *table = name_table_new(64 << 20);
  for (uint64_t n = 0; n < 20000; n++)
    assert_true(add(table, name_table_epoch(table), n));
  for (uint64_t n = 0; n < 20000; n++) {
    const table_answer_t *answer = name_table_find(table, n);
    assert_non_null(answer);
    assert_true(is_right(answer, n));
    name_table_release(answer);
  }
  assert_null(name_table_find(table, 20000));
  name_table_free(table);
}

static void stays_within_its_bound(void **state) {
  (void)state;
  const size_t bound = 1 << 20;
  name_table_t *table = name_table_new(bound);
  for (uint64_t n = 0; n < 50000; n++) {
    add(table, name_table_epoch(table), n);
    const table_answer_t *hot = name_table_find(table, 5); /* asked for all the time: it stays */
    assert_true(n < 5 || hot != NULL);
    name_table_release(hot);
    if (n % 1000 == 0) assert_true(name_table_bytes(table) <= bound);
  }
  assert_null(name_table_find(table, 6));
  assert_true(name_table_bytes(table) > bound / 2);
  name_table_free(table);
}

static void goes_with_its_images(void **state) {
  (void)state;
  name_table_t *table = name_table_new(64 << 20);
  uint64_t epoch = name_table_epoch(table);
  for (uint64_t n = 0; n < 700; n++)
    add(table, epoch, n);
  const table_answer_t *held = name_table_find(table, 3);
  name_table_drop(table, 3);
  for (uint64_t n = 0; n < 700; n++) {
    const table_answer_t *answer = name_table_find(table, n);
    assert_int_equal(answer == NULL, n % 7 == 3);
    name_table_release(answer);
  }
  assert_true(is_right(held, 3)); /* one in use outlives its place */
  name_table_release(held);
  assert_false(add(table, epoch, 3)); /* named before the image went */
  assert_true(add(table, name_table_epoch(table), 3));
  name_table_drop(table, 100);
  assert_int_equal(name_table_bytes(table), 0);
  name_table_free(table);
}

typedef struct task {
  name_table_t *table;
  uint64_t seed;
  bool wrong;
} task_t;

static void *work(void *context) {
  task_t *task = context;
  uint64_t state = task->seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < 20000; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t n = (state >> 33) % 3000;
    const table_answer_t *answer = name_table_find(task->table, n);
    if (answer && !is_right(answer, n)) task->wrong = true;
    name_table_release(answer);
    if (!answer) add(task->table, name_table_epoch(task->table), n);
    if (i % 997 == 0) name_table_drop(task->table, (uint32_t)(n % 7));
  }
  return NULL;
}

static void serves_threads_at_once(void **state) {
  (void)state;
  name_table_t *table = name_table_new(1 << 20);
  pthread_t threads[6];
  task_t tasks[6];
  for (int i = 0; i < 6; i++) {
    tasks[i] = (task_t){.table = table, .seed = (uint64_t)i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &tasks[i]), 0);
  }
  for (int i = 0; i < 6; i++) {
    pthread_join(threads[i], NULL);
    assert_false(tasks[i].wrong);
  }
  assert_true(name_table_bytes(table) <= 1 << 20);
  name_table_free(table);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t address_of_main(void) {
  char command[64], line[128] = "";
  snprintf(command, sizeof command, "nm /proc/%d/exe | grep ' T main$'", (int)getpid());
  FILE *pipe = popen(command, "r");
  if (!pipe || !fgets(line, sizeof line, pipe)) line[0] = 0;
  if (pipe) pclose(pipe);
  return strtoull(line, NULL, 16);
}

/* A stack of 30 pcs of a real binary with debug information, from an index in memory. */
static void is_a_twentieth_of_naming(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("times under a sanitizer say nothing");
  symbol_options_t options = {.no_index = true};
  symbolizer_t *symbolizer = symbolizer_new(&options);
  symbol_source_t source = {.path = "/proc/self/exe"};
  symbol_module_t *module = symbolizer_module(symbolizer, &source);
  symbol_expect(module, SIZE_MAX);
  name_table_t *table = name_table_new(1 << 20);
  symbol_frame_t frames[30 * SYMBOL_FRAMES_MAX];
  symbol_reason_t reason;
  uint64_t main_at = address_of_main();
  assert_int_not_equal(main_at, 0);
  double fresh_ns = 1e18, known_ns = 1e18;
  for (int round = 0; round < 50; round++) {
    double before = now_ns();
    int count = 0;
    for (int i = 0; i < 30; i++)
      count +=
          symbol_lookup(module, main_at + (uint64_t)i, frames + count, SYMBOL_FRAMES_MAX, &reason);
    double took = now_ns() - before;
    if (took < fresh_ns) fresh_ns = took;
    assert_true(count >= 30);
    uint32_t image = 1;
    if (!round) name_table_add(table, name_table_epoch(table), 1, frames, count, &image, 1);
    before = now_ns();
    for (int i = 0; i < 100; i++)
      name_table_release(name_table_find(table, 1));
    took = (now_ns() - before) / 100;
    if (took < known_ns) known_ns = took;
  }
  printf("30 pcs: named afresh %.0f ns, by id %.0f ns (1/%.0f)\n", fresh_ns, known_ns,
         fresh_ns / known_ns);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* they slow the lock alone */
  assert_true(known_ns * 20 <= fresh_ns);
#endif
  name_table_free(table);
  symbolizer_free(symbolizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_what_was_added),     cmocka_unit_test(stays_within_its_bound),
      cmocka_unit_test(goes_with_its_images),     cmocka_unit_test(serves_threads_at_once),
      cmocka_unit_test(is_a_twentieth_of_naming),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
