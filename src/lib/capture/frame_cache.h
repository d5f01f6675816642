/* SPDX-License-Identifier: MIT
 *
 * The frame cache: a thread's previous stack. A capture unwinds only the frames that changed since.
 *
 * An entry represents one return address on the stack. It holds the address of its slot, the slot's
 * content, and the caller's stack pointer and frame pointer after the return. A walk reaches slots
 * in ascending order. Suppose that a walk reaches an entry's slot with the same content and
 * registers. Then each entry's rule leads to the next entry's slot, and the frames further out
 * depend only on the contents of memory. So comparing the outer slots, and the saved frame pointers
 * that an outer rule reads, proves that the rest of the stack is unchanged. Nothing is unwound
 * again.
 *
 * The cache holds only complete stacks, and only their outermost run of frames with rules that use
 * no register but the stack and frame pointers. The run ends at a signal frame, at code without an
 * unwind row (CFI), and at a row that must be interpreted. Each capture walks the frames that are
 * further in than the run.
 *
 * The frame register is the register that holds the frame pointer. Its value at an entry is
 * compared only if an outer frame's rule uses that value before another frame restores the register
 * (ENTRY_FP_LIVE). Elsewhere the register holds any value that the program computes.
 *
 * In code with frame pointers, each saved frame pointer points just below the next slot. An entry
 * whose saved frame pointer does so is called chained. `chain_length` counts consecutive chained
 * entries, so they are compared without reading their flags. That takes half the time of a walk
 * along the frame pointers.
 *
 * A trampoline of the call tracer (hook/trampoline.h) has two entries. The first one is on the
 * stack: the return address into the trampoline, with the frame register, which points to the call.
 * The second one (ENTRY_CALL) is in that call: the caller's return address and frame register. The
 * comparison reads both. A call's slot is not in order. If it is above the stack, walks do not join
 * the cache further out than that; so the calls' memory is at a low address.
 *
 * capture/predictor.h predicts a stack that was captured before; a correct prediction needs no
 * walk.
 *
 * Cost, in cache lines of 64 bytes and in mispredicted branches. A correct prediction touches two
 * or three lines of the prediction, one line for every two outer entries, the lines of the
 * program's stack, and two of the loader's counters. A correct prediction stores only `busy` and
 * `predictor.last`. The check of a prediction has one unpredictable branch for the number of
 * predicted stack words and one for the number of outer entries. A walk of n new frames touches,
 * besides the outer entries, n lines of the frame table and n of the stack table. If the program
 * has many stacks, such as a compiler with 80,000 stack-table nodes, these lines are cache misses.
 * A walk writes n entries and n new frames (32 bytes each), and mispredicts two or three branches:
 * whether the prediction is correct, how many frames are new, how many entries remain. Neither a
 * correct prediction nor a walk uses an atomic instruction or a system call. A capture 30 frames
 * deep whose three innermost frames change at random takes 960 instructions.
 *
 * An entry also holds an id: the frame id of its pc at first. When a capture needs the id of the
 * stack from this entry outward (capture/stack_table.h), that stack id replaces the frame id.
 *
 * Threads: only the owning thread uses a cache. Signals: entries[top …] are complete at every
 * instruction; `top` is raised before entries are overwritten and lowered after. A capture that
 * interrupts another capture does not use the cache.
 */
#ifndef SONDE_CAPTURE_FRAME_CACHE_H
#define SONDE_CAPTURE_FRAME_CACHE_H

#include "capture/predictor.h"
#include "capture/walk.h"

#define FRAME_CACHE_ENTRIES 240
/* A power of two. */
#define FRAME_CACHE_NEW_FRAMES 64

/* An outer rule uses the frame register's value at this frame. */
#define ENTRY_FP_LIVE 1u
/* The frame that returns through this slot restores the frame register from memory. */
#define ENTRY_FP_VERIFY 2u
/* `id` is a stack id; otherwise it is a frame id. */
#define ENTRY_STACK_ID 4u
/* The slot is in a call of a trampoline, not on the stack. */
#define ENTRY_CALL 8u

