/* SPDX-License-Identifier: MIT
 *
 * The frame table: every pc that a capture has met, once, with its rule. Shared by all threads.
 *
 * A frame is (pc, exact or return address, image); its id is the number of its slot
 * (base/leveled_table.h) and never changes. A pc of an image that was unloaded and replaced gets a
 * frame of its own, since the image is part of the key; which of several is meant is settled by
 * asking whether the image still stands there (see frame_table_find).
 *
 * A slot is two words. The key is put in by compare-and-swap; the rule is a pure function of the
 * key, so whoever finds it missing computes the same value and stores it: nothing ever waits. A
 * frame is in use from the moment its rule is there; whoever stores it has told
 * `frame_table_on_new` first.
 *
 * The cost of a look-up that succeeds: one hash, one cache line, one load of the image's epoch; no
 * atomic instruction, no call.
 *
 * Beside the rule a slot keeps a hint: the slot of the frame that was found outside it. A plain
 * walk tries it before it hashes. On a right hint the processor need not wait for the return
 * address to arrive before it fetches the next rule: it goes on with the hinted slot and checks
 * later. That takes the load of the return address and the hash out of the chain of dependent
 * operations, 16 cycles of 24. The first fresh frames under the frame cache are those whose caller
 * changes, and are looked up without it.
 */
#ifndef SONDE_CAPTURE_FRAME_TABLE_H
#define SONDE_CAPTURE_FRAME_TABLE_H

#include "arch/arch.h"
#include "base/leveled_table.h"
#include "unwind/rule.h"

#define FRAME_TABLE_BITS    14
#define FRAME_TABLE_BUCKET  4
#define FRAME_TABLE_IMAGES  (1u << 15)
#define FRAME_TABLE_FULL    UINT32_MAX
#define FRAME_TABLE_NO_PC   1 /* stands for a pc that no code can have */
#define FRAME_TABLE_MARKERS 2 /* pcs up to this are marks, which are in no image */

typedef struct frame_slot {
  uint64_t key;  /* pc << 16 | exact << 15 | image id */
  uint32_t rule; /* rule_t; 0: not stored yet */
  uint32_t hint; /* index in level 0 of a frame met outside this one */
} frame_slot_t;

extern HIDDEN struct frame_table {
  frame_slot_t *level[LEVELED_MAX];
  uint64_t *epoch_of_image; /* the loader's epoch in which the image was last seen in its place */
} frame_table;

/* What a walk needs of a frame. */
typedef struct frame_ref {
  uint32_t id; /* FRAME_TABLE_FULL: the table is full; the rule is right all the same */
  rule_t rule;
} frame_ref_t;

static ALWAYS_INLINE uint64_t frame_table_pc_key(uint64_t pc, bool exact) {
  return pc << 1 | exact;
}

/* Who keeps a record of all frames: told of a frame (its id, pc, whether that is exact, and image)
 * before any capture can answer with its id; perhaps by several threads, or twice. NULL: nobody.
 * Runs wherever a capture runs. */
extern HIDDEN void (*frame_table_on_new)(uint32_t id, uint64_t pc, bool exact, uint16_t image);

/* Prepares the tables; false when there is no memory. Any thread, in a signal handler too. */
bool frame_table_init(void);

/* Finds or makes the frame of PC when the quick look-up failed. EPOCH is os_loader_epoch(). */
frame_ref_t frame_table_find_slow(uint64_t pc, bool exact, uint64_t epoch);

/* The image of SLOT if its frame is NAME; else FRAME_TABLE_IMAGES or more. */
static ALWAYS_INLINE uint64_t frame_table_image_if(const frame_slot_t *slot, uint64_t pc_key) {
  return load_relaxed(&slot->key) - (pc_key << 15);
}

static ALWAYS_INLINE uint32_t frame_table_index(uint64_t pc_key) {
  return (uint32_t)(leveled_hash(pc_key) >> (64 - FRAME_TABLE_BITS));
}

/* Finds or makes the frame of PC. frame_table_init must have succeeded. */
static ALWAYS_INLINE frame_ref_t frame_table_find(uint64_t pc, bool exact, uint64_t epoch) {
  uint64_t pc_key = frame_table_pc_key(pc, exact);
  uint32_t index = frame_table_index(pc_key);
  const frame_slot_t *slot = &frame_table.level[0][index];
  uint64_t image = frame_table_image_if(slot, pc_key);
  rule_t rule = load_relaxed(&slot->rule);
  if (LIKELY(image < FRAME_TABLE_IMAGES) &&
      LIKELY(load_relaxed(&frame_table.epoch_of_image[image]) == epoch) && LIKELY(rule))
    return (frame_ref_t){leveled_first(FRAME_TABLE_BITS, 0) + index, rule};
  return frame_table_find_slow(pc, exact, epoch);
}

/* A frame with several callers would have its hint rewritten for ever, and its cache line passed
 * from core to core: after the first, one in sixteen corrections is written. SALT is a number that
 * differs from walk to walk; where there is none, the clock must do, which costs as much as three
 * frames. */
#define FRAME_TABLE_NO_SEED UINT32_MAX
static ALWAYS_INLINE bool frame_table_may_write_hint(const frame_slot_t *slot, uint32_t seed) {
  if (load_relaxed(&slot->hint) == 0) return true;
  if (seed == FRAME_TABLE_NO_SEED) seed = (uint32_t)(arch_cycles() >> 6);
  return (seed & 15) == 0;
}

/* The slot in level 0 of the return address PC, by the hint of INNER (the slot of the frame inside
 * it, or NULL) or by its hash; HINT is what was read of INNER. Corrects a wrong hint. NULL when the
 * slow way has to be gone. */
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

/* Rule (lower half) and hint (upper half) of SLOT. */
static ALWAYS_INLINE uint64_t frame_table_rule_and_hint(const frame_slot_t *slot) {
  return load_relaxed((const uint64_t *)(const void *)&slot->rule);
}

static ALWAYS_INLINE uint32_t frame_table_id(const frame_slot_t *slot) {
  return leveled_first(FRAME_TABLE_BITS, 0) + (uint32_t)(slot - frame_table.level[0]);
}

/* The pc, whether it is exact, and the image of frame ID. False when there is no such frame. */
typedef struct frame_info {
  uint64_t pc;
  bool exact;
  uint16_t image; /* 0: none */
} frame_info_t;
bool frame_table_get(uint32_t id, frame_info_t *out);

/* True while the image ID, met by a walk, still stands where it stood; remembers the answer for
 * EPOCH. Image 0 stands for "no image" and is true while no image holds PC. */
bool frame_table_image_is_mapped(uint16_t image, uint64_t pc, uint64_t epoch);

#endif
