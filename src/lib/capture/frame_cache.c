/* SPDX-License-Identifier: MIT
 *
 * The walk that extends the frame cache, and the predictions that it adds (capture/frame_cache.h).
 */
#include "capture/frame_cache.h"
#include "capture/stack_table.h"

/* On x86_64 a walk carries few values from one frame to the next: the call determines where the
 * return address is and what it looks like. */
#if defined(__x86_64__)
static ALWAYS_INLINE uint64_t slot_of(const position_t *p) { return p->sp - 8; }
static ALWAYS_INLINE uint64_t raw_of(const position_t *p) { return p->pc; }
#else
static ALWAYS_INLINE uint64_t slot_of(const position_t *p) { return p->slot; }
static ALWAYS_INLINE uint64_t raw_of(const position_t *p) { return p->raw; }
#endif

/* Words from the slot of P up to its stack pointer. */
static ALWAYS_INLINE uint64_t sp_words(const position_t *p) { return (p->sp - slot_of(p)) / 8; }

/* Returns the first changed entry of those from E to END, which are all paired, or END. If the
 * entries further in are unchanged, both words of an entry belong to the current stack, so one load
 * may read them. This code also runs while vector registers hold the program's arguments
 * (hook/trampoline.h), so it restores the one that it uses. */
#if defined(__x86_64__)
/* Leaves if the entry at OFFSET has changed. */
#define COMPARE_PAIR(offset)                                                                       \
  "\tmovq 16+" #offset "(%[e]), %[at]\n"                                                           \
  "\tmovups -8(%[at]), %%xmm0\n"                                                                   \
  "\tpcmpeqd " #offset "(%[e]), %%xmm0\n"                                                          \
  "\tpmovmskb %%xmm0, %k[equal]\n"                                                                 \
  "\tcmpl $0xffff, %k[equal]\n"                                                                    \
  "\tjne 9f\n"
#define COMPARE_FOUR COMPARE_PAIR(0) COMPARE_PAIR(32) COMPARE_PAIR(64) COMPARE_PAIR(96)
_Static_assert(offsetof(frame_cache_entry_t, fp) == 0 && offsetof(frame_cache_entry_t, raw) == 8 &&
                   offsetof(frame_cache_entry_t, slot) == 16 && sizeof(frame_cache_entry_t) == 32,
               "the instructions use these numbers");

static ALWAYS_INLINE READS_STACK const frame_cache_entry_t *
skip_pairs(const frame_cache_entry_t *e, const frame_cache_entry_t *end) {
  uint64_t at, equal, saved[2];
  __asm__ volatile("movups %%xmm0, %[saved]\n\tjmp 2f\n\t.p2align 5\n"
                   "1:" COMPARE_FOUR "\tsubq $-128, %[e]\n"
                   "2:\tcmpq %[four], %[e]\n\tjbe 1b\n"
                   "\tcmpq %[end], %[e]\n\tje 9f\n"
                   "3:" COMPARE_PAIR(0) "\taddq $32, %[e]\n\tcmpq %[end], %[e]\n\tjne 3b\n"
                                        "9:\tmovups %[saved], %%xmm0"
                   : [e] "+r"(e), [at] "=&r"(at), [equal] "=&r"(equal), [saved] "=m"(saved)
                   : [end] "r"(end), [four] "r"(end - 4)
                   : "memory", "cc");
  return e;
}
#else
static ALWAYS_INLINE READS_STACK const frame_cache_entry_t *
skip_pairs(const frame_cache_entry_t *e, const frame_cache_entry_t *end) {
  for (; e < end; e++) {
    const uint64_t *at = stack_at_address(e->slot);
    if (UNLIKELY((at[-1] ^ e->fp) | (at[0] ^ e->raw))) return e;
  }
  return e;
}
#endif

static ALWAYS_INLINE READS_STACK bool four_unchanged(const frame_cache_entry_t *e) {
  return entry_unchanged(e) && entry_unchanged(e + 1) && entry_unchanged(e + 2) &&
         entry_unchanged(e + 3);
}

