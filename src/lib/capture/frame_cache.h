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
 * In code with frame pointers, each saved frame pointer is in the word below the slot. Such an
 * entry is called paired. `pairs` counts consecutive paired entries, so they are compared without
 * reading their flags, and both words of an entry by one vector instruction. Its loads determine
 * the cost: three for each entry, about two in a cycle (Zen 4). With general registers there would
 * be four.
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
 * deep whose three innermost frames change at random takes 690 instructions, or 860 in code with
 * frame pointers. frame_cache_walk_first and frame_cache_extend_first, which do that, are inlined,
 * so that what a walk carries from frame to frame stays in registers.
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
  /* The frame register after the return if ENTRY_FP_LIVE; otherwise 0. */
  uint64_t fp;
  /* Content of the slot: the pc, which aarch64 may have signed. */
  uint64_t raw;
  /* Address of the return address. */
  uint64_t slot;
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
} __attribute__((aligned(16))) frame_cache_entry_t; /* For vector instructions. */

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
  /* For each entry, the number of paired entries from it outward, up to the first other one. */
  uint8_t pairs[FRAME_CACHE_ENTRIES + 1];
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
  cache->pairs[FRAME_CACHE_ENTRIES] = 0;
}

/* True if the frame register was restored from just below the slot of E. */
static ALWAYS_INLINE bool entry_is_paired(const frame_cache_entry_t *e) {
  return e->bits & ENTRY_FP_VERIFY && e->restored_words == 1;
}

_Static_assert(FRAME_CACHE_ENTRIES <= UINT8_MAX, "a number of paired entries fits");

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

static ALWAYS_INLINE READS_STACK bool entry_matches(const frame_cache_entry_t *e, uint64_t slot,
                                                    uint64_t raw, const uint64_t *fp_at,
                                                    uint64_t sp_words) {
  return !((e->slot ^ slot) | (e->raw ^ raw)) && sp_words == e->sp_words &&
         (!(e->bits & ENTRY_FP_LIVE) || (fp_at && *fp_at == e->fp));
}

/* True if a walk that reached SLOT with content RAW, the frame register at FP_AT and SP_WORDS is at
 * an entry from *AT on and everything outside that entry is unchanged. *AT moves outward past the
 * entries that the walk has passed or found changed; the last entry is beyond every slot. */
static ALWAYS_INLINE READS_STACK bool frame_cache_try_join(const frame_cache_t *cache,
                                                           uint64_t slot, uint64_t raw,
                                                           const uint64_t *fp_at, uint64_t sp_words,
                                                           const frame_cache_entry_t **at) {
  const frame_cache_entry_t *e = *at;
  e += e->slot < slot; /* Two steps without a branch that could be mispredicted. */
  e += e->slot < slot;
  while (UNLIKELY(e->slot < slot))
    e++;
  *at = e;
  if (!entry_matches(e, slot, raw, fp_at, sp_words)) return false;
  const frame_cache_entry_t *changed = frame_cache_first_changed(cache, e + 1);
  if (LIKELY(changed == frame_cache_end(cache))) return true;
  *at = changed + 1;
  return false;
}

/* Prepares NEW_FRAMES for a walk that may meet CACHE (NULL: none) in EPOCH. */
static ALWAYS_INLINE void frame_cache_begin_walk(const frame_cache_t *cache, uint64_t epoch,
                                                 new_frames_t *new_frames) {
  new_frames->count = 0;
  new_frames->first_cacheable = 0;
  new_frames->last_rule = 0;
  new_frames->joined = cache && cache->epoch == epoch ? cache->top : FRAME_CACHE_ENTRIES;
}

/* The first new frames usually change between captures, so they are looked up by their hash. Frames
 * further out, if they must be walked at all, are usually as they were when the hints were written,
 * so their hints are tried first. The first frames have their own loop, which carries fewer values
 * from frame to frame. */
#define UNHINTED_FRAMES 6

/* The fields of a position_t that change from frame to frame after a return on x86_64. */
typedef struct frame_cache_at {
  uint64_t pc, sp;
  const uint64_t *fp_at;
} frame_cache_at_t;

