/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/threads.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static size_t place_of(const top_threads_t *t, pid_t tid) {
  return ARRAY_SEARCH(t->count, i, t->items[i].tid < tid);
}

top_thread_t *top_threads_find(top_threads_t *t, pid_t tid) {
  size_t at = place_of(t, tid);
  return at < t->count && t->items[at].tid == tid ? &t->items[at] : NULL;
}

static top_thread_t *insert(top_threads_t *t, pid_t tid) {
  size_t at = place_of(t, tid);
  if (!ARRAY_GROW(t->items, t->count, t->capacity)) return NULL;
  memmove(&t->items[at + 1], &t->items[at], (t->count - at) * sizeof *t->items);
  t->count++;
  t->items[at] = (top_thread_t){.tid = tid};
  return &t->items[at];
}

static uint64_t grown(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

/* A thread in state R that got no CPU at all, or less than it waited for one, is runnable. */
static top_state_t state_of(const top_reading_t *r, uint64_t ran_ns, uint64_t queued_ns,
                            bool is_first) {
  switch (r->state) {
  case 'R': return !is_first && (!ran_ns || queued_ns > ran_ns) ? TOP_RUNNABLE : TOP_RUNNING;
  case 'T':
  case 't': return TOP_STOPPED;
  case 'Z':
  case 'X': return TOP_ENDED;
  default: return TOP_WAITING;
  }
}

/* Whether the thread ran between two readings. */
static bool has_run(const top_reading_t *before, const top_reading_t *now) {
  return before->slices != now->slices || before->run_ns != now->run_ns;
}

top_thread_t *top_threads_read(top_threads_t *t, const top_reading_t *r, uint64_t now_ns) {
  top_thread_t *thread = top_threads_find(t, r->tid);
  bool is_first = !thread;
  if (!thread && !(thread = insert(t, r->tid))) return NULL;
  uint64_t ran_ns = grown(thread->last.run_ns, r->run_ns);
  uint64_t queued_ns = grown(thread->last.queued_ns, r->queued_ns);
  uint64_t passed_ns = grown(thread->read_ns, now_ns);
  top_state_t before = thread->state;
  thread->state = state_of(r, ran_ns, queued_ns, is_first);
  if (is_first || before != thread->state || has_run(&thread->last, r)) {
    thread->since_ns = now_ns;
    thread->is_call_current = false;
    if ((before == TOP_WAITING) != (thread->state == TOP_WAITING)) thread->call[0] = 0;
  }
  thread->cpu = is_first || !passed_ns ? 0 : (double)ran_ns / (double)passed_ns;
  if (thread->cpu > 1) thread->cpu = 1;
  thread->waiting_ns = thread->state == TOP_WAITING ? now_ns - thread->since_ns : 0;
  thread->last = *r;
  thread->read_ns = now_ns;
  thread->is_seen = true;
  return thread;
}

void top_threads_end(top_threads_t *t) {
  size_t kept = 0;
  for (size_t i = 0; i < t->count; i++) {
    if (!t->items[i].is_seen) continue;
    t->items[kept] = t->items[i];
    t->items[kept++].is_seen = false;
  }
  t->count = kept;
}

void top_threads_free(top_threads_t *t) {
  free(t->items);
  *t = (top_threads_t){0};
}

/* ---- lists -------------------------------------------------------------------------------- */

static int by_tid(const top_thread_t *a, const top_thread_t *b) {
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare(const void *left, const void *right, void *sort) {
  const top_thread_t *a = *(const top_thread_t *const *)left;
  const top_thread_t *b = *(const top_thread_t *const *)right;
  int names;
  switch (*(const top_sort_t *)sort) {
  case TOP_BY_CPU:
    if (a->cpu > b->cpu || a->cpu < b->cpu) return a->cpu > b->cpu ? -1 : 1;
    return a->state != b->state ? (a->state < b->state ? -1 : 1) : by_tid(a, b);
  case TOP_BY_WAIT:
    if (a->waiting_ns != b->waiting_ns) return a->waiting_ns > b->waiting_ns ? -1 : 1;
    return by_tid(a, b);
  case TOP_BY_NAME: names = strcmp(a->name, b->name); return names ? names : by_tid(a, b);
  default: return by_tid(a, b);
  }
}

size_t top_threads_list(const top_threads_t *t, top_sort_t sort, const char *filter,
                        const top_thread_t **out, size_t max) {
  size_t count = 0;
  for (size_t i = 0; i < t->count && count < max; i++)
    if (strcasestr(t->items[i].name, filter) || strcasestr(t->items[i].call, filter))
      out[count++] = &t->items[i];
  if (count) qsort_r(out, count, sizeof *out, compare, &sort);
  return count;
}

const char *top_state_text(top_state_t state) {
  static const char *const texts[] = {"running", "runnable", "waiting", "stopped", "ended"};
  return texts[state];
}

const char *top_sort_text(top_sort_t sort) {
  static const char *const texts[] = {"CPU", "wait", "name", "tid"};
  return texts[sort];
}
