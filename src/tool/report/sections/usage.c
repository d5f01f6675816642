/* SPDX-License-Identifier: MIT
 *
 * Section `usage`: the resources that the program used over time, with a curve of each.
 */
#include "analysis/usage.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/report.h"
#include "report/sections/analyses.h"

enum { CURVE = 16, VALUE_BYTES = 32 };

typedef struct usage_state {
  usage_t usage;
  const reader_t *reader;
} usage_state_t;

typedef enum value_unit { IN_BYTES, IN_COUNTS, IN_TIME } value_unit_t;

/* Rows of the text, most important first. A total is shown by its growth. */
static const struct {
  usage_field_t field;
  const char *name;
  value_unit_t unit;
  bool is_total;
  bool is_brief;
  bool is_rare; /* omitted if it was always 0 */
} rows[] = {{USAGE_RSS, "resident memory", IN_BYTES, false, true, false},
            {USAGE_ANONYMOUS, "  not from files", IN_BYTES, false, false, false},
            {USAGE_SWAP, "swap", IN_BYTES, false, true, true},
            {USAGE_DESCRIPTORS, "descriptors", IN_COUNTS, false, true, false},
            {USAGE_THREADS, "threads", IN_COUNTS, false, false, false},
            {USAGE_USER_TIME, "user CPU time", IN_TIME, true, false, false},
            {USAGE_SYSTEM_TIME, "system CPU time", IN_TIME, true, false, false},
            {USAGE_MINOR_FAULTS, "minor page faults", IN_COUNTS, true, false, false},
            {USAGE_MAJOR_FAULTS, "major page faults", IN_COUNTS, true, false, true},
            {USAGE_VOLUNTARY, "waits", IN_COUNTS, true, false, false},
            {USAGE_INVOLUNTARY, "preemptions", IN_COUNTS, true, false, false},
            {USAGE_SONDE, "sonde's CPU time", IN_TIME, true, false, false}};

static void *start(const report_t *r) {
  usage_state_t *s = calloc(1, sizeof *s);
  if (s) s->reader = r->reader;
  return s;
}

static void end(void *state) {
  usage_free(&((usage_state_t *)state)->usage);
  free(state);
}

static bool add_event(void *state, const record_event_t *e) {
  usage_state_t *s = state;
  return usage_add(&s->usage, s->reader, e);
}

const usage_t *section_usage_readings(const void *state) {
  return &((const usage_state_t *)state)->usage;
}

static bool has_data(const report_t *r, void *state) {
  (void)r;
  return ((const usage_state_t *)state)->usage.is_recorded;
}

/* ---- text --------------------------------------------------------------------------------- */

static const char *value_text(value_unit_t unit, double value, char *out) {
  switch (unit) {
  case IN_BYTES: return report_bytes((int64_t)value, out);
  case IN_TIME: snprintf(out, VALUE_BYTES, "%.2f s", value / 1e9); return out;
  default: return report_count((uint64_t)value, out);
  }
}

/* "+1.2 MB/s"; "" if the quartiles do not agree on a direction. */
static const char *growth_text(value_unit_t unit, usage_growth_t g, char *out) {
  char number[VALUE_BYTES];
  double rate = g.per_s < 0 ? -g.per_s : g.per_s;
  *out = 0;
  if (g.low_per_s <= 0 && g.high_per_s >= 0) return out;
  if (unit == IN_COUNTS)
    snprintf(number, sizeof number, "%.*f", rate < 10 ? 1 : 0, rate);
  else
    (void)value_text(unit, rate, number);
  snprintf(out, 2 * VALUE_BYTES, "%c%s/s", g.per_s < 0 ? '-' : '+', number);
  return out;
}

/* CURVE bars between the least and the greatest value; of a total, of its increase. */
static void print_curve(const usage_t *u, const usage_series_t *s, bool is_total, FILE *out) {
  static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double values[CURVE], most = 0, span = (double)(u->to_ns - u->from_ns);
  for (int i = 0; i < CURVE; i++) {
    uint64_t from = u->from_ns + (uint64_t)(span * i / CURVE);
    uint64_t to = u->from_ns + (uint64_t)(span * (i + 1) / CURVE);
    uint64_t value = usage_at(s, to);
    values[i] = (double)(is_total ? value - usage_at(s, from) : value);
    if (values[i] > most) most = values[i];
  }
  for (int i = 0; most > 0 && i < CURVE; i++)
    fputs(bars[(int)(values[i] / most * 7.0)], out);
}

static void print_row(const usage_t *u, int i, FILE *out) {
  const usage_series_t *s = &u->series[rows[i].field];
  char first[VALUE_BYTES], last[VALUE_BYTES], peak[VALUE_BYTES], growth[3 * VALUE_BYTES];
  usage_growth_t g = usage_growth(u, rows[i].field, u->from_ns, u->to_ns);
  uint64_t most = rows[i].field == USAGE_RSS && u->series[USAGE_PEAK_RSS].peak > s->peak
                      ? u->series[USAGE_PEAK_RSS].peak
                      : s->peak;
  fprintf(out, "  %-17s %9s %9s %9s", rows[i].name,
          value_text(rows[i].unit, (double)s->first, first),
          value_text(rows[i].unit, (double)s->last, last),
          rows[i].is_total ? "" : value_text(rows[i].unit, (double)most, peak));
  if (s->peak != s->least) {
    fprintf(out, " %12s ", growth_text(rows[i].unit, g, growth));
    print_curve(u, s, rows[i].is_total, out);
  }
  fputc('\n', out);
}

