/* SPDX-License-Identifier: MIT */
#include "unwind/cache.h"
#include "unwind/self.h"

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

/* Nonzero when chained entry E changed. What its frame register must be follows from where the next
 * slot is, so two words of the entries are loaded for each two of the stack, not four. */
static ALWAYS_INLINE READS_STACK uint64_t chained_changed(const cached_t *e, const window_t *w) {
  const uint64_t *at = window_at(w, e->slot);
  return (at[0] ^ e->raw) | (at[-1] ^ (e[1].slot - 8));
}
static ALWAYS_INLINE READS_STACK bool chained_four_hold(const cached_t *e, const window_t *w) {
  if (LIKELY(cached_share_page(e)))
    return !(chained_changed(e, w) | chained_changed(e + 1, w) | chained_changed(e + 2, w) |
             chained_changed(e + 3, w));
  return !chained_changed(e, w) && !chained_changed(e + 1, w) && !chained_changed(e + 2, w) &&
         !chained_changed(e + 3, w);
}

/* Passes the entries from E to before END, four of them or more, all chained. */
static ALWAYS_INLINE READS_STACK const cached_t *
skip_chained(const cached_t *e, const cached_t *end, const window_t *w) {
  for (; e < end - 4; e += 4)
    if (UNLIKELY(!chained_four_hold(e, w))) return e;
  return LIKELY(chained_four_hold(end - 4, w)) ? end : e;
}

