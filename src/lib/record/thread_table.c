/* SPDX-License-Identifier: MIT
 *
 * A hash table with bounded probes: an entry is at one of PROBES places, so freeing one needs no
 * tombstone and finding one reads at most PROBES cache lines, usually one.
 */
#include "record/thread_table.h"

#include "os/os.h"

#define PROBES 32u

_Static_assert(SHM_THREADS / SHM_THREADS_GROUP == 32, "a bit for each group");

static uint32_t place_of(uint32_t tid, uint32_t probe) {
  return (((tid * UINT32_C(2654435761)) >> 21) + probe) % SHM_THREADS;
}

/* Allocates the memory of entry I. */
static bool back(shm_threads_t *table, uint32_t i) {
  uint32_t group = i / SHM_THREADS_GROUP;
  shm_thread_t *first = &table->items[group * SHM_THREADS_GROUP];
  if (!os_populate(first, SHM_THREADS_GROUP * sizeof *first)) return false;
  (void)__atomic_fetch_or(&table->backed, 1u << group, __ATOMIC_RELEASE);
  return true;
}

static shm_thread_t *search(shm_threads_t *table, uint32_t tid, bool has_ended) {
  for (uint32_t i = 0; i < PROBES; i++) {
    uint32_t place = place_of(tid, i);
    shm_thread_t *t = &table->items[place];
    if (!thread_table_has(table, place)) continue;
    if (load_acquire(&t->tid) == tid && has_ended == (load_relaxed(&t->end_ns) != 0)) return t;
  }
  return NULL;
}

shm_thread_t *thread_table_find(shm_threads_t *table, uint32_t tid) {
  return search(table, tid, false);
}

shm_thread_t *thread_table_find_ended(shm_threads_t *table, uint32_t tid) {
  return search(table, tid, true);
}

shm_thread_t *thread_table_claim(shm_threads_t *table, uint32_t tid) {
  shm_thread_t *found = thread_table_find(table, tid);
  for (uint32_t i = 0; !found && i < PROBES; i++) {
    uint32_t place = place_of(tid, i), free_now = 0;
    shm_thread_t *t = &table->items[place];
    if (!thread_table_has(table, place) && !back(table, place)) continue;
    if (!cas_acq_rel(&t->tid, &free_now, tid)) {
      if (free_now == tid && !load_relaxed(&t->end_ns)) found = t; /* another thread was first */
      continue;
    }
    add_relaxed(&table->started, 1u);
    found = t;
  }
  return found;
}

void thread_table_free(shm_thread_t *entry) {
  entry->outside = entry->ticks_outside = 0;
  entry->no_timer = entry->in_tick = 0;
  entry->position_ns = entry->sampled_ns = 0;
  entry->before_ns = entry->off_ns = entry->lost_ns = 0;
  store_relaxed(&entry->end_ns, 0);
  store_release(&entry->tid, 0u);
}

/* Each side announces itself before it looks for the other one. If both do at once, both give way:
 * the tick is only counted, and the recorder tries again later. */
bool thread_table_begin_tick(shm_thread_t *entry) {
  store_relaxed(&entry->in_tick, (uint16_t)1);
  full_fence();
  if (!load_acquire(&entry->outside)) return true;
  thread_table_end_tick(entry);
  add_relaxed(&entry->ticks_outside, 1u);
  return false;
}

void thread_table_end_tick(shm_thread_t *entry) { store_release(&entry->in_tick, (uint16_t)0); }

bool thread_table_take(shm_thread_t *entry) {
  store_relaxed(&entry->outside, 1u);
  full_fence();
  if (!load_acquire(&entry->in_tick)) return true;
  thread_table_give_back(entry);
  return false;
}

void thread_table_give_back(shm_thread_t *entry) { store_release(&entry->outside, 0u); }

void thread_table_account(shm_thread_t *entry, uint64_t now_ns, uint64_t *sum) {
  uint64_t from = load_relaxed(&entry->position_ns);
  if (now_ns <= from) return;
  add_relaxed(sum, now_ns - from);
  store_relaxed(&entry->position_ns, now_ns);
}