typedef struct frame_cache_entry {
  /* Address of the return address. */
  uint64_t slot;
  /* Content of the slot: the pc, which aarch64 may have signed. */
  uint64_t raw;
  /* The frame register after the return if ENTRY_FP_LIVE; otherwise 0. */
  uint64_t fp;
  union {
    struct {
      uint32_t id;
      /* Words from the slot down to where the frame register was restored from. */
      int16_t restored_words;
      /* Words from the slot up to the stack pointer after the return. */
      uint8_t sp_words;
      /* ENTRY_…. */
      uint8_t bits;
    };
    /* The four fields above as one word. It is stored and loaded as one word, because a load that
     * is wider than the preceding store stalls the CPU. */
    uint64_t tail;
  };
} frame_cache_entry_t;

/* Position of `bits` in `tail` on little-endian machines, which are all that sonde supports. */
#define ENTRY_FLAGS_SHIFT 56

static ALWAYS_INLINE uint64_t entry_pack(uint32_t id, int64_t restored_words, uint64_t sp_words,
                                         unsigned bits) {
  return id | (uint64_t)(uint16_t)restored_words << 32 | (sp_words & 0xff) << 48 |
         (uint64_t)bits << ENTRY_FLAGS_SHIFT;
}

/* Sets the id of ENTRY to the stack id NODE. */
static ALWAYS_INLINE void entry_set_stack_id(frame_cache_entry_t *entry, uint32_t node) {
  entry->tail =
      (entry->tail & ~(uint64_t)UINT32_MAX) | node | (uint64_t)ENTRY_STACK_ID << ENTRY_FLAGS_SHIFT;
}

/* A frame that a walk has unwound: it stepped to the caller. Each of its four words is written by
 * one store and read by one load. */
typedef struct new_frame {
  /* As in frame_cache_entry_t; SLOT is 0 if the pc came from a register or a signal frame. */
  uint64_t slot, raw;
  /* Address of the frame register's value; NULL if unknown. */
  const uint64_t *fp_at;
  /* The frame's id in the lower half, the rule that led to the frame in the upper half; the rule is
   * 0 if none did. */
  uint64_t rule_into_and_id;
} new_frame_t;

static ALWAYS_INLINE uint32_t new_frame_id(const new_frame_t *f) {
  return (uint32_t)f->rule_into_and_id;
}
static ALWAYS_INLINE rule_t new_frame_rule_into(const new_frame_t *f) {
  return (rule_t)(f->rule_into_and_id >> 32);
}

typedef struct frame_cache {
  /* The loader's epoch (os_loader_epoch in os/os.h) when the entries were made. The entries are
   * valid only in that epoch. */
  uint64_t epoch;
  /* entries[top …] are the cached run, innermost first. */
  uint32_t top;
  /* Some entry may have ENTRY_FP_VERIFY. */
  bool verifies;
  new_frame_t new_frames[FRAME_CACHE_NEW_FRAMES];
  /* The last entry is a sentinel beyond every slot. */
  frame_cache_entry_t entries[FRAME_CACHE_ENTRIES + 1];
  /* For each entry, the number of chained entries from it outward. */
  uint8_t chain_length[FRAME_CACHE_ENTRIES + 1];
  predictor_t predictor;
} frame_cache_t;

/* The sentinel behind the last entry. */
static ALWAYS_INLINE const frame_cache_entry_t *frame_cache_end(const frame_cache_t *cache) {
  return &cache->entries[FRAME_CACHE_ENTRIES];
}

static inline void frame_cache_clear(frame_cache_t *cache) {
  cache->top = FRAME_CACHE_ENTRIES;
  cache->verifies = false;
  cache->entries[FRAME_CACHE_ENTRIES] = (frame_cache_entry_t){.slot = UINT64_MAX};
  cache->chain_length[FRAME_CACHE_ENTRIES] = 0;
}

/* True if the frame register was restored from just below the slot of E and points just below the
 * slot of the next outer entry, as in code with frame pointers. */
static ALWAYS_INLINE bool entry_is_chained(const frame_cache_entry_t *e) {
  return e->bits & ENTRY_FP_VERIFY && e->restored_words == 1 && e->fp == e[1].slot - 8;
}

_Static_assert(FRAME_CACHE_ENTRIES <= UINT8_MAX, "the length of a chain fits");

