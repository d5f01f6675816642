/* SPDX-License-Identifier: MIT */
#include "analysis/waits.h"

#include <stdlib.h>

#include "base/array.h"

/* ---- items by thread, target and stack ---------------------------------------------------- */

static uint64_t hash_of(const wait_sum_t *w) {
  const uint64_t words[] = {w->tid, w->stack, w->owner, w->address, w->is_mutex};
  uint64_t hash = hash_bytes(HASH_START, words, sizeof words);
  hash = hash_text(hash, w->call);
  return hash_number(hash_text(hash, w->what));
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* By the waiting thread and its target. */
static int by_target(const wait_sum_t *a, const wait_sum_t *b) {
  int order = compare(a->tid, b->tid);
  if (!order) order = compare(a->address, b->address);
  if (!order) order = compare(a->owner, b->owner);
  if (!order) order = compare(a->is_mutex, b->is_mutex);
  if (!order) order = strcmp(a->call, b->call);
  return order ? order : strcmp(a->what, b->what);
}

static uint64_t hash_of_item(const void *waits, size_t i) {
  return hash_of(&((const waits_t *)waits)->items[i]);
}

/* The slot of the item, or the free slot where it belongs. */
static uint32_t *slot_of(const waits_t *w, const wait_sum_t *item) {
  uint32_t *slot;
  HASH_FIND(&w->index, hash_of(item), slot) {
    const wait_sum_t *there = &w->items[*slot - 1];
    if (there->stack == item->stack && by_target(there, item) == 0) break;
  }
  return slot;
}

/* Copies both texts into one block, which `call` points to. */
static bool copy_texts(wait_sum_t *item) {
  size_t call = strlen(item->call) + 1, what = strlen(item->what) + 1;
  char *texts = malloc(call + what);
  if (!texts) return false;
  memcpy(texts, item->call, call);
  memcpy(texts + call, item->what, what);
  item->call = texts;
  item->what = texts + call;
  return true;
}

static bool add_sum(waits_t *w, wait_sum_t *item) {
  if (!hash_reserve(&w->index, w->count, hash_of_item, w)) return false;
  uint32_t *slot = slot_of(w, item);
  if (*slot) {
    w->items[*slot - 1].ns += item->ns;
    w->items[*slot - 1].samples += item->samples;
    return true;
  }
  if (!ARRAY_GROW(w->items, w->count, w->capacity) || !copy_texts(item)) return false;
  w->items[w->count++] = *item;
  *slot = (uint32_t)w->count;
  return true;
}

static void copy_text(char *out, size_t size, const uint8_t *bytes, uint64_t n) {
  if (n >= size) n = size - 1;
  memcpy(out, bytes, n);
  out[n] = 0;
}

bool waits_add(waits_t *w, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true; /* samples of CPU time change no wait */
  if (!wall_add(&w->wall, e)) return false;
  if (e->subtype != EXTENDED_WALL) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  wall_period_t p = wall_period(&b);
  if (b.truncated) return true; /* wall_add counted it as bad */
  char call[64], what[256];
  copy_text(call, sizeof call, p.call, p.call_size);
  copy_text(what, sizeof what, p.what, p.what_size);
  wait_sum_t item = {.tid = p.tid,
                     .call = call,
                     .what = what,
                     .is_mutex = p.is_mutex,
                     .owner = p.owner,
                     .address = p.address,
                     .stack = p.stack,
                     .ns = p.ns,
                     .samples = p.samples};
  return add_sum(w, &item);
}

/* ---- attribution -------------------------------------------------------------------------- */

static int by_target_then_time(const void *left, const void *right) {
  const wait_sum_t *a = left, *b = right;
  int order = by_target(a, b);
  if (!order) order = compare(b->ns, a->ns);
  return order ? order : compare(a->stack, b->stack);
}

static int by_time(const void *left, const void *right) {
  const wait_sum_t *a = left, *b = right;
  int order = compare(b->ns, a->ns);
  return order ? order : by_target(a, b);
}

/* Joins consecutive items of one target. The first one's stack is kept. */
static void merge_stacks(waits_t *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->count; i++) {
    wait_sum_t *item = &w->items[i];
    if (kept && by_target(&w->items[kept - 1], item) == 0) {
      w->items[kept - 1].ns += item->ns;
      w->items[kept - 1].samples += item->samples;
      free((char *)(uintptr_t)item->call);
    } else {
      w->items[kept++] = *item;
    }
  }
  w->count = kept;
}

