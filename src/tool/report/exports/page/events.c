/* SPDX-License-Identifier: MIT */
#include "report/exports/page/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/samples.h"
#include "analysis/wall.h"

#define FIRST_UNIT_NS UINT64_C(1000)
#define SAMPLES_LIMIT 1000000u
#define WAITS_LIMIT   300000u
#define QUEUED_LIMIT  200000u

static uint64_t start_of(uint64_t ns, uint64_t length_ns) {
  return ns > length_ns ? ns - length_ns : 0;
}

/* ---- places of waits ---------------------------------------------------------------------- */

static uint64_t hash_of_page_place(const page_place_t *p) {
  uint64_t hash = hash_pair((uint64_t)p->stack << 32 | p->owner, p->address + p->is_mutex);
  return hash_number(hash_text(hash_text(hash, p->call), p->what));
}

static uint64_t hash_of_place(const void *events, size_t i) {
  return hash_of_page_place(&((const page_events_t *)events)->places.items[i]);
}

static bool is_same_place(const page_place_t *a, const page_place_t *b) {
  return a->stack == b->stack && a->owner == b->owner && a->address == b->address &&
         a->is_mutex == b->is_mutex && !strcmp(a->call, b->call) && !strcmp(a->what, b->what);
}

static const char *copy_of(page_events_t *e, const char *text) {
  return texts_add(&e->texts, (const uint8_t *)text, strlen(text));
}

/* The number of the place + 1; 0: out of memory. */
static uint32_t place_of(page_events_t *e, page_place_t place) {
  uint32_t *slot;
  if (!hash_reserve(&e->place_index, e->places.count, hash_of_place, e)) return 0;
  HASH_FIND(&e->place_index, hash_of_page_place(&place), slot) {
    if (is_same_place(&e->places.items[*slot - 1], &place)) return *slot;
  }
  place.call = copy_of(e, place.call);
  place.what = copy_of(e, place.what);
  page_place_t *item = place.call && place.what ? ARRAY_ADD(e->places) : NULL;
  if (!item) return 0;
  *item = place;
  return *slot = (uint32_t)e->places.count;
}

char *page_place_futex(const page_place_t *place, frame_names_t *names, char *out, size_t size) {
  *out = 0;
  if (place->is_mutex && *place->what)
    snprintf(out, size, "%s", place->what);
  else if (place->address && !frame_names_variable(names, place->address, out, size))
    snprintf(out, size, "0x%" PRIx64, place->address);
  return out;
}

/* ---- events ------------------------------------------------------------------------------- */

static bool add_wait(page_events_t *e, const record_event_t *event) {
  body_t b = {event->body, event->body + event->body_size, false};
  wall_period_t p = wall_period(&b);
  char call[64], what[256];
  if (b.truncated) return true;
  body_copy_text(call, sizeof call, p.call, p.call_size);
  body_copy_text(what, sizeof what, p.what, p.what_size);
  uint32_t place = place_of(e, (page_place_t){.stack = p.stack,
                                              .owner = p.owner,
                                              .call = call,
                                              .what = what,
                                              .address = p.address,
                                              .is_mutex = p.is_mutex});
  uint64_t ns = reader_ns(e->reader, event->time);
  const page_row_t row = {.from = start_of(ns, p.ns),
                          .to = ns,
                          .place = place - 1,
                          .thread = p.tid,
                          .count = p.samples,
                          .amount = p.ns};
  return place && page_rows_add(&e->waits, &row);
}

static bool add_queued(page_events_t *e, const record_event_t *event) {
  uint64_t n[4]; /* tid, time seen, on a CPU, in the run queue */
  if (!body_numbers(event, n, 4)) return true;
  uint64_t ns = reader_ns(e->reader, event->time);
  const page_row_t row = {.from = start_of(ns, n[1]),
                          .to = ns,
                          .thread = (uint32_t)n[0],
                          .count = n[2],
                          .amount = n[3]};
  return page_rows_add(&e->queued, &row);
}

static uint32_t tid_of(const page_events_t *e, uint32_t stream) {
  const record_thread_t *thread = reader_thread(e->reader, stream);
  return thread ? thread->tid : 0;
}

static bool add_sample(page_events_t *e, const record_event_t *event) {
  const page_row_t row = {.from = reader_ns(e->reader, event->time),
                          .to = PAGE_NEVER,
                          .place = event->stack,
                          .thread = tid_of(e, event->stream),
                          .count = sample_ticks(event)};
  return page_rows_add(&e->samples, &row);
}

static bool add_mark(page_events_t *e, page_marks_t *to, const record_event_t *event,
                     const char *name, size_t size) {
  if (to->count >= PAGE_MARKS_MAX) {
    e->left_out++;
    return true;
  }
  const char *copy = texts_add(&e->texts, (const uint8_t *)name, size);
  page_mark_t *mark = copy ? ARRAY_ADD(*to) : NULL;
  if (!mark) return false;
  *mark = (page_mark_t){reader_ns(e->reader, event->time), tid_of(e, event->stream), copy};
  return true;
}

static bool add_call(page_events_t *e, const record_event_t *event) {
  audit_entry_t call;
  if (!e->audit || !audit_decode(e->audit, event, &call)) return true;
  const char *name = audit_function_name(e->audit, call.function);
  return add_mark(e, &e->calls, event, name, strlen(name));
}

bool page_events_add(page_events_t *e, const record_event_t *event) {
  const char *name;
  size_t size;
  if (event->kind == EVENT_SAMPLE) return add_sample(e, event);
  if (event->kind != EVENT_EXTENDED) return true;
  switch (event->subtype) {
  case EXTENDED_WALL: return add_wait(e, event);
  case EXTENDED_WALL_THREAD: return add_queued(e, event);
  case EXTENDED_AUDIT:
  case EXTENDED_AUDIT_REPEAT: return add_call(e, event);
  case EXTENDED_MARKER:
    size = body_text(event, &name);
    return add_mark(e, &e->marks, event, name, size);
  default: return true;
  }
}

bool page_events_start(page_events_t *e) {
  e->samples = (page_rows_t){.unit_ns = FIRST_UNIT_NS, .limit = SAMPLES_LIMIT};
  e->waits = (page_rows_t){.unit_ns = FIRST_UNIT_NS, .limit = WAITS_LIMIT};
  e->queued = (page_rows_t){.unit_ns = FIRST_UNIT_NS, .limit = QUEUED_LIMIT};
  e->audit = audit_new(e->reader);
  return e->audit != NULL;
}

void page_events_finish(page_events_t *e) {
  page_rows_sort(&e->samples);
  page_rows_sort(&e->waits);
  page_rows_sort(&e->queued);
}

void page_events_free(page_events_t *e) {
  if (e->audit) audit_free(e->audit);
  page_rows_free(&e->samples);
  page_rows_free(&e->waits);
  page_rows_free(&e->queued);
  free(e->places.items);
  hash_free(&e->place_index);
  free(e->marks.items);
  free(e->calls.items);
  texts_free(&e->texts);
}
