/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "reader/decode.h"

struct decoder {
  const reader_t *reader;
  /* in reader->chunks: the next place, and the end */
  size_t place, place_end;
  /* of the payload; P is NULL between two chunks */
  const uint8_t *start, *p, *end;
  uint64_t time, address, sample_bytes;
  uint32_t stack, stream, sequence;
  uint8_t address_shift;
  /* of the current place, one of `buffers` */
  chunk_buffer_t *buffer;
  /* events of the chunk that are decoded, and those of the place where reading resumes */
  uint64_t decoded, read_before;
  /* since the last batch */
  decode_counts_t counts;
  uint32_t guesses[PREDICTOR_ENTRIES];
  chunk_buffer_t buffers[DECODER_BUFFERS];
};

/* ---- chunks ------------------------------------------------------------------------------- */

/* The events of the chunk that an earlier reader has read. */
static uint64_t resumed_events(const reader_t *r, uint32_t stream, uint32_t sequence) {
  const stream_place_t *place = reader_resumed(r, stream);
  return place && place->sequence == sequence ? place->events : 0;
}

/* Begins the next chunk of the current place. */
static bool begin_chunk(decoder_t *d) {
  chunk_header_t h;
  if (!reader_chunk(d->buffer, &h, &d->start, &d->end)) return false;
  d->sequence = h.sequence;
  d->decoded = 0;
  d->read_before = resumed_events(d->reader, d->stream, h.sequence);
  d->p = d->start;
  d->time = h.base_time;
  d->address = h.base_address;
  d->address_shift = h.address_shift;
  d->stack = 0;
  d->sample_bytes = 0;
  memset(d->guesses, 0, sizeof d->guesses);
  return true;
}

/* Reads the next place into BUFFER. */
static void read_place(decoder_t *d, chunk_buffer_t *buffer) {
  const chunk_place_t *place = &d->reader->chunks.items[d->place++];
  d->stream = place->stream;
  d->buffer = buffer;
  d->counts.place_bytes += place->size;
  if (reader_read_place(d->reader, place, buffer, &d->counts.damaged_chunks)) return;
  if (!buffer->bytes) d->counts.missing_chunks++;
  buffer->size = buffer->at = 0;
}

/* ---- events ------------------------------------------------------------------------------- */

static inline uint64_t get_address(decoder_t *d, const uint8_t **p) {
  d->address += (uint64_t)unzigzag(varint_get_padded(p));
  return d->address << d->address_shift;
}

static inline uint32_t get_stack(decoder_t *d, const uint8_t **p, unsigned head) {
  uint32_t *guess = &d->guesses[predictor_index(d->stack)];
  d->stack = head & EVENT_PREDICTED ? *guess : (uint32_t)varint_get_padded(p);
  *guess = d->stack;
  return d->stack;
}

static bool bad(decoder_t *d) {
  d->counts.bad_records++;
  d->p = d->end;
  return false;
}

/* Returns the body of an extended record, or NULL if the record is damaged. P points behind the
 * record's time. Sets *SUBTYPE and *SIZE. */
static const uint8_t *body_of(const decoder_t *d, const uint8_t *p, uint8_t *subtype,
                              uint64_t *size) {
  *subtype = *p++;
  *size = varint_get_padded(&p);
  return p <= d->end && *size <= (uint64_t)(d->end - p) ? p : NULL;
}

/* Repeats the call that was recorded BACK bytes before RECORD: the event has the same body. */
static bool decode_repeat(const decoder_t *d, const uint8_t *record, uint64_t back,
                          merge_event_t *e) {
  uint64_t size;
  if (!back || back > (uint64_t)(record - d->start)) return false;
  const uint8_t *p = record - back;
  unsigned head = *p++;
  if ((head & EVENT_KIND_MASK) != EVENT_EXTENDED) return false;
  if (head >> EVENT_TIME_SHIFT == EVENT_TIME_MORE) (void)varint_get_padded(&p);
  const uint8_t *body = body_of(d, p, &e->subtype, &size);
  if (!body || e->subtype != EXTENDED_AUDIT) return false;
  e->body = body;
  e->size = (uint32_t)size;
  return true;
}

