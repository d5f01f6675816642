/* SPDX-License-Identifier: MIT
 *
 * A table with one place for each thread id modulo its size; of two threads that share a place the
 * last one captured has it. An entry is taken by compare-and-swap for as long as it is read or
 * written. It is wiped in the child of a fork, whose threads are others.
 */
#include "capture/capture_cache.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"

#define KEPT_THREADS 1024u
#define KEPT_PCS     58 /* with the rest of an entry: 512 bytes */

typedef struct kept {
  capture_cache_key_t key;
  uint32_t taken;
  unsigned flags;
  int count;
  uintptr_t pcs[KEPT_PCS];
} kept_t;

static kept_t *the_table;

static kept_t *table_open(void) {
  kept_t *known = load_acquire(&the_table);
  if (LIKELY(known != NULL)) return known;
  size_t size = KEPT_THREADS * sizeof *known;
  kept_t *mine = os_map(size);
  if (mine == NULL) return NULL;
  /* Without that, a child would find its parent's threads; their identities are not its own. */
  (void)os_wipe_on_fork(mine, size);
  if (cas_acq_rel(&the_table, &known, mine)) return mine;
  os_unmap(mine, size);
  return known;
}

static kept_t *take(pid_t tid) {
  kept_t *table = table_open();
  if (table == NULL) return NULL;
  kept_t *entry = &table[(uint32_t)tid % KEPT_THREADS];
  uint32_t nobody = 0;
  return cas_acq_rel(&entry->taken, &nobody, 1) ? entry : NULL;
}

static void give_back(kept_t *entry) { store_release(&entry->taken, 0); }

static bool same(const capture_cache_key_t *a, const capture_cache_key_t *b) {
  return a->tid == b->tid && a->identity == b->identity && a->progress == b->progress &&
         a->epoch == b->epoch;
}

bool capture_cache_find(const capture_cache_key_t *key, sonde_capture_t *capture) {
  kept_t *entry = take(key->tid);
  if (entry == NULL) return false;
  bool found = same(&entry->key, key);
  if (found) {
    int left = entry->count > capture->skip ? entry->count - capture->skip : 0;
    capture->count = left < capture->max ? left : capture->max;
    capture->status = left > capture->max ? SONDE_STACK_TRUNCATED : SONDE_STACK_COMPLETE;
    capture->reason = 0;
    capture->flags = entry->flags;
    memcpy(capture->pcs, entry->pcs + capture->skip * (left > 0),
           (size_t)capture->count * sizeof *capture->pcs);
  }
  give_back(entry);
  return found;
}

void capture_cache_store(const capture_cache_key_t *key, const sonde_capture_t *capture) {
  if (capture->status != SONDE_STACK_COMPLETE || capture->skip != 0 || capture->count > KEPT_PCS)
    return;
  kept_t *entry = take(key->tid);
  if (entry == NULL) return;
  entry->key = *key;
  entry->flags = capture->flags;
  entry->count = capture->count;
  memcpy(entry->pcs, capture->pcs, (size_t)capture->count * sizeof *capture->pcs);
  give_back(entry);
}
