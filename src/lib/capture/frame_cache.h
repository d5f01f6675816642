/* SPDX-License-Identifier: MIT
 *
 * The frame cache: a thread's previous stack, so that only what changed since is walked.
 *
 * An entry stands for one return address on the stack: where it is (its slot), what is there, and
 * the stack and frame pointer the caller has after the return. A walk meets slots in ascending
 * order. When it comes to a slot that an entry has, with the same content and the same registers,
 * then everything further out follows from memory alone, by induction: an entry's frame leaves by
 * its rule to the next entry's slot. So re-reading the outer slots, and the saved frame pointers
 * that an outer rule consumes, proves the rest of the stack unchanged; nothing is unwound again.
 *
 * Only complete stacks are kept, and of these the outermost run of frames that leave by rules over
 * the stack and frame pointer. A frame whose row must be interpreted, a signal frame or code
 * without a row ends the run: what lies further in is walked each time.
 *
 * The frame register matters only where an outer frame's rule uses it before another frame restores
 * it; elsewhere it holds whatever the program computes, and is not compared (`ENTRY_FP_LIVE`).
 *
 * In code with frame pointers every saved one leads to just below the next slot. Such entries are
 * chained, and how many there are in a row is known, so that they are compared without a look at
 * what each of them is: half the time of a walk along the frame pointers themselves.
 *
 * A stack that came before, and not long ago, is guessed and not walked at all: see
 * capture/predictor.h.
 *
 * The cost, of lines of 64 bytes and of branches that the processor cannot foresee. A guess that is
 * right: two or three lines of the tip, one for every two outer entries, those of the program's own
 * stack, two of the loader's counters; no store but the busy mark and the last id; a branch for the
 * number of words and one for the number of entries. A walk of n fresh frames: besides the outer
 * entries, n lines of the frame table and n of the stack table, which is what a compiler with its
 * 80,000 nodes pays for, n entries and n frames of the ring written (64 bytes each), and two or
 * three branches foreseen wrongly: is the tip right, how many frames are fresh, how many entries
 * are left. No atomic instruction and no system call in either. 30 frames deep with the innermost
 * three changing at random: 960 instructions.
 *
 * An entry also holds what the stack table made of it (capture/stack_table.h): the id of the stack
 * from here outward, once somebody asked for it.
 *
 * Signals: entries[top …] are complete at every instruction; `top` is moved out before entries are
 * overwritten and moved in after. A capture within a capture does not use the cache at all.
 */
#ifndef SONDE_CAPTURE_FRAME_CACHE_H
#define SONDE_CAPTURE_FRAME_CACHE_H

#include "capture/predictor.h"
#include "capture/walk.h"

#define FRAME_CACHE_ENTRIES    240
#define FRAME_CACHE_NEW_FRAMES 64 /* a power of two */

#define FRAME_CACHE_PAGE_BITS 12 /* no page is smaller */

#define ENTRY_FP_LIVE   1u /* an outer rule uses the frame register as it is here */
#define ENTRY_FP_VERIFY 2u /* the frame left by this return restored the register from memory */
#define ENTRY_STACK_ID  4u /* `id` is a stack id; else it is a frame id */

typedef struct frame_cache_entry {
  uint64_t slot; /* where the return address is; 0: it came from a register or a signal frame */
  uint64_t raw;  /* what is there: the pc, on aarch64 perhaps signed */
  uint64_t fp;   /* the frame register after the return, if ENTRY_FP_LIVE; else 0 */
  union {
    struct {
      uint32_t id;
      int16_t restored_words; /* from the slot down to where the frame register was restored from */
      uint8_t sp_words;       /* from the slot up to the stack pointer after the return */
      uint8_t bits;           /* CACHED_… */
    };
    uint64_t tail; /* the four as one word, so that no load is wider than the store before it */
  };
} frame_cache_entry_t;

#define ENTRY_FLAGS_SHIFT                                                                          \
  56 /* where `bits` is in `tail`, on the little-endian machines we know                           \
      */

static ALWAYS_INLINE uint64_t entry_pack(uint32_t id, int64_t restored_words, uint64_t sp_words,
                                         unsigned bits) {
  return id | (uint64_t)(uint16_t)restored_words << 32 | (sp_words & 0xff) << 48 |
         (uint64_t)bits << ENTRY_FLAGS_SHIFT;
}

