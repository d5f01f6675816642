/* SPDX-License-Identifier: MIT */
#include "analysis/cpu_time.h"

#include <stdlib.h>

#include "base/array.h"
#include "reader/body.h"

static uint64_t hash_of_thread(const void *time, size_t i) {
  return hash_number(((const cpu_time_t *)time)->threads[i].number);
}

/* NULL: out of memory. */
static cpu_thread_time_t *thread_of(cpu_time_t *t, uint32_t number) {
  uint32_t *slot;
  if (!hash_reserve(&t->index, t->count, hash_of_thread, t)) return NULL;
  HASH_FIND(&t->index, hash_number(number), slot) {
    if (t->threads[*slot - 1].number == number) return &t->threads[*slot - 1];
  }
  if (!ARRAY_GROW(t->threads, t->count, t->capacity)) return NULL;
  t->threads[t->count++] = (cpu_thread_time_t){.number = number, .name = ""};
  *slot = (uint32_t)t->count;
  return &t->threads[t->count - 1];
}

static void read_causes(body_t *b, cpu_times_t *out) {
  while (b->p < b->end && !b->truncated) {
    uint64_t cause = body_number(b), ns = body_number(b);
    if (cause < NO_SAMPLE_CAUSES) out->no_sample_ns[cause] += ns;
  }
}

/* Each record of a thread replaces the one before. */
static bool add_thread(cpu_time_t *time, body_t *b) {
  uint64_t size, number = body_number(b), tid = body_number(b);
  cpu_times_t times = {.cpu_ns = body_number(b)};
  times.sampled_ns = body_number(b);
  uint64_t seen_ns = body_number(b);
  const uint8_t *name = body_string(b, &size);
  read_causes(b, &times);
  if (b->truncated || number > UINT32_MAX || tid > UINT32_MAX) {
    time->bad++;
    return true;
  }
  cpu_thread_time_t *t = thread_of(time, (uint32_t)number);
  if (t && (strlen(t->name) != size || memcmp(t->name, name, size) != 0))
    t->name = texts_add(&time->names, name, size);
  if (!t || !t->name) return false;
  t->tid = (uint32_t)tid;
  t->seen_ns = seen_ns;
  t->times = times;
  return true;
}

static void set_process(cpu_time_t *time, body_t *b) {
  uint64_t process_ns = body_number(b), threads = body_number(b), unseen_ns = body_number(b);
  if (b->truncated) {
    time->bad++;
    return;
  }
  time->process_ns = process_ns;
  time->thread_count = threads;
  time->unseen_ns = unseen_ns;
  if (b->p < b->end) time->queued_ns = body_number(b);
}

bool cpu_time_add(cpu_time_t *time, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  if (e->subtype == EXTENDED_PROCESS_TIME)
    set_process(time, &b);
  else if (e->subtype != EXTENDED_THREAD_TIME)
    return true;
  time->is_recorded = true;
  return e->subtype == EXTENDED_PROCESS_TIME || add_thread(time, &b);
}

cpu_times_t cpu_time_sum(const cpu_time_t *time) {
  cpu_times_t sum = {0};
  for (size_t i = 0; i < time->count; i++) {
    const cpu_times_t *t = &time->threads[i].times;
    sum.cpu_ns += t->cpu_ns;
    sum.sampled_ns += t->sampled_ns;
    for (unsigned k = 0; k < NO_SAMPLE_CAUSES; k++)
      sum.no_sample_ns[k] += t->no_sample_ns[k];
  }
  sum.cpu_ns += time->unseen_ns;
  sum.no_sample_ns[NO_SAMPLE_UNSEEN] += time->unseen_ns;
  return sum;
}

uint64_t cpu_time_unsampled(const cpu_times_t *times) {
  uint64_t ns = 0;
  for (unsigned k = 0; k < NO_SAMPLE_CAUSES; k++)
    ns += times->no_sample_ns[k];
  return ns;
}

static int by_number(const void *left, const void *right) {
  const uint32_t *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

/* A thread has several streams; signal handlers and monitors write others. */
static uint64_t threads_with_events(const reader_t *reader) {
  size_t count;
  const record_thread_t *threads = reader_threads(reader, &count);
  uint32_t *tids = malloc((count + 1) * sizeof *tids);
  uint64_t different = 0;
  for (size_t i = 0; tids && i < count; i++)
    tids[i] = threads[i].tid;
  if (tids && count) qsort(tids, count, sizeof *tids, by_number);
  for (size_t i = 0; tids && i < count; i++)
    different += !i || tids[i] != tids[i - 1];
  free(tids);
  return different;
}

uint64_t cpu_time_threads(const cpu_time_t *time, const reader_t *reader) {
  if (time && time->thread_count) return time->thread_count;
  return threads_with_events(reader);
}

const char *cpu_time_cause_key(unsigned cause) {
  switch (cause) {
#define CAUSE_KEY(name, value, key, text)                                                          \
  case name: return key;
    NO_SAMPLE_TABLE(CAUSE_KEY)
#undef CAUSE_KEY
  default: return "";
  }
}

const char *cpu_time_cause_text(unsigned cause) {
  switch (cause) {
#define CAUSE_TEXT(name, value, key, text)                                                         \
  case name: return text;
    NO_SAMPLE_TABLE(CAUSE_TEXT)
#undef CAUSE_TEXT
  default: return "";
  }
}

void cpu_time_free(cpu_time_t *time) {
  texts_free(&time->names);
  free(time->threads);
  hash_free(&time->index);
  memset(time, 0, sizeof *time);
}
