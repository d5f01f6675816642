/* SPDX-License-Identifier: MIT
 *
 * Merges the events of all streams by time.
 *
 * Each stream has a cursor: a batch of decoded events, and the decoder of those that follow. A
 * binary heap orders the cursors by the time of their next event. A cursor gets its first batch
 * only when it reaches the top of the heap. So memory use is proportional to the number of threads
 * that were alive at the same time.
 *
 * Most programs have runs of events of one thread. One call of merge_run returns all events of the
 * top cursor that precede the next event of every other stream.
 */
#include <stdlib.h>
#include <string.h>

#include "reader/decode.h"
#include "reader/merge.h"
#include "reader/read_ahead.h"

/* A stream with fewer places is not decoded ahead. */
#define AHEAD_PLACES 4

typedef struct cursor {
  /* the time that orders the heap */
  uint64_t key;
  /* ticks by which its next event was deferred */
  uint32_t deferred;
  /* NULL before its first chunk is opened */
  decoder_t *decoder;
  /* NEXT: decoded, but it cannot be joined to the events that are left of BATCH; NULL: none */
  event_batch_t *batch, *next;
  /* NULL: it is decoded here */
  ahead_stream_t *ahead;
  /* in reader->chunks */
  size_t place, place_end;
} cursor_t;

struct merge {
  reader_t *reader;
  cursor_t **heap;
  size_t count;
  read_ahead_t *ahead;
  /* without a stream */
  event_batch_t *spare;
  /* of merge_next: its run, how many events of that it has returned, and the last one */
  merge_run_t run;
  uint32_t returned;
  record_event_t event;
  uint64_t done_bytes, total_bytes;
};

/* ---- batches of one stream ---------------------------------------------------------------- */

/* NULL: out of memory. */
static event_batch_t *take_spare(merge_t *m) {
  event_batch_t *batch = m->spare ? m->spare : malloc(sizeof *batch);
  m->spare = NULL;
  if (batch) batch->first = batch->behind = BATCH_START;
  return batch;
}

static void release(merge_t *m, const cursor_t *c, event_batch_t *batch) {
  if (!batch) return;
  if (c->ahead) {
    read_ahead_release(m->ahead, c->ahead, batch);
  } else {
    free(m->spare);
    m->spare = batch;
  }
}

static void count(merge_t *m, decode_counts_t counts) {
  reader_damage_t *damage = &m->reader->damage;
  m->done_bytes += counts.place_bytes;
  damage->damaged_chunks += counts.damaged_chunks;
  damage->missing_chunks += counts.missing_chunks;
  damage->bad_records += counts.bad_records;
}

/* The batch after the one of C, of which events may be LEFT; NULL: it cannot be decoded yet, or
 * there is none. A batch that is decoded here and has no events left is used again. */
static event_batch_t *next_batch(merge_t *m, const cursor_t *c, uint32_t left) {
  if (c->ahead) return read_ahead_next(m->ahead, c->ahead, left == 0);
  if (!left) return decoder_fill(c->decoder, c->batch, 0) == DECODE_EVENTS ? c->batch : NULL;
  event_batch_t *batch = take_spare(m);
  if (batch && decoder_fill(c->decoder, batch, -1) == DECODE_EVENTS) return batch;
  m->spare = batch;
  return NULL;
}

/* Puts the events that are left, and the one before them, before those of the next batch. */
static void __attribute__((noinline)) advance(merge_t *m, cursor_t *c) {
  event_batch_t *old = c->batch, *next = c->next;
  uint32_t left = old ? old->behind - old->first : 0;
  if (!next) c->next = next = next_batch(m, c, left);
  if (!next || (left && (next->buffer != old->buffer || next->sample_bytes != old->sample_bytes)))
    return;
  c->next = NULL;
  count(m, next->counts);
  if (next == old) return;
  next->first -= left;
  if (left)
    memcpy(next->events + next->first - 1, old->events + old->first - 1,
           (left + 1) * sizeof *old->events);
  c->batch = next;
  release(m, c, old);
}

/* A packed place takes up to 17 MB of memory, so only one is unpacked for each stream. */
static bool can_read_ahead(const merge_t *m, const cursor_t *c) {
  return m->ahead && c->place_end - c->place >= AHEAD_PLACES &&
         m->reader->chunks.items[c->place].span == 1;
}