/* Memory of this process, where the stacks of a cache are. */
static ALWAYS_INLINE const uint64_t *stack_at_address(uint64_t address) {
  return (const uint64_t *)(uintptr_t)address;
}

/* True if the memory of entry E is unchanged. */
static ALWAYS_INLINE READS_STACK bool entry_slot_unchanged(const frame_cache_entry_t *e) {
  return *stack_at_address(e->slot) == e->raw;
}
static ALWAYS_INLINE READS_STACK bool entry_unchanged(const frame_cache_entry_t *e) {
  const uint64_t verify = (uint64_t)ENTRY_FP_VERIFY << ENTRY_FLAGS_SHIFT;
  if (UNLIKELY(!entry_slot_unchanged(e))) return false;
  return !(e->tail & verify) || *(stack_at_address(e->slot) - e->restored_words) == e->fp;
}

static ALWAYS_INLINE READS_STACK bool four_slots_unchanged(const frame_cache_entry_t *e) {
  return LIKELY(entry_slot_unchanged(e)) && LIKELY(entry_slot_unchanged(e + 1)) &&
         LIKELY(entry_slot_unchanged(e + 2)) && LIKELY(entry_slot_unchanged(e + 3));
}

static ALWAYS_INLINE READS_STACK const frame_cache_entry_t *
frame_cache_skip_unchanged(const frame_cache_t *cache, const frame_cache_entry_t *e) {
  const frame_cache_entry_t *last_four = frame_cache_end(cache) - 4;
  if (UNLIKELY(e > last_four)) return e;
  for (; e < last_four; e += 4)
    if (UNLIKELY(!four_slots_unchanged(e))) return e;
  return LIKELY(four_slots_unchanged(last_four)) ? last_four + 4 : e;
}

/* As frame_cache_skip_unchanged, but compares saved frame registers too. */
const frame_cache_entry_t *frame_cache_skip_verified(const frame_cache_t *cache,
                                                     const frame_cache_entry_t *e);

/* Returns the first entry from E outward whose memory has changed, or the sentinel. The slot of an
 * entry belongs to the current stack, and is readable, if all entries further in are unchanged.
 * Otherwise the memory may be unmapped (the stack of a fiber that has ended). So each word has a
 * branch of its own before the next word is read. These branches are predicted: the comparison of a
 * loaded word with memory and its branch are one operation of the processor, which is less than to
 * combine the differences of several words. frame_cache_skip_unchanged compares four entries in
 * each iteration. The last four may be compared twice, which costs less than a loop for the
 * remainder. */
static ALWAYS_INLINE READS_STACK const frame_cache_entry_t *
frame_cache_first_changed(const frame_cache_t *cache, const frame_cache_entry_t *e) {
  const frame_cache_entry_t *end = frame_cache_end(cache);
  e = LIKELY(!cache->verifies) ? frame_cache_skip_unchanged(cache, e)
                               : frame_cache_skip_verified(cache, e);
  while (UNLIKELY(e < end) && entry_unchanged(e))
    e++;
  return e;
}

/* The frames that a walk has unwound, innermost first, in a ring that keeps the last ones. */
typedef struct new_frames {
  new_frame_t *frames;
  /* Size of the ring; a power of two. */
  uint32_t capacity;
  /* Frames that the walk has unwound so far. */
  uint32_t count;
  /* The number of the first frame that may be cached. This frame and the frames further out are on
   * the stack that the cache describes, and rules unwound them. */
  uint32_t first_cacheable;
  /* The entry at which the walk met the cache; FRAME_CACHE_ENTRIES if it did not. */
  uint32_t joined;
  /* The rule of the last frame that the walk unwound; 0 if walk_slow_step unwound it. */
  rule_t last_rule;
  /* WALK_END: the walk met the cache or the end of the stack. WALK_CALLER: it reached its limit. */
  walk_step_t end;
} new_frames_t;

/* Frame number N, counted from the start of the walk. It must be among the last `capacity` frames.
 */
static ALWAYS_INLINE new_frame_t *new_frames_at(const new_frames_t *new_frames, uint32_t n) {
  return &new_frames->frames[n & (new_frames->capacity - 1)];
}

