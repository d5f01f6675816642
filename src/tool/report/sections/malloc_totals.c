/* SPDX-License-Identifier: MIT */
#include "report/sections/malloc_totals.h"

#include <inttypes.h>

#include "analysis/malloc/estimate.h"
#include "analysis/summary/summary.h"
#include "report/json.h"

/* ---- what is unknown ---------------------------------------------------------------------- */

uint64_t malloc_covered_from(const report_t *r) {
  const reader_damage_t *d = reader_damage(r->reader);
  return d->dropped_chunks ? d->complete_from : 0;
}

bool malloc_live_is_unknown(const report_t *r) {
  const replay_t *p = r->replay;
  return malloc_covered_from(r) && !p->snapshots && !p->allocated.count && !p->live.count;
}

void malloc_hide_unknown(const report_t *r, column_t *columns) {
  static const char *const calls[] = {"allocated", "calls",     "frees",      "reallocs",
                                      "temporary", "allocated", "allocations"};
  static const char *const sampled[] = {"reallocs", "temporary"};
  static const char *const live[] = {"peak", "peak_ns", "live", "live_at_start", "never freed"};
  for (size_t i = 0; has_snapshots_only(r->replay) && i < sizeof calls / sizeof *calls; i++)
    table_hide(columns, calls[i]);
  for (size_t i = 0; r->replay->sample_bytes && i < sizeof sampled / sizeof *sampled; i++)
    table_hide(columns, sampled[i]);
  for (size_t i = 0; malloc_live_is_unknown(r) && i < sizeof live / sizeof *live; i++)
    table_hide(columns, live[i]);
}

/* ---- text --------------------------------------------------------------------------------- */

static double seconds_at(const report_t *r, uint64_t ticks) {
  return (double)reader_ns(r->reader, ticks) / 1e9;
}

static void print_count(const char *label, uint64_t count, const char *what, FILE *out) {
  char text[24];
  if (count) fprintf(out, "  %-10s %s %s\n", label, report_count(count, text), what);
}

/* Which part of the run, and which blocks, the numbers are about. */
static void print_scope(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24], b[24];
  if (malloc_covered_from(r))
    fprintf(out, "  covers     from %.3f s; older events were overwritten (--limit)\n",
            seconds_at(r, malloc_covered_from(r)));
  if (is_summary(r->reader) && (r->window->from_ns || r->window->to_ns))
    fprintf(
        out,
        "  summary    growth covers %.3f s to %.3f s, the times in the summary; the rest covers "
        "the whole run\n",
        seconds_at(r, p->window_from), seconds_at(r, p->window_to ? p->window_to : p->last_time));
  if (p->sample_bytes > 1)
    fprintf(out, "  estimated  from %s samples, one block per %s; ± is the 95 %% interval\n",
            report_count(p->events, a), report_bytes((int64_t)p->sample_bytes, b));
  else if (p->sample_bytes)
    fprintf(out, "  estimated  from %s sampled calls\n", report_count(p->events, a));
}

/* " ± 12 %", or "" for an exact number. */
static const char *error_of(const report_t *r, uint64_t error, uint64_t value, char *text) {
  *text = 0;
  if (r->replay->sample_bytes > 1 && error) {
    *text = ' ';
    report_error((double)error, (double)value, text + 1);
  }
  return text;
}

static void print_calls(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24], b[24], c[24], d[24], e[32], f[32];
  uint64_t calls = p->allocated.count - p->reallocs;
  if (p->sample_bytes)
    fprintf(out, "  allocated  %s%s in %s%s call%s; %s block%s freed\n",
            report_bytes((int64_t)p->allocated.bytes, a),
            error_of(r, estimate_total_error(p, MEASURE_ALLOCATED), p->allocated.bytes, e),
            report_count(p->allocated.count, b),
            error_of(r, estimate_count_error(p, false), p->allocated.count, f),
            report_plural(p->allocated.count), report_count(p->frees, c), report_plural(p->frees));
  else
    fprintf(out, "  allocated  %s in %s call%s; %s free%s, %s realloc%s\n",
            report_bytes((int64_t)p->allocated.bytes, a), report_count(calls, b),
            report_plural(calls), report_count(p->frees, c), report_plural(p->frees),
            report_count(p->reallocs, d), report_plural(p->reallocs));
}

static void print_peak(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24], b[24], e[32];
  fprintf(out, "  %-10s %s%s%s in %s block%s, %.3f s after the start\n",
          has_snapshots_only(p) ? "largest" : "peak", malloc_covered_from(r) ? "at least " : "",
          report_bytes((int64_t)p->at_peak.bytes, a),
          error_of(r, estimate_total_error(p, MEASURE_PEAK), p->at_peak.bytes, e),
          report_count(p->at_peak.count, b), report_plural(p->at_peak.count),
          seconds_at(r, p->peak_time));
}

/* If none of the sampled blocks is live, 3 times the distance of samples is the upper end of the
 * 95 % interval: exp(-3) is 0.05. */
static void print_live(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24], b[24], e[32], f[32];
  if (p->sample_bytes > 1 && !p->live.count) {
    fprintf(out, "  never freed  less than %s; no sampled block was live at the end\n",
            report_bytes((int64_t)(3 * p->sample_bytes), a));
    return;
  }
  fprintf(out, "  never freed  %s%s%s in %s%s block%s\n", malloc_covered_from(r) ? "at least " : "",
          report_bytes((int64_t)p->live.bytes, a),
          error_of(r, estimate_total_error(p, MEASURE_LIVE), p->live.bytes, e),
          report_count(p->live.count, b),
          error_of(r, estimate_count_error(p, true), p->live.count, f),
          report_plural(p->live.count));
}

