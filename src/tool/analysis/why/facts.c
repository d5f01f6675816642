/* SPDX-License-Identifier: MIT */
#include "analysis/why/facts.h"

#include <stdio.h>

#include "analysis/samples.h"
#include "analysis/wall.h"
#include "reader/body.h"
#include "symbol/dwarf/callers.h"
#include "symbol/short_name.h"

/* Samples and waits that are kept: hours of a program with many threads. */
enum { TIME_LINE_MAX = 4 << 20 };

const char *why_copy_text(why_t *w, const char *text) {
  const char *copy = texts_add(&w->texts, (const uint8_t *)text, strlen(text));
  w->failed |= !copy;
  return copy ? copy : "";
}

/* ---- threads ------------------------------------------------------------------------------ */

why_thread_t *why_thread(why_t *w, uint32_t tid) {
  for (size_t i = w->threads.count; i-- > 0;)
    if (w->threads.items[i].tid == tid) return &w->threads.items[i];
  why_thread_t *t = ARRAY_ADD(w->threads);
  if (t) *t = (why_thread_t){.tid = tid, .name = ""};
  w->failed |= !t;
  return t;
}

/* A name that several threads have, as those of one program by default, tells nothing. */
char *why_thread_text(why_t *w, uint32_t tid, char *out, size_t size) {
  const char *name = "";
  int same = 0;
  for (size_t i = 0; i < w->threads.count; i++)
    if (w->threads.items[i].tid == tid) name = w->threads.items[i].name;
  for (size_t i = 0; i < w->threads.count; i++)
    same += !strcmp(w->threads.items[i].name, name);
  snprintf(out, size, *name && same == 1 ? "thread %u (%.64s)" : "thread %u", tid,
           plain_text(name));
  return out;
}

bool why_is_gil(const why_t *w, uint64_t address) {
  for (size_t i = 0; i < w->waits.count; i++)
    if (w->waits.items[i].address == address)
      return w->waits.items[i].is_lock && !strcmp(w->waits.items[i].what, "GIL");
  return false;
}

char *why_lock_text(const why_t *w, uint64_t address, const char *without, char *out, size_t size) {
  char name[80];
  if (why_is_gil(w, address))
    snprintf(out, size, "the GIL");
  else if (w->names.of_variable && address &&
           w->names.of_variable(w->names.context, address, name, sizeof name))
    snprintf(out, size, "the lock %s", name);
  else
    snprintf(out, size, "%s", without);
  return out;
}

/* ---- events ------------------------------------------------------------------------------- */

static bool add_tick(why_t *w, const record_event_t *e) {
  const record_thread_t *thread = reader_thread(w->reader, e->stream);
  why_thread_t *t = thread ? why_thread(w, thread->tid) : NULL;
  if (!t) return !thread;
  if (thread->name && !*t->name) t->name = thread->name;
  t->ticks += sample_ticks(e);
  if (w->ticks.count == TIME_LINE_MAX) return true;
  why_tick_t *tick = ARRAY_ADD(w->ticks);
  if (!tick) return false;
  *tick = (why_tick_t){reader_ns(w->reader, e->time), thread->tid, e->stack, sample_ticks(e)};
  return true;
}

/* Texts repeat: the last ones are compared first. */
static const char *copy_text(why_t *w, const uint8_t *bytes, uint64_t size) {
  int tries = 32;
  for (const text_copy_t *t = w->texts; t && tries--; t = t->next)
    if (strlen(t->text) == size && !memcmp(t->text, bytes, size)) return t->text;
  return texts_add(&w->texts, bytes, size);
}

static bool add_wait(why_t *w, const record_event_t *e) {
  body_t b = {e->body, e->body + e->body_size, false};
  wall_period_t p = wall_period(&b);
  if (b.truncated || w->waits.count == TIME_LINE_MAX) return true;
  why_wait_t *wait = ARRAY_ADD(w->waits);
  if (!wait) return false;
  uint64_t to = reader_ns(w->reader, e->time);
  *wait = (why_wait_t){.from_ns = to > p.ns ? to - p.ns : 0,
                       .to_ns = to,
                       .tid = p.tid,
                       .stack = p.stack,
                       .is_lock = p.is_mutex,
                       .owner = p.owner,
                       .address = p.address,
                       .call = copy_text(w, p.call, p.call_size),
                       .what = copy_text(w, p.what, p.what_size)};
  return wait->call && wait->what;
}

static bool add_wall_thread(why_t *w, const record_event_t *e) {
  body_t b = {e->body, e->body + e->body_size, false};
  uint64_t n[4], size;
  for (int i = 0; i < 4; i++)
    n[i] = body_number(&b);
  const uint8_t *name = body_string(&b, &size);
  why_thread_t *t = b.truncated ? NULL : why_thread(w, (uint32_t)n[0]);
  if (!t) return b.truncated;
  w->has_waits = true;
  t->seen_ns += n[1];
  t->run_ns += n[2];
  t->runq_ns += n[3];
  t->is_counted = true;
  if (size && !*t->name) t->name = copy_text(w, name, size);
  if (b.p < b.end) t->switches += body_number(&b); /* older recordings do not have it */
  return t->name != NULL;
}

/* Readings of --cpu. */
static bool add_reading(why_t *w, const record_event_t *e) {
  uint64_t n[5];
  if (!body_numbers(e, n, 5)) return true;
  why_thread_t *t = why_thread(w, (uint32_t)n[0]);
  if (!t) return false;
  if (n[3] > t->switches) t->switches = n[3];
  return true;
}