/* Finds the CFA of the frame at P, which has RULE. Returns false if only frame_cache_walk can. */
static ALWAYS_INLINE READS_STACK bool frame_cache_find_cfa(const stack_window_t *w,
                                                           const frame_cache_at_t *p, rule_t rule,
                                                           uint64_t *cfa) {
  /* A predicted branch, so that the next step need not wait for the rule. */
  if (rule == rule_of_frame_pointer()) {
    *cfa = *p->fp_at + 16;
    return LIKELY(*cfa > p->sp) && LIKELY(*cfa <= w->hi) && LIKELY(!(*cfa & 7));
  }
  *cfa = p->sp + rule_cfa_bytes(rule);
  return LIKELY(rule_kind(rule) == RULE_SP) && LIKELY(*cfa <= w->hi);
}

/* The first frames of a walk. */
typedef struct first_frames {
  /* The last of cache->new_frames that was filled, plus one. */
  new_frame_t *end;
  /* The entry at which the walk met the cache, or would look for it next. */
  frame_cache_entry_t *at;
  /* As in new_frames_t. */
  rule_t last_rule;
} first_frames_t;

/* Begins a walk from P, whose pc is a return address at its slot in window W, the stack of CACHE.
 * Returns true if the walk met the cache. Else P is at the first frame that only frame_cache_walk
 * can leave. For machines where a call pushes the return address. */
static ALWAYS_INLINE READS_STACK bool frame_cache_walk_first(frame_cache_t *cache,
                                                             const stack_window_t *w,
                                                             frame_cache_at_t *p, uint64_t epoch,
                                                             first_frames_t *first) {
  const frame_cache_entry_t *at = &cache->entries[cache->top];
  new_frame_t *to = cache->new_frames, *last = to + UNHINTED_FRAMES;
  rule_t rule = 0;
  bool joined;
  frame_cache_at_t here = *p; /* In registers. */
  while (!(joined = frame_cache_try_join(cache, here.sp - 8, here.pc, here.fp_at, 1, &at)) &&
         LIKELY(to != last)) {
    frame_ref_t frame = frame_table_find_known(here.pc, false, epoch);
    uint64_t cfa, save = rule_save_bytes(frame.rule);
    if (UNLIKELY(!frame_cache_find_cfa(w, &here, frame.rule, &cfa))) break;
    uint64_t pc = *stack_at_address(cfa - 8);
    if (UNLIKELY(!pc)) break;
    to->slot = here.sp - 8;
    to->raw = here.pc;
    to->fp_at = here.fp_at;
    to++->rule_into_and_id = (uint64_t)rule << 32 | frame.id;
    rule = frame.rule;
    here.fp_at = save ? stack_at_address(cfa - save) : here.fp_at;
    here.pc = pc;
    here.sp = cfa;
  }
  *p = here;
  first->end = to;
  first->at = (frame_cache_entry_t *)at;
  first->last_rule = rule;
  return joined;
}

/* The same frames for frame_cache_walk and frame_cache_extend_with. */
static inline new_frames_t frame_cache_first_frames(frame_cache_t *cache,
                                                    const first_frames_t *first) {
  return (new_frames_t){.frames = cache->new_frames,
                        .capacity = FRAME_CACHE_NEW_FRAMES,
                        .count = (uint32_t)(first->end - cache->new_frames),
                        .joined = (uint32_t)(first->at - cache->entries),
                        .last_rule = first->last_rule};
}

/* Walks from P until it meets CACHE (may be NULL), the end of the stack or frame number LIMIT.
 * frame_cache_begin_walk must have prepared NEW_FRAMES; frame_cache_walk_first may have filled the
 * first ones. */
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

/* As rule_sp_words, for rules of this machine. On x86_64 the result is always 1. */
static ALWAYS_INLINE uint64_t frame_cache_sp_words(rule_t rule) {
#if defined(__x86_64__)
  (void)rule;
  return 1;
#else
  return rule_sp_words(rule);
#endif
}

/* As rule_restored_words. */
static ALWAYS_INLINE int64_t frame_cache_restored_words(rule_t rule) {
  int64_t save = (int64_t)(rule_save_bytes(rule) / 8);
  return save ? save - (int64_t)frame_cache_sp_words(rule) : 0;
}

/* Updates entry K, at which the walk met the cache. The frame that returns through the entry's slot
 * is new, and may have saved the frame register at another place. Meanwhile the entry is not part
 * of the cache, as a handler may jump out in between; the caller sets `top` afterwards. Returns
 * true if an outer rule uses the frame register there. */
