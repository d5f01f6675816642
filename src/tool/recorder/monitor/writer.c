/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "arch/arch.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/varint.h"
#include "os/os.h"
#include "recorder/monitor/thread_file.h"
#include "target/modules.h"
#include "target/interpreter/interpreter.h"

/* Ids of writers: above the program's, with ID_BITS bits for each writer. */
#define OWN_IDS    0x80000000u
#define ID_BITS    28
#define FLUSH_AT   (48u << 10)
#define BODY_MAX   4096u
#define RECORD_MAX (BODY_MAX + 32u)
#define DEPTH_MAX  512u

typedef ARRAY(uint8_t) bytes_t;

typedef struct key_pair {
  uint64_t a, b;
} key_pair_t;

/* A set of two-word keys. The id of a key is OWN_IDS + first + its index + 1. */
typedef struct ids {
  ARRAY(key_pair_t) keys;
  hash_index_t index;
  uint32_t first;
} ids_t;

/* The events of a stream that are not written yet. */
struct monitor_stream {
  monitor_stream_t *next;
  uint32_t id, sequence, records;
  bytes_t events;
  uint64_t base_time, last_time;
  /* of a thread of the program; 0: the monitor's own */
  pid_t tid;
  char name[THREAD_NAME_MAX];
  /* the recording says whose stream it is */
  bool is_defined;
};

struct monitor_writer {
  recording_t *recording;
  bytes_t tables;
  uint32_t definitions, table_sequence, exec_index;
  monitor_stream_t own, *threads;
  uint32_t thread_count;
  ids_t images, frames, nodes;
  uint8_t body[RECORD_MAX];
  uint32_t body_used;
  uint8_t subtype;
};

/* ---- bytes -------------------------------------------------------------------------------- */

/* Adds HEAD and BODY; nothing if memory runs out. */
static bool add_record(bytes_t *b, const void *head, size_t head_size, const void *body,
                       size_t body_size) {
  if (!ARRAY_RESERVE(b->items, b->count + head_size + body_size, b->capacity)) return false;
  memcpy(b->items + b->count, head, head_size);
  memcpy(b->items + b->count + head_size, body, body_size);
  b->count += head_size + body_size;
  return true;
}

/* ---- ids ---------------------------------------------------------------------------------- */

static uint64_t hash_of_key(const void *ids, size_t i) {
  const key_pair_t *key = &((const ids_t *)ids)->keys.items[i];
  return hash_pair(key->a, key->b);
}

/* The id of the key (A, B); *IS_NEW if it was added. 0 if memory or ids run out. */
static uint32_t id_of(ids_t *ids, uint64_t a, uint64_t b, bool *is_new) {
  uint32_t *slot;
  if ((ids->first + ids->keys.count + 1) % (1u << ID_BITS) == 0) return 0;
  if (!hash_reserve(&ids->index, ids->keys.count, hash_of_key, ids)) return 0;
  *is_new = false;
  HASH_FIND(&ids->index, hash_pair(a, b), slot) {
    const key_pair_t *key = &ids->keys.items[*slot - 1];
    if (key->a == a && key->b == b) return OWN_IDS + ids->first + *slot;
  }
  key_pair_t *key = ARRAY_ADD(ids->keys);
  if (!key) return 0;
  *key = (key_pair_t){a, b};
  *slot = (uint32_t)ids->keys.count;
  *is_new = true;
  return OWN_IDS + ids->first + *slot;
}

/* Removes all keys. Ids are never reused: keys that return get new ids. */
static void clear_ids(ids_t *ids) {
  hash_clear(&ids->index);
  ids->first += (uint32_t)ids->keys.count;
  ids->keys.count = 0;
}

static void free_ids(ids_t *ids) {
  free(ids->keys.items);
  hash_free(&ids->index);
}

/* ---- records ------------------------------------------------------------------------------ */

static void begin_body(monitor_writer_t *w) { w->body_used = 0; }

void monitor_writer_value(monitor_writer_t *w, uint64_t value) {
  if (w->body_used + VARINT_MAX_SIZE <= BODY_MAX)
    w->body_used += varint_put(w->body + w->body_used, value);
}

size_t monitor_writer_raw(monitor_writer_t *w, const void *data, size_t size) {
  size_t space = BODY_MAX - w->body_used;
  if (size > space) size = space;
  memcpy(w->body + w->body_used, data, size);
  w->body_used += (uint32_t)size;
  return size;
}

