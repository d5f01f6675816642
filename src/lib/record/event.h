/* SPDX-License-Identifier: MIT
 *
 * Writes one allocation event to a stream: docs/format.md, "Records of events".
 *
 * The fields are stored first and the first byte last. The chunk was zeroed, so a kill at any
 * instruction leaves either the whole record or the end of the stream. Stores of 8 bytes may reach
 * behind a field's end; they write zeros there.
 */
#ifndef SONDE_RECORD_EVENT_H
#define SONDE_RECORD_EVENT_H

#include "base/varint.h"
#include "record/writer.h"

/* Writes VALUE as a varint of at most 8 bytes. A larger value, which no address or size has,
 * becomes the maximum. */
static ALWAYS_INLINE unsigned event_varint(uint8_t *out, uint64_t value) {
  if (UNLIKELY(value > VARINT_SHORT_MAX)) value = VARINT_SHORT_MAX;
  return varint_put_short(out, value);
}

/* Closes the chunk because an address has bits that the shift would drop; the next chunk has no
 * shift.
 */
NOINLINE bool event_unshift(stream_t *s);

static ALWAYS_INLINE bool event_reserve(stream_t *s, uint64_t address) {
  if (UNLIKELY(s->next >= s->limit) && !writer_reserve(s, EVENT_MAX_BYTES)) return false;
  if (UNLIKELY(address & ((UINT64_C(1) << s->address_shift) - 1))) return event_unshift(s);
  return true;
}

/* Puts the time into the first byte and, if needed, a varint of the rest. */
static ALWAYS_INLINE uint8_t *event_time(stream_t *s, uint8_t *q, uint64_t time, unsigned *head) {
  uint64_t delta = LIKELY(time > s->last_time) ? time - s->last_time : 0;
  s->last_time += delta;
  if (LIKELY(delta < EVENT_TIME_MORE)) {
    *head |= (unsigned)delta << EVENT_TIME_SHIFT;
    return q;
  }
  *head |= EVENT_TIME_MORE << EVENT_TIME_SHIFT;
  return q + event_varint(q, delta - EVENT_TIME_MORE);
}

static ALWAYS_INLINE uint8_t *event_address(stream_t *s, uint8_t *q, uint64_t address) {
  uint64_t shifted = address >> s->address_shift;
  uint64_t delta = zigzag((int64_t)(shifted - s->last_address));
  s->last_address = shifted;
  return q + event_varint(q, delta);
}

static ALWAYS_INLINE uint8_t *event_stack(stream_t *s, uint8_t *q, uint32_t stack, unsigned *head) {
  uint32_t *guess = &s->predicted[predictor_index(s->last_stack)];
  s->last_stack = stack;
  if (*guess == stack) {
    *head |= EVENT_PREDICTED;
    return q;
  }
  *guess = stack;
  return q + varint_put_short(q, stack);
}

static ALWAYS_INLINE void event_commit(stream_t *s, uint8_t *end, unsigned head) {
  s->records++;
  store_release(s->next, (uint8_t)head);
  s->next = end;
}

/* An extended record without a time: SUBTYPE and one number. */
static inline bool event_put_extended(stream_t *s, uint8_t subtype, uint64_t value) {
  if (UNLIKELY(!event_reserve(s, 0))) return false;
  uint8_t *q = s->next + 1;
  *q++ = subtype;
  *q++ = (uint8_t)(varint_short_size(value) << 1 | 1); /* the length, as a varint */
  q += event_varint(q, value);
  event_commit(s, q, EVENT_EXTENDED);
  return true;
}

/* An allocation (EVENT_MALLOC, EVENT_CALLOC, EVENT_ALIGNED) of SIZE bytes at ADDRESS at TIME
 * (shifted ticks, read after the call). Returns false if it could not be written. */
static ALWAYS_INLINE bool event_put_new(stream_t *s, event_kind_t kind, uint64_t time,
                                        uint64_t address, uint64_t size, uint32_t stack) {
  if (UNLIKELY(!event_reserve(s, address))) return false;
  unsigned head = kind;
  uint8_t *q = event_time(s, s->next + 1, time, &head);
  q = event_address(s, q, address);
  q += event_varint(q, size);
  q = event_stack(s, q, stack, &head);
  event_commit(s, q, head);
  return true;
}

/* A free of ADDRESS; TIME was read before the call. */
static ALWAYS_INLINE bool event_put_free(stream_t *s, uint64_t time, uint64_t address,
                                         uint32_t stack) {
  if (UNLIKELY(!event_reserve(s, address))) return false;
  unsigned head = EVENT_FREE;
  uint8_t *q = event_time(s, s->next + 1, time, &head);
  q = event_address(s, q, address);
  q = event_stack(s, q, stack, &head);
  event_commit(s, q, head);
  return true;
}

/* A sample of the thread's CPU time, which also counts for the MISSED ticks before it. */
static inline bool event_put_sample(stream_t *s, uint64_t time, uint64_t missed, uint32_t stack) {
  if (UNLIKELY(!event_reserve(s, 0))) return false;
  unsigned head = EVENT_SAMPLE;
  uint8_t *q = event_time(s, s->next + 1, time, &head);
  q += event_varint(q, missed);
  q = event_stack(s, q, stack, &head);
  event_commit(s, q, head);
  return true;
}

/* A successful realloc: OLD (not 0) was freed after BEFORE; SIZE bytes at ADDRESS were allocated at
 * AFTER. */
static inline bool event_put_realloc(stream_t *s, uint64_t before, uint64_t after, uint64_t old,
                                     uint64_t address, uint64_t size, uint32_t stack) {
  if (UNLIKELY(!event_reserve(s, old | address))) return false;
  unsigned head = EVENT_REALLOC;
  uint8_t *q = event_time(s, s->next + 1, before, &head);
  uint64_t took = after > s->last_time ? after - s->last_time : 0;
  s->last_time += took;
  q += event_varint(q, took);
  q = event_address(s, q, old);
  q = event_address(s, q, address);
  q += event_varint(q, size);
  q = event_stack(s, q, stack, &head);
  event_commit(s, q, head);
  return true;
}

#endif