bool why_add(why_t *w, const record_event_t *e) {
  if (e->kind == EVENT_SAMPLE) return add_tick(w, e);
  if (e->kind != EVENT_EXTENDED) return true;
  switch (e->subtype) {
  case EXTENDED_WALL: return add_wait(w, e);
  case EXTENDED_WALL_THREAD: return add_wall_thread(w, e);
  case EXTENDED_CPU_THREAD: return add_reading(w, e);
  case EXTENDED_SEARCHED:
  case EXTENDED_LEAKED: return leaks_read(&w->leaks, e);
  default: return true;
  }
}

bool why_add_level(void *why, const replay_t *replay, uint64_t time) {
  why_t *w = why;
  if (w->level_count == WHY_LEVELS) return false;
  why_level_t *level = &w->levels[w->level_count];
  *level = (why_level_t){.time_ns = reader_ns(replay->reader, time),
                         .bytes = replay->live.bytes,
                         .allocated = replay->allocated.bytes,
                         .stacks = calloc(replay->stack_count + 1, sizeof *level->stacks),
                         .stack_count = replay->stack_count};
  if (!level->stacks) return false;
  for (size_t i = 0; i < replay->stack_count; i++)
    level->stacks[i] = replay->stacks[i].live;
  w->level_count++;
  return true;
}

/* The kernel's account at the end of each thread replaces what the sensors read. */
bool why_complete(why_t *w, const cpu_time_t *time) {
  if (time) w->queued_ns = time->queued_ns;
  for (size_t i = 0; time && i < time->count; i++) {
    const cpu_thread_time_t *from = &time->threads[i];
    why_thread_t *t = why_thread(w, from->tid);
    if (!t) return false;
    if (from->times.cpu_ns > t->run_ns) t->run_ns = from->times.cpu_ns;
    if (from->seen_ns > t->seen_ns) t->seen_ns = from->seen_ns;
    if (t->run_ns > t->seen_ns) t->seen_ns = t->run_ns;
    if (from->name && *from->name) t->name = from->name;
    t->is_counted = true;
  }
  return !w->failed;
}

/* ---- samples by stack ----------------------------------------------------------------------- */

static uint64_t hash_of_samples(const void *why, size_t i) {
  const why_samples_t *s = &((const why_t *)why)->samples.items[i];
  return hash_number((uint64_t)s->tid << 32 | s->id);
}

bool why_group_ticks(why_t *w) {
  w->samples.count = 0;
  hash_clear(&w->samples_index);
  for (size_t i = 0; i < w->ticks.count; i++) {
    const why_tick_t *tick = &w->ticks.items[i];
    why_samples_t *found = NULL;
    uint32_t *slot;
    if (!hash_reserve(&w->samples_index, w->samples.count, hash_of_samples, w)) return false;
    HASH_FIND(&w->samples_index, hash_number((uint64_t)tick->tid << 32 | tick->stack), slot) {
      found = &w->samples.items[*slot - 1];
      if (found->tid == tick->tid && found->id == tick->stack) break;
    }
    if (!*slot) {
      found = ARRAY_ADD(w->samples);
      if (!found) return false;
      *slot = (uint32_t)w->samples.count;
      *found = (why_samples_t){tick->tid, tick->stack, why_stack(w, tick->stack), 0, tick->time_ns};
    }
    found->ticks += tick->ticks;
    if (tick->time_ns < found->first_ns) found->first_ns = tick->time_ns;
  }
  return true;
}

/* ---- the whole ----------------------------------------------------------------------------- */

const usage_series_t *why_series(const why_t *w, usage_field_t field) {
  const usage_series_t *s = w->usage ? &w->usage->series[field] : NULL;
  return s && s->is_known ? s : NULL;
}

uint64_t why_run_ns(const why_t *w) {
  uint64_t ns = 0;
  for (size_t i = 0; i < w->threads.count; i++)
    ns += w->threads.items[i].run_ns;
  return ns;
}

const why_function_t *why_only_caller(why_t *w, const char *const *names) {
  caller_t caller;
  const char *path = w->names.program ? w->names.program(w->names.context) : NULL;
  if (!path || !caller_only(path, names, &caller)) return NULL;
  const why_function_t function = {.name = why_copy_text(w, caller.name),
                                   .file = *caller.file ? why_copy_text(w, caller.file) : NULL,
                                   .line = caller.line,
                                   .library = "",
                                   .path = "",
                                   .own = true,
                                   .known = true};
  return why_keep_function(w, &function);
}

void why_free(why_t *w) {
  for (size_t i = 0; i < w->level_count; i++)
    free(w->levels[i].stacks);
  for (size_t i = 0; i < w->stacks.count; i++)
    free(w->stacks.items[i]);
  free(w->stacks.items);
  for (size_t i = 0; i < w->functions.count; i++)
    free(w->functions.items[i]);
  free(w->functions.items);
  hash_free(&w->stack_index);
  hash_free(&w->samples_index);
  hash_free(&w->function_index);
  leaks_at_end_free(&w->leaks);
  free(w->ticks.items);
  free(w->samples.items);
  free(w->waits.items);
  free(w->threads.items);
  free(w->stalls.items);
  free(w->calls.items);
  texts_free(&w->texts);
  memset(w, 0, sizeof *w);
}
