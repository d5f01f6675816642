/* SPDX-License-Identifier: MIT
 *
 * The tables of a recording: process, images, threads, frames, stack nodes.
 */
#include <stdlib.h>

#include "reader/body.h"
#include "reader/internal.h"
#include "sonde/status.h"

/* ---- ids ---------------------------------------------------------------------------------- */

static size_t hash_of(uint32_t id) { return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32); }

typedef uint32_t (*key_of_t)(const reader_t *r, size_t index);

static uint32_t image_key(const reader_t *r, size_t i) { return r->images.items[i].id; }
static uint32_t thread_key(const reader_t *r, size_t i) { return r->threads.items[i].stream; }
static uint32_t frame_key(const reader_t *r, size_t i) { return r->frames.items[i].id; }
static uint32_t node_key(const reader_t *r, size_t i) { return r->nodes.items[i].id; }

static inline size_t slot_of(const reader_t *r, const id_map_t *m, key_of_t key, uint32_t id) {
  size_t i = hash_of(id) & m->mask;
  while (m->slots[i] && key(r, m->slots[i] - 1) != id)
    i = (i + 1) & m->mask;
  return i;
}

/* The index of ID, or SIZE_MAX. */
static inline size_t find_id(const reader_t *r, const id_map_t *m, key_of_t key, uint32_t id) {
  if (!m->slots) return SIZE_MAX;
  uint32_t found = m->slots[slot_of(r, m, key, id)];
  return found ? found - 1 : SIZE_MAX;
}

/* Enters the item at INDEX; one that has the same id is replaced. */
static int enter_id(const reader_t *r, id_map_t *m, key_of_t key, size_t index) {
  if (2 * (m->count + 1) > m->mask) {
    id_map_t bigger = {.mask = m->slots ? 2 * m->mask + 1 : 255};
    bigger.slots = calloc(bigger.mask + 1, sizeof *bigger.slots);
    if (!bigger.slots) return SONDE_ENOMEM;
    for (size_t i = 0; m->slots && i <= m->mask; i++)
      if (m->slots[i])
        bigger.slots[slot_of(r, &bigger, key, key(r, m->slots[i] - 1))] = m->slots[i];
    bigger.count = m->count;
    free(m->slots);
    *m = bigger;
  }
  size_t i = slot_of(r, m, key, key(r, index));
  m->count += !m->slots[i];
  m->slots[i] = (uint32_t)(index + 1);
  return 0;
}

/* ---- records ------------------------------------------------------------------------------ */

static uint32_t get_id(body_t *b) {
  uint64_t value = body_number(b);
  if (value > UINT32_MAX) b->truncated = true;
  return (uint32_t)value;
}

/* A copy of N bytes, ended with a 0, that lives as long as the reader; NULL without memory. */
static const char *keep(reader_t *r, const uint8_t *data, uint64_t n) {
  text_block_t *block = malloc(sizeof *block + n + 1);
  if (!block) return NULL;
  memcpy(block->text, data, n);
  block->text[n] = 0;
  block->next = r->texts;
  r->texts = block;
  return block->text;
}

/* A string of the record, copied and ended with a 0. */
static const char *get_text(reader_t *r, body_t *b, uint32_t *size) {
  uint64_t n;
  const uint8_t *from = body_string(b, &n);
  const char *text = b->truncated ? NULL : keep(r, from, n);
  if (!text) {
    b->truncated = true;
    return "";
  }
  if (size) *size = (uint32_t)n;
  return text;
}

static int read_process(reader_t *r, body_t *b) {
  (void)body_number(b); /* the pid stands in the header too */
  if (r->arguments.count) return 0;
  while (b->p < b->end && !b->truncated) {
    const char **argument = TABLE_ADD(r->arguments);
    if (!argument) return SONDE_ENOMEM;
    *argument = get_text(r, b, NULL);
  }
  return 0;
}

static int read_image(reader_t *r, body_t *b) {
  record_image_t i = {0};
  i.id = get_id(b);
  i.time = body_number(b);
  i.start = body_number(b);
  i.end = body_number(b);
  i.slide = body_number(b);
  i.build_id = (const uint8_t *)get_text(r, b, &i.build_id_size);
  i.path = get_text(r, b, NULL);
  if (b->truncated) return 0;
  record_image_t *item = TABLE_ADD(r->images);
  if (!item) return SONDE_ENOMEM;
  *item = i;
  return enter_id(r, &r->image_ids, image_key, r->images.count - 1);
}

