/* SPDX-License-Identifier: MIT */
#include "analysis/cpu.h"

#include <stdlib.h>

#include "base/array.h"
#include "analysis/samples.h"
#include "reader/body.h"

/* NULL when memory runs out. */
static const char *get_name(cpu_use_t *u, body_t *b) {
  uint64_t n;
  const uint8_t *from = body_string(b, &n);
  return texts_add(&u->names, from, n);
}

static bool add_sum(cpu_use_t *u, body_t *b) {
  cpu_sum_t sum = {.tid = (uint32_t)body_number(b)};
  sum.run_ns = body_number(b);
  sum.runq_ns = body_number(b);
  sum.wakeups = body_number(b);
  sum.seen_ns = body_number(b);
  sum.name = get_name(u, b);
  if (!sum.name || !ARRAY_GROW(u->sums, u->sum_count, u->sum_capacity)) return false;
  if (!b->truncated) u->sums[u->sum_count++] = sum;
  return true;
}

static bool add_episode(cpu_use_t *u, body_t *b, uint64_t time) {
  cpu_use_episode_t episode = {.tid = (uint32_t)body_number(b), .to = time};
  episode.time_ns = body_number(b);
  episode.cpu_ns = body_number(b);
  episode.name = get_name(u, b);
  if (!episode.name || !ARRAY_GROW(u->episodes, u->episode_count, u->episode_capacity))
    return false;
  if (!b->truncated && episode.time_ns) u->episodes[u->episode_count++] = episode;
  return true;
}

static bool add_tick(cpu_use_t *u, const record_event_t *e) {
  if (!ARRAY_GROW(u->ticks, u->tick_count, u->tick_capacity)) return false;
  u->ticks[u->tick_count++] = (cpu_tick_t){e->time, sample_ticks(e), e->stream, e->stack};
  return true;
}

bool cpu_use_add(cpu_use_t *u, const record_event_t *e) {
  if (e->kind == EVENT_SAMPLE) return add_tick(u, e);
  if (e->kind != EVENT_EXTENDED) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  bool good = true;
  switch (e->subtype) {
  case EXTENDED_CPU_EPISODE: good = add_episode(u, &b, e->time); break;
  case EXTENDED_CPU_THREAD: good = add_sum(u, &b); break;
  case EXTENDED_CPU_PROCESS: u->process_ns = body_number(&b); break;
  default: return true;
  }
  if (b.truncated) u->bad++;
  return good;
}

bool cpu_tick_in(const reader_t *reader, const cpu_tick_t *tick, const cpu_use_episode_t *episode) {
  uint64_t at = reader_ns(reader, tick->time), to = reader_ns(reader, episode->to);
  const record_thread_t *thread = reader_thread(reader, tick->stream);
  if (at > to || at + episode->time_ns < to) return false;
  return !episode->tid || (thread && thread->tid == episode->tid);
}

/* The last reading of the thread; NULL if it was never read. A tid may have been reused. */
static const cpu_sum_t *reading_of(const cpu_use_t *u, const cpu_thread_time_t *thread) {
  const cpu_sum_t *found = NULL;
  for (size_t i = 0; i < u->sum_count; i++) {
    const cpu_sum_t *s = &u->sums[i];
    bool fits = s->tid == thread->tid && s->run_ns <= thread->times.cpu_ns;
    if (fits && (!found || s->run_ns > found->run_ns)) found = s;
  }
  return found;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

bool cpu_use_complete(cpu_use_t *u, const cpu_time_t *time) {
  if (!time || !time->count) return true;
  cpu_sum_t *sums = calloc(time->count, sizeof *sums);
  if (!sums) return false;
  for (size_t i = 0; i < time->count; i++) {
    const cpu_thread_time_t *t = &time->threads[i];
    const cpu_sum_t *read = reading_of(u, t);
    if (read) sums[i] = *read;
    sums[i].tid = t->tid;
    sums[i].run_ns = t->times.cpu_ns;
    sums[i].seen_ns = larger(larger(sums[i].seen_ns, t->seen_ns), t->times.cpu_ns);
    sums[i].name = t->name;
    sums[i].times = &t->times;
    sums[i].sampled_ns = t->times.sampled_ns;
    sums[i].unsampled_ns = cpu_time_unsampled(&t->times);
  }
  free(u->sums);
  u->sums = sums;
  u->sum_count = u->sum_capacity = time->count;
  u->process_ns = larger(time->process_ns, cpu_time_sum(time).cpu_ns);
  return true;
}

void cpu_use_free(cpu_use_t *u) {
  texts_free(&u->names);
  free(u->sums);
  free(u->episodes);
  free(u->ticks);
  memset(u, 0, sizeof *u);
}
