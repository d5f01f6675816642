/* SPDX-License-Identifier: MIT
 *
 * A table with one entry for each thread id modulo its size. If two threads share an entry, it
 * holds the one captured last. A thread locks an entry by compare-and-swap while it reads or writes
 * it. The kernel wipes the table in a forked child, whose threads are others.
 */
#include "capture/capture_cache.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"

#define ENTRIES 1024u
#define PCS_MAX 58

typedef struct cache_entry {
  capture_cache_key_t key;
  capture_place_t place;
  uint32_t locked;
  int count;
  uintptr_t pcs[PCS_MAX];
} cache_entry_t;

static cache_entry_t *the_table;

static cache_entry_t *table_open(void) {
  cache_entry_t *known = load_acquire(&the_table);
  if (LIKELY(known != NULL)) return known;
  size_t size = ENTRIES * sizeof *known;
  cache_entry_t *mine = os_map(size);
  if (mine == NULL) return NULL;
  /* If this fails, a child sees its parent's threads; their identities differ from its own. */
  (void)os_wipe_on_fork(mine, size);
  if (cas_acq_rel(&the_table, &known, mine)) return mine;
  os_unmap(mine, size);
  return known;
}

static cache_entry_t *lock_entry(pid_t tid) {
  cache_entry_t *table = table_open();
  if (table == NULL) return NULL;
  cache_entry_t *entry = &table[(uint32_t)tid % ENTRIES];
  uint32_t unlocked = 0;
  return cas_acq_rel(&entry->locked, &unlocked, 1) ? entry : NULL;
}

static void unlock_entry(cache_entry_t *entry) { store_release(&entry->locked, 0); }

static bool keys_equal(const capture_cache_key_t *a, const capture_cache_key_t *b) {
  return a->tid == b->tid && a->identity == b->identity && a->progress == b->progress &&
         a->epoch == b->epoch;
}

bool capture_cache_find(const capture_cache_key_t *key, capture_place_t *place) {
  cache_entry_t *entry = lock_entry(key->tid);
  if (entry == NULL) return false;
  bool found = keys_equal(&entry->key, key);
  if (found) *place = entry->place;
  unlock_entry(entry);
  return found;
}

/* CAPTURE may have a limit, and skip frames. */
static bool stacks_equal(const cache_entry_t *entry, const sonde_capture_t *capture) {
  int left = entry->count > capture->skip ? entry->count - capture->skip : 0;
  bool cut = left > capture->max;
  return capture->status == (cut ? SONDE_STACK_TRUNCATED : SONDE_STACK_COMPLETE) &&
         capture->count == (cut ? capture->max : left) &&
         memcmp(capture->pcs, entry->pcs + capture->skip * (left > 0),
                (size_t)capture->count * sizeof *capture->pcs) == 0;
}

bool capture_cache_confirm(const capture_cache_key_t *key, const capture_place_t *place,
                           const sonde_capture_t *capture) {
  cache_entry_t *entry = lock_entry(key->tid);
  if (entry == NULL) return false;
  bool known = keys_equal(&entry->key, key);
  bool same = known && entry->place.below == place->below && stacks_equal(entry, capture);
  if (known && !same) entry->key.tid = 0;
  unlock_entry(entry);
  return same;
}

void capture_cache_store(const capture_cache_key_t *key, const capture_place_t *place,
                         const sonde_capture_t *capture) {
  if (capture->status != SONDE_STACK_COMPLETE || capture->skip != 0 || capture->count > PCS_MAX)
    return;
  cache_entry_t *entry = lock_entry(key->tid);
  if (entry == NULL) return;
  entry->key = *key;
  entry->place = *place;
  entry->count = capture->count;
  memcpy(entry->pcs, capture->pcs, (size_t)capture->count * sizeof *capture->pcs);
  unlock_entry(entry);
}
