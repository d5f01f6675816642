/* SPDX-License-Identifier: MIT
 *
 * Records of the tables: process, images, threads, frames, stack nodes. The thread that discovers
 * an item writes its record to its own stream of tables before the item's id can be used. So
 * everything that an event names is defined in the recording, whichever thread recorded the event.
 */
#include "base/varint.h"
#include "record/writer.h"

/* A record that is being built: the body is copied to the stream, its type byte last. */
typedef struct body {
  uint8_t bytes[TABLE_RECORD_MAX];
  uint32_t used;
} body_t;

static void put_value(body_t *b, uint64_t value) {
  if (b->used + VARINT_MAX_SIZE <= TABLE_BODY_MAX) b->used += varint_put(b->bytes + b->used, value);
}

/* A string: its length, then its bytes, truncated at the end of the record. */
static void put_bytes(body_t *b, const void *data, uint32_t size) {
  uint32_t room = TABLE_BODY_MAX - b->used;
  if (room < VARINT_MAX_SIZE) return;
  if (size > room - VARINT_MAX_SIZE) size = room - VARINT_MAX_SIZE;
  put_value(b, size);
  memcpy(b->bytes + b->used, data, size);
  b->used += size;
}

static uint32_t text_size(const char *text) {
  uint32_t n = 0;
  while (text[n] && n < 4096)
    n++;
  return n;
}

static void put_record(uint8_t *out, table_type_t type, const body_t *b) {
  unsigned n = varint_put(out + 1, b->used);
  memcpy(out + 1 + n, b->bytes, b->used);
  store_release(out, (uint8_t)type);
}

static bool write_body(table_type_t type, const body_t *b) {
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  if (!w) return false;
  uint32_t depth = w->depth;
  /* Outside an event the level must be entered, or a signal handler would write to the same place.
   */
  if (!depth) w->depth = 1;
  signal_fence();
  stream_t *s = &w->tables[depth ? depth - 1 : 0];
  uint32_t size = 1 + varint_short_size(b->used) + b->used;
  bool there = writer_reserve(s, size + 8);
  if (there) {
    put_record(s->next, type, b);
    s->next += size;
    s->records++;
  } else {
    add_relaxed(&w->control->lost_definitions, 1);
  }
  signal_fence();
  w->depth = depth;
  return there;
}

static uint64_t now(void) {
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  return w ? writer_now(w) : 0;
}

bool writer_image(uint32_t id, uint64_t start, uint64_t end, uint64_t slide,
                  const uint8_t *build_id, uint32_t build_id_size, const char *path) {
  body_t b;
  b.used = 0;
  put_value(&b, id);
  put_value(&b, now());
  put_value(&b, start);
  put_value(&b, end);
  put_value(&b, slide);
  put_bytes(&b, build_id, build_id_size);
  put_bytes(&b, path ? path : "", path ? text_size(path) : 0);
  return write_body(TABLE_IMAGE, &b);
}

bool writer_unloaded(uint32_t id) {
  body_t b;
  b.used = 0;
  put_value(&b, id);
  put_value(&b, now());
  return write_body(TABLE_UNLOADED, &b);
}

bool writer_frame(uint32_t id, uint64_t pc, uint32_t image, uint32_t flags) {
  body_t b;
  b.used = 0;
  put_value(&b, id);
  put_value(&b, pc);
  put_value(&b, image);
  put_value(&b, flags);
  return write_body(TABLE_FRAME, &b);
}

bool writer_python(uint32_t id, uint32_t line, const char *function, const char *file) {
  body_t b;
  b.used = 0;
  put_value(&b, id);
  put_value(&b, 0);
  put_value(&b, line);
  put_bytes(&b, function, text_size(function));
  put_bytes(&b, file, text_size(file));
  return write_body(TABLE_FUNCTIONS, &b);
}

bool writer_node(uint32_t id, uint32_t parent, uint32_t frame) {
  body_t b;
  b.used = 0;
  put_value(&b, id);
  put_value(&b, parent);
  put_value(&b, frame);
  return write_body(TABLE_NODE, &b);
}

bool writer_record(table_type_t type, const void *body, uint32_t size) {
  body_t b;
  if (size > TABLE_BODY_MAX) return false;
  memcpy(b.bytes, body, size);
  b.used = size;
  return write_body(type, &b);
}

/* The time is read before the name, so a newer name is recorded with a later time. */
static void begin_thread(body_t *b, const stream_t *events, pid_t tid, uint32_t level) {
  b->used = 0;
  put_value(b, events->id);
  put_value(b, (uint64_t)tid);
  put_value(b, now());
  put_value(b, level);
}

bool writer_thread_record(const stream_t *events, pid_t tid, uint32_t level) {
  body_t b;
  char name[32];
  begin_thread(&b, events, tid, level);
  ssize_t n = os_thread_name_here(name, sizeof name);
  while (n > 0 && name[n - 1] == '\n')
    n--;
  put_bytes(&b, name, n > 0 ? (uint32_t)n : 0);
  return write_body(TABLE_THREAD, &b);
}

bool writer_thread_name(const stream_t *events, pid_t tid, uint32_t level, const char *name) {
  body_t b;
  uint32_t size = 0;
  while (size < THREAD_NAME_MAX && name[size])
    size++;
  begin_thread(&b, events, tid, level);
  put_bytes(&b, name, size);
  return write_body(TABLE_THREAD, &b);
}

bool writer_table(table_type_t type, const uint64_t *values, uint32_t count, const char *text) {
  body_t b;
  b.used = 0;
  for (uint32_t i = 0; i < count; i++)
    put_value(&b, values[i]);
  if (text) put_bytes(&b, text, text_size(text));
  return write_body(type, &b);
}

void writer_process(void) {
  char text[4096];
  body_t b;
  b.used = 0;
  put_value(&b, writer_control()->pid);
  ssize_t n = os_program_path(text, sizeof text);
  put_bytes(&b, text, n > 0 ? (uint32_t)n : 0);
  n = os_program_arguments(text, sizeof text);
  for (ssize_t at = 0; at < n;) {
    uint32_t size = text_size(text + at);
    put_bytes(&b, text + at, size);
    at += size + 1;
  }
  write_body(TABLE_PROCESS, &b);
}