READS_STACK const frame_cache_entry_t *frame_cache_skip_verified(const frame_cache_t *cache,
                                                                 const frame_cache_entry_t *e) {
  const frame_cache_entry_t *end = frame_cache_end(cache);
  for (;;) {
    uint8_t pairs = cache->pairs[e - cache->entries];
    if (LIKELY(pairs)) {
      const frame_cache_entry_t *last = e + pairs;
      e = skip_pairs(e, last);
      if (UNLIKELY(e != last)) return e;
    }
    if (end - e < 4 || UNLIKELY(!four_unchanged(e))) return e;
    e += 4;
  }
}

static NOINLINE stack_window_t *other_stack(walk_stacks_t *stacks, uint64_t sp) {
  stack_window_t *other = &stacks->other;
  if (!stacks->has_other) *other = stack_window_of_process();
  stacks->has_other = true;
  return stack_window_holds(other, sp) || other->move(other, sp) ? other : NULL;
}

/* Returns the window over the stack that SP points into; NULL if it cannot be read. */
static ALWAYS_INLINE stack_window_t *stack_at(walk_stacks_t *stacks, uint64_t sp) {
  if (LIKELY(stacks->cached && stack_window_holds(stacks->cached, sp))) return stacks->cached;
  return other_stack(stacks, sp);
}

/* The state of a walk, besides its position. */
typedef struct walk_state {
  const frame_cache_t *cache;
  const frame_cache_entry_t *at,
      /* The entry that the walk may meet next, and the end of the entries. */
      *end;
  /* Frames left. */
  uint32_t count;
  /* Limit of COUNT. */
  uint32_t limit;
  /* See frame_table_may_write_hint. */
  uint32_t seed;
  /* The hint of INNER: the frame outside it. */
  uint32_t hint;
  /* The rule of the frame left last; 0 if no rule led from there to here. */
  rule_t rule;
  /* The frame left last, if a hint led to it. */
  frame_slot_t *inner;
  bool joined;
} walk_state_t;

/* Finds the frame at P. HINTED: tries the hint of the frame inside it first. */
static ALWAYS_INLINE frame_ref_t find_frame(walk_state_t *walk, const position_t *p, uint64_t epoch,
                                            bool hinted) {
  if (hinted) {
    walk->inner = frame_table_find_hinted(walk->inner, walk->hint, p->pc, epoch, walk->seed);
    if (LIKELY(walk->inner)) {
      uint64_t both = frame_table_rule_and_hint(walk->inner);
      walk->hint = (uint32_t)(both >> 32);
      return (frame_ref_t){frame_table_id(walk->inner), (rule_t)both};
    }
  }
  return frame_table_find(p->pc, p->exact, epoch);
}

/* Leaves the frame at P and stores it in TO. */
static ALWAYS_INLINE READS_STACK walk_step_t walk_frame(walk_state_t *walk, new_frame_t *to,
                                                        stack_window_t *w, position_t *p,
                                                        uint64_t epoch, bool hinted) {
  frame_ref_t frame = find_frame(walk, p, epoch, hinted);
  walk->count++;
  to->slot = p->slot;
  to->raw = p->raw;
  to->fp_at = p->fp_at;
  to->rule_into_and_id = (uint64_t)walk->rule << 32 | frame.id;
  walk->rule = frame.rule;
  return walk_by_rule(w, frame.rule, p);
}

/* Leaves frames until a step without a rule, or until STOP frames were left; then it returns
 * WALK_CALLER. Each frame here was reached by a rule: it has a slot, and its pc is a return
 * address, so neither is checked again. */
static ALWAYS_INLINE READS_STACK walk_step_t walk_by_rules(walk_state_t *walk,
                                                           new_frames_t *new_frames,
                                                           stack_window_t *w, position_t *p,
                                                           uint64_t epoch, uint32_t stop,
                                                           bool hinted) {
  walk_step_t step = WALK_CALLER;
  do {
    p->exact = false;
    p->slot = slot_of(p);
    p->raw = raw_of(p);
    if (walk->at != walk->end && frame_cache_try_join(walk->cache, slot_of(p), raw_of(p), p->fp_at,
                                                      sp_words(p), &walk->at)) {
      walk->joined = true;
      return WALK_END;
    }
    if (UNLIKELY(walk->count == stop)) return WALK_CALLER;
    if (UNLIKELY(sp_words(p) > UINT8_MAX)) new_frames->first_cacheable = walk->count + 1;
    new_frame_t *to =
        hinted ? new_frames_at(new_frames, walk->count) : &new_frames->frames[walk->count];
    step = walk_frame(walk, to, w, p, epoch, hinted);
  } while (LIKELY(step == WALK_CALLER));
  return step;
}

