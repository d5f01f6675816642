/* SPDX-License-Identifier: MIT */
#include "report/exports/profile/times.h"

#include "analysis/samples.h"
#include "base/array.h"
#include "base/portions.h"
#include "reader/body.h"

enum { CALL_MAX = 64, WHAT_MAX = 256 };

static uint64_t hash_of(const profile_time_t *s) {
  uint64_t hash = hash_pair((uint64_t)s->stack << 32 | s->tid, s->call != NULL);
  if (s->call) hash = hash_text(hash_text(hash, s->call), s->what);
  return hash_number(hash_text(hash, s->phase));
}

static uint64_t hash_of_item(const void *stacks, size_t i) {
  return hash_of(&((const profile_times_t *)stacks)->items[i]);
}

static bool is_same(const profile_time_t *a, const profile_time_t *b) {
  if (a->stack != b->stack || a->tid != b->tid || !a->call != !b->call) return false;
  if (a->call && (strcmp(a->call, b->call) != 0 || strcmp(a->what, b->what) != 0)) return false;
  return !strcmp(a->phase, b->phase);
}

static const char *copy_of(profile_times_t *t, const char *text) {
  return texts_add(&t->texts, (const uint8_t *)text, strlen(text));
}

static const char *phase_of(const profile_times_t *t) { return t->phase ? t->phase : ""; }

static bool add(profile_times_t *t, profile_time_t stack) {
  uint32_t *slot;
  stack.phase = phase_of(t);
  if (!hash_reserve(&t->index, t->count, hash_of_item, t)) return false;
  HASH_FIND(&t->index, hash_of(&stack), slot) {
    profile_time_t *there = &t->items[*slot - 1];
    if (!is_same(there, &stack)) continue;
    there->samples += stack.samples;
    there->wait_ns += stack.wait_ns;
    return true;
  }
  if (!t->kept_phase) t->kept_phase = copy_of(t, stack.phase);
  if (!t->kept_phase) return false;
  stack.phase = t->kept_phase;
  if (stack.call) {
    stack.call = copy_of(t, stack.call);
    stack.what = copy_of(t, stack.what);
    if (!stack.call || !stack.what) return false;
  }
  if (!ARRAY_GROW(t->items, t->count, t->capacity)) return false;
  t->items[t->count++] = stack;
  *slot = (uint32_t)t->count;
  return true;
}

static bool add_sample(profile_times_t *t, const record_event_t *event) {
  const record_thread_t *thread = reader_thread(t->reader, event->stream);
  uint64_t ticks = sample_ticks(event);
  t->ticks += ticks;
  return add(t, (profile_time_t){
                    .stack = event->stack, .tid = thread ? thread->tid : 0, .samples = ticks});
}

static bool add_wait(profile_times_t *t, const record_event_t *event) {
  body_t b = {event->body, event->body + event->body_size, false};
  wall_period_t p = wall_period(&b);
  char call[CALL_MAX], what[WHAT_MAX] = "lock";
  if (b.truncated) return true;
  body_copy_text(call, sizeof call, p.call, p.call_size);
  if (!p.is_mutex || p.what_size) body_copy_text(what, sizeof what, p.what, p.what_size);
  t->waits += p.samples;
  return add(t, (profile_time_t){.stack = p.stack,
                                 .tid = p.tid,
                                 .call = call,
                                 .what = what,
                                 .samples = p.samples,
                                 .wait_ns = p.ns});
}

/* Only the names of phases in which there are samples are kept. */
static bool begin_phase(profile_times_t *t, const record_event_t *event) {
  const char *name;
  size_t size = body_text(event, &name);
  if (!ARRAY_RESERVE(t->phase, size + 1, t->phase_capacity)) return false;
  if (size) memcpy(t->phase, name, size);
  t->phase[size] = 0;
  t->kept_phase = NULL;
  return true;
}

bool profile_times_add(profile_times_t *t, const record_event_t *event) {
  if (event->kind == EVENT_SAMPLE) return add_sample(t, event);
  if (event->kind != EVENT_EXTENDED) return true;
  if (event->subtype == EXTENDED_WALL) return add_wait(t, event);
  return event->subtype != EXTENDED_MARKER || begin_phase(t, event);
}

/* Divides the blocked time of a thread among its waits. */
static void divide_blocked_time(profile_times_t *t, const wall_thread_t *of) {
  portions_t times = {.amount = of->blocked_ns, .counts = of->sampled_ns};
  for (size_t i = 0; i < t->count; i++) {
    profile_time_t *s = &t->items[i];
    if (s->call && s->tid == of->tid) s->wait_ns = portions_next(&times, s->wait_ns);
  }
}

void profile_times_finish(profile_times_t *t, const wall_t *wall) {
  for (size_t i = 0; i < wall->thread_count; i++)
    if (wall->threads[i].sampled_ns) divide_blocked_time(t, &wall->threads[i]);
}

void profile_times_free(profile_times_t *t) {
  free(t->items);
  free(t->phase);
  hash_free(&t->index);
  texts_free(&t->texts);
}
