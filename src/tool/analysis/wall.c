/* SPDX-License-Identifier: MIT */
#include "analysis/wall.h"

#include <stdlib.h>

#include "base/array.h"
#include "analysis/samples.h"
#include "reader/body.h"

static bool is_text(const char *text, const uint8_t *bytes, uint64_t n) {
  return strlen(text) == n && memcmp(text, bytes, n) == 0;
}

/* The copy of a system call's name: equal names have one pointer. NULL when memory runs out. */
static const char *call_of(wall_t *w, const uint8_t *bytes, uint64_t n) {
  for (unsigned i = 0; i < w->call_count; i++)
    if (is_text(w->calls[i], bytes, n)) return w->calls[i];
  if (w->call_count == WALL_CALLS_MAX) return "";
  const char *call = texts_add(&w->names, bytes, n);
  if (call) w->calls[w->call_count++] = call;
  return call;
}

static bool name_thread(wall_t *w, wall_thread_t *t, body_t *b) {
  uint64_t n;
  const uint8_t *bytes = body_string(b, &n);
  if (is_text(t->name, bytes, n)) return true;
  const char *name = texts_add(&w->names, bytes, n);
  if (name) t->name = name;
  return name != NULL;
}

/* ---- threads ------------------------------------------------------------------------------ */

static uint64_t hash_of_thread(const void *wall, size_t i) {
  return hash_number(((const wall_t *)wall)->threads[i].tid);
}

/* NULL when memory runs out. */
static wall_thread_t *thread_of(wall_t *w, uint32_t tid) {
  if (!hash_reserve(&w->thread_index, w->thread_count, hash_of_thread, w)) return NULL;
  uint32_t *slot;
  HASH_FIND(&w->thread_index, hash_number(tid), slot) {
    if (w->threads[*slot - 1].tid == tid) break;
  }
  if (*slot) return &w->threads[*slot - 1];
  if (!ARRAY_GROW(w->threads, w->thread_count, w->thread_capacity)) return NULL;
  w->threads[w->thread_count] = (wall_thread_t){.tid = tid, .name = ""};
  *slot = (uint32_t)++w->thread_count;
  return &w->threads[*slot - 1];
}

/* ---- places ------------------------------------------------------------------------------- */

static bool is_at(const wall_place_t *p, uint32_t tid, uint32_t stack, const char *call) {
  return p->tid == tid && p->stack == stack && p->call == call;
}

static uint64_t hash_of_place(uint32_t tid, uint32_t stack, const char *call) {
  return hash_pair((uint64_t)stack << 32 | tid, (uintptr_t)call);
}

static uint64_t hash_of_item(const void *places, size_t i) {
  const wall_place_t *p = &((const wall_places_t *)places)->items[i];
  return hash_of_place(p->tid, p->stack, p->call);
}

static bool add_place(wall_places_t *w, const wall_place_t *place) {
  if (!hash_reserve(&w->index, w->count, hash_of_item, w)) return false;
  uint32_t *slot;
  HASH_FIND(&w->index, hash_of_place(place->tid, place->stack, place->call), slot) {
    if (is_at(&w->items[*slot - 1], place->tid, place->stack, place->call)) break;
  }
  if (!*slot) {
    if (!ARRAY_GROW(w->items, w->count, w->capacity)) return false;
    w->items[w->count++] = *place;
    *slot = (uint32_t)w->count;
    return true;
  }
  w->items[*slot - 1].ns += place->ns;
  w->items[*slot - 1].samples += place->samples;
  return true;
}

/* ---- events ------------------------------------------------------------------------------- */

wall_period_t wall_period(body_t *b) {
  wall_period_t p = {.tid = (uint32_t)body_number(b)};
  p.ns = body_number(b);
  p.samples = body_number(b);
  p.stack = (uint32_t)body_number(b);
  (void)body_number(b); /* the state */
  (void)body_number(b); /* the call's number; its name follows */
  p.call = body_string(b, &p.call_size);
  p.fd = (int)(uint32_t)(body_number(b) - 1);
  p.address = body_number(b);
  p.is_mutex = body_number(b) != 0;
  p.owner = (uint32_t)body_number(b);
  p.what = body_string(b, &p.what_size);
  return p;
}

static bool deduplicate(wall_t *w, uint32_t *stack) {
  if (!w->dedup && !(w->dedup = stack_dedup_new(w->reader))) return false;
  return stack_dedup_first(w->dedup, *stack, stack);
}