static bool decode_extended(decoder_t *d, event_batch_t *b, const uint8_t *p) {
  merge_event_t *e = &b->events[b->behind];
  uint64_t size, back = 0;
  const uint8_t *record = d->p;
  p = body_of(d, p, &e->subtype, &size);
  if (!p) return bad(d);
  e->body = p;
  e->size = (uint32_t)size;
  d->p = p + size;
  if (e->subtype == EXTENDED_SAMPLING) varint_get(&p, d->p, &d->sample_bytes);
  if (e->subtype == EXTENDED_AUDIT_REPEAT &&
      !(varint_get(&p, d->p, &back) && decode_repeat(d, record, back, e)))
    return bad(d);
  b->behind++;
  return true;
}

/* Adds the event at D->p to B, a realloc as two; false at the end of the chunk. */
static inline bool decode(decoder_t *d, event_batch_t *b) {
  const uint8_t *p = d->p;
  if (p >= d->end || !chunk_has_record(d->buffer, p)) return false;
  unsigned head = *p++;
  uint64_t delta = head >> EVENT_TIME_SHIFT, took = 0, given = 0, size = 0;
  if (__builtin_expect(delta == EVENT_TIME_MORE, 0)) delta += varint_get_padded(&p);
  d->time += delta;
  merge_event_t *e = &b->events[b->behind];
  *e = (merge_event_t){.time = d->time, .kind = head & EVENT_KIND_MASK};
  switch (e->kind) {
  case EVENT_FREE: e->address = get_address(d, &p); break;
  case EVENT_MALLOC:
  case EVENT_CALLOC:
  case EVENT_ALIGNED:
    e->address = get_address(d, &p);
    e->size = varint_get_padded(&p);
    break;
  case EVENT_REALLOC:
    took = varint_get_padded(&p);
    e->address = get_address(d, &p);
    given = get_address(d, &p);
    size = varint_get_padded(&p);
    break;
  case EVENT_SAMPLE: e->size = varint_get_padded(&p); break;
  case EVENT_EXTENDED: return decode_extended(d, b, p);
  default: return bad(d);
  }
  e->stack = get_stack(d, &p, head);
  if (__builtin_expect(d->reader->code_times != NULL, 0))
    e->stack = reader_stack_then(d->reader, e->stack, e->time);
  if (__builtin_expect(p > d->end, 0)) return bad(d);
  d->p = p;
  b->behind++;
  if (e->kind == EVENT_REALLOC) {
    merge_event_t *second = &b->events[b->behind++];
    *second = *e;
    second->moment = 1;
    second->time = d->time += took;
    second->address = given;
    second->size = size;
  }
  return true;
}

/* Decodes events of the current chunk until B is full or the rate of sampling changes; false at the
 * end of the chunk. Events that were read before are left out. */
static bool decode_some(decoder_t *d, event_batch_t *b) {
  b->stream = d->stream;
  b->sample_bytes = d->sample_bytes;
  while (b->behind < BATCH_END - 1 && decode(d, b) && d->sample_bytes == b->sample_bytes) {
  }
  uint32_t added = b->behind - b->first;
  d->decoded += added;
  if (__builtin_expect(d->read_before != 0, 0)) {
    uint32_t skipped = d->read_before < added ? (uint32_t)d->read_before : added;
    d->read_before -= skipped;
    b->first += skipped;
  }
  return added != 0;
}

decode_counts_t decoder_take_counts(decoder_t *d) {
  const decode_counts_t counts = d->counts;
  d->counts = (decode_counts_t){0};
  return counts;
}

decode_status_t decoder_fill(decoder_t *d, event_batch_t *b, int buffer) {
  for (;;) {
    b->first = b->behind = BATCH_START;
    if (!d->p) {
      if (d->buffer && begin_chunk(d)) continue;
      if (d->place == d->place_end) return DECODE_END;
      if (buffer < 0) return DECODE_NO_BUFFER;
      read_place(d, &d->buffers[buffer]);
    } else if (!decode_some(d, b)) {
      d->p = NULL;
    } else if (b->first < b->behind) {
      b->buffer = (uint8_t)(d->buffer - d->buffers);
      b->counts = decoder_take_counts(d);
      return DECODE_EVENTS;
    }
  }
}

bool decoder_reached(const decoder_t *d, stream_place_t *reached) {
  *reached = (stream_place_t){d->stream, d->sequence, d->decoded};
  return d->start != NULL;
}

decoder_t *decoder_new(const reader_t *reader, size_t place, size_t place_end) {
  decoder_t *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->reader = reader;
  d->place = place;
  d->place_end = place_end;
  return d;
}

void decoder_free(decoder_t *d) {
  for (int i = 0; d && i < DECODER_BUFFERS; i++)
    free(d->buffers[i].bytes);
  free(d);
}