READS_STACK const cached_t *cache_skip_verified(const cache_t *cache, const window_t *w,
                                                uint32_t k) {
  const cached_t *e = &cache->entries[k], *last_four = &cache->entries[CACHE_ENTRIES - 4];
  if (UNLIKELY(e > last_four)) return e;
  while (e < last_four) {
    const cached_t *end = e + cache->chained[e - cache->entries];
    if (LIKELY(end - e >= 4)) {
      e = skip_chained(e, end, w);
      if (UNLIKELY(e != end)) return e;
    } else if (LIKELY(cached_four_hold(e, w, true)))
      e += 4;
    else
      return e;
  }
  return LIKELY(cached_four_hold(last_four, w, true)) ? last_four + 4 : e;
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

static NOINLINE window_t *window_over_other(stacks_t *stacks, uint64_t sp) {
  window_t *other = &stacks->other;
  if (!stacks->others) *other = self_window();
  stacks->others = true;
  return window_holds(other, sp) || other->move(other, sp) ? other : NULL;
}

/* The window over the stack that SP points into; NULL when it cannot be read. */
static ALWAYS_INLINE window_t *window_over(stacks_t *stacks, uint64_t sp) {
  if (LIKELY(stacks->cached && window_holds(stacks->cached, sp))) return stacks->cached;
  return window_over_other(stacks, sp);
}

/* What a walk carries from frame to frame, apart from its position. */
typedef struct passage {
  const cache_t *known;
  uint32_t at;         /* the entry that the walk may meet next */
  uint32_t count;      /* frames passed */
  uint32_t limit;      /* so many at most */
  uint32_t unhinted;   /* so many are looked up by their hash, the others by a hint */
  uint32_t salt;       /* see frames_worth_a_hint */
  uint32_t hint;       /* what INNER says of the frame outside it */
  rule_t rule;         /* of the frame passed last; 0: none led from there to here */
  frame_slot_t *inner; /* the frame passed last, if a hint led to it */
  bool joined;
} passage_t;

/* A frame whose caller changes from capture to capture is looked up by its hash; what lies further
 * out, if it has to be walked at all, by the hint of the frame inside it. */
static ALWAYS_INLINE frame_ref_t look_up(passage_t *on, const position_t *p, uint64_t epoch) {
  if (on->count >= on->unhinted && LIKELY(!p->exact)) {
    on->inner = frames_follow(on->inner, on->hint, p->pc, epoch, on->salt);
    if (LIKELY(on->inner)) {
      uint64_t both = frames_rule_and_hint(on->inner);
      on->hint = (uint32_t)(both >> 32);
      return (frame_ref_t){frames_id(on->inner), (rule_t)both};
    }
  }
  on->inner = NULL;
  return frames_find(p->pc, p->exact, epoch);
}

/* Passes the frame that P is in. */
static ALWAYS_INLINE READS_STACK walk_step_t pass(passage_t *on, fresh_t *fresh, window_t *w,
                                                  position_t *p, uint64_t epoch) {
  frame_ref_t frame = look_up(on, p, epoch);
  fresh_frame_t *to = fresh_at(fresh, on->count++);
  to->slot = p->slot;
  to->raw = p->raw;
  to->fp_at = p->fp_at;
  to->came_by_and_id = (uint64_t)on->rule << 32 | frame.id;
  on->rule = frame.rule;
  return walk_by_rule(w, frame.rule, p);
}

/* Passes frames until P is not in one that a rule led to. It is in one now: it has a slot, and its
 * pc is a return address, which need not be asked again and again. */
static ALWAYS_INLINE READS_STACK walk_step_t pass_by_rules(passage_t *on, fresh_t *fresh,
                                                           window_t *w, position_t *p,
                                                           uint64_t epoch) {
  walk_step_t step;
  do {
    p->exact = false;
    if (on->at < CACHE_ENTRIES && join(on->known, w, p, &on->at)) {
      on->joined = true;
      return WALK_END;
    }
    if (UNLIKELY(on->count == on->limit)) return WALK_ON;
    if (UNLIKELY(sp_words(p) > UINT8_MAX)) fresh->plain = on->count + 1;
    step = pass(on, fresh, w, p, epoch);
  } while (LIKELY(step == WALK_ON));
  return step;
}

READS_STACK void cache_walk(const cache_t *cache, stacks_t *stacks, position_t *p, uint64_t epoch,
                            uint32_t limit, fresh_t *fresh) {
  static const cache_t empty = {.entries[CACHE_ENTRIES] = {.slot = UINT64_MAX}};
  passage_t on = {.known = &empty, .at = CACHE_ENTRIES, .limit = limit, .salt = FRAMES_NO_SALT};
  if (cache) on.salt = cache->tips.wrong + cache->tips.rest;
  if (cache && cache->epoch == epoch && cache->top < CACHE_ENTRIES) {
    on.known = cache;
    on.at = cache->top;
    on.unhinted = FRESH_UNHINTED;
  }
  position_t here; /* in registers; its pointer leads to the frame register of *P */
  position_move(&here, p);
  fresh->plain = 0;
  window_t *w = window_over(stacks, here.sp);
  walk_step_t end = LIKELY(w) ? WALK_ON : WALK_FAULT;
  while (LIKELY(end == WALK_ON)) {
    if (LIKELY(here.slot && !here.exact))
      end = pass_by_rules(&on, fresh, w, &here, epoch);
    else if (on.count < limit) {
      fresh->plain = on.count + 1;
      end = pass(&on, fresh, w, &here, epoch);
    }
    if (end == WALK_SLOW) {
      fresh->plain = on.count;
      on.rule = 0;
      position_move(p, &here); /* where the frame register is */
      end = walk_slowly(w, p);
      position_move(&here, p);
      if (end != WALK_ON) break;
      w = window_over(stacks, here.sp);
      if (UNLIKELY(!w)) end = WALK_FAULT;
    } else if (on.count == limit)
      break;
  }
  fresh->count = on.count;
  if (w != stacks->cached) fresh->plain = on.count;
  fresh->joined = on.joined ? on.at : CACHE_ENTRIES;
  fresh->last = on.rule;
  fresh->end = end;
}

READS_STACK bool cache_extend(cache_t *cache, const fresh_t *fresh, uint32_t first,
                              uint64_t epoch) {
  uint32_t nothing = 0;
  return cache_extend_named(cache, fresh, first, epoch, NULL, &nothing) <= first;
}

/* Everything that makes ENTRY what it is: the slot, and where the frame register was restored from
 * if an outer rule uses it. The slot first, for a chained entry is followed by the next one's. */
static bool add_entry(tip_t *tip, uint64_t innermost_slot, const cached_t *e, bool chained) {
  if (!tip_add(tip, innermost_slot, e->slot, e->raw, chained)) return false;
  if (chained || !(e->bits & CACHED_VERIFY)) return true;
  uint64_t restored_from = e->slot - (uint64_t)(int64_t)e->restored_words * 8;
  return tip_add(tip, innermost_slot, restored_from, e->fp, false);
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
  if (!tip_add(tip, first->slot, first->slot, first->raw, false)) return false;
  for (const cached_t *e = first + 1; e <= join; e++)
    if (!add_entry(tip, first->slot, e, e < join && cached_is_chained(e))) return false;
  return true;
}

void cache_keep_tip(cache_t *cache, uint32_t innermost, uint32_t joined, uint64_t pc, uint64_t sp,
                    uint32_t id) {
  const cached_t *first = &cache->entries[innermost], *join = &cache->entries[joined];
  if (joined >= CACHE_ENTRIES || joined - innermost >= TIP_WORDS) return;
  if (first->slot != sp - 8 || first->raw != pc || first->id != id) return;
  if (!(first->bits & CACHED_NODE) || !(join->bits & CACHED_NODE)) return;
  tip_t *tip = tips_at(&cache->tips, pc, sp);
  tip->sp = 0; /* a handler may jump out of here and leave it half done */
  signal_fence();
  if (!fill_tip(cache, tip, innermost, joined)) return;
  tip->id = id;
  signal_fence();
  tip->sp = sp;
}
