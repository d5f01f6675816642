/* SPDX-License-Identifier: MIT
 *
 * Records frames and nodes of the stack tables (capture/frame_table.h, capture/stack_table.h). An
 * image is recorded with its first frame. Two threads may both record an image; readers ignore
 * duplicates. The "recorded" bit is set only after the record is written.
 */
#include "record/definitions.h"

#include "arch/trampoline.h"
#include "image/list.h"
#include "os/os.h"
#include "record/writer.h"
#include "capture/stack_table.h"
#include "capture/frame_table.h"
#include "capture/python/python_frames.h"
#include "capture/python/python_merged.h"
#include "capture/python/python_shapes.h"

/* One bit for each image: recorded as loaded, or as unloaded. */
static uint8_t recorded_images[(IMAGE_ID_MAX + 1) / 8], unloaded_images[(IMAGE_ID_MAX + 1) / 8];
static uint32_t highest_image; /* the highest recorded id */

static bool has_bit(const uint8_t *set, uint32_t id) {
  return load_relaxed(&set[id / 8]) >> id % 8 & 1;
}

static void set_bit(uint8_t *set, uint32_t id, bool in) {
  uint8_t bit = (uint8_t)(1u << id % 8);
  if (in)
    __atomic_fetch_or(&set[id / 8], bit, __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(&set[id / 8], (uint8_t)~bit, __ATOMIC_RELAXED);
}

/* `file` is valid in this process only: it may be relative to a working directory, or name a
 * descriptor. */
const char *definitions_path(const image_entry_t *entry, char *out, size_t size) {
  if (entry->is_program && os_program_path(out, size) > 0) return out;
  return entry->path ? entry->path : entry->file;
}

uint32_t definitions_frame_flags(uint64_t pc, bool exact) {
  bool own = !exact && pc == trampoline_address(TRAMPOLINE_RETURN);
  return exact ? FRAME_EXACT : own ? FRAME_TRAMPOLINE : 0;
}

static void publish_image(uint16_t id) {
  if (has_bit(recorded_images, id)) return;
  const image_entry_t *entry = image_entry(id);
  if (!entry) return;
  const image_t *i = &entry->image;
  char program[4096];
  const char *path = definitions_path(entry, program, sizeof program);
  if (!writer_image(id, i->start, i->end, i->slide, i->build_id, i->build_id_size, path)) return;
  set_bit(unloaded_images, id, false);
  set_bit(recorded_images, id, true);
  uint32_t highest = load_relaxed(&highest_image);
  while (highest < id && !cas_acq_rel(&highest_image, &highest, (uint32_t)id)) {
  }
}

void definitions_check_unloaded(void) {
  static uint64_t looked;
  uint64_t epoch = os_loader_epoch();
  if (!writer_control() || (epoch && load_relaxed(&looked) == epoch)) return;
  store_relaxed(&looked, epoch);
  for (uint32_t id = 1; id <= load_relaxed(&highest_image); id++) {
    if (has_bit(recorded_images, id)) {
      if (image_check((image_id_t)id) || !writer_unloaded(id)) continue;
      set_bit(recorded_images, id, false);
      set_bit(unloaded_images, id, true);
    } else if (has_bit(unloaded_images, id) && image_check((image_id_t)id)) {
      publish_image((uint16_t)id);
    }
  }
}

static void publish_frame(uint32_t id, uint64_t pc, bool exact, uint16_t image) {
  if (!writer_control()) return;
  if (image && !has_bit(recorded_images, image)) {
    publish_image(image);
    definitions_check_unloaded();
  }
  writer_frame(id, pc, image, definitions_frame_flags(pc, exact));
}

static void publish_python(const python_frame_t *frame) {
  if (!writer_control()) return;
  writer_frame(frame->id, frame->pc, 0, 0);
  writer_python(frame->id, frame->line, frame->function, frame->file);
}

static void publish_call(uint32_t frame) {
  if (writer_control()) writer_python_call(frame);
}

static void publish_merged(uint32_t id, uint32_t native, uint32_t chain) {
  if (writer_control()) writer_merged(id, native, chain);
}

static void publish_node(uint32_t id, uint32_t parent, uint32_t frame) {
  if (!writer_control()) return;
  if (frame & STACK_IN_CHAIN)
    writer_chain(id, parent, frame & ~(STACK_IN_CHAIN | STACK_OF_CALL),
                 frame & STACK_OF_CALL ? CHAIN_ENDS_CALL : 0);
  else
    writer_node(id, parent, frame);
}

void definitions_start(void) {
  frame_table_on_new = publish_frame;
  stack_table_on_new = publish_node;
  python_frame_on_new = publish_python;
  python_call_on_new = publish_call;
  python_merged_on_new = publish_merged;
  writer_on_gap_end = definitions_write_all;
}

static void publish_frames(void) {
  for (unsigned level = 0; level < LEVELED_MAX && load_acquire(&frame_table.level[level]); level++)
    for (uint32_t i = 0; i < (uint32_t)1 << leveled_bits(FRAME_TABLE_BITS, level); i++) {
      const frame_slot_t *slot = &frame_table.level[level][i];
      frame_info_t info;
      uint32_t id = leveled_first(FRAME_TABLE_BITS, level) + i;
      if (load_acquire(&slot->rule) && frame_table_get(id, &info))
        publish_frame(id, info.pc, info.exact, info.image);
    }
}

static void publish_nodes(void) {
  for (unsigned level = 0; level < LEVELED_MAX && load_acquire(&stack_table.level[level]); level++)
    for (uint32_t i = 0; i < (uint32_t)1 << leveled_bits(STACK_TABLE_BITS, level); i++) {
      uint32_t parent, frame, id = leveled_first(STACK_TABLE_BITS, level) + i;
      if (load_relaxed(&stack_table.level[level][i]) && stack_table_get(id, &parent, &frame))
        publish_node(id, parent, frame);
    }
}

void definitions_write_all(void) {
  memset(recorded_images, 0, sizeof recorded_images);
  memset(unloaded_images, 0, sizeof unloaded_images);
  publish_frames();
  python_frames_each(publish_python);
  python_calls_each(publish_call);
  publish_nodes();
  python_merged_each(publish_merged);
}
