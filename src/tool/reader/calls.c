/* SPDX-License-Identifier: MIT
 *
 * Decodes chunks of calls (docs/format.md, "Records of calls"). A hostile chunk can only invent
 * calls: this file tracks the depth and rejects a step that ends a call when none is open.
 */
#include "reader/calls.h"

#include <stdlib.h>

#include "record/call_record.h"
#include "reader/internal.h"

/* A record adds at most so many unknown calls, which bounds a hostile depth. */
#define DEPTH_MAX (UINT64_C(1) << 24)

struct calls {
  reader_t *reader;
  /* in reader->chunks */
  size_t place, place_end;
  chunk_buffer_t buffer;
  const uint8_t *p, *end;
  /* in units of the chunk */
  uint64_t time;
  unsigned shift;
  /* of the next chunk */
  uint32_t stream, sequence;
  /* open calls */
  uint64_t depth;
  /* steps of pending_what that are still to be returned */
  uint64_t pending;
  call_what_t pending_what;
  uint64_t lost;
  /* the size of the chunks before `place` */
  uint64_t bytes;
};

static bool is_calls(const chunk_place_t *p) { return p->type == CHUNK_CALLS; }

calls_t *calls_open(reader_t *r, size_t *place) {
  size_t first = *place, end;
  while (first < r->chunks.count && !is_calls(&r->chunks.items[first]))
    first++;
  if (first == r->chunks.count) return NULL;
  for (end = first; end < r->chunks.count && is_calls(&r->chunks.items[end]) &&
                    r->chunks.items[end].stream == r->chunks.items[first].stream;)
    end++;
  *place = end;
  calls_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->reader = r;
  c->place = first;
  c->place_end = end;
  c->stream = r->chunks.items[first].stream;
  return c;
}

uint32_t calls_stream(const calls_t *c) { return c->stream; }
uint64_t calls_lost(const calls_t *c) { return c->lost; }
uint64_t calls_read(const calls_t *c) { return c->bytes; }
uint64_t calls_last_time(const calls_t *c) { return c->time << c->shift; }

void calls_close(calls_t *c) {
  if (!c) return;
  free(c->buffer.bytes);
  free(c);
}

uint64_t calls_bytes(const reader_t *r) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < r->chunks.count; i++)
    if (is_calls(&r->chunks.items[i])) bytes += r->chunks.items[i].size;
  return bytes;
}

static void queue_steps(calls_t *c, call_what_t what, uint64_t count) {
  c->pending_what = what;
  c->pending = count;
}

static bool next_chunk(calls_t *c) {
  chunk_header_t h;
  while (!reader_chunk(&c->buffer, &h, &c->p, &c->end)) {
    if (c->place == c->place_end) return false;
    const chunk_place_t *place = &c->reader->chunks.items[c->place++];
    c->bytes += place->size;
    if (!reader_place(c->reader, place, &c->buffer)) c->buffer.size = c->buffer.at = 0;
  }
  c->time = h.base_time;
  c->shift = h.address_shift < 32 ? h.address_shift : 0;
  if (h.sequence != c->sequence) queue_steps(c, CALL_DROPPED, c->depth);
  c->sequence = h.sequence + 1;
  return true;
}

static bool bad(calls_t *c) {
  c->reader->damage.bad_records++;
  c->p = c->end;
  return false;
}

/* Returns one of the equal steps that a record represents. */
static bool next_pending(calls_t *c, call_step_t *out) {
  c->pending--;
  out->what = c->pending_what;
  out->time = c->time << c->shift;
  out->frame = 0;
  c->depth += c->pending_what == CALL_UNKNOWN ? 1 : UINT64_MAX;
  return true;
}

static bool step(calls_t *c, call_step_t *out, call_what_t what, uint64_t passed, uint32_t frame) {
  c->time += passed;
  if (what == CALL_ENDED && !c->depth) return bad(c);
  if (what != CALL_STRAY) c->depth += what == CALL_ENTERED ? 1 : UINT64_MAX;
  out->what = what;
  out->time = c->time << c->shift;
  out->frame = frame;
  return true;
}

static bool set_depth(calls_t *c, uint64_t depth) {
  if (depth > c->depth + DEPTH_MAX) return bad(c);
  if (depth < c->depth)
    queue_steps(c, CALL_DROPPED, c->depth - depth);
  else
    queue_steps(c, CALL_UNKNOWN, depth - c->depth);
  return false;
}

/* Applies record R; false if it is not a step by itself. */
static bool apply(calls_t *c, const call_record_t *r, call_step_t *out) {
  switch (r->kind) {
  case CALL_RECORD_ENTER: return step(c, out, CALL_ENTERED, r->passed, (uint32_t)r->value);
  case CALL_RECORD_EXIT: return step(c, out, CALL_ENDED, r->passed, 0);
  case CALL_RECORD_UNMATCHED: return step(c, out, CALL_STRAY, r->passed, 0);
  case CALL_RECORD_TIME: c->time += r->passed; return false;
  case CALL_RECORD_DEPTH: return set_depth(c, r->value);
  case CALL_RECORD_LOST:
    c->lost += r->value;
    queue_steps(c, CALL_DROPPED, c->depth);
    return false;
  case CALL_RECORD_UNWOUND:
    if (r->value > c->depth) return bad(c);
    queue_steps(c, CALL_UNWOUND, r->value);
    return false;
  default: return bad(c);
  }
}

bool calls_next(calls_t *c, call_step_t *out) {
  for (;;) {
    if (c->pending) return next_pending(c, out);
    if (c->p >= c->end || !*c->p) {
      if (!next_chunk(c)) return false;
      continue;
    }
    call_record_t record = call_record_get(c->p); /* READ_PADDING zeros follow the chunk */
    c->p += record.bytes;
    if (apply(c, &record, out)) return true;
  }
}

/* ---- times and costs ------------------------------------------------------------------- */

double reader_clock_rate(const reader_t *r) {
  const record_header_t *h = &r->header;
  if (h->end_ticks <= h->start_ticks || h->end_monotonic_ns <= h->start_monotonic_ns) return 1;
  return (double)(h->end_monotonic_ns - h->start_monotonic_ns) /
         (double)(h->end_ticks - h->start_ticks);
}

double reader_clock_ns(const reader_t *r, uint64_t clock) {
  return ((double)clock - (double)r->header.start_ticks) * reader_clock_rate(r);
}

uint64_t reader_patched(const reader_t *r, move_fault_t reason) { return r->patched[reason]; }

call_limits_t reader_call_limits(const reader_t *r) {
  return (call_limits_t){r->least_call_ns, r->call_depth};
}

call_cost_t reader_call_cost(const reader_t *r) {
  return (call_cost_t){r->cost_pair, r->cost_inside};
}