static void read_unloaded(reader_t *r, body_t *b) {
  uint32_t id = get_id(b);
  uint64_t time = body_number(b);
  size_t i = find_id(r, &r->image_ids, image_key, id);
  if (!b->truncated && i != SIZE_MAX) r->images.items[i].unloaded_time = time;
}

static int read_thread(reader_t *r, body_t *b) {
  record_thread_t t = {0};
  t.stream = get_id(b);
  t.tid = get_id(b);
  t.time = body_number(b);
  t.level = get_id(b);
  t.name = get_text(r, b, NULL);
  if (b->truncated) return 0;
  size_t known = find_id(r, &r->thread_ids, thread_key, t.stream);
  if (known != SIZE_MAX) {
    record_thread_t *before = &r->threads.items[known];
    if (t.time >= before->time) *before = t;
    return 0;
  }
  record_thread_t *item = TABLE_ADD(r->threads);
  if (!item) return SONDE_ENOMEM;
  *item = t;
  return enter_id(r, &r->thread_ids, thread_key, r->threads.count - 1);
}

static int read_frame(reader_t *r, body_t *b) {
  record_frame_t f = {0};
  f.id = get_id(b);
  f.pc = body_number(b);
  f.image = get_id(b);
  f.flags = get_id(b);
  if (b->truncated) return 0;
  record_frame_t *item = TABLE_ADD(r->frames);
  if (!item) return SONDE_ENOMEM;
  *item = f;
  return enter_id(r, &r->frame_ids, frame_key, r->frames.count - 1);
}

static int read_node(reader_t *r, body_t *b) {
  record_node_t n = {0};
  n.id = get_id(b);
  n.parent = get_id(b);
  n.frame = get_id(b);
  if (b->truncated) return 0;
  record_node_t *item = TABLE_ADD(r->nodes);
  if (!item) return SONDE_ENOMEM;
  *item = n;
  return enter_id(r, &r->node_ids, node_key, r->nodes.count - 1);
}

static int read_other(reader_t *r, uint8_t type, const body_t *b) {
  uint32_t size = (uint32_t)(b->end - b->p);
  const char *body = keep(r, b->p, size);
  sensor_record_t *item = body ? TABLE_ADD(r->others) : NULL;
  if (!item) return SONDE_ENOMEM;
  *item = (sensor_record_t){.type = type, .body = (const uint8_t *)body, .size = size};
  return 0;
}

static int read_named(reader_t *r, body_t *b) {
  record_text_t t = {.frame = get_id(b)};
  t.text = get_text(r, b, NULL);
  if (b->truncated) return 0;
  record_text_t *item = TABLE_ADD(r->texts_of_frames);
  if (!item) return SONDE_ENOMEM;
  *item = t;
  return 0;
}

static void read_tracer(reader_t *r, body_t *b) {
  double pair = (double)body_number(b) / 256, inside = (double)body_number(b) / 256;
  if (b->truncated || inside > pair) return;
  r->cost_pair = pair;
  r->cost_inside = inside;
}

/* Frames and their texts may come in any order. */
static void give_texts(reader_t *r) {
  for (size_t i = 0; i < r->texts_of_frames.count; i++) {
    size_t frame = find_id(r, &r->frame_ids, frame_key, r->texts_of_frames.items[i].frame);
    if (frame != SIZE_MAX) r->frames.items[frame].text = r->texts_of_frames.items[i].text;
  }
}

static int read_record(reader_t *r, uint8_t type, body_t *b) {
  switch (type) {
  case TABLE_PROCESS: return read_process(r, b);
  case TABLE_IMAGE: return read_image(r, b);
  case TABLE_UNLOADED: read_unloaded(r, b); return 0;
  case TABLE_THREAD: return read_thread(r, b);
  case TABLE_FRAME: return read_frame(r, b);
  case TABLE_NODE: return read_node(r, b);
  case TABLE_FRAME_NAME: return read_named(r, b);
  case TABLE_TRACER: read_tracer(r, b); return 0;
  default: return read_other(r, type, b); /* a sensor's, or of a later version */
  }
}

