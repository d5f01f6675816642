/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/mapping.h"

#include "base/text.h"
#include "record/extended.h"

uint64_t mapping_before(void) {
  stream_t *s = writer_enter(RECORD_MAPPINGS);
  if (!s) return 0;
  uint64_t time = writer_now(s->writer);
  writer_leave(s);
  return time;
}

static void put_tag(extended_body_t *b, const char *tag) {
  char text[64];
  char *end = text_append(text_append(text_append(text, "["), tag), "]");
  extended_string(b, text, (uint64_t)(end - text));
}

static void put_path(extended_body_t *b, int fd) {
  char link[32] = "/proc/self/fd/", path[1024];
  ssize_t n = 0;
  if (fd >= 0) {
    *decimal_append(link + 14, (uint32_t)fd) = 0;
    n = os_read_link(link, path, sizeof path);
  }
  extended_string(b, path, n > 0 ? (uint64_t)n : 0);
}

void mapping_record(const region_t *r, uint64_t time, caller_t at) {
  stream_t *s = writer_enter(RECORD_MAPPINGS);
  if (!s) return;
  extended_body_t b;
  b.used = 0;
  if (!time) time = writer_now(s->writer);
  extended_number(&b, r->call);
  extended_number(&b, r->address);
  extended_number(&b, r->size);
  extended_number(&b, sensor_rare_stack_id(s, at));
  extended_number(&b, r->old_address);
  extended_number(&b, r->old_size);
  extended_number(&b, r->protection);
  extended_number(&b, r->flags);
  extended_number(&b, r->offset);
  if (r->tag)
    put_tag(&b, r->tag);
  else
    put_path(&b, r->fd);
  if (!extended_put(s, EXTENDED_MAPPING, time, &b)) writer_lost_event(s->writer->control);
  writer_leave(s);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static bool put_part(stream_t *s, bool first, uint64_t time, const char *text, uint64_t size) {
  extended_body_t b;
  b.used = 0;
  extended_number(&b, first);
  extended_string(&b, text, size);
  return extended_put(s, EXTENDED_MAPS, time, &b);
}

/* In parts that end with a line: a read of the kernel's text ends where a line does. */
void mapping_checkpoint(void) {
  char text[EXTENDED_BODY_MAX - 2 * VARINT_MAX_SIZE];
  stream_t *s = writer_enter(RECORD_MAPPINGS);
  if (!s) return;
  int fd = os_open_read("/proc/self/maps");
  uint64_t time = writer_now(s->writer);
  bool first = true, written = fd >= 0;
  while (written) {
    ssize_t n = os_read(fd, text, sizeof text);
    if (n <= 0) break;
    written = put_part(s, first, time, text, (uint64_t)n);
    first = false;
  }
  if (fd >= 0) os_close(fd);
  if (!written) writer_lost_event(s->writer->control);
  writer_leave(s);
}
