/* SPDX-License-Identifier: MIT
 *
 * The lines of a report that say how much of the CPU time has samples.
 */
#include "analysis/cpu_time.h"

#include "report/json.h"
#include "report/report.h"

/* Less would be printed as 0.00 s. */
#define SHOWN_NS UINT64_C(5000000)

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

/* The causes by time, most first; returns their count. */
static unsigned rank(const cpu_times_t *times, unsigned order[NO_SAMPLE_CAUSES]) {
  unsigned count = 0;
  for (unsigned cause = 0; cause < NO_SAMPLE_CAUSES; cause++) {
    if (!times->no_sample_ns[cause]) continue;
    unsigned i = count++;
    for (; i && times->no_sample_ns[order[i - 1]] < times->no_sample_ns[cause]; i--)
      order[i] = order[i - 1];
    order[i] = cause;
  }
  return count;
}

static uint64_t least_shown(const report_t *r, const cpu_times_t *sum) {
  if (report_is_tight(r)) return sum->cpu_ns / 2;
  return r->brief ? sum->cpu_ns / 20 : SHOWN_NS;
}

void report_cpu_time_text(const report_t *r, FILE *out) {
  unsigned order[NO_SAMPLE_CAUSES];
  if (!r->cpu_time || !r->cpu_time->is_recorded) return;
  cpu_times_t sum = cpu_time_sum(r->cpu_time);
  fprintf(out, "  %-10s %.2f s; samples cover %.2f s\n", r->brief ? "total" : "CPU time",
          seconds(sum.cpu_ns), seconds(sum.sampled_ns));
  unsigned count = rank(&sum, order);
  for (unsigned i = 0; i < count; i++) {
    uint64_t ns = sum.no_sample_ns[order[i]];
    if (ns < least_shown(r, &sum)) continue;
    fprintf(out, "  no sample  %.2f s %s\n", seconds(ns), cpu_time_cause_text(order[i]));
  }
}

json_object *report_unsampled_json(const cpu_times_t *times) {
  unsigned order[NO_SAMPLE_CAUSES];
  json_object *causes = json_new_array();
  unsigned count = rank(times, order);
  for (unsigned i = 0; i < count; i++) {
    json_object *row = json_new_object();
    json_add_text(row, "cause", cpu_time_cause_key(order[i]));
    json_add_count(row, "time_ns", times->no_sample_ns[order[i]]);
    json_append(causes, row);
  }
  return causes;
}

json_object *report_cpu_time_json(const report_t *r) {
  if (!r->cpu_time || !r->cpu_time->is_recorded) return NULL;
  cpu_times_t sum = cpu_time_sum(r->cpu_time);
  json_object *o = json_new_object();
  json_add_count(o, "cpu_ns", sum.cpu_ns);
  json_add_count(o, "sampled_ns", sum.sampled_ns);
  json_add_count(o, "unsampled_ns", cpu_time_unsampled(&sum));
  json_add(o, "unsampled", report_unsampled_json(&sum));
  return o;
}