static ALWAYS_INLINE bool frame_cache_update_joined(frame_cache_t *cache, uint32_t k,
                                                    rule_t inner) {
  frame_cache_entry_t *entry = &cache->entries[k];
  bool fp_live = entry->bits & ENTRY_FP_LIVE;
  int64_t restored = fp_live ? frame_cache_restored_words(inner) : 0;
  if (LIKELY(restored == entry->restored_words)) return fp_live;
  cache->top = k + 1;
  signal_fence();
  entry->restored_words = (int16_t)restored;
  entry->bits = (uint8_t)((entry->bits & ~ENTRY_FP_VERIFY) | (restored ? ENTRY_FP_VERIFY : 0));
  cache->pairs[k] = restored == 1 ? (uint8_t)(cache->pairs[k + 1] + 1) : 0;
  return fp_live;
}

/* Stores the frame FROM as entry TO, whose next outer entry has PAIRS paired entries from it
 * outward. ID is a stack id if IS_STACK. FP_LIVE: an outer rule uses the frame register's value
 * there. Returns the number of paired entries from TO outward. */
static ALWAYS_INLINE READS_STACK uint32_t entry_fill(frame_cache_entry_t *to,
                                                     const new_frame_t *from, uint32_t id,
                                                     bool is_stack, bool fp_live, uint32_t pairs) {
  rule_t rule_into = new_frame_rule_into(from);
  unsigned bits = is_stack ? ENTRY_STACK_ID : 0;
  int64_t restored = 0;
  uint64_t fp = 0;
  if (fp_live) {
    restored = frame_cache_restored_words(rule_into);
    fp = from->fp_at ? *from->fp_at : 0;
    bits |= restored ? ENTRY_FP_LIVE | ENTRY_FP_VERIFY : ENTRY_FP_LIVE;
  }
  to->slot = from->slot;
  to->raw = from->raw;
  to->fp = fp;
  to->tail = entry_pack(id, restored, frame_cache_sp_words(rule_into), bits);
  return restored == 1 ? pairs + 1 : 0;
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
 * points to may be unmapped. */
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
  uint32_t pairs = cache->pairs[top];
  while (n > cacheable && top > 0) {
    const new_frame_t *from = new_frames_at(new_frames, --n);
    if (UNLIKELY(rule == rule_of_call())) frame_cache_mark_call(cache, top);
    fp_live = frame_cache_fp_is_live(rule, fp_live);
    verifies |= fp_live;
    id = id_of ? id_of(id, new_frame_id(from)) : new_frame_id(from);
    pairs = entry_fill(&cache->entries[--top], from, id, id_of != NULL, fp_live, pairs);
    cache->pairs[top] = (uint8_t)pairs;
    rule = new_frame_rule_into(from);
  }
  if (UNLIKELY(rule == rule_of_call() && top < new_frames->joined))
    frame_cache_mark_call(cache, top);
  *outer = id;
  cache->verifies = verifies;
  signal_fence();
  cache->top = top;
  return n;
}

/* As frame_cache_extend_with, for frames that frame_cache_walk_first has walked. */
static ALWAYS_INLINE READS_STACK uint32_t frame_cache_extend_first(frame_cache_t *cache,
                                                                   const first_frames_t *first,
                                                                   frame_cache_id_of_t *id_of,
                                                                   uint32_t *outer) {
  const new_frame_t *from = first->end;
  frame_cache_entry_t *to = first->at;
  if (UNLIKELY(from == cache->new_frames)) return 0;
  rule_t rule = first->last_rule;
  uint32_t joined = (uint32_t)(to - cache->entries), pairs, id = *outer;
  cache->top = joined;
  signal_fence();
  bool fp_live = frame_cache_update_joined(cache, joined, rule),
       verifies = cache->verifies || fp_live;
  uint8_t *pairs_at = &cache->pairs[joined];
  pairs = *pairs_at;
  while (from != cache->new_frames && LIKELY(to != cache->entries)) {
    from--;
    fp_live = frame_cache_fp_is_live(rule, fp_live);
    verifies |= fp_live;
    id = id_of(id, new_frame_id(from));
    pairs = entry_fill(--to, from, id, true, fp_live, pairs);
    *--pairs_at = (uint8_t)pairs;
    rule = new_frame_rule_into(from);
  }
  *outer = id;
  cache->verifies = verifies;
  signal_fence();
  cache->top = (uint32_t)(to - cache->entries);
  return (uint32_t)(from - cache->new_frames);
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
