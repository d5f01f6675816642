/* SPDX-License-Identifier: MIT
 *
 * record/thread_table.h: entries are found again, and only their groups are allocated. Either the
 * thread samples its time or the recorder does.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "record/thread_table.h"

static shm_threads_t *new_table(void) {
  void *map =
      mmap(NULL, sizeof(shm_threads_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(map != MAP_FAILED);
  return map;
}

static int pages_of(const shm_threads_t *table) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), count = (sizeof *table + page - 1) / page;
  unsigned char *there = calloc(count, 1);
  int pages = 0;
  assert_int_equal(mincore((void *)(uintptr_t)table, sizeof *table, there), 0);
  for (size_t i = 0; i < count; i++)
    pages += there[i] & 1;
  free(there);
  return pages;
}

static void a_claimed_entry_is_found(void **state) {
  (void)state;
  shm_threads_t *table = new_table();
  assert_null(thread_table_find(table, 4711));
  shm_thread_t *entry = thread_table_claim(table, 4711);
  assert_non_null(entry);
  assert_ptr_equal(thread_table_claim(table, 4711), entry);
  assert_ptr_equal(thread_table_find(table, 4711), entry);
  assert_true(thread_table_has(table, (uint32_t)(entry - table->items)));
  assert_int_equal(table->started, 1);
  thread_table_free(entry);
  assert_null(thread_table_find(table, 4711));
  munmap(table, sizeof *table);
}

static void a_search_allocates_nothing(void **state) {
  (void)state;
  shm_threads_t *table = new_table();
  for (uint32_t tid = 1; tid < 4000; tid++)
    assert_null(thread_table_find(table, tid));
  assert_in_range(pages_of(table), 0, 1); /* the page with the bits */
  assert_non_null(thread_table_claim(table, 1));
  for (uint32_t tid = 2; tid < 4000; tid++)
    assert_null(thread_table_find(table, tid));
  /* a group shares pages with its neighbors, and an entry's probes may reach the next group */
  assert_in_range(pages_of(table), 1, 5);
  munmap(table, sizeof *table);
}

static void every_entry_can_be_used(void **state) {
  (void)state;
  shm_threads_t *table = new_table();
  uint32_t claimed = 0, present = 0;
  for (uint32_t tid = 1; tid <= 100000; tid++)
    claimed += thread_table_claim(table, tid) != NULL;
  for (uint32_t i = 0; i < SHM_THREADS; i++)
    present += thread_table_has(table, i) && table->items[i].tid;
  assert_int_equal(claimed, SHM_THREADS);
  assert_int_equal(present, SHM_THREADS);
  munmap(table, sizeof *table);
}

#define TAKEN 5000u

/* The thread's clock is the number of its ticks. A sample stands for the time since the last one.
 */
typedef struct handover {
  shm_thread_t entry;
  uint64_t clock_ns, sampled_ns;
  bool ends;
} handover_t;

static void take_sample(handover_t *h) {
  uint64_t now_ns = load_relaxed(&h->clock_ns), from_ns = load_relaxed(&h->entry.position_ns);
  sched_yield();
  add_relaxed(&h->sampled_ns, now_ns - from_ns);
  thread_table_account(&h->entry, now_ns, &h->entry.sampled_ns);
}

static void *tick(void *context) {
  handover_t *h = context;
  for (; !load_acquire(&h->ends); sched_yield()) {
    add_relaxed(&h->clock_ns, 1u);
    if (!thread_table_begin_tick(&h->entry)) continue;
    take_sample(h);
    thread_table_end_tick(&h->entry);
  }
  return NULL;
}

static void each_time_is_sampled_once(void **state) {
  (void)state;
  handover_t h = {0};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, tick, &h), 0);
  for (uint32_t taken = 0; taken < TAKEN; sched_yield()) {
    if (!thread_table_take(&h.entry)) continue;
    take_sample(&h);
    thread_table_give_back(&h.entry);
    taken++;
  }
  store_release(&h.ends, true);
  pthread_join(thread, NULL);
  take_sample(&h);
  assert_int_equal(h.sampled_ns, h.clock_ns);
  assert_int_equal(h.entry.sampled_ns, h.clock_ns);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_claimed_entry_is_found), cmocka_unit_test(a_search_allocates_nothing),
      cmocka_unit_test(every_entry_can_be_used), cmocka_unit_test(each_time_is_sampled_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