/* Makes NODE the id of ENTRY. */
static ALWAYS_INLINE void entry_set_stack_id(frame_cache_entry_t *entry, uint32_t node) {
  entry->tail =
      (entry->tail & ~(uint64_t)UINT32_MAX) | node | (uint64_t)ENTRY_STACK_ID << ENTRY_FLAGS_SHIFT;
}

/* A frame that a walk has passed. Four words, each stored and loaded as one. */
typedef struct new_frame {
  uint64_t slot, raw;        /* as in frame_cache_entry_t */
  const uint64_t *fp_at;     /* where the frame register is; NULL when it is not known */
  uint64_t rule_into_and_id; /* the frame's id below the rule that led to it, 0 when none did */
} new_frame_t;

static ALWAYS_INLINE uint32_t new_frame_id(const new_frame_t *f) {
  return (uint32_t)f->rule_into_and_id;
}
static ALWAYS_INLINE rule_t new_frame_rule_into(const new_frame_t *f) {
  return (rule_t)(f->rule_into_and_id >> 32);
}

typedef struct frame_cache {
  uint64_t epoch; /* of the loader when the entries were made; others are worthless */
  uint32_t top;   /* entries[top …] are the cached run, innermost first */
  bool verifies;  /* some entry may have ENTRY_FP_VERIFY */
  new_frame_t new_frames[FRAME_CACHE_NEW_FRAMES];
  frame_cache_entry_t entries[FRAME_CACHE_ENTRIES + 1]; /* the last one is beyond every slot */
  uint8_t chain_length[FRAME_CACHE_ENTRIES +
                       1]; /* so many entries, from this one outward, are chained */
  predictor_t predictor;
} frame_cache_t;

/* Behind the last entry: one that no slot is beyond. */
static ALWAYS_INLINE const frame_cache_entry_t *frame_cache_end(const frame_cache_t *cache) {
  return &cache->entries[FRAME_CACHE_ENTRIES];
}

static inline void frame_cache_clear(frame_cache_t *cache) {
  cache->top = FRAME_CACHE_ENTRIES;
  cache->verifies = false;
  cache->entries[FRAME_CACHE_ENTRIES] = (frame_cache_entry_t){.slot = UINT64_MAX};
  cache->chain_length[FRAME_CACHE_ENTRIES] = 0;
}

/* The frame register was restored from just below ENTRY's slot, and leads to just below the slot of
 * the entry outside it, as in code with frame pointers. */
static ALWAYS_INLINE bool entry_is_chained(const frame_cache_entry_t *e) {
  return e->bits & ENTRY_FP_VERIFY && e->restored_words == 1 && e->fp == e[1].slot - 8;
}

_Static_assert(FRAME_CACHE_ENTRIES <= UINT8_MAX, "the length of a chain fits");

/* Nonzero when the memory behind entry E no longer holds what it did. */
static ALWAYS_INLINE READS_STACK uint64_t entry_slot_changed(const frame_cache_entry_t *e,
                                                             const stack_window_t *w) {
  return *stack_window_at(w, e->slot) ^ e->raw;
}
static ALWAYS_INLINE READS_STACK uint64_t entry_fp_changed(const frame_cache_entry_t *e,
                                                           const stack_window_t *w) {
  uint64_t verified = -(e->tail >> (ENTRY_FLAGS_SHIFT + 1) & 1); /* ENTRY_FP_VERIFY */
  return (*(stack_window_at(w, e->slot) - e->restored_words) ^ e->fp) & verified;
}

/* The slots of four entries lie in one page. */
static ALWAYS_INLINE bool entries_share_page(const frame_cache_entry_t *e) {
  return !((e[0].slot ^ e[3].slot) >> FRAME_CACHE_PAGE_BITS);
}
static ALWAYS_INLINE READS_STACK uint64_t entries_slots_changed(const frame_cache_entry_t *e,
                                                                const stack_window_t *w) {
  return entry_slot_changed(&e[0], w) | entry_slot_changed(&e[1], w) |
         entry_slot_changed(&e[2], w) | entry_slot_changed(&e[3], w);
}
static ALWAYS_INLINE READS_STACK uint64_t entries_fps_changed(const frame_cache_entry_t *e,
                                                              const stack_window_t *w) {
  const uint64_t verify = (uint64_t)ENTRY_FP_VERIFY << ENTRY_FLAGS_SHIFT;
  if (!((e[0].tail | e[1].tail | e[2].tail | e[3].tail) & verify)) return 0;
  return entry_fp_changed(&e[0], w) | entry_fp_changed(&e[1], w) | entry_fp_changed(&e[2], w) |
         entry_fp_changed(&e[3], w);
}