enum { ROW_COUNT = sizeof rows / sizeof *rows };

static bool is_changing(const usage_series_t *s) {
  return s->first != s->peak || s->last != s->peak;
}

static bool is_shown(const report_t *r, const usage_t *u, size_t i) {
  const usage_series_t *s = &u->series[rows[i].field];
  bool hidden =
      (r->brief && (!rows[i].is_brief || (i && !is_changing(s)))) || (rows[i].is_rare && !s->peak);
  return s->is_known && !hidden;
}

static bool has_rows(const report_t *r, const usage_t *u) {
  bool found = u->series[USAGE_CGROUP_LIMIT].is_known || u->series[USAGE_CGROUP_CPU].is_known;
  for (size_t i = 0; i < ROW_COUNT; i++)
    found |= is_shown(r, u, i);
  return found;
}

static void print_cgroup(const usage_t *u, FILE *out) {
  const usage_series_t *all = u->series;
  char text[VALUE_BYTES];
  if (all[USAGE_CGROUP_LIMIT].is_known)
    fprintf(out, "  cgroup limit      %s of memory",
            report_bytes((int64_t)all[USAGE_CGROUP_LIMIT].last, text));
  if (all[USAGE_CGROUP_LIMIT].is_known && all[USAGE_CGROUP_MEMORY].is_known)
    fprintf(out, "; %s used at most", report_bytes((int64_t)all[USAGE_CGROUP_MEMORY].peak, text));
  if (all[USAGE_CGROUP_LIMIT].is_known) fputc('\n', out);
  uint64_t kills = all[USAGE_CGROUP_OOM_KILLS].last - all[USAGE_CGROUP_OOM_KILLS].first;
  if (kills)
    fprintf(out, "  out of memory     the kernel killed %s processes of the cgroup\n",
            report_count(kills, text));
  uint64_t throttled = all[USAGE_CGROUP_THROTTLED].last - all[USAGE_CGROUP_THROTTLED].first;
  if (all[USAGE_CGROUP_CPU].is_known)
    fprintf(out, "  CPU limit         %.2f CPUs; the cgroup waited %.2f s for it\n",
            (double)all[USAGE_CGROUP_CPU].last / 1000, (double)throttled / 1e9);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const usage_t *u = &((const usage_state_t *)state)->usage;
  if (!u->is_recorded) {
    fprintf(out, "\n%sresources%s\n  not recorded\n", r->bold, r->plain);
    return 0;
  }
  if (r->brief && !has_rows(r, u)) return 0; /* it ended before the first reading */
  fprintf(out, "\n%s%-19s%s%s %9s %9s %9s %12s%s\n", r->bold, "resources", r->plain, r->dim,
          "first", "last", "peak", "trend", r->plain);
  for (size_t i = 0; i < ROW_COUNT; i++)
    if (is_shown(r, u, i)) print_row(u, (int)i, out);
  print_cgroup(u, out);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *series_json(const usage_t *u, unsigned field) {
  const usage_series_t *s = &u->series[field];
  json_object *o = json_new_object(), *points = json_new_array();
  usage_growth_t g = usage_growth(u, (usage_field_t)field, u->from_ns, u->to_ns);
  json_add_count(o, "first", s->first);
  json_add_count(o, "last", s->last);
  json_add_count(o, "least", s->least);
  json_add_count(o, "peak", s->peak);
  json_add_count(o, "peak_time_ns", s->peak_ns);
  json_add(o, "per_s", json_object_new_double(g.per_s));
  json_add(o, "per_s_low", json_object_new_double(g.low_per_s));
  json_add(o, "per_s_high", json_object_new_double(g.high_per_s));
  for (uint32_t i = 0; i < s->count; i++) {
    json_object *point = json_new_array();
    json_append(point, json_object_new_uint64(s->points[i].time_ns));
    json_append(point, json_object_new_uint64(s->points[i].value));
    json_append(points, point);
  }
  json_add(o, "points", points);
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  const usage_t *u = &((const usage_state_t *)state)->usage;
  (void)r;
  json_object *o = json_new_object();
  if (!u->is_recorded) return o;
  json_add_count(o, "from_ns", u->from_ns);
  json_add_count(o, "to_ns", u->to_ns);
  for (unsigned field = 1; field < USAGE_FIELDS; field++)
    if (u->series[field].is_known) json_add(o, usage_key(field), series_json(u, field));
  return o;
}

const report_section_t section_usage = {.name = "usage",
                                        .start = start,
                                        .event = add_event,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
