/* SPDX-License-Identifier: MIT
 *
 * The frame table: every pc that a capture has met, once, with its rule. All threads share it.
 *
 * A frame is (pc, exact or return address, image). Its id is the number of its slot
 * (capture/leveled_table.h) and never changes. The image is part of the key, so a pc in an image
 * that replaced an unloaded one gets another frame. If several frames match a pc, the one whose
 * image is still mapped is used (see frame_table_find).
 *
 * A slot has two words. A compare-and-swap stores the key. The rule is a pure function of the key,
 * so any thread that finds it missing computes the same value and stores it; no thread waits. A
 * RULE_NONE may be replaced once, by RULE_INFERRED or RULE_END. A
 * frame is in use once its rule is stored. The thread that stores the rule has called
 * `frame_table_on_new` before.
 *
 * Cost of a successful lookup: one hash, one cache line, one load of the image's epoch; no atomic
 * instruction, no call.
 *
 * Beside the rule a slot keeps a hint: the slot of the frame that was last found next to it,
 * further out. An uncached walk tries the hint before it hashes. With a correct hint the processor
 * fetches the next rule before the return address arrives, and checks the hint later. So the load
 * of the return address and the hash are no longer in the chain of dependent operations, which
 * saves 16 of 24 cycles. The innermost new frames are those whose caller changes, so they are
 * looked up without hints.
 */
#ifndef SONDE_CAPTURE_FRAME_TABLE_H
#define SONDE_CAPTURE_FRAME_TABLE_H

#include "arch/arch.h"
#include "capture/leveled_table.h"
#include "unwind/rule.h"

#define FRAME_TABLE_BITS   14
#define FRAME_TABLE_BUCKET 4
#define FRAME_TABLE_IMAGES (1u << 15)
#define FRAME_TABLE_FULL   UINT32_MAX
/* Replaces a pc that no code can have. */
#define FRAME_TABLE_NO_PC 1
/* Pcs up to this one are markers, which lie in no image. */
#define FRAME_TABLE_MARKERS 2

typedef struct frame_slot {
  /* pc << 16 | exact << 15 | image id. */
  uint64_t key;
  /* A rule_t; 0 if not stored yet. */
  uint32_t rule;
  /* Index in level 0 of the frame that was last found next to this one, further out. */
  uint32_t hint;
} frame_slot_t;

extern HIDDEN struct frame_table {
  frame_slot_t *level[LEVELED_MAX];
  /* The loader's epoch in which each image was last seen at its address. */
  uint64_t *epoch_of_image;
} frame_table;

/* Replaces the rule of the frame of PC, which is RULE_NONE, by what was inferred for it. */
void frame_table_set_rule(uint64_t pc, bool exact, uint64_t epoch, uint32_t rule);

/* The part of a frame that a walk needs. */
typedef struct frame_ref {
  /* FRAME_TABLE_FULL if the table is full; the rule is correct even then. */
  uint32_t id;
  rule_t rule;
} frame_ref_t;

static ALWAYS_INLINE uint64_t frame_table_pc_key(uint64_t pc, bool exact) {
  return pc << 1 | exact;
}

/* Called with a new frame (its id, pc, whether that is exact, and image) before any capture can
 * return its id. Several threads may call it for one frame, and more than once. NULL: not called.
 * The function runs wherever a capture runs. */
extern HIDDEN void (*frame_table_on_new)(uint32_t id, uint64_t pc, bool exact, uint16_t image);

/* Allocates the tables. Returns false if memory is exhausted. Any thread may call it, in a signal
 * handler too. */
bool frame_table_init(void);

/* Finds or makes the frame of PC after the fast lookup failed. EPOCH is os_loader_epoch(). */
frame_ref_t frame_table_find_slow(uint64_t pc, bool exact, uint64_t epoch);

/* Returns the image of SLOT if its frame has PC_KEY; otherwise FRAME_TABLE_IMAGES or more. */
static ALWAYS_INLINE uint64_t frame_table_image_if(const frame_slot_t *slot, uint64_t pc_key) {
  return load_relaxed(&slot->key) - (pc_key << 15);
}

static ALWAYS_INLINE uint32_t frame_table_index(uint64_t pc_key) {
  return (uint32_t)(leveled_hash(pc_key) >> (64 - FRAME_TABLE_BITS));
}