/* False: out of memory. */
static bool start_stream(merge_t *m, cursor_t *c) {
  c->decoder = decoder_new(m->reader, c->place, c->place_end);
  if (!c->decoder) return false;
  if (can_read_ahead(m, c)) c->ahead = read_ahead_add(m->ahead, c->decoder);
  if (!c->ahead) c->batch = take_spare(m);
  return c->ahead || c->batch;
}

/* A chunk that cannot be read may be one whose writing goes on, so it does not count. */
static void note_reached(merge_t *m, const cursor_t *c) {
  stream_place_t place;
  if (!m->reader->resume || !c->decoder || !decoder_reached(c->decoder, &place)) return;
  if (!reader_note_reached(m->reader, &place)) m->reader->damage.missing_chunks++;
}

static void end_stream(merge_t *m, cursor_t *c) {
  release(m, c, c->batch);
  release(m, c, c->next);
  if (c->ahead) read_ahead_remove(m->ahead, c->ahead);
  decoder_free(c->decoder);
  free(c);
}

/* Ensures that the cursor has a next event; false at the end of the stream. Events point into their
 * chunk, so the memory of a chunk is kept until all its events are consumed. */
static inline bool refill(merge_t *m, cursor_t *c) {
  if (__builtin_expect(!c->decoder, 0) && !start_stream(m, c)) {
    /* its events are counted as missing */
    m->reader->damage.missing_chunks += c->place_end - c->place;
    return false;
  }
  if (!c->batch || c->batch->behind - c->batch->first <= BATCH_LOOKAHEAD) advance(m, c);
  if (__builtin_expect(!c->batch || c->batch->first == c->batch->behind, 0)) return false;
  c->deferred = 0;
  c->key = c->batch->events[c->batch->first].time;
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
  if (m->heap[0]->decoder) count(m, decoder_take_counts(m->heap[0]->decoder));
  end_stream(m, m->heap[0]);
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
  const event_batch_t *b = m->heap[0]->batch;
  uint64_t limit = limit_of_top(m);
  run->events = b->events + b->first;
  run->known = b->behind - b->first;
  run->stream = b->stream;
  run->sample_bytes = b->sample_bytes;
  run->count = 1;
  /* the rest is for looking ahead */
  uint32_t most = run->known > BATCH_LOOKAHEAD ? run->known - BATCH_LOOKAHEAD : run->known;
  while (run->count < most && run->events[run->count].time <= limit)
    run->count++;
  return true;
}

record_event_t merge_event(const merge_run_t *run, uint32_t n) {
  const merge_event_t *e = &run->events[n];
  record_event_t out = {.time = e->time,
                        .sample_bytes = run->sample_bytes,
                        .stack = e->stack,
                        .stream = run->stream,
                        .kind = e->kind,
                        .moment = e->moment,
                        .subtype = e->subtype};
  if (e->kind == EVENT_EXTENDED) {
    out.body = e->body;
    out.body_size = (uint32_t)e->size;
  } else if (e->kind == EVENT_REALLOC && e->moment == 0) {
    out.old = e->address;
  } else {
    out.old = e->kind == EVENT_REALLOC ? e[-1].address : 0;
    out.address = e->address;
    out.size = e->size;
  }
  return out;
}

void merge_consume(merge_t *m, uint32_t n) {
  if (!n) return;
  m->heap[0]->batch->first += n;
  next_of_top(m);
}

const record_event_t *merge_next(merge_t *m) {
  if (m->returned == m->run.count) {
    merge_consume(m, m->returned);
    m->returned = m->run.count = 0;
    if (!merge_run(m, &m->run)) return NULL;
  }
  m->event = merge_event(&m->run, m->returned++);
  return &m->event;
}

bool merge_defer(merge_t *m, uint32_t n) {
  cursor_t *c = m->heap[0];
  uint32_t held = n ? 0 : c->deferred, further = held ? 2 * held : 1;
  uint64_t time = c->batch->events[c->batch->first + n].time;
  if (limit_of_top(m) > time + MERGE_DEFER_TICKS || further > MERGE_DEFER_TICKS) return false;
  c->batch->first += n;
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

void merge_read_ahead(merge_t *m) {
  if (!m->reader->resume && !m->ahead) m->ahead = read_ahead_start();
}

void merge_progress(const merge_t *m, uint64_t *done, uint64_t *total) {
  *done = m->done_bytes;
  *total = m->total_bytes;
}

void merge_close(merge_t *m) {
  if (!m) return;
  for (size_t i = 0; m->heap && i < m->count; i++)
    end_stream(m, m->heap[i]);
  read_ahead_stop(m->ahead);
  free(m->spare);
  free(m->heap);
  free(m);
}
