/* SPDX-License-Identifier: MIT
 *
 * The events of all streams, decoded and merged by time.
 *
 * A stream is a cursor: its chunks in sequence, one of them in memory, one event decoded ahead.
 * Cursors stand in a binary heap by the time of that event. A stream's chunks are read only when
 * its turn comes, so memory follows the number of threads that were alive at one time.
 *
 * Most programs have runs of events of one thread; the top of the heap is therefore advanced in
 * place for as long as it stays below its children.
 */
#include <stdlib.h>

#include "base/varint.h"
#include "record/read_internal.h"

#define HOLD_LIMIT                                                                                 \
  64 /* ticks: an event waits at most this long for the one that must precede it                   \
      */

typedef struct cursor {
  uint64_t key;                   /* time by which it stands in the heap */
  uint32_t hold;                  /* ticks it was held back by */
  bool entered;                   /* the first chunk was opened */
  const uint8_t *start, *p, *end; /* of the payload */
  uint64_t time, address;
  uint64_t after, new_address, new_size; /* of a realloc between its two moments */
  uint32_t stack;
  uint8_t address_shift;
  bool second;             /* the second moment of a realloc is next */
  size_t place, place_end; /* in reader->chunks */
  uint8_t *buffer;
  size_t room;
  record_event_t event;
  uint32_t guesses[PREDICTOR_ENTRIES];
} cursor_t;

struct merge {
  reader_t *reader;
  cursor_t **heap;
  size_t count;
  cursor_t *given; /* its event is the caller's; advanced at the next call */
  uint64_t done_bytes, total_bytes;
};

/* ---- one stream --------------------------------------------------------------------------- */

static bool open_next_chunk(merge_t *m, cursor_t *c) {
  reader_t *r = m->reader;
  while (c->place < c->place_end) {
    const chunk_place_t *place = &r->chunks.items[c->place++];
    chunk_header_t h;
    uint32_t payload;
    m->done_bytes += place->size;
    if (!reader_chunk(r, place, &c->buffer, &c->room, &h, &payload)) continue;
    c->p = c->start = c->buffer + sizeof h;
    c->end = c->p + payload;
    c->time = h.base_time;
    c->address = h.base_address;
    c->address_shift = h.address_shift;
    c->stack = 0;
    c->event.sample_bytes = 0;
    c->event.stream = place->stream;
    memset(c->guesses, 0, sizeof c->guesses);
    return true;
  }
  return false;
}

static inline uint64_t get_address(cursor_t *c, const uint8_t **p) {
  c->address += (uint64_t)unzigzag(varint_get_padded(p));
  return c->address << c->address_shift;
}

static inline uint32_t get_stack(cursor_t *c, const uint8_t **p, unsigned head) {
  uint32_t *guess = &c->guesses[predictor_index(c->stack)];
  c->stack = head & EVENT_PREDICTED ? *guess : (uint32_t)varint_get_padded(p);
  *guess = c->stack;
  return c->stack;
}

static bool bad(merge_t *m, cursor_t *c) {
  m->reader->damage.bad_records++;
  c->p = c->end;
  return false;
}

/* The body of the extended record at P, behind its time; its subtype in *SUBTYPE. */
static const uint8_t *body_of(const cursor_t *c, const uint8_t *p, uint8_t *subtype,
                              uint64_t *size) {
  *subtype = *p++;
  *size = varint_get_padded(&p);
  return p <= c->end && *size <= (uint64_t)(c->end - p) ? p : NULL;
}

/* A call that was recorded BACK bytes before RECORD is made again: its body is the event's. */
static bool decode_repeat(cursor_t *c, const uint8_t *record, uint64_t back) {
  record_event_t *e = &c->event;
  uint64_t size;
  if (!back || back > (uint64_t)(record - c->start)) return false;
  const uint8_t *p = record - back;
  unsigned head = *p++;
  if ((head & EVENT_KIND_MASK) != EVENT_EXTENDED) return false;
  if (head >> EVENT_TIME_SHIFT == EVENT_TIME_MORE) (void)varint_get_padded(&p);
  const uint8_t *body = body_of(c, p, &e->subtype, &size);
  if (!body || e->subtype != EXTENDED_AUDIT) return false;
  e->body = body;
  e->body_size = (uint32_t)size;
  return true;
}

