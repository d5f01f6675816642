/* SPDX-License-Identifier: MIT */
#include "unwind/cache.h"

static ALWAYS_INLINE READS_STACK bool stands_at(const cached_t *e, const position_t *p) {
  return !((e->slot ^ p->slot) | (e->raw ^ p->raw)) && p->sp - p->slot == 8u * e->sp_words &&
         (!(e->bits & CACHED_LIVE) || (p->fp_at && *p->fp_at == e->fp));
}

/* Looks whether POSITION is an entry from *J on with an unchanged outside. *J moves outward past
 * what the walk has left behind or found changed. */
static ALWAYS_INLINE READS_STACK bool join(const cache_t *cache, const window_t *w,
                                           const position_t *p, uint32_t *j) {
  uint32_t at = *j;
  at += cache->entries[at].slot < p->slot; /* two steps without a branch to be mispredicted */
  at += cache->entries[at].slot < p->slot;
  while (UNLIKELY(cache->entries[at].slot < p->slot))
    at++;
  *j = at;
  if (!stands_at(&cache->entries[at], p)) return false;
  uint32_t changed = cache_first_changed(cache, w, at + 1);
  if (changed == CACHE_ENTRIES) return true;
  *j = changed + 1;
  return false;
}

static ALWAYS_INLINE void push(fresh_t *fresh, const position_t *p, int64_t restored,
                               frame_ref_t frame) {
  uint32_t at = fresh_at(fresh, fresh->count++);
  fresh->frames[at] = (cached_t){.slot = p->slot,
                                 .raw = p->raw,
                                 .fp_at = p->fp_at,
                                 .id = frame.id,
                                 .restored_words = (int16_t)restored,
                                 .sp_words = (uint8_t)((p->sp - p->slot) / 8),
                                 .bits = restored ? CACHED_VERIFY : 0};
  fresh->rules[at] = frame.rule;
}

/* Words from the slot of the frame that RULE led to, down to where it restored the frame register
 * from; 0 when it did not. */
static ALWAYS_INLINE int64_t restored_words(rule_t rule, const position_t *p) {
  uint64_t save = rule_save_bytes(rule);
  return save && p->slot ? (int64_t)(p->slot - (p->sp - save)) / 8 : 0;
}

/* A slow step, which wants the position in memory. */
static NOINLINE walk_step_t step_slowly(window_t *w, position_t *p, position_t here,
                                        walk_step_t step) {
  *p = here;
  return step == WALK_SLOW ? walk_slowly(w, p) : step;
}

READS_STACK void cache_walk(cache_t *cache, window_t *w, position_t *p, uint64_t epoch,
                            uint32_t limit, fresh_t *fresh) {
  static const cache_t empty = {.entries[CACHE_ENTRIES] = {.slot = UINT64_MAX}};
  const cache_t *known = cache && cache->epoch == epoch ? cache : &empty;
  uint32_t j = known == &empty ? CACHE_ENTRIES : cache->top;
  int64_t restored = 0;
  position_t here = *p; /* in registers; its pointer leads to the frame register of *P */
  fresh_t passed = *fresh;
  passed.count = passed.plain = 0;
  passed.joined = CACHE_ENTRIES;
  for (;;) {
    if (LIKELY(here.slot) && join(known, w, &here, &j)) {
      passed.joined = j;
      passed.end = WALK_END;
      break;
    }
    if (UNLIKELY(passed.count == limit)) {
      passed.end = WALK_ON;
      break;
    }
    frame_ref_t frame = frames_find(here.pc, here.exact, epoch);
    if (UNLIKELY(!here.slot || here.sp - here.slot > 8 * UINT8_MAX))
      passed.plain = passed.count + 1;
    push(&passed, &here, restored, frame);
    walk_step_t step = walk_by_rule(w, frame.rule, &here);
    restored = restored_words(frame.rule, &here);
    if (LIKELY(step == WALK_ON)) continue;
    passed.plain = step == WALK_SLOW ? passed.count : passed.plain;
    step = step_slowly(w, p, here, step);
    here = *p;
    restored = 0;
    if (step != WALK_ON) {
      passed.end = step;
      break;
    }
  }
  passed.joined_restored = (int16_t)restored;
  p->flags = here.flags;
  *fresh = passed;
}

/* Turns a fresh frame into an entry: LIVE says whether the frame register matters in it. */
static ALWAYS_INLINE READS_STACK void settle(cached_t *entry, bool live) {
  uint64_t fp = live && entry->fp_at ? *entry->fp_at : 0;
  entry->fp = fp;
  entry->bits = live ? (uint8_t)(entry->bits | CACHED_LIVE)
                     : (uint8_t)(entry->bits & ~(CACHED_LIVE | CACHED_VERIFY));
}

READS_STACK bool cache_extend(cache_t *cache, const fresh_t *fresh, uint32_t first,
                              uint64_t epoch) {
  if (epoch == EPOCH_UNKNOWN) return false;
  if (cache->epoch != epoch) {
    cache_drop(cache);
    signal_fence();
    cache->epoch = epoch;
  }
  uint32_t top = fresh->joined;
  cache->top = top;
  signal_fence();
  bool live = false;
  if (top < CACHE_ENTRIES && fresh->count > first) {
    /* The entry joined has a new frame inside it, which saved the register elsewhere. */
    cached_t *entry = &cache->entries[top];
    live = entry->bits & CACHED_LIVE;
    entry->restored_words = fresh->joined_restored;
    entry->bits = (uint8_t)((entry->bits & ~CACHED_VERIFY) |
                            (live && fresh->joined_restored ? CACHED_VERIFY : 0));
    cache->verifies |= (entry->bits & CACHED_VERIFY) != 0;
  }
  uint32_t n = fresh->count, asked_first = first;
  if (first < fresh->plain) first = fresh->plain;
  for (; n > first && top > 0; n--) {
    uint32_t at = fresh_at(fresh, n - 1);
    rule_t rule = fresh->rules[at];
    live = rule_kind(rule) == RULE_FP || (live && !rule_save_bytes(rule));
    cached_t *entry = &cache->entries[--top];
    *entry = fresh->frames[at];
    settle(entry, live);
    cache->verifies |= (entry->bits & CACHED_VERIFY) != 0;
  }
  signal_fence();
  cache->top = top;
  return n <= asked_first;
}