/* Finds the frame of PC if it is where its hash says; otherwise its rule is RULE_UNKNOWN. */
static ALWAYS_INLINE frame_ref_t frame_table_find_known(uint64_t pc, bool exact, uint64_t epoch) {
  uint64_t pc_key = frame_table_pc_key(pc, exact);
  uint32_t index = frame_table_index(pc_key);
  const frame_slot_t *slot = &frame_table.level[0][index];
  uint64_t image = frame_table_image_if(slot, pc_key);
  rule_t rule = load_relaxed(&slot->rule);
  if (LIKELY(image < FRAME_TABLE_IMAGES) &&
      LIKELY(load_relaxed(&frame_table.epoch_of_image[image]) == epoch))
    return (frame_ref_t){leveled_first(FRAME_TABLE_BITS, 0) + index, rule};
  return (frame_ref_t){0, RULE_UNKNOWN};
}

/* Finds or makes the frame of PC. frame_table_init must have succeeded. */
static ALWAYS_INLINE frame_ref_t frame_table_find(uint64_t pc, bool exact, uint64_t epoch) {
  frame_ref_t known = frame_table_find_known(pc, exact, epoch);
  return LIKELY(known.rule) ? known : frame_table_find_slow(pc, exact, epoch);
}

/* A frame with several callers would have its hint rewritten on every walk, and its cache line
 * would move between CPUs. So after the first hint, one in sixteen corrections is written. SEED is
 * a number that differs from walk to walk. Without one, the function reads the cycle counter, which
 * costs as much as three frames. */
#define FRAME_TABLE_NO_SEED UINT32_MAX
static ALWAYS_INLINE bool frame_table_may_write_hint(const frame_slot_t *slot, uint32_t seed) {
  if (load_relaxed(&slot->hint) == 0) return true;
  if (seed == FRAME_TABLE_NO_SEED) seed = (uint32_t)(arch_cycles() >> 6);
  return (seed & 15) == 0;
}

/* Returns the slot in level 0 of the return address PC, found by the hint of INNER (the slot of the
 * next inner frame, or NULL) or by its hash. HINT was read from INNER. Corrects a wrong hint.
 * Returns NULL if only frame_table_find can find the frame. */
static ALWAYS_INLINE frame_slot_t *frame_table_find_hinted(frame_slot_t *inner, uint32_t hint,
                                                           uint64_t pc, uint64_t epoch,
                                                           uint32_t seed) {
  frame_slot_t *slot = &frame_table.level[0][hint];
  uint64_t pc_key = frame_table_pc_key(pc, false), image = frame_table_image_if(slot, pc_key);
  if (UNLIKELY(image >= FRAME_TABLE_IMAGES)) {
    uint32_t index = frame_table_index(pc_key);
    slot = &frame_table.level[0][index];
    image = frame_table_image_if(slot, pc_key);
    if (UNLIKELY(image >= FRAME_TABLE_IMAGES)) return NULL;
    if (inner && frame_table_may_write_hint(inner, seed)) store_relaxed(&inner->hint, index);
  }
  return LIKELY(load_relaxed(&frame_table.epoch_of_image[image]) == epoch) ? slot : NULL;
}

/* Returns the rule (lower half) and the hint (upper half) of SLOT. */
static ALWAYS_INLINE uint64_t frame_table_rule_and_hint(const frame_slot_t *slot) {
  return load_relaxed((const uint64_t *)(const void *)&slot->rule);
}

static ALWAYS_INLINE uint32_t frame_table_id(const frame_slot_t *slot) {
  return leveled_first(FRAME_TABLE_BITS, 0) + (uint32_t)(slot - frame_table.level[0]);
}

/* Gets the pc, whether it is exact, and the image of frame ID. Returns false if there is no such
 * frame. */
typedef struct frame_info {
  uint64_t pc;
  bool exact;
  uint16_t image; /* 0: none. */
} frame_info_t;
bool frame_table_get(uint32_t id, frame_info_t *out);

/* True if the image ID, which a walk met, is still mapped where it was; remembers that for EPOCH.
 * Image 0 means "no image": true while no image contains PC. */
bool frame_table_image_is_mapped(uint16_t image, uint64_t pc, uint64_t epoch);

#endif