static ALWAYS_INLINE READS_STACK bool entry_unchanged(const frame_cache_entry_t *e,
                                                      const stack_window_t *w, bool verifies) {
  return !(entry_slot_changed(e, w) | (verifies ? entry_fp_changed(e, w) : 0));
}
static ALWAYS_INLINE READS_STACK bool entries_unchanged(const frame_cache_entry_t *e,
                                                        const stack_window_t *w, bool verifies) {
  if (LIKELY(entries_share_page(e)))
    return !(entries_slots_changed(e, w) | (verifies ? entries_fps_changed(e, w) : 0));
  return entry_unchanged(e, w, verifies) && entry_unchanged(e + 1, w, verifies) &&
         entry_unchanged(e + 2, w, verifies) && entry_unchanged(e + 3, w, verifies);
}

static ALWAYS_INLINE READS_STACK const frame_cache_entry_t *
frame_cache_skip_unchanged(const frame_cache_t *cache, const stack_window_t *w,
                           const frame_cache_entry_t *e) {
  const frame_cache_entry_t *last_four = frame_cache_end(cache) - 4;
  if (UNLIKELY(e > last_four)) return e;
  for (; e < last_four; e += 4)
    if (UNLIKELY(!entries_unchanged(e, w, false))) return e;
  return LIKELY(entries_unchanged(last_four, w, false)) ? last_four + 4 : e;
}

/* The same where frame registers are verified. */
const frame_cache_entry_t *frame_cache_skip_verified(const frame_cache_t *cache,
                                                     const stack_window_t *w,
                                                     const frame_cache_entry_t *e);

/* The first entry from E on whose memory no longer holds what it did; the end if there is none.
 * While all entries before it hold, an entry's slot is one of the stack as it is now, so it can be
 * read; further out there may be no memory any more (the stack of a fiber that has ended). So
 * entries are read ahead only within a page. Four a turn, since a branch that is never taken still
 * costs more than the comparison it guards; the last four are perhaps compared twice, which costs
 * less than to take what is left over one by one. */
static ALWAYS_INLINE READS_STACK const frame_cache_entry_t *
frame_cache_first_changed(const frame_cache_t *cache, const stack_window_t *w,
                          const frame_cache_entry_t *e) {
  const frame_cache_entry_t *end = frame_cache_end(cache);
  e = LIKELY(!cache->verifies) ? frame_cache_skip_unchanged(cache, w, e)
                               : frame_cache_skip_verified(cache, w, e);
  while (UNLIKELY(e < end) && entry_unchanged(e, w, true))
    e++;
  return e;
}

/* The frames that a walk has passed, innermost first, in a ring that keeps the last ones. */
typedef struct new_frames {
  new_frame_t *frames;
  uint32_t capacity;        /* how many the ring holds; a power of two */
  uint32_t count;           /* how many were passed, counted from the start of the walk */
  uint32_t first_cacheable; /* frames from this number on left by rules over the cached stack, and
                     so may be cached */
  uint32_t joined;  /* the entry at which the walk met the cache; FRAME_CACHE_ENTRIES: it did not */
  rule_t last_rule; /* of the last frame passed; 0: none led from there to where the walk stopped */
  walk_step_t end;  /* WALK_END: it met the cache or the end; WALK_CALLER: it came to its limit */
} new_frames_t;

/* Number N (counted from the start of the walk) of FRESH; it must be among the last `room`. */
static ALWAYS_INLINE new_frame_t *new_frames_at(const new_frames_t *new_frames, uint32_t n) {
  return &new_frames->frames[n & (new_frames->capacity - 1)];
}

/* The stacks that a walk may come to: the one that the cache is of, and any other. */
typedef struct walk_stacks {
  stack_window_t *cached; /* NULL when there is no cache */
  bool has_other;         /* `other` is set up */
  stack_window_t other;
} walk_stacks_t;

