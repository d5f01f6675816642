/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/writer.h"

#include <stdlib.h>
#include <time.h>

#include "arch/arch.h"
#include "base/varint.h"
#include "target/modules.h"

#define OWN_IDS    0x80000000u
#define SHARE_BITS 28 /* of the ids: each writer has a share of its own */
#define FLUSH_AT   (48u << 10)
#define BODY_MAX   4096u
#define RECORD_MAX (BODY_MAX + 32u)
#define DEPTH_MAX  512u

typedef struct bytes {
  uint8_t *data;
  size_t used, room;
} bytes_t;

typedef struct known {
  uint64_t key[2];
  uint32_t id; /* 0: an empty place */
} known_t;

/* A set of two-word keys, each with an id. */
typedef struct ids {
  known_t *places;
  size_t mask, count;
  uint32_t next;
} ids_t;

struct writer {
  recording_t *recording;
  bytes_t tables, events;
  uint32_t records, definitions;
  uint64_t base_time, last_time;
  uint32_t sequence[2]; /* of events, of tables */
  uint32_t exec_index, stream;
  ids_t images, frames, nodes;
  uint8_t body[RECORD_MAX];
  uint32_t body_used;
  uint8_t subtype;
};

/* ---- bytes -------------------------------------------------------------------------------- */

static bool make_room(bytes_t *b, size_t more) {
  if (b->used + more <= b->room) return true;
  size_t room = b->room ? 2 * b->room : 4096;
  while (room < b->used + more)
    room *= 2;
  uint8_t *grown = realloc(b->data, room);
  if (!grown) return false;
  b->data = grown;
  b->room = room;
  return true;
}

static void put_bytes(bytes_t *b, const void *data, size_t size) {
  memcpy(b->data + b->used, data, size);
  b->used += size;
}

/* ---- ids ---------------------------------------------------------------------------------- */

