/* SPDX-License-Identifier: MIT */
#include "analysis/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "reader/body.h"

/* ---- series ------------------------------------------------------------------------------- */

static void thin_out(usage_series_t *s) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->count; i += 2)
    s->points[kept++] = s->points[i];
  s->count = kept;
  s->step *= 2;
}

static bool add_point(usage_series_t *s, uint64_t time_ns, uint64_t value) {
  if (!s->points) {
    s->points = malloc(USAGE_POINTS * sizeof *s->points);
    s->step = 1;
  }
  if (!s->points) return false;
  if (s->count && ++s->skipped < s->step) return true;
  s->skipped = 0;
  if (s->count == USAGE_POINTS) thin_out(s);
  s->points[s->count++] = (usage_point_t){time_ns, value};
  return true;
}

static bool add_value(usage_series_t *s, uint64_t time_ns, uint64_t value) {
  bool is_first = !s->is_known, is_same = !is_first && s->last == value;
  if (is_first) {
    s->is_known = true;
    s->first = s->least = value;
    s->first_ns = time_ns;
  }
  if (is_first || value > s->peak) {
    s->peak = value;
    s->peak_ns = time_ns;
  }
  if (value < s->least) s->least = value;
  s->last = value;
  return is_same || add_point(s, time_ns, value);
}

bool usage_add(usage_t *u, const reader_t *reader, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED || e->subtype != EXTENDED_USAGE) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  uint64_t time_ns = reader_ns(reader, e->time);
  if (!u->is_recorded) u->from_ns = time_ns;
  u->before_end_ns = u->is_recorded ? u->to_ns : time_ns;
  u->is_recorded = true;
  u->to_ns = time_ns;
  bool good = true;
  while (good && b.p < b.end) {
    uint64_t field = body_number(&b), value = body_number(&b);
    if (b.truncated) break;
    if (field && field < USAGE_FIELDS) good = add_value(&u->series[field], time_ns, value);
  }
  u->bad += b.truncated;
  return good;
}

void usage_free(usage_t *u) {
  for (unsigned i = 0; i < USAGE_FIELDS; i++)
    free(u->series[i].points);
  memset(u, 0, sizeof *u);
}

const char *usage_key(unsigned field) {
  switch (field) {
#define USAGE_KEY(name, number, key)                                                               \
  case name: return key;
    USAGE_TABLE(USAGE_KEY)
#undef USAGE_KEY
  default: return "";
  }
}

uint64_t usage_at(const usage_series_t *s, uint64_t time_ns) {
  size_t before = ARRAY_SEARCH(s->count, k, s->points[k].time_ns <= time_ns);
  return before ? s->points[before - 1].value : s->first;
}

/* ---- growth ------------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right) {
  const double *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

usage_growth_t usage_growth(const usage_t *u, usage_field_t field, uint64_t from_ns,
                            uint64_t to_ns) {
  enum { STEPS = USAGE_GRID - 1, PAIRS = USAGE_GRID * STEPS / 2 };
  const usage_series_t *s = &u->series[field];
  double values[USAGE_GRID], slopes[PAIRS], step_s;
  if (s->is_known && from_ns < s->first_ns) from_ns = s->first_ns;
  if (!s->is_known || to_ns <= from_ns) return (usage_growth_t){0};
  uint64_t span_ns = to_ns - from_ns;
  step_s = (double)span_ns / STEPS / 1e9;
  for (unsigned i = 0; i < USAGE_GRID; i++)
    values[i] = (double)usage_at(s, from_ns + span_ns / STEPS * i + span_ns % STEPS * i / STEPS);
  unsigned count = 0;
  for (unsigned i = 0; i < USAGE_GRID; i++)
    for (unsigned k = i + 1; k < USAGE_GRID; k++)
      slopes[count++] = (values[k] - values[i]) / (step_s * (k - i));
  qsort(slopes, PAIRS, sizeof *slopes, by_value);
  return (usage_growth_t){slopes[PAIRS / 2], slopes[PAIRS / 4], slopes[3 * PAIRS / 4]};
}
