/* SPDX-License-Identifier: MIT
 *
 * Records of the tables: process, images, threads, frames, stack nodes. The thread that discovers
 * an item writes its record to its own stream of tables before the item's id can be used. So
 * everything that an event names is defined in the recording, whichever thread recorded the event.
 */
#include "base/text.h"
#include "record/tables.h"
#include "record/writer.h"

static bool write_body(table_type_t type, const table_body_t *b) {
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  if (!w) return false;
  uint32_t depth = w->depth;
  /* Outside an event the level must be entered, or a signal handler would write to the same place.
   */
  if (!depth) w->depth = 1;
  signal_fence();
  stream_t *s = &w->tables[depth ? depth - 1 : 0];
  uint32_t size = table_body_size(b);
  bool there = writer_reserve(s, size + 8);
  if (there) {
    table_body_put(b, (uint8_t)type, s->next);
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
  table_body_t b;
  table_body_image(&b, id, now(), start, end, slide, build_id, build_id_size, path);
  return write_body(TABLE_IMAGE, &b);
}

bool writer_unloaded(uint32_t id) {
  table_body_t b;
  b.used = 0;
  table_body_value(&b, id);
  table_body_value(&b, now());
  return write_body(TABLE_UNLOADED, &b);
}

bool writer_frame(uint32_t id, uint64_t pc, uint32_t image, uint32_t flags) {
  table_body_t b;
  b.used = 0;
  table_body_value(&b, id);
  table_body_value(&b, pc);
  table_body_value(&b, image);
  table_body_value(&b, flags);
  shm_control_t *control = image ? NULL : writer_control();
  if (control) shm_code_add(&control->code, pc);
  return write_body(TABLE_FRAME, &b);
}

bool writer_python(uint32_t id, uint32_t line, const char *function, const char *file) {
  table_body_t b;
  b.used = 0;
  table_body_value(&b, id);
  table_body_value(&b, 0);
  table_body_value(&b, line);
  table_body_text(&b, function);
  table_body_text(&b, file);
  return write_body(TABLE_FUNCTIONS, &b);
}

static bool write_numbers(table_type_t type, const uint64_t *numbers, unsigned count) {
  table_body_t b;
  b.used = 0;
  for (unsigned i = 0; i < count; i++)
    table_body_value(&b, numbers[i]);
  return write_body(type, &b);
}

bool writer_node(uint32_t id, uint32_t parent, uint32_t frame) {
  return write_numbers(TABLE_NODE, (const uint64_t[]){id, parent, frame}, 3);
}

bool writer_chain(uint32_t id, uint32_t parent, uint32_t frame, uint32_t flags) {
  return write_numbers(TABLE_CHAIN, (const uint64_t[]){id, parent, frame, flags}, 4);
}

bool writer_merged(uint32_t id, uint32_t native, uint32_t chain) {
  return write_numbers(TABLE_MERGED, (const uint64_t[]){id, native, chain}, 3);
}

bool writer_python_call(uint32_t frame) {
  return write_numbers(TABLE_PYTHON_CALL, (const uint64_t[]){frame}, 1);
}

bool writer_record(table_type_t type, const void *body, uint32_t size) {
  table_body_t b;
  if (size > TABLE_BODY_MAX) return false;
  memcpy(b.bytes, body, size);
  b.used = size;
  return write_body(type, &b);
}

/* The time is read before the name, so a newer name is recorded with a later time. */
static void begin_thread(table_body_t *b, const stream_t *events, pid_t tid, uint32_t level) {
  b->used = 0;
  table_body_value(b, events->id);
  table_body_value(b, (uint64_t)tid);
  table_body_value(b, now());
  table_body_value(b, level);
}

bool writer_thread_record(const stream_t *events, pid_t tid, uint32_t level) {
  table_body_t b;
  char name[32];
  begin_thread(&b, events, tid, level);
  ssize_t n = os_thread_name_here(name, sizeof name);
  while (n > 0 && name[n - 1] == '\n')
    n--;
  table_body_bytes(&b, name, n > 0 ? (uint32_t)n : 0);
  return write_body(TABLE_THREAD, &b);
}

bool writer_thread_name(const stream_t *events, pid_t tid, uint32_t level, const char *name) {
  table_body_t b;
  uint32_t size = 0;
  while (size < THREAD_NAME_MAX && name[size])
    size++;
  begin_thread(&b, events, tid, level);
  table_body_bytes(&b, name, size);
  return write_body(TABLE_THREAD, &b);
}

bool writer_table(table_type_t type, const uint64_t *values, uint32_t count, const char *text) {
  table_body_t b;
  b.used = 0;
  for (uint32_t i = 0; i < count; i++)
    table_body_value(&b, values[i]);
  if (text) table_body_text(&b, text);
  return write_body(type, &b);
}

void table_body_process(table_body_t *b, uint32_t pid) {
  char text[4096];
  b->used = 0;
  table_body_value(b, pid);
  ssize_t n = os_program_path(text, sizeof text);
  table_body_bytes(b, text, n > 0 ? (uint32_t)n : 0);
  n = os_program_arguments(text, sizeof text);
  for (ssize_t at = 0; at < n; at += (ssize_t)text_length(text + at) + 1)
    table_body_text(b, text + at);
}

void writer_process(void) {
  table_body_t b;
  table_body_process(&b, writer_control()->pid);
  write_body(TABLE_PROCESS, &b);
}