_Static_assert(UNHINTED_FRAMES <= FRAME_CACHE_NEW_FRAMES,
               "the first frames are at the ring's beginning");

static ALWAYS_INLINE READS_STACK walk_step_t walk_rules(walk_state_t *walk,
                                                        new_frames_t *new_frames, stack_window_t *w,
                                                        position_t *p, uint64_t epoch) {
  if (walk->at != walk->end && walk->count < UNHINTED_FRAMES) {
    uint32_t stop = walk->limit < UNHINTED_FRAMES ? walk->limit : UNHINTED_FRAMES;
    walk_step_t step = walk_by_rules(walk, new_frames, w, p, epoch, stop, false);
    if (LIKELY(step != WALK_CALLER) || stop == walk->limit) return step;
  }
  return walk_by_rules(walk, new_frames, w, p, epoch, walk->limit, true);
}

READS_STACK void frame_cache_walk(const frame_cache_t *cache, walk_stacks_t *stacks, position_t *p,
                                  uint64_t epoch, uint32_t limit, new_frames_t *new_frames) {
  walk_state_t walk = {.limit = limit,
                       .count = new_frames->count,
                       .rule = new_frames->last_rule,
                       .seed = FRAME_TABLE_NO_SEED};
  SONDE_ASSERT(!cache || !stacks->cached->delta);
  if (cache) walk.seed = cache->predictor.wrong + cache->predictor.paused;
  if (cache && cache->epoch == epoch) {
    walk.cache = cache;
    walk.at = &cache->entries[new_frames->joined];
    walk.end = frame_cache_end(cache);
  }
  position_t here; /* In registers. Its pointer refers to the frame register in *P. */
  position_move(&here, p);
  stack_window_t *w = stack_at(stacks, here.sp);
  walk_step_t end = LIKELY(w) ? WALK_CALLER : WALK_FAULT;
  bool after_call = false; /* The walk has just left a call of a trampoline. */
  while (LIKELY(end == WALK_CALLER)) {
    if (LIKELY(here.slot && !here.exact && !after_call))
      end = walk_rules(&walk, new_frames, w, &here, epoch);
    else if (walk.count < limit) {
      if (!after_call) new_frames->first_cacheable = walk.count + 1;
      end = walk_frame(&walk, new_frames_at(new_frames, walk.count), w, &here, epoch, false);
      walk.inner = NULL;
    }
    after_call = false;
    if (end == WALK_SLOW) {
      position_move(p, &here); /* P holds the frame register's value. */
      end = walk_slow_step(w, p);
      position_move(&here, p);
      after_call = here.slot;
      if (!after_call) {
        new_frames->first_cacheable = walk.count;
        walk.rule = 0;
      }
      if (end != WALK_CALLER) break;
      w = stack_at(stacks, here.sp);
      if (UNLIKELY(!w)) end = WALK_FAULT;
    } else if (walk.count == limit)
      break;
  }
  new_frames->count = walk.count;
  if (w != stacks->cached) new_frames->first_cacheable = walk.count;
  new_frames->joined = walk.joined ? (uint32_t)(walk.at - cache->entries) : FRAME_CACHE_ENTRIES;
  new_frames->last_rule = walk.rule;
  new_frames->end = end;
}

READS_STACK bool frame_cache_extend(frame_cache_t *cache, const new_frames_t *new_frames,
                                    uint32_t first, uint64_t epoch) {
  uint32_t nothing = 0;
  return frame_cache_extend_with(cache, new_frames, first, epoch, NULL, &nothing) <= first;
}

/* True if E is paired and its frame register points just below the slot of the next outer entry. */
static bool entry_is_chained(const frame_cache_entry_t *e) {
  return entry_is_paired(e) && e->fp == e[1].slot - 8;
}

/* Adds the words that prove entry E: its slot, and the place where the frame register was restored
 * from if an outer rule uses it. The slot is first, since the next slot determines a chained
 * entry's frame register. */
static bool add_entry(prediction_t *prediction, uint64_t innermost_slot,
                      const frame_cache_entry_t *e, bool chained) {
  if (!prediction_add(prediction, innermost_slot, e->slot, e->raw, chained)) return false;
  if (chained || !(e->bits & ENTRY_FP_VERIFY)) return true;
  uint64_t restored_from = e->slot - (uint64_t)(int64_t)e->restored_words * 8;
  return prediction_add(prediction, innermost_slot, restored_from, e->fp, false);
}