void monitor_writer_bytes(monitor_writer_t *w, const void *data, size_t size) {
  if (w->body_used + VARINT_MAX_SIZE > BODY_MAX) return;
  size_t space = BODY_MAX - w->body_used - VARINT_MAX_SIZE;
  if (size > space) size = space;
  monitor_writer_value(w, size);
  (void)monitor_writer_raw(w, data, size);
}

void monitor_writer_text(monitor_writer_t *w, const char *text) {
  monitor_writer_bytes(w, text ? text : "", text ? strlen(text) : 0);
}

static bool end_definition(monitor_writer_t *w, table_type_t type) {
  uint8_t head[16];
  head[0] = (uint8_t)type;
  unsigned size = 1 + varint_put(head + 1, w->body_used);
  if (!add_record(&w->tables, head, size, w->body, w->body_used)) return false;
  w->definitions++;
  return true;
}

uint64_t monitor_writer_now(const monitor_writer_t *w) {
  const record_header_t *h = &w->recording->header;
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

/* A chunk contains records of one program only: starts new chunks and ids after an exec. */
static void follow_exec(monitor_writer_t *w) {
  uint32_t now = recording_current_program(w->recording);
  if (now == w->exec_index) return;
  (void)monitor_writer_flush(w);
  w->exec_index = now;
  w->own.sequence = w->table_sequence = 0;
  for (monitor_stream_t *s = w->threads; s; s = s->next) {
    s->sequence = 0;
    s->is_defined = false;
  }
  clear_ids(&w->images);
  clear_ids(&w->frames);
  clear_ids(&w->nodes);
}

void monitor_writer_define(monitor_writer_t *w, table_type_t type) {
  (void)end_definition(w, type);
}

void monitor_writer_begin(monitor_writer_t *w, uint8_t subtype) {
  follow_exec(w);
  begin_body(w);
  w->subtype = subtype;
}

/* Writes the kind and the time of an event of S to OUT; returns what follows. */
static uint8_t *put_head(monitor_stream_t *s, event_kind_t kind, uint64_t time, uint8_t *out) {
  if (!s->records) s->base_time = s->last_time = time;
  uint64_t delta = time > s->last_time ? time - s->last_time : 0;
  s->last_time += delta;
  *out++ =
      (uint8_t)(kind | (delta < EVENT_TIME_MORE ? delta : EVENT_TIME_MORE) << EVENT_TIME_SHIFT);
  return delta < EVENT_TIME_MORE ? out : out + varint_put(out, delta - EVENT_TIME_MORE);
}

static void add_event(monitor_writer_t *w, monitor_stream_t *s, const uint8_t *head, size_t size,
                      size_t body_size) {
  if (!add_record(&s->events, head, size, w->body, body_size)) return;
  s->records++;
  if (s->events.count > FLUSH_AT || w->tables.count > FLUSH_AT) (void)monitor_writer_flush(w);
}

void monitor_writer_end(monitor_writer_t *w) {
  uint8_t head[32], *q = put_head(&w->own, EVENT_EXTENDED, monitor_writer_now(w), head);
  *q++ = w->subtype;
  q += varint_put(q, w->body_used);
  add_event(w, &w->own, head, (size_t)(q - head), w->body_used);
}

/* ---- stacks ------------------------------------------------------------------------------- */

static uint32_t define_image(monitor_writer_t *w, const module_t *m) {
  bool is_new;
  uint32_t id = id_of(&w->images, m->start, m->end, &is_new);
  if (!id || !is_new) return id;
  bool ready = m->state == MODULE_READY;
  begin_body(w);
  monitor_writer_value(w, id);
  monitor_writer_value(w, monitor_writer_now(w));
  monitor_writer_value(w, m->start);
  monitor_writer_value(w, m->end);
  monitor_writer_value(w, ready ? m->image.slide : m->start);
  monitor_writer_bytes(w, m->image.build_id, ready ? m->image.build_id_size : 0);
  monitor_writer_text(w, m->path);
  return end_definition(w, TABLE_IMAGE) ? id : 0;
}

static uint32_t define_frame(monitor_writer_t *w, uint64_t pc, uint32_t image, uint32_t flags) {
  bool is_new;
  uint32_t id = id_of(&w->frames, pc, (uint64_t)image << 8 | flags, &is_new);
  if (!id || !is_new) return id;
  if (!image) shm_code_add(&w->recording->control->code, pc);
  begin_body(w);
  monitor_writer_value(w, id);
  monitor_writer_value(w, pc);
  monitor_writer_value(w, image);
  monitor_writer_value(w, flags);
  return end_definition(w, TABLE_FRAME) ? id : 0;
}

/* Functions of an interpreter have no image; their names are recorded with the frame. */
static uint32_t define_interpreted(monitor_writer_t *w, const target_t *target, uint64_t pc) {
  interpreter_name_t name = {0};
  const interpreter_t *interpreter = target->interpreter;
  bool is_new;
  if (!interpreter || !interpreter->kind->name(interpreter, pc, &name))
    name = (interpreter_name_t){0};
  const char *function = name.function ? name.function : "?", *file = name.file ? name.file : "";
  uint64_t recorded = language_recorded_pc(pc >> 48, language_name_hash(function, file, name.line));
  uint32_t id = id_of(&w->frames, recorded, 0, &is_new);
  if (!id || !is_new) return id;
  begin_body(w);
  monitor_writer_value(w, id);
  monitor_writer_value(w, recorded);
  monitor_writer_value(w, 0);
  monitor_writer_value(w, 0);
  if (!end_definition(w, TABLE_FRAME)) return 0;
  begin_body(w);
  monitor_writer_value(w, id);
  monitor_writer_value(w, 0);
  monitor_writer_value(w, name.line);
  monitor_writer_text(w, function);
  monitor_writer_text(w, file);
  return end_definition(w, TABLE_FUNCTIONS) ? id : 0;
}

static uint32_t define_node(monitor_writer_t *w, uint32_t parent, uint32_t frame) {
  bool is_new;
  uint32_t id = id_of(&w->nodes, parent, frame, &is_new);
  if (!id || !is_new) return id;
  begin_body(w);
  monitor_writer_value(w, id);
  monitor_writer_value(w, parent);
  monitor_writer_value(w, frame);
  return end_definition(w, TABLE_NODE) ? id : 0;
}

uint32_t monitor_writer_stack(monitor_writer_t *w, target_t *target, const thread_t *thread) {
  if (!thread->frame_count) return 0;
  follow_exec(w);
  uint32_t node = 0;
  bool whole = thread->ending == ENDING_COMPLETE;
  if (!whole) node = define_node(w, 0, define_frame(w, FRAME_PC_BROKEN, 0, FRAME_EXACT));
  uint32_t count = thread->frame_count;
  for (uint32_t i = 0; i < count; i++) { /* outermost first */
    uint32_t left = count - i;
    const frame_t *f = &thread->frames[left - 1];
    if (count > DEPTH_MAX && left > DEPTH_MAX / 4 && i >= DEPTH_MAX - DEPTH_MAX / 4) {
      node = define_node(w, node, define_frame(w, FRAME_PC_TRUNCATED, 0, FRAME_EXACT));
      i = count - DEPTH_MAX / 4 - 1;
      continue;
    }
    if (language_of_pc(f->pc)) {
      node = define_node(w, node, define_interpreted(w, target, f->pc));
      continue;
    }
    const module_t *m = target_module(target, f->exact ? f->pc : f->pc - 1);
    uint32_t image = m ? define_image(w, m) : 0;
    bool own = f->pc == load_relaxed(&w->recording->control->trampoline_pc);
    uint32_t flags = f->exact ? FRAME_EXACT : own ? FRAME_TRAMPOLINE : 0;
    node = define_node(w, node, define_frame(w, f->pc, image, flags));
  }
  return node;
}

/* ---- samples of a thread ------------------------------------------------------------------ */

/* Monitors have eight streams of their own. */
#define THREAD_STREAMS (MONITOR_STREAM + 8)

monitor_stream_t *monitor_writer_stream(monitor_writer_t *w, pid_t tid, const char *name) {
  monitor_stream_t *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->id = THREAD_STREAMS + w->thread_count++;
  s->tid = tid;
  snprintf(s->name, sizeof s->name, "%s", name);
  s->next = w->threads;
  w->threads = s;
  return s;
}

static void define_stream(monitor_writer_t *w, monitor_stream_t *s) {
  begin_body(w);
  monitor_writer_value(w, s->id);
  monitor_writer_value(w, (uint64_t)s->tid);
  monitor_writer_value(w, monitor_writer_now(w));
  monitor_writer_value(w, 0); /* as events of the thread itself */
  monitor_writer_text(w, s->name);
  s->is_defined = end_definition(w, TABLE_THREAD);
}

/* The time of an event in ticks. */
uint64_t monitor_writer_ticks(const monitor_writer_t *w, uint64_t monotonic_ns) {
  const shm_control_t *c = w->recording->control;
  double ns = (double)(c->calibrated_ns[1] - c->calibrated_ns[0]);
  double ticks = (double)(c->calibrated_ticks[1] - c->calibrated_ticks[0]);
  uint64_t now_ns = os_monotonic_ns(), now = monitor_writer_now(w);
  if (now_ns <= monotonic_ns || ns <= 0) return now;
  uint64_t age = (uint64_t)((double)(now_ns - monotonic_ns) * ticks / ns) >> c->clock_shift;
  return age < now ? now - age : now;
}

void monitor_stream_sample(monitor_writer_t *w, monitor_stream_t *s, uint64_t time_ns,
                           uint64_t missed, uint32_t stack) {
  follow_exec(w);
  if (!s->is_defined) define_stream(w, s);
  uint8_t head[32], *q = put_head(s, EVENT_SAMPLE, monitor_writer_ticks(w, time_ns), head);
  begin_body(w);
  monitor_writer_value(w, missed);
  monitor_writer_value(w, stack);
  add_event(w, s, head, (size_t)(q - head), w->body_used);
}

/* ---- chunks ------------------------------------------------------------------------------- */

static bool write_chunk(monitor_writer_t *w, chunk_header_t h, bytes_t *payload) {
  shm_control_t *c = w->recording->control;
  if (!payload->count) return true;
  size_t size = ALIGN_UP(sizeof(chunk_header_t) + payload->count, (size_t)8);
  uint8_t *chunk = calloc(1, size);
  if (!chunk) return false;
  h.magic = CHUNK_MAGIC;
  h.flags = CHUNK_CLOSED | CHUNK_COLLECTED;
  h.size = (uint32_t)size;
  h.used = (uint32_t)payload->count;
  h.close_time = monitor_writer_now(w);
  h.exec_index = (uint16_t)w->exec_index;
  memcpy(chunk, &h, sizeof h);
  memcpy(chunk + sizeof h, payload->items, payload->count);
  chunk_seal(chunk, size);
  bool written = gap_should_write(c) && recording_append(w->recording, chunk, (uint32_t)size);
  free(chunk);
  /* In a gap, definitions wait for its end while they fit in a chunk. */
  bool lost = !written && gap_may_end(load_relaxed(&c->stop_reason));
  if (lost && h.type == CHUNK_TABLES && payload->count < CHUNK_MAX_BYTES / 2) return false;
  if (lost) add_relaxed(h.type == CHUNK_TABLES ? &c->lost_definitions : &c->lost_events, h.records);
  payload->count = 0;
  return written;
}

static bool write_tables(monitor_writer_t *w) {
  if (!w->tables.count) return true;
  const chunk_header_t h = {.type = CHUNK_TABLES,
                            .stream = w->own.id,
                            .sequence = w->table_sequence,
                            .base_time = monitor_writer_now(w),
                            .records = w->definitions};
  bool written = write_chunk(w, h, &w->tables);
  w->table_sequence += written;
  if (!w->tables.count) w->definitions = 0;
  return written;
}

static bool write_events(monitor_writer_t *w, monitor_stream_t *s) {
  if (!s->events.count) return true;
  const chunk_header_t h = {.type = CHUNK_EVENTS,
                            .stream = s->id,
                            .sequence = s->sequence,
                            .base_time = s->base_time,
                            .records = s->records};
  s->records = 0;
  bool written = write_chunk(w, h, &s->events);
  s->sequence += written;
  return written;
}

/* Definitions first, so that a reader of a growing file finds the definitions of every event. */
bool monitor_writer_flush(monitor_writer_t *w) {
  bool written = write_tables(w);
  written &= write_events(w, &w->own);
  for (monitor_stream_t *s = w->threads; s; s = s->next)
    written &= write_events(w, s);
  return written;
}

monitor_writer_t *monitor_writer_new(recording_t *recording, uint32_t stream) {
  monitor_writer_t *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->recording = recording;
  w->own.id = stream;
  w->images.first = w->frames.first = w->nodes.first = (stream - MONITOR_STREAM) << ID_BITS;
  return w;
}

void monitor_writer_free(monitor_writer_t *w) {
  if (!w) return;
  free(w->tables.items);
  free(w->own.events.items);
  for (monitor_stream_t *s = w->threads, *next; s; s = next) {
    next = s->next;
    free(s->events.items);
    free(s);
  }
  free_ids(&w->images);
  free_ids(&w->frames);
  free_ids(&w->nodes);
  free(w);
}