static const wall_thread_t *thread_of(const waits_t *w, uint32_t tid) {
  for (size_t i = 0; i < w->wall.thread_count; i++)
    if (w->wall.threads[i].tid == tid) return &w->wall.threads[i];
  return NULL;
}

/* Items are sorted by thread, so each thread is searched once. */
static void share_blocked_time(waits_t *w) {
  const wall_thread_t *t = NULL;
  for (size_t i = 0; i < w->count; i++) {
    wait_sum_t *item = &w->items[i];
    if (!t || t->tid != item->tid) t = thread_of(w, item->tid);
    if (t && t->sampled_ns)
      item->ns = (uint64_t)((double)item->ns / (double)t->sampled_ns * (double)t->blocked_ns);
    w->ns += item->ns;
    if (item->is_mutex) w->lock_ns += item->ns;
  }
}

/* ---- locks -------------------------------------------------------------------------------- */

static int by_lock_and_owner(const void *left, const void *right) {
  const wait_sum_t *const *a = left, *const *b = right;
  int order = compare((*a)->address, (*b)->address);
  if (!order) order = compare((*a)->owner, (*b)->owner);
  return order ? order : compare((*a)->tid, (*b)->tid);
}

static int by_waiter(const void *left, const void *right) {
  const wait_sum_t *const *a = left, *const *b = right;
  return compare((*a)->tid, (*b)->tid);
}

static int by_lock_time(const void *left, const void *right) {
  const wait_lock_t *a = left, *b = right;
  int order = compare(b->ns, a->ns);
  return order ? order : compare(a->address, b->address);
}

/* ITEMS are COUNT waits for one lock, sorted by owner. Changes their order. */
static wait_lock_t lock_of(const wait_sum_t **items, size_t count) {
  wait_lock_t lock = {.name = items[0]->what, .address = items[0]->address};
  uint64_t ns = 0; /* of the current owner */
  for (size_t i = 0; i < count; i++) {
    bool first = !i || items[i]->owner != items[i - 1]->owner;
    if (first && items[i]->owner) lock.owners++;
    ns = first ? items[i]->ns : ns + items[i]->ns;
    lock.ns += items[i]->ns;
    if (items[i]->owner && ns > lock.owner_ns) {
      lock.owner = items[i]->owner;
      lock.owner_ns = ns;
    }
  }
  qsort(items, count, sizeof(const wait_sum_t *), by_waiter);
  for (size_t i = 0; i < count; i++)
    if (!i || items[i]->tid != items[i - 1]->tid) lock.waiters++;
  return lock;
}

static bool find_locks(waits_t *w) {
  const wait_sum_t **mutexes = malloc((w->count + 1) * sizeof(const wait_sum_t *));
  if (!mutexes) return false;
  size_t count = 0;
  bool good = true;
  for (size_t i = 0; i < w->count; i++)
    if (w->items[i].is_mutex) mutexes[count++] = &w->items[i];
  if (count) qsort(mutexes, count, sizeof(const wait_sum_t *), by_lock_and_owner);
  for (size_t i = 0, next; i < count && good; i = next) {
    for (next = i + 1; next < count && mutexes[next]->address == mutexes[i]->address;)
      next++;
    good = ARRAY_GROW(w->locks, w->lock_count, w->lock_capacity);
    if (good) w->locks[w->lock_count++] = lock_of(mutexes + i, next - i);
  }
  free(mutexes);
  if (w->lock_count) qsort(w->locks, w->lock_count, sizeof *w->locks, by_lock_time);
  return good;
}

bool waits_rank(waits_t *w) {
  if (!wall_rank(&w->wall)) return false;
  if (w->count) qsort(w->items, w->count, sizeof *w->items, by_target_then_time);
  merge_stacks(w);
  share_blocked_time(w);
  if (w->count) qsort(w->items, w->count, sizeof *w->items, by_time);
  return find_locks(w);
}

const char *waits_thread_name(const waits_t *w, uint32_t tid) {
  const wall_thread_t *t = thread_of(w, tid);
  return t ? t->name : "";
}

void waits_free(waits_t *w) {
  for (size_t i = 0; i < w->count; i++)
    free((char *)(uintptr_t)w->items[i].call);
  free(w->items);
  hash_free(&w->index);
  free(w->locks);
  wall_free(&w->wall);
  memset(w, 0, sizeof *w);
}
