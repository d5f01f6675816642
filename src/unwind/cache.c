/* SPDX-License-Identifier: MIT */
#include "unwind/cache.h"

/* So many fresh frames are taken for those that change from capture to capture; what lies further
 * out, if it has to be walked at all, is likely to be as it was when the hints were made. */
#define FRESH_UNHINTED 6

/* Words from the slot of POSITION up to its stack pointer. The call of x86_64 leaves no choice. */
static ALWAYS_INLINE uint64_t sp_words(const position_t *p) {
#if defined(__x86_64__)
  (void)p;
  return 1;
#else
  return (p->sp - p->slot) / 8;
#endif
}

static ALWAYS_INLINE READS_STACK bool stands_at(const cached_t *e, const position_t *p) {
  return !((e->slot ^ p->slot) | (e->raw ^ p->raw)) && sp_words(p) == e->sp_words &&
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

static ALWAYS_INLINE void push(cached_t *to, const position_t *p, int64_t restored, uint32_t id) {
  to->slot = p->slot;
  to->raw = p->raw;
  to->fp_at = p->fp_at;
  to->tail = cached_tail(id, restored, sp_words(p), restored ? CACHED_VERIFY : 0);
}

/* Words from the slot of the frame that RULE led to, down to where it restored the frame register
 * from; 0 when it did not. */
static ALWAYS_INLINE int64_t restored_words(rule_t rule, const position_t *p) {
  uint64_t save = rule_save_bytes(rule);
#if defined(__x86_64__)
  (void)p;
  return (int64_t)(save / 8) - (save != 0); /* the slot is the word below the CFA */
#else
  return save && p->slot ? (int64_t)(p->slot - (p->sp - save)) / 8 : 0;
#endif
}

/* The window over the stack that SP points into; NULL when it cannot be read. */
static window_t *window_over(stacks_t *stacks, uint64_t sp) {
  if (stacks->cached && window_holds(stacks->cached, sp)) return stacks->cached;
  window_t *other = &stacks->other;
  return window_holds(other, sp) || (other->move && other->move(other, sp)) ? other : NULL;
}

/* A slow step, which wants the position where its frame register is, and may change stacks. */
static NOINLINE walk_step_t step_slowly(stacks_t *stacks, window_t **w, position_t *p,
                                        position_t *here) {
  *p = *here;
  walk_step_t step = walk_slowly(*w, p);
  *here = *p;
  if (step != WALK_ON) return step;
  *w = window_over(stacks, p->sp);
  return *w ? WALK_ON : WALK_FAULT;
}

READS_STACK void cache_walk(const cache_t *cache, stacks_t *stacks, position_t *p, uint64_t epoch,
                            uint32_t limit, fresh_t *fresh) {
  static const cache_t empty = {.entries[CACHE_ENTRIES] = {.slot = UINT64_MAX}};
  const cache_t *known = cache && cache->epoch == epoch ? cache : &empty;
  uint32_t j = known == &empty ? CACHE_ENTRIES : cache->top;
  uint32_t count = 0, plain = 0, joined = CACHE_ENTRIES;
  frame_slot_t *inner = NULL; /* the frame looked up last, and its hint */
  uint32_t hint = 0, unhinted = j < CACHE_ENTRIES ? FRESH_UNHINTED : 0;
  int64_t restored = 0;
  walk_step_t end = WALK_ON;
  position_t here; /* in registers; its pointer leads to the frame register of *P */
  position_copy(&here, p);
  window_t *w = window_over(stacks, p->sp);
  if (UNLIKELY(!w)) {
    limit = 0;
    end = WALK_FAULT;
  }
  for (;;) {
    if (j < CACHE_ENTRIES && LIKELY(here.slot) && join(known, w, &here, &j)) {
      joined = j;
      end = WALK_END;
      break;
    }
    if (UNLIKELY(count == limit)) break;
    frame_ref_t frame;
    if (UNLIKELY(count >= unhinted) && !here.exact &&
        (inner = frames_follow(inner, hint, here.pc, epoch))) {
      uint64_t both = frames_rule_and_hint(inner);
      frame = (frame_ref_t){frames_id(inner), (rule_t)both};
      hint = (uint32_t)(both >> 32);
    } else {
      frame = frames_find(here.pc, here.exact, epoch);
    }
    if (UNLIKELY(!here.slot || sp_words(&here) > UINT8_MAX)) plain = count + 1;
    uint32_t at = fresh_at(fresh, count++);
    push(&fresh->frames[at], &here, restored, frame.id);
    fresh->rules[at] = frame.rule;
    end = walk_by_rule(w, frame.rule, &here);
    restored = restored_words(frame.rule, &here);
    if (LIKELY(end == WALK_ON)) continue;
    if (end != WALK_SLOW) break;
    plain = count;
    end = step_slowly(stacks, &w, p, &here);
    restored = 0;
    if (end != WALK_ON) break;
  }
  p->flags = here.flags;
  fresh->count = count;
  fresh->plain = w == stacks->cached ? plain : count;
  fresh->joined = joined;
  fresh->joined_restored = (int16_t)restored;
  fresh->end = end;
}

/* Makes the fresh frame FROM the entry TO: LIVE says whether the frame register matters in it. */
static ALWAYS_INLINE READS_STACK void settle(cached_t *to, const cached_t *from, bool live) {
  /* Where it is not verified, `restored_words` is 0, for what it leads to may be gone. */
  const uint64_t all =
      (uint64_t)(CACHED_LIVE | CACHED_VERIFY) << CACHED_TAIL_BITS | (uint64_t)UINT16_MAX << 32;
  uint64_t tail = from->tail;
  to->slot = from->slot;
  to->raw = from->raw;
  to->fp = live && from->fp_at ? *from->fp_at : 0;
  to->tail = live ? tail | (uint64_t)CACHED_LIVE << CACHED_TAIL_BITS : tail & ~all;
}

/* The entry that the walk joined has a new frame inside it, which saved the register elsewhere. */
static ALWAYS_INLINE bool resettle(cached_t *entry, int16_t restored) {
  bool live = entry->bits & CACHED_LIVE;
  entry->restored_words = live ? restored : 0;
  entry->bits = (uint8_t)((entry->bits & ~CACHED_VERIFY) | (live && restored ? CACHED_VERIFY : 0));
  return live;
}

READS_STACK bool cache_extend(cache_t *cache, const fresh_t *fresh, uint32_t first,
                              uint64_t epoch) {
  if (epoch == EPOCH_UNKNOWN) return false;
  if (cache->epoch != epoch) {
    cache_drop(cache);
    tips_drop(&cache->tips);
    signal_fence();
    cache->epoch = epoch;
  }
  uint32_t top = fresh->joined, n = fresh->count;
  uint32_t plain = first < fresh->plain ? fresh->plain : first;
  cache->top = top;
  signal_fence();
  bool live = false;
  if (top < CACHE_ENTRIES && n > plain)
    live = resettle(&cache->entries[top], fresh->joined_restored);
  bool verifies = cache->verifies || live;
  for (; n > plain && top > 0; n--) {
    uint32_t at = fresh_at(fresh, n - 1);
    rule_t rule = fresh->rules[at];
    live = rule_kind(rule) == RULE_FP || (live && !rule_save_bytes(rule));
    verifies |= live;
    settle(&cache->entries[--top], &fresh->frames[at], live);
  }
  cache->verifies = verifies;
  signal_fence();
  cache->top = top;
  return n <= first;
}

/* Everything that makes ENTRY what it is: where the frame register was restored from, if an outer
 * rule uses it, and the slot. In this order, for the one lies further in than the other. */
static bool add_entry(tip_t *tip, uint64_t innermost_slot, const cached_t *e) {
  if (e->bits & CACHED_VERIFY &&
      !tip_add(tip, innermost_slot, e->slot - (uint64_t)(int64_t)e->restored_words * 8, e->fp))
    return false;
  return tip_add(tip, innermost_slot, e->slot, e->raw);
}

static bool fill_tip(const cache_t *cache, tip_t *tip, uint32_t innermost, uint32_t joined) {
  const cached_t *first = &cache->entries[innermost], *join = &cache->entries[joined];
  tip->live = first->bits & CACHED_LIVE;
  tip->fp = first->fp;
  tip->join = (uint16_t)joined;
  tip->join_id = join->id;
  tip->join_fp = join->fp;
  tip->join_words = (uint16_t)((join->slot - first->slot) / 8); /* fits, as that of its word does */
  tip->count = 0;
  if (!tip_add(tip, first->slot, first->slot, first->raw)) return false;
  for (uint32_t k = innermost + 1; k <= joined; k++)
    if (!add_entry(tip, first->slot, &cache->entries[k])) return false;
  return true;
}

void cache_keep_tip(cache_t *cache, uint32_t innermost, uint32_t joined, uint64_t pc, uint64_t sp,
                    uint32_t id) {
  const cached_t *first = &cache->entries[innermost], *join = &cache->entries[joined];
  if (joined >= CACHE_ENTRIES || joined - innermost >= TIP_WORDS) return;
  if (first->slot != sp - 8 || first->raw != pc || first->id != id) return;
  if (!(first->bits & CACHED_NODE) || !(join->bits & CACHED_NODE)) return;
  tip_t *tip = &cache->tips.tips[tips_index(cache->tips.last, pc, sp)];
  tip->sp = 0; /* a handler may jump out of here and leave it half done */
  signal_fence();
  if (!fill_tip(cache, tip, innermost, joined)) return;
  tip->id = id;
  signal_fence();
  tip->sp = sp;
}
