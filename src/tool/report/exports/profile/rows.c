/* SPDX-License-Identifier: MIT */
#include "report/exports/profile/rows.h"

#include <string.h>

/* Functions that allocate for their callers. */
#define ALLOCATORS                                                                                 \
  "operator new.*|malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|"       \
  "p?valloc"

static bool add(profile_rows_t *r, uint32_t stack, const int64_t *values) {
  profile_row_t *row = ARRAY_ADD(r->rows);
  if (!row) return false;
  row->stack = stack;
  row->of = NULL;
  memcpy(row->values, values, r->type_count * sizeof *values);
  return true;
}

static void add_type(profile_rows_t *r, const char *type, const char *unit) {
  r->types[r->type_count++] = (profile_type_t){type, unit};
}

bool profile_rows_cpu(profile_rows_t *out, const samples_t *samples, portions_t times) {
  *out = (profile_rows_t){.name = "process_cpu"};
  add_type(out, "samples", "count");
  if (times.amount) {
    add_type(out, "cpu", "nanoseconds");
    out->period_type = out->types[1];
    out->period = (int64_t)portions_of_one(&times);
  }
  for (size_t i = 0; i < samples->stack_count; i++) {
    const sample_stack_t *s = &samples->stacks[i];
    const int64_t values[] = {(int64_t)s->ticks, (int64_t)portions_next(&times, s->ticks)};
    if (!add(out, s->stack, values)) return false;
  }
  return true;
}

bool profile_rows_times(profile_rows_t *out, const profile_times_t *times, portions_t cpu) {
  *out = (profile_rows_t){.name = "process_cpu", .period = (int64_t)portions_of_one(&cpu)};
  add_type(out, "samples", "count");
  add_type(out, "cpu", "nanoseconds");
  if (times->waits) add_type(out, "waits", "count");
  if (times->waits) add_type(out, "wait", "nanoseconds");
  out->period_type = out->types[1];
  out->default_type = times->ticks || !times->waits ? "cpu" : "wait";
  for (size_t i = 0; i < times->count; i++) {
    const profile_time_t *t = &times->items[i];
    int64_t values[4] = {0}, *of = t->call ? values + 2 : values;
    of[0] = (int64_t)t->samples;
    of[1] = (int64_t)(t->call ? t->wait_ns : portions_next(&cpu, t->samples));
    if (!add(out, t->stack, values)) return false;
    out->rows.items[out->rows.count - 1].of = t;
  }
  return true;
}

bool profile_rows_heap(profile_rows_t *out, const replay_t *replay, bool peak) {
  static const profile_type_t types[] = {{"alloc_objects", "count"}, {"alloc_space", "bytes"},
                                         {"inuse_objects", "count"}, {"inuse_space", "bytes"},
                                         {"peak_objects", "count"},  {"peak_space", "bytes"}};
  *out = (profile_rows_t){.name = "memory",
                          .default_type = peak ? "peak_space" : "inuse_space",
                          .drop_frames = ALLOCATORS};
  for (int i = 0; i < (peak ? 6 : 4); i++)
    add_type(out, types[i].type, types[i].unit);
  if (replay->sample_bytes) {
    out->period_type = (profile_type_t){"space", "bytes"};
    out->period = (int64_t)replay->sample_bytes;
  }
  for (size_t i = 0; i < replay->stack_count; i++) {
    const stack_totals_t *s = &replay->stacks[i];
    const int64_t values[] = {(int64_t)s->allocated.count, (int64_t)s->allocated.bytes,
                              (int64_t)s->live.count,      (int64_t)s->live.bytes,
                              (int64_t)s->at_peak.count,   (int64_t)s->at_peak.bytes};
    if ((s->allocated.count || s->live.count) && !add(out, s->stack, values)) return false;
  }
  return true;
}

bool profile_rows_waits(profile_rows_t *out, const wall_t *wall) {
  *out = (profile_rows_t){.name = "off_cpu"};
  add_type(out, "off_cpu", "nanoseconds");
  for (size_t i = 0; i < wall->places.count; i++) {
    const wall_place_t *p = &wall->places.items[i];
    const int64_t value = (int64_t)p->ns;
    if (p->call && value > 0 && !add(out, p->stack, &value)) return false;
  }
  return true;
}

uint64_t profile_rows_time_ns(const profile_rows_t *rows, const record_header_t *h) {
  return h->start_realtime_ns + rows->from_ns;
}

uint64_t profile_rows_duration_ns(const profile_rows_t *rows, const record_header_t *h) {
  uint64_t whole_ns = h->end_monotonic_ns - h->start_monotonic_ns;
  return (rows->to_ns ? rows->to_ns : whole_ns) - rows->from_ns;
}

void profile_rows_free(profile_rows_t *rows) { free(rows->rows.items); }