static bool add_period(wall_t *w, body_t *b) {
  w->recorded = true;
  wall_period_t p = wall_period(b);
  if (b->truncated) return true;
  if (!deduplicate(w, &p.stack)) return false;
  wall_place_t at = {.tid = p.tid, .ns = p.ns, .samples = p.samples, .stack = p.stack};
  at.call = call_of(w, p.call, p.call_size);
  wall_thread_t *t = at.call ? thread_of(w, at.tid) : NULL;
  if (!t) return false;
  t->sampled_ns += at.ns;
  t->samples += at.samples;
  return add_place(&w->parts, &at);
}

static bool add_sums(wall_t *w, body_t *b) {
  w->recorded = true;
  uint32_t tid = (uint32_t)body_number(b);
  uint64_t seen_ns = body_number(b), run_ns = body_number(b), runq_ns = body_number(b);
  wall_thread_t *t = b->truncated ? NULL : thread_of(w, tid);
  if (!t) return b->truncated;
  t->seen_ns += seen_ns;
  t->run_ns += run_ns;
  t->runq_ns += runq_ns;
  return name_thread(w, t, b);
}

static bool add_tick(wall_t *w, const record_event_t *e) {
  const record_thread_t *thread = reader_thread(w->reader, e->stream);
  if (!thread) return true;
  wall_thread_t *t = thread_of(w, thread->tid);
  if (!t) return false;
  t->ticks += sample_ticks(e);
  const wall_place_t at = {.tid = thread->tid, .stack = e->stack, .samples = sample_ticks(e)};
  return add_place(&w->parts, &at);
}

bool wall_add(wall_t *w, const record_event_t *e) {
  if (e->kind == EVENT_SAMPLE) return add_tick(w, e);
  if (e->kind != EVENT_EXTENDED) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  bool good = true;
  if (e->subtype == EXTENDED_WALL)
    good = add_period(w, &b);
  else if (e->subtype == EXTENDED_WALL_THREAD)
    good = add_sums(w, &b);
  if (b.truncated) w->bad++;
  return good;
}

/* ---- attribution -------------------------------------------------------------------------- */

static int by_seen(const void *left, const void *right) {
  const wall_thread_t *a = left, *b = right;
  if (a->seen_ns != b->seen_ns) return a->seen_ns > b->seen_ns ? -1 : 1;
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int by_time(const void *left, const void *right) {
  const wall_place_t *a = left, *b = right;
  if (a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static void set_blocked_time(wall_thread_t *t) {
  uint64_t active = t->run_ns + t->runq_ns;
  if (t->seen_ns < active) t->seen_ns = active; /* it ran before its first reading */
  t->blocked_ns = !active ? t->sampled_ns : t->seen_ns > active ? t->seen_ns - active : 0;
}

/* The share of its thread's time that PART represents, in nanoseconds. */
static uint64_t time_of(const wall_thread_t *t, const wall_place_t *part) {
  if (!part->call) return (uint64_t)((double)part->samples / (double)t->ticks * (double)t->run_ns);
  return t->sampled_ns
             ? (uint64_t)((double)part->ns / (double)t->sampled_ns * (double)t->blocked_ns)
             : 0;
}

bool wall_rank(wall_t *w) {
  if (w->is_ranked) return true;
  w->is_ranked = true;
  for (size_t i = 0; i < w->thread_count; i++)
    set_blocked_time(&w->threads[i]);
  for (size_t i = 0; i < w->parts.count; i++) {
    wall_place_t part = w->parts.items[i];
    const wall_thread_t *t = thread_of(w, part.tid);
    if (!t) return false;
    part.ns = time_of(t, &part);
    part.tid = 0;
    if (part.call && !part.stack) {
      w->unread_ns += part.ns;
      w->unread_samples += part.samples;
    }
    if (!add_place(&w->places, &part)) return false;
  }
  if (w->thread_count) qsort(w->threads, w->thread_count, sizeof *w->threads, by_seen);
  if (w->places.count) qsort(w->places.items, w->places.count, sizeof *w->places.items, by_time);
  return true;
}

static void free_places(wall_places_t *p) {
  free(p->items);
  hash_free(&p->index);
}

void wall_free(wall_t *w) {
  texts_free(&w->names);
  stack_dedup_free(w->dedup);
  free(w->threads);
  hash_free(&w->thread_index);
  free_places(&w->places);
  free_places(&w->parts);
  memset(w, 0, sizeof *w);
}