/* The stacks that a walk may reach: the cached one and any other. */
typedef struct walk_stacks {
  stack_window_t *cached; /* NULL without a cache. */
  bool has_other;         /* `other` is initialized. */
  stack_window_t other;
} walk_stacks_t;

/* Writes no more than needed, since most walks stay on one stack. */
static ALWAYS_INLINE void walk_stacks_init(walk_stacks_t *stacks, stack_window_t *cached) {
  stacks->cached = cached;
  stacks->has_other = false;
}

/* Walks from P until it meets CACHE (may be NULL), the end of the stack or frame number LIMIT. */
void frame_cache_walk(const frame_cache_t *cache, walk_stacks_t *stacks, position_t *p,
                      uint64_t epoch, uint32_t limit, new_frames_t *new_frames);

/* Returns the id of the stack predicted for PC, SP and FP if that stack is the current one;
 * otherwise 0. Reads the stack, so `busy` must be set (capture/thread_state.h). */
static ALWAYS_INLINE READS_STACK uint32_t frame_cache_find_predicted(frame_cache_t *cache,
                                                                     uint64_t pc, uint64_t sp,
                                                                     uint64_t fp) {
  const prediction_t *prediction = predictor_at(&cache->predictor, pc, sp);
  KEEP_POINTER(prediction);
  if (prediction->sp != sp || prediction->words[0] != pc ||
      (prediction->fp_live && prediction->fp != fp))
    return 0;
  const uint64_t *stack = stack_at_address(sp - 8);
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
  return LIKELY(frame_cache_first_changed(cache, join + 1) == frame_cache_end(cache))
             ? prediction->id
             : 0;
}

/* Adds a prediction of the stack ID, which starts at PC and SP and which the cache holds from entry
 * INNERMOST on. JOINED is the entry that the walk met; it may be INNERMOST itself. */
void frame_cache_add_prediction(frame_cache_t *cache, uint32_t innermost, uint32_t joined,
                                uint64_t pc, uint64_t sp, uint32_t id);

/* Returns the id of a new entry: the frame's own ID, or the id of the stack made of the frame ID
 * and the stack OUTER. */
typedef uint32_t frame_cache_id_of_t(uint32_t outer, uint32_t id);

/* Prepares the cache for an extension: clears it if it is of another epoch. */
static ALWAYS_INLINE void frame_cache_set_epoch(frame_cache_t *cache, uint64_t epoch) {
  if (LIKELY(cache->epoch == epoch)) return;
  frame_cache_clear(cache);
  predictor_clear(&cache->predictor);
  signal_fence();
  cache->epoch = epoch;
}

/* Updates entry K, at which the walk met the cache. The frame that returns through the entry's slot
 * is new, and may have saved the frame register at another place. Meanwhile the entry is not part
 * of the cache, as a handler may jump out in between; the caller sets `top` afterwards. Returns
 * true if an outer rule uses the frame register there. */
static ALWAYS_INLINE bool frame_cache_update_joined(frame_cache_t *cache, uint32_t k,
                                                    rule_t inner) {
  frame_cache_entry_t *entry = &cache->entries[k];
  bool fp_live = entry->bits & ENTRY_FP_LIVE;
  int64_t restored = fp_live ? rule_restored_words(inner) : 0;
  if (LIKELY(restored == entry->restored_words)) return fp_live;
  cache->top = k + 1;
  signal_fence();
  entry->restored_words = (int16_t)restored;
  entry->bits = (uint8_t)((entry->bits & ~ENTRY_FP_VERIFY) | (restored ? ENTRY_FP_VERIFY : 0));
  cache->chain_length[k] = entry_is_chained(entry) ? (uint8_t)(cache->chain_length[k + 1] + 1) : 0;
  return fp_live;
}

/* As rule_sp_words, for rules of this machine. On x86_64 the result is always 1. */
static ALWAYS_INLINE uint64_t frame_cache_sp_words(rule_t rule) {
#if defined(__x86_64__)
  (void)rule;
  return 1;
#else
  return rule_sp_words(rule);
#endif
}