static int read_chunk(reader_t *r, const uint8_t *p, const uint8_t *end) {
  while (p < end && *p != TABLE_NONE) {
    uint8_t type = *p++;
    uint64_t size;
    if (!varint_get(&p, end, &size) || size > (uint64_t)(end - p)) {
      r->damage.bad_records++;
      return 0;
    }
    body_t b = {.p = p, .end = p + size};
    int status = read_record(r, type, &b);
    if (status < 0) return status;
    if (b.truncated) r->damage.bad_records++;
    p += size;
  }
  return 0;
}

static int read_place(reader_t *r, const chunk_place_t *place, chunk_buffer_t *buffer) {
  chunk_header_t h;
  const uint8_t *payload, *end;
  int status = 0;
  if (!reader_place(r, place, buffer)) return 0;
  while (status == 0 && reader_chunk(buffer, &h, &payload, &end))
    status = read_chunk(r, payload, end);
  return status;
}

int reader_tables(reader_t *r) {
  chunk_buffer_t buffer = {0};
  int status = 0;
  for (size_t i = 0; i < r->chunks.count && status == 0; i++)
    if (r->chunks.items[i].type == CHUNK_TABLES)
      status = read_place(r, &r->chunks.items[i], &buffer);
  free(buffer.bytes);
  give_texts(r);
  for (size_t i = 0; i < r->nodes.count; i++) {
    const record_node_t *n = &r->nodes.items[i];
    if ((n->parent && !reader_node(r, n->parent)) || !reader_frame(r, n->frame))
      r->damage.missing_definitions++;
  }
  return status;
}

/* ---- asking ------------------------------------------------------------------------------- */

const sensor_record_t *reader_sensor_records(const reader_t *r, size_t *count) {
  *count = r->others.count;
  return r->others.items;
}

const char *reader_argument(const reader_t *r, uint32_t index) {
  return index < r->arguments.count ? r->arguments.items[index] : NULL;
}

const record_image_t *reader_images(const reader_t *r, size_t *count) {
  *count = r->images.count;
  return r->images.items;
}

const record_thread_t *reader_threads(const reader_t *r, size_t *count) {
  *count = r->threads.count;
  return r->threads.items;
}

const record_node_t *reader_nodes(const reader_t *r, size_t *count) {
  *count = r->nodes.count;
  return r->nodes.items;
}

const record_frame_t *reader_frames(const reader_t *r, size_t *count) {
  *count = r->frames.count;
  return r->frames.items;
}

const record_image_t *reader_image(const reader_t *r, uint32_t id) {
  size_t i = find_id(r, &r->image_ids, image_key, id);
  return i == SIZE_MAX ? NULL : &r->images.items[i];
}

const record_thread_t *reader_thread(const reader_t *r, uint32_t stream) {
  size_t i = find_id(r, &r->thread_ids, thread_key, stream);
  return i == SIZE_MAX ? NULL : &r->threads.items[i];
}

const record_frame_t *reader_frame(const reader_t *r, uint32_t id) {
  size_t i = find_id(r, &r->frame_ids, frame_key, id);
  return i == SIZE_MAX ? NULL : &r->frames.items[i];
}

const record_node_t *reader_node(const reader_t *r, uint32_t id) {
  size_t i = find_id(r, &r->node_ids, node_key, id);
  return i == SIZE_MAX ? NULL : &r->nodes.items[i];
}

/* A circle is noticed by a mark that is moved to where the way has come, each time that its length
 * has doubled (Brent): one of up to half of READER_DEPTH_MAX nodes is. The others end at that
 * depth.
 */
int reader_stack(const reader_t *r, uint32_t id, const record_frame_t **frames, int max) {
  uint32_t mark = 0;
  int count = 0;
  for (; id && count < READER_DEPTH_MAX; count++) {
    const record_node_t *n = reader_node(r, id);
    const record_frame_t *f = n ? reader_frame(r, n->frame) : NULL;
    if (!f || id == mark) return -1;
    if (!(count & (count - 1))) mark = id;
    if (count < max) frames[count] = f;
    id = n->parent;
  }
  return count + (id != 0);
}