static bool decode_extended(merge_t *m, cursor_t *c, const uint8_t *p) {
  record_event_t *e = &c->event;
  uint64_t size, back = 0;
  const uint8_t *record = c->p;
  p = body_of(c, p, &e->subtype, &size);
  if (!p) return bad(m, c);
  e->body = p;
  e->body_size = (uint32_t)size;
  e->address = e->old = e->size = 0;
  e->stack = 0;
  c->p = p + size;
  if (e->subtype == EXTENDED_SAMPLING) varint_get(&p, c->p, &e->sample_bytes);
  if (e->subtype == EXTENDED_AUDIT_REPEAT)
    return (varint_get(&p, c->p, &back) && decode_repeat(c, record, back)) || bad(m, c);
  return true;
}

/* Decodes the event at the cursor into cursor->event; false at the end of the chunk. */
static inline bool decode(merge_t *m, cursor_t *c) {
  const uint8_t *p = c->p;
  if (p >= c->end || *p == EVENT_NONE) return false;
  unsigned head = *p++;
  uint64_t delta = head >> EVENT_TIME_SHIFT;
  if (__builtin_expect(delta == EVENT_TIME_MORE, 0)) delta += varint_get_padded(&p);
  c->time += delta;
  record_event_t *e = &c->event;
  e->time = c->time;
  e->kind = head & EVENT_KIND_MASK;
  e->moment = 0;
  switch (e->kind) {
  case EVENT_FREE:
    e->old = e->size = 0;
    e->address = get_address(c, &p);
    break;
  case EVENT_MALLOC:
  case EVENT_CALLOC:
  case EVENT_ALIGNED:
    e->old = 0;
    e->address = get_address(c, &p);
    e->size = varint_get_padded(&p);
    break;
  case EVENT_REALLOC:
    c->time += varint_get_padded(&p);
    c->after = c->time;
    e->old = get_address(c, &p);
    c->new_address = get_address(c, &p);
    c->new_size = varint_get_padded(&p);
    e->address = 0;
    e->size = 0;
    c->second = true;
    break;
  case EVENT_SAMPLE:
    e->old = e->address = 0;
    e->size = varint_get_padded(&p);
    break;
  case EVENT_EXTENDED: return decode_extended(m, c, p);
  default: return bad(m, c);
  }
  e->stack = get_stack(c, &p, head);
  if (__builtin_expect(p > c->end, 0)) {
    c->second = false;
    return bad(m, c);
  }
  c->p = p;
  return true;
}

/* Moves the cursor to its next event; false at the end of the stream. */
static inline bool advance(merge_t *m, cursor_t *c) {
  c->hold = 0;
  if (__builtin_expect(c->second, 0)) {
    c->second = false;
    c->event.moment = 1;
    c->event.time = c->after;
    c->event.address = c->new_address;
    c->event.size = c->new_size;
    c->key = c->after;
    return true;
  }
  while (!decode(m, c)) {
    if (open_next_chunk(m, c)) continue;
    free(c->buffer);
    c->buffer = NULL;
    c->room = 0;
    return false;
  }
  c->key = c->event.time;
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
  free(m->heap[0]);
  m->heap[0] = m->heap[--m->count];
  if (m->count) sift_down(m, 0);
}

const record_event_t *merge_next(merge_t *m) {
  if (m->given) {
    m->given = NULL;
    if (advance(m, m->heap[0]))
      sift_down(m, 0);
    else
      drop_top(m);
  }
  while (m->count && !m->heap[0]->entered) {
    m->heap[0]->entered = true;
    if (advance(m, m->heap[0]))
      sift_down(m, 0);
    else
      drop_top(m);
  }
  if (!m->count) return NULL;
  m->given = m->heap[0];
  return &m->given->event;
}

bool merge_hold(merge_t *m) {
  cursor_t *c = m->given;
  uint32_t further = c->hold ? 2 * c->hold : 1;
  uint64_t limit = c->event.time + HOLD_LIMIT;
  bool near =
      (m->count > 1 && m->heap[1]->key <= limit) || (m->count > 2 && m->heap[2]->key <= limit);
  if (!near || further > HOLD_LIMIT) return false;
  c->hold = further;
  c->key = c->event.time + further;
  m->given = NULL;
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
  for (size_t i = 0; m->heap && i < m->count; i++) {
    free(m->heap[i]->buffer);
    free(m->heap[i]);
  }
  free(m->heap);
  free(m);
}
