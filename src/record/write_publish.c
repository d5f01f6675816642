/* SPDX-License-Identifier: MIT
 *
 * Frames and nodes on their way into the tables (unwind/frames.h, stack/table.h). An image is
 * recorded with the first frame that lies in it; two threads may record it twice, which a reader
 * does not mind. Whether it was is noted only after it was.
 */
#include "record/publish.h"

#include "image/list.h"
#include "os/os.h"
#include "record/write.h"
#include "stack/table.h"
#include "unwind/frames.h"

static uint8_t recorded_images[(IMAGE_ID_MAX + 1) / 8];

static void publish_image(uint16_t id) {
  uint8_t *byte = &recorded_images[id / 8], bit = (uint8_t)(1u << id % 8);
  if (load_relaxed(byte) & bit) return;
  const image_entry_t *entry = image_entry(id);
  if (!entry) return;
  const image_t *i = &entry->image;
  char program[4096];
  const char *path = entry->file ? entry->file : entry->path;
  /* The list opens it by a name that means nothing in another process. */
  if (entry->is_program && os_read_link("/proc/self/exe", program, sizeof program) > 0)
    path = program;
  if (write_image(id, i->start, i->end, i->slide, i->build_id, i->build_id_size, path))
    __atomic_fetch_or(byte, bit, __ATOMIC_RELAXED);
}

static void publish_frame(uint32_t id, uint64_t pc, bool exact, uint16_t image) {
  if (!write_control()) return;
  if (image) publish_image(image);
  write_frame(id, pc, image, exact ? FRAME_EXACT : 0);
}

static void publish_node(uint32_t id, uint32_t parent, uint32_t frame) {
  if (write_control()) write_node(id, parent, frame);
}

void publish_to_recording(void) {
  frames_publish = publish_frame;
  nodes_publish = publish_node;
}