static void print_amounts(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24];
  if (p->events) print_calls(r, out);
  print_count("snapshots", p->snapshots, "of the live blocks; the mode 'live' records no history",
              out);
  if (malloc_live_is_unknown(r)) {
    fprintf(out, "  live       unknown: all blocks in these events were allocated before\n");
  } else {
    print_peak(r, out);
    print_live(r, out);
  }
  double share = p->allocated.count ? 100.0 * (double)p->temporary / (double)p->allocated.count : 0;
  if (p->events && p->allocated.count && !p->sample_bytes && !report_is_tight(r))
    fprintf(out, "  temporary  %s allocation%s (%.0f %%) %s freed by the thread's next call\n",
            report_count(p->temporary, a), report_plural(p->temporary), share,
            p->temporary == 1 ? "was" : "were");
}

static void print_gaps(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  if (p->incomplete)
    print_count("earlier", p->prerecording_frees, "frees of blocks that were allocated before",
                out);
  if (p->blocks_until)
    fprintf(out, "  recorded   until %.3f s; blocks freed later count as never freed\n",
            seconds_at(r, p->blocks_until));
  print_count("untracked", p->untracked, "blocks were live when the recording mode changed", out);
  print_count("invalid", p->unknown_frees, "frees of addresses that were not allocated", out);
  print_count("invalid", p->double_frees, "frees of blocks that were already freed", out);
  print_count("reused", p->address_reuses, "addresses were allocated again without a recorded free",
              out);
}

static void print_depths(const report_t *r, FILE *out) {
  char a[24];
  depths_t depths;
  depths_of(r->replay, &depths);
  uint64_t all = depths.undefined;
  for (int i = 0; i < DEPTHS; i++)
    all += depths.allocations[i];
  if (!all || (r->brief && depths.complete == all)) return;
  fprintf(out,
          "  stacks     %s distinct; median depth %" PRIu32 ", maximum %" PRIu32
          "; %.2f %% complete\n",
          report_count(r->replay->stack_count, a), depths_quantile(&depths, 0.5), depths.deepest,
          100.0 * (double)depths.complete / (double)all);
}

void malloc_totals_text(const report_t *r, FILE *out) {
  print_scope(r, out);
  print_amounts(r, out);
  print_gaps(r, out);
  print_depths(r, out);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *depths_json(const replay_t *p) {
  depths_t depths;
  depths_of(p, &depths);
  json_object *o = json_new_object(), *list = json_new_array();
  json_add_count(o, "complete", depths.complete);
  json_add_count(o, "undefined", depths.undefined);
  json_add_count(o, "deepest", depths.deepest);
  for (unsigned i = 0; i < DEPTHS; i++) {
    if (!depths.allocations[i]) continue;
    json_object *row = json_new_object();
    json_add_count(row, "frames", i);
    json_add_count(row, "allocations", depths.allocations[i]);
    json_append(list, row);
  }
  json_add(o, "histogram", list);
  return o;
}

static void add_errors(const report_t *r, json_object *o) {
  const replay_t *p = r->replay;
  const counts_t allocated = {estimate_count_error(p, false),
                              estimate_total_error(p, MEASURE_ALLOCATED)},
                 live = {estimate_count_error(p, true), estimate_total_error(p, MEASURE_LIVE)};
  json_add(o, "allocated_error", report_counts_json(allocated));
  json_add(o, "live_error", report_counts_json(live));
  json_add_count(o, "peak_error_bytes", estimate_total_error(p, MEASURE_PEAK));
}

void malloc_totals_json(const report_t *r, json_object *o) {
  column_t columns[] = {
      {"events", NULL, UNIT_COUNT, FIELD(replay_t, events)},
      {"allocated", NULL, UNIT_BLOCKS, FIELD(replay_t, allocated)},
      {"frees", NULL, UNIT_COUNT, FIELD(replay_t, frees)},
      {"reallocs", NULL, UNIT_COUNT, FIELD(replay_t, reallocs)},
      {"temporary", NULL, UNIT_COUNT, FIELD(replay_t, temporary)},
      {"peak", NULL, UNIT_BLOCKS, FIELD(replay_t, at_peak)},
      {"peak_ns", NULL, UNIT_TICKS, FIELD(replay_t, peak_time)},
      {"live", NULL, UNIT_BLOCKS, FIELD(replay_t, live)},
      {"live_at_start", NULL, UNIT_BLOCKS, FIELD(replay_t, at_start)},
      {"unknown_frees", NULL, UNIT_COUNT, FIELD(replay_t, unknown_frees)},
      {"double_frees", NULL, UNIT_COUNT, FIELD(replay_t, double_frees)},
      {"address_reuses", NULL, UNIT_COUNT, FIELD(replay_t, address_reuses)},
      {"prerecording_frees", NULL, UNIT_COUNT, FIELD(replay_t, prerecording_frees)},
      {"untracked", NULL, UNIT_COUNT, FIELD(replay_t, untracked)},
      {"recorded_until_ns", NULL, UNIT_TICKS, FIELD(replay_t, blocks_until), .optional = true},
      {"switches", NULL, UNIT_COUNT, FIELD(replay_t, switches)},
      {"snapshots", NULL, UNIT_COUNT, FIELD(replay_t, snapshots)},
      {0}};
  malloc_hide_unknown(r, columns);
  table_row_json(r, columns, r->replay, o);
  json_add_flag(o, "sampled", r->replay->sample_bytes != 0);
  if (r->replay->sample_bytes > 1) {
    json_add_count(o, "sample_bytes", r->replay->sample_bytes);
    add_errors(r, o);
  }
  json_add(o, "depth", depths_json(r->replay));
}
