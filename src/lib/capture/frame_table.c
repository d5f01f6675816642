/* SPDX-License-Identifier: MIT
 *
 * The slow path of the frame table: finds a frame in further levels, or makes it and its rule.
 */
#include "capture/frame_table.h"
#include "arch/arch.h"
#include "arch/trampoline.h"
#include "image/list.h"
#include "os/os.h"
#include "capture/walk.h"
#include "unwind/cfi.h"

struct frame_table frame_table;
HIDDEN void (*frame_table_on_new)(uint32_t id, uint64_t pc, bool exact, uint16_t image);

bool frame_table_init(void) {
  return leveled_map((void **)&frame_table.level[0], FRAME_TABLE_BITS, sizeof(frame_slot_t)) &&
         leveled_map((void **)&frame_table.epoch_of_image, 15, sizeof(uint64_t));
}

bool frame_table_image_is_mapped(uint16_t image, uint64_t pc, uint64_t epoch) {
  if (image == 0) return pc <= FRAME_TABLE_MARKERS || image_id_of_pc(pc) == 0;
  if (!image_check(image)) return false;
  if (epoch != EPOCH_UNKNOWN) store_relaxed(&frame_table.epoch_of_image[image], epoch);
  return true;
}

static bool image_is_mapped(uint16_t image, uint64_t pc, uint64_t epoch) {
  if (image && load_relaxed(&frame_table.epoch_of_image[image]) == epoch) return true;
  return frame_table_image_is_mapped(image, pc, epoch);
}

static rule_t learn_rule(uint16_t image, uint64_t pc, bool exact) {
  if (!exact && pc == trampoline_address(TRAMPOLINE_RETURN)) return rule_of_call();
  const image_t *known = image ? image_by_id(image) : NULL;
  rule_t rule = known ? rule_learn(MACHINE_HERE, known, pc, exact) : rule_make(RULE_NONE, 0, 0, 0);
  if (known && rule_kind(rule) == RULE_NONE && (known = image_complete(image, cfi_index)))
    rule = rule_learn(MACHINE_HERE, known, pc, exact);
  return rule;
}

/* Searches the buckets of PC_KEY from level 0 on. Returns the slot of the frame whose image is
 * mapped. Returns NULL at the first bucket with a free slot, which is then in *FREE_SLOT. */
static frame_slot_t *search(uint64_t pc_key, uint64_t pc, uint64_t epoch, uint32_t *id,
                            frame_slot_t **free_slot, uint32_t *free_id) {
  uint64_t hash = leveled_hash(pc_key);
  *free_slot = NULL;
  for (unsigned level = 0; level < LEVELED_MAX; level++) {
    unsigned bits = leveled_bits(FRAME_TABLE_BITS, level);
    frame_slot_t *slots =
        leveled_map((void **)&frame_table.level[level], bits, sizeof(frame_slot_t));
    if (!slots) return NULL;
    uint32_t bucket = (uint32_t)(hash >> (64 - bits));
    for (uint32_t i = 0; i < FRAME_TABLE_BUCKET; i++) {
      uint32_t index = bucket ^ i; /* Within the same cache line. */
      uint64_t key = load_relaxed(&slots[index].key);
      *id = leveled_first(FRAME_TABLE_BITS, level) + index;
      if (key >> 15 == pc_key &&
          image_is_mapped((uint16_t)(key & (FRAME_TABLE_IMAGES - 1)), pc, epoch))
        return &slots[index];
      if (key == 0) {
        *free_slot = &slots[index];
        *free_id = *id;
        return NULL;
      }
    }
  }
  return NULL;
}

static rule_t rule_of_slot(frame_slot_t *slot, uint32_t id, uint64_t pc, bool exact) {
  rule_t rule = load_acquire(&slot->rule);
  if (!rule) {
    uint16_t image = (uint16_t)(load_relaxed(&slot->key) & (FRAME_TABLE_IMAGES - 1));
    rule = learn_rule(image, pc, exact);
    if (frame_table_on_new) frame_table_on_new(id, pc, exact, image);
    store_release(&slot->rule, rule);
  }
  return (rule_t)rule;
}

frame_ref_t frame_table_find_slow(uint64_t pc, bool exact, uint64_t epoch) {
  uint64_t pc_key = frame_table_pc_key(pc, exact);
  if (pc >> 48) return frame_table_find_slow(FRAME_TABLE_NO_PC, true, epoch);
  for (;;) {
    uint32_t id, free_id;
    frame_slot_t *free_slot;
    frame_slot_t *slot = search(pc_key, pc, epoch, &id, &free_slot, &free_id);
    if (slot) return (frame_ref_t){id, rule_of_slot(slot, id, pc, exact)};
    uint16_t image = image_id_of_pc(exact ? pc : pc - 1);
    if (!free_slot) return (frame_ref_t){FRAME_TABLE_FULL, learn_rule(image, pc, exact)};
    uint64_t expected = 0;
    if (image) frame_table_image_is_mapped(image, pc, epoch);
    if (cas_acq_rel(&free_slot->key, &expected, pc_key << 15 | image))
      return (frame_ref_t){free_id, rule_of_slot(free_slot, free_id, pc, exact)};
  }
}

void frame_table_set_rule(uint64_t pc, bool exact, uint64_t epoch, uint32_t rule) {
  uint32_t id, free_id;
  frame_slot_t *free_slot;
  frame_slot_t *slot = search(frame_table_pc_key(pc, exact), pc, epoch, &id, &free_slot, &free_id);
  if (slot && rule_kind(load_relaxed(&slot->rule)) == RULE_NONE) store_release(&slot->rule, rule);
}

bool frame_table_get(uint32_t id, frame_info_t *out) {
  unsigned level;
  uint32_t index;
  if (!leveled_locate(FRAME_TABLE_BITS, id, &level, &index)) return false;
  frame_slot_t *slots = load_acquire(&frame_table.level[level]);
  uint64_t key = slots ? load_relaxed(&slots[index].key) : 0;
  *out = (frame_info_t){key >> 16, key >> 15 & 1, (uint16_t)(key & (FRAME_TABLE_IMAGES - 1))};
  return key != 0;
}
