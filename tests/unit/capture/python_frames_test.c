/* SPDX-License-Identifier: MIT
 *
 * The table of Python frames: one id for each content, also if threads meet it at the same time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "capture/frame_table.h"
#include "capture/python/python_frames.h"
#include "python/frame_pc.h"

static uint32_t announced;

static void count_new(const python_frame_t *frame) {
  (void)frame;
  add_relaxed(&announced, 1u);
}

static python_frame_t found;
static uint32_t visited, wanted;

static void visit(const python_frame_t *frame) {
  visited++;
  if (frame->id == wanted) found = *frame;
}

static void equal_content_has_one_id(void **state) {
  (void)state;
  char name[] = "f", other[] = "f";
  python_frame_on_new = count_new;
  uint32_t id = python_frame_id(name, "/a.py", 7);
  assert_true(python_frame_is(id));
  assert_int_equal(announced, 1);
  assert_int_equal(python_frame_id(other, "/a.py", 7), id);
  assert_int_equal(announced, 1);
  assert_int_not_equal(python_frame_id(name, "/a.py", 8), id);
  assert_int_not_equal(python_frame_id("f/", "a.py", 7), id);
  name[0] = 'x'; /* the table has copies */
  wanted = id;
  python_frames_each(visit);
  assert_int_equal(visited, 3);
  assert_string_equal(found.function, "f");
  assert_string_equal(found.file, "/a.py");
  assert_int_equal(found.line, 7);
  assert_true(python_pc_is(found.pc));
}

enum { THREADS = 4, FRAMES = 2000 };
static uint32_t ids[THREADS][FRAMES];

static void *make_frames(void *context) {
  uint32_t *own = context;
  char name[32];
  for (uint32_t i = 0; i < FRAMES; i++) {
    snprintf(name, sizeof name, "function_%u", i);
    own[i] = python_frame_id(name, "/b.py", i);
  }
  return NULL;
}

static void threads_agree(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, make_frames, ids[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 1; i < THREADS; i++)
    assert_memory_equal(ids[i], ids[0], sizeof ids[0]);
  for (int i = 1; i < FRAMES; i++)
    assert_int_not_equal(ids[0][i], ids[0][i - 1]);
}

/* A full table has no id, and no wrong one. */
static void a_full_table_says_so(void **state) {
  (void)state;
  char name[32];
  uint32_t full = 0;
  for (uint32_t i = 0; i < 80000; i++) {
    snprintf(name, sizeof name, "more_%u", i);
    full += python_frame_id(name, "/c.py", i) == FRAME_TABLE_FULL;
  }
  assert_true(full > 0);
  assert_int_equal(python_frame_id("f", "/a.py", 7), wanted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_content_has_one_id),
      cmocka_unit_test(threads_agree),
      cmocka_unit_test(a_full_table_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