/* Stores the frame FROM as entry TOP; the next outer frame is entry TOP + 1. The id of the new
 * entry, from ID_OF and the outer id, replaces *OUTER. FP_LIVE: an outer rule uses the frame
 * register's value there. Returns the rule that led to the frame. */
static ALWAYS_INLINE READS_STACK rule_t frame_cache_add(frame_cache_t *cache, uint32_t top,
                                                        const new_frame_t *from,
                                                        frame_cache_id_of_t *id_of, uint32_t *outer,
                                                        bool fp_live) {
  frame_cache_entry_t *to = &cache->entries[top];
  rule_t rule_into = new_frame_rule_into(from);
  int64_t restored = fp_live ? rule_restored_words(rule_into) : 0;
  uint64_t fp = fp_live && from->fp_at ? *from->fp_at : 0;
  unsigned bits = id_of ? ENTRY_STACK_ID : 0;
  if (fp_live) bits |= ENTRY_FP_LIVE | (restored ? ENTRY_FP_VERIFY : 0);
  *outer = id_of ? id_of(*outer, new_frame_id(from)) : new_frame_id(from);
  to->slot = from->slot;
  to->raw = from->raw;
  to->fp = fp;
  to->tail = entry_pack(*outer, restored, frame_cache_sp_words(rule_into), bits);
  bool chain_length = bits & ENTRY_FP_VERIFY && restored == 1 && fp == to[1].slot - 8;
  cache->chain_length[top] = chain_length ? (uint8_t)(cache->chain_length[top + 1] + 1) : 0;
  return rule_into;
}

/* True if RULE or an outer rule uses the value that the frame register has in a frame with RULE.
 * FP_LIVE is the same fact for the next outer frame. */
static ALWAYS_INLINE bool frame_cache_fp_is_live(rule_t rule, bool fp_live) {
  return rule_uses_fp(rule) || (fp_live && !rule_save_bytes(rule));
}

/* Entry K was reached from a trampoline. */
static inline void frame_cache_mark_call(frame_cache_t *cache, uint32_t k) {
  if (k == FRAME_CACHE_ENTRIES) return;
  cache->entries[k].bits |= ENTRY_CALL;
}

/* Adds the new frames, from number FIRST on, as the entries before the entry JOINED. Stops at a
 * frame that is not cacheable, or when the cache is full. Returns the number of the innermost frame
 * added; FIRST means that all were added. ID_OF, which must be inlined, gets each frame and the id
 * of the next outer one, beginning with *OUTER. Without it, entries get their frames' ids.
 *
 * The function determines from the outermost frame inward whether an outer rule uses the frame
 * register. Where no outer rule does, the register is not compared, because the memory that it
 * points to may be unmapped. The first loop handles code without frame pointers, where an entry
 * needs only its slot and its id. */
static ALWAYS_INLINE READS_STACK uint32_t frame_cache_extend_with(frame_cache_t *cache,
                                                                  const new_frames_t *new_frames,
                                                                  uint32_t first, uint64_t epoch,
                                                                  frame_cache_id_of_t *id_of,
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
    rule = frame_cache_add(cache, --top, new_frames_at(new_frames, --n), id_of, &id, false);
  for (; UNLIKELY(n > cacheable && top > 0); fp_live = frame_cache_fp_is_live(rule, fp_live)) {
    if (UNLIKELY(rule == rule_of_call())) frame_cache_mark_call(cache, top);
    rule = frame_cache_add(cache, --top, new_frames_at(new_frames, --n), id_of, &id, fp_live);
    verifies |= fp_live;
  }
  if (UNLIKELY(rule == rule_of_call() && top < new_frames->joined))
    frame_cache_mark_call(cache, top);
  *outer = id;
  cache->verifies = verifies;
  signal_fence();
  cache->top = top;
  return n;
}

/* As frame_cache_extend_with, with frame ids. Returns true if all frames were added. */
bool frame_cache_extend(frame_cache_t *cache, const new_frames_t *new_frames, uint32_t first,
                        uint64_t epoch);

#if defined(SONDE_DEBUG)
/* True if CACHE is consistent: its slots ascend, its chains and flags agree, and its ids belong to
 * its return addresses. */
bool frame_cache_is_valid(const frame_cache_t *cache);
#endif

#endif