static bool fill_prediction(const frame_cache_t *cache, prediction_t *prediction,
                            uint32_t innermost, uint32_t joined) {
  const frame_cache_entry_t *first = &cache->entries[innermost], *join = &cache->entries[joined];
  prediction->fp_live = first->bits & ENTRY_FP_LIVE;
  prediction->fp = first->fp;
  prediction->join = (uint16_t)joined;
  prediction->join_id = join->id;
  prediction->join_fp = join->fp;
  prediction->join_words =
      /* Fits, since the distance of its word does. */
      (uint16_t)((join->slot - first->slot) / 8);
  prediction->count = 0;
  if (!prediction_add(prediction, first->slot, first->slot, first->raw, false)) return false;
  for (const frame_cache_entry_t *e = first + 1; e <= join; e++)
    if (!add_entry(prediction, first->slot, e, e < join && entry_is_chained(e))) return false;
  return true;
}

void frame_cache_add_prediction(frame_cache_t *cache, uint32_t innermost, uint32_t joined,
                                uint64_t pc, uint64_t sp, uint32_t id) {
  const frame_cache_entry_t *first = &cache->entries[innermost], *join = &cache->entries[joined];
  if (joined >= FRAME_CACHE_ENTRIES || joined - innermost >= PREDICTION_WORDS) return;
  if (first->slot != sp - 8 || first->raw != pc || first->id != id) return;
  if (!(first->bits & ENTRY_STACK_ID) || !(join->bits & ENTRY_STACK_ID)) return;
  prediction_t *prediction = predictor_at(&cache->predictor, pc, sp);
  /* A handler may jump out of here and leave the prediction incomplete. */
  prediction->sp = 0;
  signal_fence();
  if (!fill_prediction(cache, prediction, innermost, joined)) return;
  prediction->id = id;
  SONDE_ASSERT(prediction_is_valid(prediction));
  signal_fence();
  prediction->sp = sp;
}

/* ---- invariants ----------------------------------------------------------------------------- */

#if defined(SONDE_DEBUG)

/* True if the id of E belongs to its return address and its node's parent is the next entry's. */
static bool entry_id_is_valid(const frame_cache_entry_t *e, const frame_cache_entry_t *end) {
  uint32_t frame = e->id, parent = 0;
  frame_info_t info;
  if (e->id == STACK_TABLE_FULL || e->id == FRAME_TABLE_FULL) return true;
  if (e->bits & ENTRY_STACK_ID) {
    if (!stack_table_get(e->id, &parent, &frame)) return false;
    uint32_t outer = e + 1 == end ? 0 : e[1].id;
    if (parent != outer || (outer && !(e[1].bits & ENTRY_STACK_ID))) return false;
  }
  if (!frame_table_get(frame, &info)) return false;
  return info.pc == arch_strip(e->raw) || info.pc <= FRAME_TABLE_MARKERS;
}

/* True if the slots ascend from entry E to the next one on the stack. */
static bool entry_is_in_order(const frame_cache_entry_t *e) {
  const frame_cache_entry_t *next = e + 1;
  while (next->bits & ENTRY_CALL)
    next++;
  return e->bits & ENTRY_CALL || e->slot < next->slot;
}

bool frame_cache_is_valid(const frame_cache_t *cache) {
  const frame_cache_entry_t *end = frame_cache_end(cache);
  if (cache->top > FRAME_CACHE_ENTRIES || end->slot != UINT64_MAX) return false;
  if (cache->pairs[FRAME_CACHE_ENTRIES] != 0) return false;
  for (uint32_t k = cache->top; k < FRAME_CACHE_ENTRIES; k++) {
    const frame_cache_entry_t *e = &cache->entries[k];
    unsigned pairs = entry_is_paired(e) ? cache->pairs[k + 1] + 1u : 0;
    if (e->slot == 0 || !entry_is_in_order(e) || cache->pairs[k] != pairs) return false;
    if (e->bits & ENTRY_FP_VERIFY && !(e->bits & ENTRY_FP_LIVE && cache->verifies)) return false;
    if (!entry_id_is_valid(e, end)) return false;
  }
  return predictor_is_valid(&cache->predictor);
}

#endif