/* No more than needed is written: most walks come to one stack alone. */
static ALWAYS_INLINE void walk_stacks_init(walk_stacks_t *stacks, stack_window_t *cached) {
  stacks->cached = cached;
  stacks->has_other = false;
}

/* Walks from POSITION until it meets CACHE (which may be NULL), the stack's end or frame number
 * LIMIT. */
void frame_cache_walk(const frame_cache_t *cache, walk_stacks_t *stacks, position_t *p,
                      uint64_t epoch, uint32_t limit, new_frames_t *new_frames);

/* The stack whose tip was guessed from PC, SP and FP, if it is the one that is there now; else 0.
 * Reads the stack, so `busy` must be set (capture/thread_state.h). */
static ALWAYS_INLINE READS_STACK uint32_t frame_cache_find_predicted(frame_cache_t *cache,
                                                                     const stack_window_t *w,
                                                                     uint64_t pc, uint64_t sp,
                                                                     uint64_t fp) {
  const prediction_t *prediction = predictor_at(&cache->predictor, pc, sp);
  KEEP_POINTER(prediction);
  if (prediction->sp != sp || prediction->words[0] != pc ||
      (prediction->fp_live && prediction->fp != fp))
    return 0;
  const uint64_t *stack = stack_window_at(w, sp - 8);
  for (uint32_t i = 1; i < prediction->count; i++) {
    uint64_t word = prediction->words[i];
    const uint64_t *at = stack + prediction_distance(word);
    if (UNLIKELY(*at != prediction_content(word))) return 0;
    if (word & PREDICTION_CHAINED &&
        UNLIKELY(at[-1] != sp - 16 + prediction_distance(prediction->words[i + 1]) * 8))
      return 0;
  }
  const frame_cache_entry_t *join = &cache->entries[prediction->join];
  KEEP_POINTER(join);
  if (UNLIKELY(prediction->join < cache->top || join->slot != sp - 8 + prediction->join_words * 8 ||
               join->id != prediction->join_id || !(join->bits & ENTRY_STACK_ID) ||
               join->fp != prediction->join_fp))
    return 0;
  return LIKELY(frame_cache_first_changed(cache, w, join + 1) == frame_cache_end(cache))
             ? prediction->id
             : 0;
}

/* Makes a tip of the stack ID, which PC and SP begin and which the cache holds from entry INNERMOST
 * on; JOINED is the entry that the walk met, perhaps that one itself. */
void frame_cache_add_prediction(frame_cache_t *cache, uint32_t innermost, uint32_t joined,
                                uint64_t pc, uint64_t sp, uint32_t id);

/* What a frame that was fresh is called as an entry of the cache: its own id, or a stack's. */
typedef uint32_t frame_cache_id_of_t(uint32_t outer, uint32_t id);

/* The cache is about to be extended: forgets what is worth nothing in EPOCH. */
static ALWAYS_INLINE void frame_cache_set_epoch(frame_cache_t *cache, uint64_t epoch) {
  if (LIKELY(cache->epoch == epoch)) return;
  frame_cache_clear(cache);
  predictor_clear(&cache->predictor);
  signal_fence();
  cache->epoch = epoch;
}

/* Entry K, which the walk joined, has a new frame inside it, and that one may have saved the
 * register elsewhere. */
static ALWAYS_INLINE bool frame_cache_update_joined(frame_cache_t *cache, uint32_t k,
                                                    rule_t inner) {
  frame_cache_entry_t *entry = &cache->entries[k];
  bool fp_live = entry->bits & ENTRY_FP_LIVE;
  int64_t restored = fp_live ? rule_restored_words(inner) : 0;
  if (LIKELY(restored == entry->restored_words)) return fp_live;
  entry->restored_words = (int16_t)restored;
  entry->bits = (uint8_t)((entry->bits & ~ENTRY_FP_VERIFY) | (restored ? ENTRY_FP_VERIFY : 0));
  cache->chain_length[k] = entry_is_chained(entry) ? (uint8_t)(cache->chain_length[k + 1] + 1) : 0;
  return fp_live;
}

/* As rule_sp_words, for rules of this machine: on x86_64 they know one place. */
static ALWAYS_INLINE uint64_t frame_cache_sp_words(rule_t rule) {
#if defined(__x86_64__)
  (void)rule;
  return 1;
#else
  return rule_sp_words(rule);
#endif
}

