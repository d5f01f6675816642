/* SPDX-License-Identifier: MIT
 *
 * Filters while recording: calls that are too deep or too short leave no record.
 *
 * A deep call is kept on the thread's stack of open calls, but nothing is written, and the clock is
 * not read. A call that ends too early takes its enter back: the chunk then ends where it ended
 * before that call. This is possible while the enter is the last record, and since calls inside a
 * short call are shorter, it is, unless the chunk was closed in between, an event was lost, or a
 * call inside ended without a return. Such a call stays recorded. Readers apply the limits once
 * more (TABLE_CALL_LIMITS), so that reports have no such calls.
 *
 * All functions are called with the thread's state marked busy.
 */
#ifndef SONDE_SENSOR_TRACE_FILTER_H
#define SONDE_SENSOR_TRACE_FILTER_H

#include "record/call_record.h"
#include "sensor/trace/trace.h"

/* How many of the open calls up to C are recorded. */
static ALWAYS_INLINE uint64_t filter_recorded(const trace_thread_t *t, const trace_call_t *c) {
  uint64_t depth = (uint64_t)(c - t->calls);
  return t->deepest && depth > t->deepest ? t->deepest : depth;
}

/* True if the call C leaves no record because it is too deep. */
static ALWAYS_INLINE bool filter_hides(const trace_thread_t *t, const trace_call_t *c) {
  return t->deepest && (uint64_t)(c - t->calls) > t->deepest;
}

/* A call inside the innermost one is about to be recorded. */
static ALWAYS_INLINE void filter_begin(trace_thread_t *t) {
  if (t->flushed > t->top) t->flushed = t->top;
}

/* The innermost call ends at NOW. If it was too short, takes its enter back. */
static ALWAYS_INLINE bool filter_take_back(trace_thread_t *t, uint64_t now) {
  stream_t *s = &t->stream;
  const trace_call_t *c = t->top;
  /* The last record is the call's enter, so its time is that of the stream. */
  if (c <= t->flushed || !c->record || now - s->last_time >= t->least) return false;
  call_record_t r = call_record_get(c->record);
  if (r.kind != CALL_RECORD_ENTER || c->record + r.bytes != s->next) return false;
  if (r.bytes == 4)
    memset(c->record, 0, 4); /* one store: a reader of the open chunk stops here */
  else
    memset(c->record, 0, 8);
  s->next = c->record;
  s->last_time -= r.passed;
  s->records--;
  return true;
}

/* Reads the limits of the recording for the thread. */
void filter_start(trace_thread_t *t);

/* Writes the limits of the recording to it. */
void filter_record(void);

#endif
