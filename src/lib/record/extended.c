/* SPDX-License-Identifier: MIT */
#include "record/extended.h"

#include "record/event.h"

void extended_number(extended_body_t *b, uint64_t value) {
  if (b->used + VARINT_MAX_SIZE <= EXTENDED_BODY_MAX)
    b->used += varint_put(b->bytes + b->used, value);
}

void extended_string(extended_body_t *b, const char *text, uint64_t size) {
  uint64_t room = EXTENDED_BODY_MAX - b->used;
  if (room < VARINT_MAX_SIZE) return;
  if (size > room - VARINT_MAX_SIZE) size = room - VARINT_MAX_SIZE;
  extended_number(b, size);
  memcpy(b->bytes + b->used, text, size);
  b->used += (uint32_t)size;
}

bool extended_put(stream_t *s, uint8_t subtype, uint64_t time, const extended_body_t *b) {
  if (!writer_reserve(s, b->used + EVENT_MAX_BYTES)) return false;
  unsigned head = EVENT_EXTENDED;
  uint8_t *q = event_time(s, s->next + 1, time, &head);
  *q++ = subtype;
  q += varint_put(q, b->used);
  memcpy(q, b->bytes, b->used);
  event_commit(s, q + b->used, head);
  return true;
}