static size_t hash_of(const uint64_t key[2]) {
  uint64_t h = (key[0] ^ key[1] * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(h ^ h >> 32);
}

static known_t *find_slot(const ids_t *ids, const uint64_t key[2]) {
  size_t i = hash_of(key) & ids->mask;
  while (ids->places[i].id && memcmp(ids->places[i].key, key, sizeof ids->places[i].key) != 0)
    i = (i + 1) & ids->mask;
  return &ids->places[i];
}

static bool reserve_ids(ids_t *ids) {
  ids_t bigger = {.mask = ids->places ? 2 * ids->mask + 1 : 1023, .next = ids->next};
  bigger.places = calloc(bigger.mask + 1, sizeof *bigger.places);
  if (!bigger.places) return false;
  bigger.count = ids->count;
  for (size_t i = 0; ids->places && i <= ids->mask; i++)
    if (ids->places[i].id) *find_slot(&bigger, ids->places[i].key) = ids->places[i];
  free(ids->places);
  *ids = bigger;
  return true;
}

/* The id of the key (A, B); *FRESH when it is a new one. 0 without memory or ids. */
static uint32_t id_of(ids_t *ids, uint64_t a, uint64_t b, bool *fresh) {
  if (2 * (ids->count + 1) > ids->mask && !reserve_ids(ids)) return 0;
  if ((ids->next + 1) % (1u << SHARE_BITS) == 0) return 0; /* the share is used up */
  const uint64_t key[2] = {a, b};
  known_t *place = find_slot(ids, key);
  *fresh = !place->id;
  if (*fresh) {
    *place = (known_t){.key = {a, b}, .id = OWN_IDS + ++ids->next};
    ids->count++;
  }
  return place->id;
}

/* Ids already given out are never given again, so what was known is defined anew under new ones. */
static void forget(ids_t *ids) {
  if (ids->places) memset(ids->places, 0, (ids->mask + 1) * sizeof *ids->places);
  ids->count = 0;
}

/* ---- records ------------------------------------------------------------------------------ */

static void begin_body(monitor_writer_t *j) { j->body_used = 0; }

void monitor_writer_value(monitor_writer_t *j, uint64_t value) {
  if (j->body_used + VARINT_MAX_SIZE <= BODY_MAX)
    j->body_used += varint_put(j->body + j->body_used, value);
}

void monitor_writer_bytes(monitor_writer_t *j, const void *data, size_t size) {
  if (j->body_used + VARINT_MAX_SIZE > BODY_MAX) return;
  size_t room = BODY_MAX - j->body_used - VARINT_MAX_SIZE;
  if (size > room) size = room;
  monitor_writer_value(j, size);
  memcpy(j->body + j->body_used, data, size);
  j->body_used += (uint32_t)size;
}

void monitor_writer_text(monitor_writer_t *j, const char *text) {
  monitor_writer_bytes(j, text ? text : "", text ? strlen(text) : 0);
}

static bool end_definition(monitor_writer_t *j, table_type_t type) {
  uint8_t head[16];
  head[0] = (uint8_t)type;
  unsigned size = 1 + varint_put(head + 1, j->body_used);
  if (!make_room(&j->tables, size + j->body_used)) return false;
  put_bytes(&j->tables, head, size);
  put_bytes(&j->tables, j->body, j->body_used);
  j->definitions++;
  return true;
}

uint64_t monitor_writer_now(const monitor_writer_t *j) {
  const record_header_t *h = &j->recording->header;
  struct timespec t;
  uint64_t now = 0;
  if (h->clock != RECORD_CLOCK_MONOTONIC) {
    now = arch_cycles();
  } else {
    clock_gettime(CLOCK_MONOTONIC, &t);
    now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  }
  return now >> h->clock_shift;
}

/* A chunk holds records of one program alone. */
static void follow_program(monitor_writer_t *j) {
  uint32_t now = load_relaxed(&j->recording->control->exec_index);
  if (now == j->exec_index) return;
  (void)monitor_writer_flush(j);
  j->exec_index = now;
  j->sequence[0] = j->sequence[1] = 0;
  forget(&j->images);
  forget(&j->frames);
  forget(&j->nodes);
}

void monitor_writer_begin(monitor_writer_t *j, uint8_t subtype) {
  follow_program(j);
  begin_body(j);
  j->subtype = subtype;
}

void monitor_writer_end(monitor_writer_t *j) {
  uint8_t head[32], *q = head;
  uint64_t now = monitor_writer_now(j);
  if (!j->records) j->base_time = j->last_time = now;
  uint64_t delta = now > j->last_time ? now - j->last_time : 0;
  j->last_time += delta;
  *q++ = (uint8_t)(EVENT_EXTENDED | (delta < EVENT_TIME_MORE ? delta : EVENT_TIME_MORE)
                                        << EVENT_TIME_SHIFT);
  if (delta >= EVENT_TIME_MORE) q += varint_put(q, delta - EVENT_TIME_MORE);
  *q++ = j->subtype;
  q += varint_put(q, j->body_used);
  size_t size = (size_t)(q - head);
  if (!make_room(&j->events, size + j->body_used)) return;
  put_bytes(&j->events, head, size);
  put_bytes(&j->events, j->body, j->body_used);
  j->records++;
  if (j->events.used > FLUSH_AT || j->tables.used > FLUSH_AT) (void)monitor_writer_flush(j);
}

/* ---- stacks ------------------------------------------------------------------------------- */

static uint32_t define_image(monitor_writer_t *j, const module_t *m) {
  bool fresh;
  uint32_t id = id_of(&j->images, m->start, m->end, &fresh);
  if (!id || !fresh) return id;
  bool ready = m->state == MODULE_READY;
  begin_body(j);
  monitor_writer_value(j, id);
  monitor_writer_value(j, monitor_writer_now(j));
  monitor_writer_value(j, m->start);
  monitor_writer_value(j, m->end);
  monitor_writer_value(j, ready ? m->image.slide : m->start);
  monitor_writer_bytes(j, m->image.build_id, ready ? m->image.build_id_size : 0);
  monitor_writer_text(j, m->path);
  return end_definition(j, TABLE_IMAGE) ? id : 0;
}

static uint32_t define_frame(monitor_writer_t *j, uint64_t pc, uint32_t image, uint32_t flags) {
  bool fresh;
  uint32_t id = id_of(&j->frames, pc, (uint64_t)image << 8 | flags, &fresh);
  if (!id || !fresh) return id;
  begin_body(j);
  monitor_writer_value(j, id);
  monitor_writer_value(j, pc);
  monitor_writer_value(j, image);
  monitor_writer_value(j, flags);
  return end_definition(j, TABLE_FRAME) ? id : 0;
}

static uint32_t define_node(monitor_writer_t *j, uint32_t parent, uint32_t frame) {
  bool fresh;
  uint32_t id = id_of(&j->nodes, parent, frame, &fresh);
  if (!id || !fresh) return id;
  begin_body(j);
  monitor_writer_value(j, id);
  monitor_writer_value(j, parent);
  monitor_writer_value(j, frame);
  return end_definition(j, TABLE_NODE) ? id : 0;
}

uint32_t monitor_writer_stack(monitor_writer_t *j, target_t *target, const thread_t *thread) {
  if (!thread->frame_count) return 0;
  follow_program(j);
  uint32_t node = 0;
  bool whole = thread->ending == ENDING_COMPLETE;
  if (!whole) node = define_node(j, 0, define_frame(j, FRAME_PC_BROKEN, 0, FRAME_EXACT));
  uint32_t count = thread->frame_count;
  for (uint32_t i = 0; i < count; i++) { /* outermost first */
    uint32_t left = count - i;
    const frame_t *f = &thread->frames[left - 1];
    if (count > DEPTH_MAX && left > DEPTH_MAX / 4 && i >= DEPTH_MAX - DEPTH_MAX / 4) {
      node = define_node(j, node, define_frame(j, FRAME_PC_TRUNCATED, 0, FRAME_EXACT));
      i = count - DEPTH_MAX / 4 - 1;
      continue;
    }
    const module_t *m = target_module(target, f->exact ? f->pc : f->pc - 1);
    uint32_t image = m ? define_image(j, m) : 0;
    node = define_node(j, node, define_frame(j, f->pc, image, f->exact ? FRAME_EXACT : 0));
  }
  return node;
}

/* ---- chunks ------------------------------------------------------------------------------- */

static bool write_chunk(monitor_writer_t *j, chunk_type_t type, bytes_t *payload,
                        uint32_t records) {
  if (!payload->used) return true;
  size_t size = ALIGN_UP(sizeof(chunk_header_t) + payload->used, (size_t)8);
  uint8_t *chunk = calloc(1, size);
  if (!chunk) return false;
  chunk_header_t h = {.magic = CHUNK_MAGIC,
                      .type = (uint16_t)type,
                      .flags = CHUNK_CLOSED | CHUNK_COLLECTED,
                      .size = (uint32_t)size,
                      .used = (uint32_t)payload->used,
                      .stream = j->stream,
                      .sequence = j->sequence[type - CHUNK_EVENTS]++,
                      .base_time = type == CHUNK_EVENTS ? j->base_time : monitor_writer_now(j),
                      .close_time = monitor_writer_now(j),
                      .exec_index = (uint16_t)j->exec_index,
                      .records = records};
  memcpy(chunk, &h, sizeof h);
  memcpy(chunk + sizeof h, payload->data, payload->used);
  chunk_seal(chunk, size);
  bool written = !load_relaxed(&j->recording->control->stop_reason) &&
                 recording_append(j->recording, chunk, (uint32_t)size);
  free(chunk);
  payload->used = 0;
  return written;
}

/* Definitions first: a reader of a growing file then never meets an event without them. */
bool monitor_writer_flush(monitor_writer_t *j) {
  bool defined = write_chunk(j, CHUNK_TABLES, &j->tables, j->definitions);
  bool written = write_chunk(j, CHUNK_EVENTS, &j->events, j->records);
  j->records = j->definitions = 0;
  return defined && written;
}

monitor_writer_t *monitor_writer_new(recording_t *recording, uint32_t stream) {
  monitor_writer_t *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->recording = recording;
  j->stream = stream;
  j->images.next = j->frames.next = j->nodes.next = (stream - MONITOR_STREAM) << SHARE_BITS;
  return j;
}

void monitor_writer_free(monitor_writer_t *j) {
  if (!j) return;
  free(j->tables.data);
  free(j->events.data);
  free(j->images.places);
  free(j->frames.places);
  free(j->nodes.places);
  free(j);
}
