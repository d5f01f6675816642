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

/* The window over the stack that SP points into; NULL when it cannot be read. */
static window_t *window_over(stacks_t *stacks, uint64_t sp) {
  if (stacks->cached && window_holds(stacks->cached, sp)) return stacks->cached;
  window_t *other = &stacks->other;
  return window_holds(other, sp) || (other->move && other->move(other, sp)) ? other : NULL;
}

/* A slow step, which wants the position where its frame register is, and may change stacks. */
static NOINLINE walk_step_t step_slowly(stacks_t *stacks, window_t **w, position_t *p,
                                        position_t *here) {
  position_move(p, here);
  walk_step_t step = walk_slowly(*w, p);
  position_move(here, p);
  if (step != WALK_ON) return step;
  *w = window_over(stacks, p->sp);
  return *w ? WALK_ON : WALK_FAULT;
}

/* A frame whose caller changes from capture to capture is looked up by its hash; what lies further
 * out, if it has to be walked at all, by the hint of the frame inside it. */
typedef struct lookup {
  frame_slot_t *inner; /* the frame looked up last, by its hint; else NULL */
  uint32_t hint;
  uint32_t salt; /* another one each time: see frames_worth_a_hint */
} lookup_t;

static ALWAYS_INLINE frame_ref_t look_up(lookup_t *l, bool hinted, const position_t *p,
                                         uint64_t epoch) {
  if (hinted && LIKELY(!p->exact)) {
    l->inner = frames_follow(l->inner, l->hint, p->pc, epoch, l->salt);
    if (LIKELY(l->inner)) {
      uint64_t both = frames_rule_and_hint(l->inner);
      l->hint = (uint32_t)(both >> 32);
      return (frame_ref_t){frames_id(l->inner), (rule_t)both};
    }
  }
  l->inner = NULL;
  return frames_find(p->pc, p->exact, epoch);
}

READS_STACK void cache_walk(const cache_t *cache, stacks_t *stacks, position_t *p, uint64_t epoch,
                            uint32_t limit, fresh_t *fresh) {
  static const cache_t empty = {.entries[CACHE_ENTRIES] = {.slot = UINT64_MAX}};
  const cache_t *known = cache && cache->epoch == epoch ? cache : &empty;
  uint32_t j = known == &empty ? CACHE_ENTRIES : cache->top;
  uint32_t count = 0, plain = 0, unhinted = j < CACHE_ENTRIES ? FRESH_UNHINTED : 0;
  lookup_t lookup = {.salt = cache ? cache->tips.wrong + cache->tips.rest : FRAMES_NO_SALT};
  walk_step_t end = WALK_ON;
  rule_t rule = 0;
  position_t here; /* in registers; its pointer leads to the frame register of *P */
  position_copy(&here, p);
  window_t *w = window_over(stacks, p->sp);
  fresh->joined = CACHE_ENTRIES;
  if (UNLIKELY(!w)) {
    limit = 0;
    end = WALK_FAULT;
  }
  for (;;) {
    if (j < CACHE_ENTRIES && LIKELY(here.slot) && join(known, w, &here, &j)) {
      fresh->joined = j;
      end = WALK_END;
      break;
    }
    if (UNLIKELY(count == limit)) break;
    frame_ref_t frame = look_up(&lookup, count >= unhinted, &here, epoch);
    if (UNLIKELY(!here.slot || sp_words(&here) > UINT8_MAX)) plain = count + 1;
    fresh_frame_t *to = fresh_at(fresh, count++);
    to->slot = here.slot;
    to->raw = here.raw;
    to->fp_at = here.fp_at;
    to->came_by_and_id = (uint64_t)rule << 32 | frame.id;
    rule = frame.rule;
    end = walk_by_rule(w, rule, &here);
    if (LIKELY(end == WALK_ON)) continue;
    if (end != WALK_SLOW) break;
    plain = count;
    rule = 0;
    end = step_slowly(stacks, &w, p, &here);
    if (end != WALK_ON) break;
  }
  fresh->count = count;
  fresh->plain = w == stacks->cached ? plain : count;
  fresh->last = rule;
  fresh->end = end;
}

READS_STACK bool cache_extend(cache_t *cache, const fresh_t *fresh, uint32_t first,
                              uint64_t epoch) {
  uint32_t nothing = 0;
  return cache_extend_named(cache, fresh, first, epoch, NULL, &nothing) <= first;
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
