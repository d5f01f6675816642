/* SPDX-License-Identifier: MIT
 *
 * Decodes the events of all streams and merges them by time.
 *
 * Each stream has a cursor: its chunks in sequence, one of them in memory, with some of its events
 * decoded ahead. A binary heap orders the cursors by the time of their next event. A cursor reads
 * its first chunk only when it reaches the top of the heap. So memory use is proportional to the
 * number of threads that were alive at the same time.
 *
 * Most programs have runs of events of one thread. One call of merge_run returns all events of the
 * top cursor that precede the next event of every other stream.
 */
#include <stddef.h>
#include <stdlib.h>

#include "base/varint.h"
#include "reader/merge.h"
#include "reader/internal.h"

/* AHEAD is the capacity of the buffer of decoded events. The buffer is refilled when at most
 * LOOKAHEAD events remain, so more than LOOKAHEAD events are decoded except near the end of a
 * chunk. */
#define AHEAD     256
#define LOOKAHEAD 32

/* The decoding state of a stream. */
typedef struct decoder {
  const uint8_t *start, *p, *end; /* of the payload */
  uint64_t time, address, sample_bytes;
  uint32_t stack, stream;
  uint8_t address_shift;
  chunk_buffer_t buffer;
  /* events of the chunk that are decoded, and those of the place where reading resumes */
  uint64_t decoded, read_before;
  /* the last events that were decoded had been read before; more may follow in the chunk */
  bool has_skipped;
  /* of events: the next one, and the end */
  uint32_t first, behind;
  record_event_t events[AHEAD];
  uint32_t guesses[PREDICTOR_ENTRIES];
} decoder_t;

typedef struct cursor {
  /* the time that orders the heap */
  uint64_t key;
  /* ticks by which its next event was deferred */
  uint32_t deferred;
  /* the sequence number of its chunk */
  uint32_t sequence;
  /* NULL before its first chunk is opened */
  decoder_t *decoder;
  /* in reader->chunks */
  size_t place, place_end;
} cursor_t;

struct merge {
  reader_t *reader;
  cursor_t **heap;
  size_t count;
  /* merge_next returned the first event; its next call consumes it */
  bool returned;
  uint64_t done_bytes, total_bytes;
};

/* ---- one stream --------------------------------------------------------------------------- */

/* The events of the chunk that an earlier reader has read. */
static uint64_t resumed_events(const reader_t *r, uint32_t stream, uint32_t sequence) {
  const stream_place_t *place = reader_resumed(r, stream);
  return place && place->sequence == sequence ? place->events : 0;
}

static bool open_next_chunk(merge_t *m, cursor_t *c) {
  reader_t *r = m->reader;
  decoder_t *d = c->decoder;
  chunk_header_t h;
  while (!reader_chunk(&d->buffer, &h, &d->start, &d->end)) {
    if (c->place == c->place_end) return false;
    const chunk_place_t *place = &r->chunks.items[c->place++];
    m->done_bytes += place->size;
    d->stream = place->stream;
    if (!reader_place(r, place, &d->buffer)) d->buffer.size = d->buffer.at = 0;
  }
  c->sequence = h.sequence;
  d->decoded = 0;
  d->read_before = resumed_events(r, d->stream, h.sequence);
  d->p = d->start;
  d->time = h.base_time;
  d->address = h.base_address;
  d->address_shift = h.address_shift;
  d->stack = 0;
  d->sample_bytes = 0;
  memset(d->guesses, 0, sizeof d->guesses);
  return true;
}

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

static bool bad(merge_t *m, decoder_t *d) {
  m->reader->damage.bad_records++;
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
                          record_event_t *e) {
  uint64_t size;
  if (!back || back > (uint64_t)(record - d->start)) return false;
  const uint8_t *p = record - back;
  unsigned head = *p++;
  if ((head & EVENT_KIND_MASK) != EVENT_EXTENDED) return false;
  if (head >> EVENT_TIME_SHIFT == EVENT_TIME_MORE) (void)varint_get_padded(&p);
  const uint8_t *body = body_of(d, p, &e->subtype, &size);
  if (!body || e->subtype != EXTENDED_AUDIT) return false;
  e->body = body;
  e->body_size = (uint32_t)size;
  return true;
}

