/* SPDX-License-Identifier: MIT
 *
 * The frame table: each pc has one id, the same in all threads and permanently, and the rule of the
 * image's unwind information. Many threads meet the same addresses for the first time at once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/bits.h"
#include "image/list.h"
#include "os/os.h"
#include "capture/frame_table.h"

#define PCS     20000
#define THREADS 4

static uint64_t random_state;
static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

/* Addresses in libc's code and the test's own. */
static uint64_t pcs[PCS];
static bool exact[PCS];

static void choose(void) {
  const char *given = getenv("SONDE_SEED");
  static uint64_t turn;
  random_state =
      turn++ * 0x9e3779b97f4a7c15 + (given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL));
  random_state |= 1;
  print_message("SONDE_SEED=%llu\n", (unsigned long long)random_state);
  uint64_t libc = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "qsort"),
           own = (uint64_t)(uintptr_t)choose;
  for (int i = 0; i < PCS; i++) {
    pcs[i] = ((i & 3 ? libc : own) + next_random() % 60000) & ~(uint64_t)3;
    exact[i] = next_random() & 1;
  }
}

static frame_ref_t find(int i) { return frame_table_find(pcs[i], exact[i], os_loader_epoch()); }

static void a_pc_has_one_id(void **state) {
  (void)state;
  frame_info_t info;
  uint32_t most = 0;
  for (int i = 0; i < PCS; i++) {
    frame_ref_t first = find(i), again = find(i);
    assert_int_equal(first.id, again.id);
    assert_int_equal(first.rule, again.rule);
    assert_true(frame_table_get(first.id, &info));
    assert_int_equal(info.pc, pcs[i]);
    assert_int_equal(info.exact, exact[i]);
    if (first.id > most) most = first.id;
  }
  /* The table has grown. */
  assert_true(most >= 1u << FRAME_TABLE_BITS);
  /* The frames found before are unchanged. */
  for (int i = 0; i < PCS; i += 7)
    assert_true(frame_table_get(find(i).id, &info) && info.pc == pcs[i]);
  frame_ref_t as_call = frame_table_find(pcs[0], !exact[0], os_loader_epoch());
  assert_int_not_equal(as_call.id, find(0).id);
}

/* The rule in the table is the rule of the image's row. */
static void rules_are_the_images(void **state) {
  (void)state;
  int with_rule = 0;
  for (int i = 0; i < PCS; i++) {
    uint16_t image = image_id_of_pc(exact[i] ? pcs[i] : pcs[i] - 1);
    assert_true(image);
    rule_t said = rule_learn(MACHINE_HERE, image_by_id(image), pcs[i], exact[i]),
           saved = find(i).rule;
    /* Otherwise the image's file may have a .debug_frame. */
    if (rule_kind(said) != RULE_NONE) {
      assert_int_equal(saved, said);
      with_rule++;
    }
  }
  assert_true(with_rule > PCS / 2);
}

static void an_address_of_no_image(void **state) {
  (void)state;
  frame_ref_t nowhere = frame_table_find(0x123456, true, os_loader_epoch());
  assert_int_equal(rule_kind(nowhere.rule), RULE_NONE);
  frame_info_t info;
  assert_true(frame_table_get(nowhere.id, &info));
  assert_int_equal(info.image, 0);
  /* A pc that cannot be an address has its own frame. */
  frame_ref_t beyond = frame_table_find(UINT64_C(0xffff800000001000), true, os_loader_epoch());
  assert_true(frame_table_get(beyond.id, &info));
  assert_int_equal(info.pc, FRAME_TABLE_NO_PC);
  assert_false(frame_table_get(FRAME_TABLE_FULL - 1, &info));
}

static uint32_t ids[THREADS][PCS];
static pthread_barrier_t barrier;

static void *find_all(void *number) {
  long mine = (long)(intptr_t)number;
  pthread_barrier_wait(&barrier);
  /* Each thread starts at another address. */
  for (int i = 0; i < PCS; i++) {
    int at = (int)(((unsigned)i + (unsigned)mine * 3) % PCS);
    ids[mine][at] = find(at).id;
  }
  return NULL;
}

static void threads_agree(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  /* Other addresses than before. */
  choose();
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (long i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, find_all, (void *)(intptr_t)i), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 1; i < THREADS; i++)
    assert_memory_equal(ids[0], ids[i], sizeof ids[0]);
}

static int prepare(void **state) {
  (void)state;
  os_loader_init();
  choose();
  return frame_table_init() ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pc_has_one_id),
      cmocka_unit_test(rules_are_the_images),
      cmocka_unit_test(an_address_of_no_image),
      cmocka_unit_test(threads_agree),
  };
  return cmocka_run_group_tests(tests, prepare, NULL);
}