/* Makes FROM entry TOP, inside of the one after it, by the name that follows from *OUTER, which
 * becomes that. LIVE: an outer rule uses the frame register as it is there. Returns the rule that
 * led to it. */
static ALWAYS_INLINE READS_STACK rule_t frame_cache_add(frame_cache_t *cache, uint32_t top,
                                                        const new_frame_t *from,
                                                        frame_cache_id_of_t *name, uint32_t *outer,
                                                        bool fp_live) {
  frame_cache_entry_t *to = &cache->entries[top];
  rule_t rule_into = new_frame_rule_into(from);
  int64_t restored = fp_live ? rule_restored_words(rule_into) : 0;
  uint64_t fp = fp_live && from->fp_at ? *from->fp_at : 0;
  unsigned bits = name ? ENTRY_STACK_ID : 0;
  if (fp_live) bits |= ENTRY_FP_LIVE | (restored ? ENTRY_FP_VERIFY : 0);
  *outer = name ? name(*outer, new_frame_id(from)) : new_frame_id(from);
  to->slot = from->slot;
  to->raw = from->raw;
  to->fp = fp;
  to->tail = entry_pack(*outer, restored, frame_cache_sp_words(rule_into), bits);
  bool chain_length = bits & ENTRY_FP_VERIFY && restored == 1 && fp == to[1].slot - 8;
  cache->chain_length[top] = chain_length ? (uint8_t)(cache->chain_length[top + 1] + 1) : 0;
  return rule_into;
}

/* Whether an outer rule uses the frame register as it is in a frame that RULE leaves; LIVE: as it
 * is in the frame outside that one. */
static ALWAYS_INLINE bool frame_cache_fp_is_live(rule_t rule, bool fp_live) {
  return rule_kind(rule) == RULE_FP || (fp_live && !rule_save_bytes(rule));
}

/* Puts the fresh frames from number FIRST on before the entry JOINED, as far as they are plain and
 * there is room. Returns the number of the innermost one that was put there; FIRST: that was all of
 * them. NAME, which must be inlined, is given each frame and what it said of the one outside it,
 * beginning with *OUTER; without it, entries get their frames' ids.
 *
 * Whether the frame register matters in a frame is known from the outermost to the innermost. Where
 * it does not, it is not verified, for what it leads to may be gone. As long as it does not, in
 * code without frame pointers all the way, an entry needs no more than its slot and its name. */
static ALWAYS_INLINE READS_STACK uint32_t frame_cache_extend_with(frame_cache_t *cache,
                                                                  const new_frames_t *new_frames,
                                                                  uint32_t first, uint64_t epoch,
                                                                  frame_cache_id_of_t *name,
                                                                  uint32_t *outer) {
  uint32_t n = new_frames->count,
           cacheable = first < new_frames->first_cacheable ? new_frames->first_cacheable : first;
  if (UNLIKELY(epoch == EPOCH_UNKNOWN)) return n;
  frame_cache_set_epoch(cache, epoch);
  uint32_t top = new_frames->joined, id = *outer;
  cache->top = top;
  signal_fence();
  rule_t rule = new_frames->last_rule;
  bool fp_live = false;
  if (top < FRAME_CACHE_ENTRIES && n > cacheable)
    fp_live = frame_cache_update_joined(cache, top, rule);
  bool verifies = cache->verifies || fp_live;
  while (n > cacheable && top > 0 && !(fp_live = frame_cache_fp_is_live(rule, fp_live)))
    rule = frame_cache_add(cache, --top, new_frames_at(new_frames, --n), name, &id, false);
  for (; UNLIKELY(n > cacheable && top > 0); fp_live = frame_cache_fp_is_live(rule, fp_live)) {
    rule = frame_cache_add(cache, --top, new_frames_at(new_frames, --n), name, &id, fp_live);
    verifies |= fp_live;
  }
  *outer = id;
  cache->verifies = verifies;
  signal_fence();
  cache->top = top;
  return n;
}

/* The same, without names. True when it was all of them. */
bool frame_cache_extend(frame_cache_t *cache, const new_frames_t *new_frames, uint32_t first,
                        uint64_t epoch);

#endif