static bool decode_extended(merge_t *m, decoder_t *d, const uint8_t *p, record_event_t *e) {
  uint64_t size, back = 0;
  const uint8_t *record = d->p;
  p = body_of(d, p, &e->subtype, &size);
  if (!p) return bad(m, d);
  e->body = p;
  e->body_size = (uint32_t)size;
  d->p = p + size;
  if (e->subtype == EXTENDED_SAMPLING) varint_get(&p, d->p, &d->sample_bytes);
  if (e->subtype == EXTENDED_AUDIT_REPEAT &&
      !(varint_get(&p, d->p, &back) && decode_repeat(d, record, back, e)))
    return bad(m, d);
  d->behind++;
  return true;
}

/* Decodes the event at D->p, a realloc as two; false at the end of the chunk. */
static inline bool decode(merge_t *m, decoder_t *d) {
  const uint8_t *p = d->p;
  if (p >= d->end || !chunk_has_record(&d->buffer, p)) return false;
  unsigned head = *p++;
  uint64_t delta = head >> EVENT_TIME_SHIFT, took = 0, given = 0, size = 0;
  if (__builtin_expect(delta == EVENT_TIME_MORE, 0)) delta += varint_get_padded(&p);
  d->time += delta;
  record_event_t *e = &d->events[d->behind];
  *e = (record_event_t){.time = d->time,
                        .sample_bytes = d->sample_bytes,
                        .stream = d->stream,
                        .kind = head & EVENT_KIND_MASK};
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
    e->old = get_address(d, &p);
    given = get_address(d, &p);
    size = varint_get_padded(&p);
    break;
  case EVENT_SAMPLE: e->size = varint_get_padded(&p); break;
  case EVENT_EXTENDED: return decode_extended(m, d, p, e);
  default: return bad(m, d);
  }
  e->stack = get_stack(d, &p, head);
  if (__builtin_expect(m->reader->code_times != NULL, 0))
    e->stack = reader_stack_then(m->reader, e->stack, e->time);
  if (__builtin_expect(p > d->end, 0)) return bad(m, d);
  d->p = p;
  d->behind++;
  if (e->kind == EVENT_REALLOC) {
    record_event_t *second = &d->events[d->behind++];
    *second = *e;
    second->moment = 1;
    second->time = d->time += took;
    second->address = given;
    second->size = size;
  }
  return true;
}

/* ADDED events were decoded. A chunk begins with an empty buffer, so these are the next ones. If
 * there are none, the chunk has fewer than before. */
static void skip_read(decoder_t *d, uint32_t added) {
  uint32_t skipped = d->read_before < added ? (uint32_t)d->read_before : added;
  d->read_before = added ? d->read_before - skipped : 0;
  d->has_skipped = skipped > 0;
  d->first += skipped;
}

/* Decodes events of the current chunk until the buffer is full. */
static void __attribute__((noinline)) decode_ahead(merge_t *m, decoder_t *d) {
  uint32_t left = d->behind - d->first;
  memmove(d->events, d->events + d->first, left * sizeof *d->events);
  d->first = 0;
  d->behind = left;
  while (d->behind < AHEAD - 1 && decode(m, d)) {
  }
  uint32_t added = d->behind - left;
  d->decoded += added;
  if (__builtin_expect(d->read_before != 0 || d->has_skipped, 0)) skip_read(d, added);
}

static bool start_stream(cursor_t *c) {
  c->decoder = malloc(sizeof *c->decoder);
  if (!c->decoder) return false; /* out of memory: its events are counted as missing */
  memset(c->decoder, 0, offsetof(decoder_t, events));
  return true;
}

/* A chunk that cannot be read may be one whose writing goes on, so it does not count. */
static void note_reached(merge_t *m, const cursor_t *c) {
  const decoder_t *d = c->decoder;
  if (!m->reader->resume || !d || !d->start) return;
  const stream_place_t place = {d->stream, c->sequence, d->decoded};
  if (!reader_note_reached(m->reader, &place)) m->reader->damage.missing_chunks++;
}

static void end_stream(cursor_t *c) {
  if (c->decoder) free(c->decoder->buffer.bytes);
  free(c->decoder);
  free(c);
}

/* Ensures that the cursor has a next event; false at the end of the stream. Events point into their
 * chunk, so the next chunk is opened only after all events of this one are consumed. */
static inline bool refill(merge_t *m, cursor_t *c) {
  if (__builtin_expect(!c->decoder, 0) && !start_stream(c)) {
    m->reader->damage.missing_chunks += c->place_end - c->place;
    return false;
  }
  decoder_t *d = c->decoder;
  if (d->behind - d->first <= LOOKAHEAD) decode_ahead(m, d);
  while (__builtin_expect(d->first == d->behind, 0)) {
    if (!d->has_skipped && !d->read_before && !open_next_chunk(m, c)) return false;
    decode_ahead(m, d);
  }
  c->deferred = 0;
  c->key = d->events[d->first].time;
  return true;
}

/* ---- the heap ----------------------------------------------------------------------------- */

static void sift_down(merge_t *m, size_t i) {
  cursor_t *c = m->heap[i];
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= m->count) break;
    if (child + 1 < m->count && m->heap[child + 1]->key < m->heap[child]->key) child++;
    if (m->heap[child]->key >= c->key) break;
    m->heap[i] = m->heap[child];
    i = child;
  }
  m->heap[i] = c;
}

static void drop_top(merge_t *m) {
  note_reached(m, m->heap[0]);
  end_stream(m->heap[0]);
  m->heap[0] = m->heap[--m->count];
  if (m->count) sift_down(m, 0);
}

/* Advances the top of the heap to its next event, or removes it at its end. */
static void next_of_top(merge_t *m) {
  if (refill(m, m->heap[0]))
    sift_down(m, 0);
  else
    drop_top(m);
}

/* The time until which the top of the heap precedes all others. */
static uint64_t limit_of_top(const merge_t *m) {
  uint64_t limit = UINT64_MAX;
  for (size_t i = 1; i <= 2 && i < m->count; i++)
    if (m->heap[i]->key < limit) limit = m->heap[i]->key;
  return limit;
}

bool merge_run(merge_t *m, merge_run_t *run) {
  while (m->count && !m->heap[0]->decoder)
    next_of_top(m);
  if (!m->count) return false;
  const decoder_t *d = m->heap[0]->decoder;
  uint64_t limit = limit_of_top(m);
  run->events = d->events + d->first;
  run->known = d->behind - d->first;
  run->count = 1;
  uint32_t most =
      run->known > LOOKAHEAD ? run->known - LOOKAHEAD : run->known; /* the rest is lookahead */
  while (run->count < most && run->events[run->count].time <= limit)
    run->count++;
  return true;
}

void merge_consume(merge_t *m, uint32_t n) {
  if (!n) return;
  m->heap[0]->decoder->first += n;
  next_of_top(m);
}

const record_event_t *merge_next(merge_t *m) {
  merge_run_t run;
  merge_consume(m, m->returned);
  m->returned = merge_run(m, &run);
  return m->returned ? run.events : NULL;
}

bool merge_defer(merge_t *m, uint32_t n) {
  cursor_t *c = m->heap[0];
  uint32_t held = n ? 0 : c->deferred, further = held ? 2 * held : 1;
  uint64_t time = c->decoder->events[c->decoder->first + n].time;
  if (limit_of_top(m) > time + MERGE_DEFER_TICKS || further > MERGE_DEFER_TICKS) return false;
  c->decoder->first += n;
  c->deferred = further;
  c->key = time + further;
  sift_down(m, 0);
  return true;
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool add_stream(merge_t *m, size_t first, size_t end) {
  cursor_t *c = calloc(1, sizeof *c);
  if (!c) return false;
  c->place = first;
  c->place_end = end;
  c->key = m->reader->chunks.items[first].base_time;
  size_t i = m->count++;
  while (i && m->heap[(i - 1) / 2]->key > c->key) {
    m->heap[i] = m->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  m->heap[i] = c;
  return true;
}

merge_t *merge_open(reader_t *r) {
  merge_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->reader = r;
  r->reached.count = 0;
  m->heap = calloc(r->chunks.count + 1, sizeof *m->heap);
  bool good = m->heap != NULL;
  for (size_t i = 0; good && i < r->chunks.count;) {
    const chunk_place_t *first = &r->chunks.items[i];
    size_t end = i;
    for (; end < r->chunks.count && r->chunks.items[end].type == first->type &&
           r->chunks.items[end].stream == first->stream;
         end++)
      if (first->type == CHUNK_EVENTS) m->total_bytes += r->chunks.items[end].size;
    if (first->type == CHUNK_EVENTS) good = add_stream(m, i, end);
    i = end;
  }
  if (!good) {
    merge_close(m);
    return NULL;
  }
  return m;
}

void merge_progress(const merge_t *m, uint64_t *done, uint64_t *total) {
  *done = m->done_bytes;
  *total = m->total_bytes;
}

void merge_close(merge_t *m) {
  if (!m) return;
  for (size_t i = 0; m->heap && i < m->count; i++)
    end_stream(m->heap[i]);
  free(m->heap);
  free(m);
}
