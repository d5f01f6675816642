/* SPDX-License-Identifier: MIT
 *
 * Snapshots at equal distances, each tenth with its tree, and one with a tree at the peak and at
 * the end (valgrind's manual, "Massif: a heap profiler"). The peak is known only after the last
 * event, so the snapshots are kept: 12 bytes for each stack with live blocks in each tree.
 */
#include "report/exports/page/massif.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/terminal.h"
#include "report/exports/command_line.h"
#include "report/exports/page/massif_tree.h"
#include "sonde/status.h"

enum { SNAPSHOTS = 100, TREE_EVERY = 10, NS_PER_MS = 1000000 };

typedef struct snapshot {
  uint64_t ns, bytes;
  bool has_tree, is_peak;
  page_amounts_t stacks; /* that had live blocks */
} snapshot_t;

typedef struct writer {
  const report_t *report;
  page_names_t names;
  FILE *out;
  ARRAY(snapshot_t) snapshots;
  bool failed;
} writer_t;

/* ---- snapshots ---------------------------------------------------------------------------- */

static void keep_stacks(writer_t *w, snapshot_t *s, const replay_t *r) {
  for (size_t i = 0; i < r->stack_count; i++) {
    const stack_totals_t *stack = &r->stacks[i];
    uint64_t bytes = s->is_peak ? stack->at_peak.bytes : stack->live.bytes;
    if (!bytes) continue;
    page_amount_t *kept = ARRAY_ADD(s->stacks);
    if (kept) *kept = (page_amount_t){.stack = stack->stack, .bytes = bytes};
    w->failed |= !kept;
  }
  s->has_tree = true;
}

/* NULL: out of memory. */
static snapshot_t *take(writer_t *w, uint64_t ns, uint64_t bytes) {
  snapshot_t *s = ARRAY_ADD(w->snapshots);
  if (s) *s = (snapshot_t){.ns = ns, .bytes = bytes};
  w->failed |= !s;
  return s;
}

static bool on_interval(void *context, const replay_t *r, uint64_t time) {
  writer_t *w = context;
  snapshot_t *s = take(w, reader_ns(r->reader, time), r->live.bytes);
  if (s && w->snapshots.count % TREE_EVERY == 0) keep_stacks(w, s, r);
  return w->snapshots.count < SNAPSHOTS;
}

/* Those at the peak and at the end of the recording, END_NS. */
static void take_last(writer_t *w, const replay_t *r, uint64_t end_ns) {
  snapshot_t *peak = take(w, reader_ns(r->reader, r->peak_time), r->at_peak.bytes);
  if (peak) peak->is_peak = true;
  if (peak) keep_stacks(w, peak, r);
  snapshot_t *last = take(w, end_ns, r->live.bytes);
  if (last) keep_stacks(w, last, r);
}

static int by_time(const void *left, const void *right) {
  const snapshot_t *a = left, *b = right;
  if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
  return b->is_peak - a->is_peak;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_snapshot(writer_t *w, size_t i) {
  static const char line[] = "#-----------";
  const snapshot_t *s = &w->snapshots.items[i];
  fprintf(w->out,
          "%s\nsnapshot=%zu\n%s\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
          "\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
          line, i, line, s->ns / NS_PER_MS, s->bytes,
          s->is_peak    ? "peak"
          : s->has_tree ? "detailed"
                        : "empty");
  if (s->has_tree && !massif_tree_write(&w->names, &s->stacks, w->out)) w->failed = true;
}

static void put_all(writer_t *w) {
  fputs("desc: (none)\ncmd:", w->out);
  export_command_line(w->report->reader, w->out);
  fputs("\ntime_unit: ms\n", w->out);
  qsort(w->snapshots.items, w->snapshots.count, sizeof *w->snapshots.items, by_time);
  for (size_t i = 0; i < w->snapshots.count; i++)
    put_snapshot(w, i);
}

int massif_write(const report_t *report, FILE *out) {
  writer_t w = {.report = report, .names = {.report = report}, .out = out};
  const record_header_t *h = reader_header(report->reader);
  uint64_t length_ns = h->end_monotonic_ns - h->start_monotonic_ns;
  replay_t replay;
  terminal_progress_t progress;
  const replay_options_t window = {.on_interval = on_interval,
                                   .on_interval_context = &w,
                                   .interval_ns = length_ns / SNAPSHOTS + 1,
                                   .progress = terminal_progress_update,
                                   .progress_context = &progress};
  page_names_start(&w.names);
  terminal_progress_start(&progress, "reading events", 0);
  int status = replay_run(&replay, report->reader, &window);
  terminal_progress_end(&progress);
  if (status == 0) {
    take_last(&w, &replay, length_ns);
    replay_free(&replay);
    if (!w.failed) put_all(&w);
  }
  for (size_t i = 0; i < w.snapshots.count; i++)
    free(w.snapshots.items[i].stacks.items);
  free(w.snapshots.items);
  bool good = !w.failed && !w.names.failed;
  page_names_free(&w.names);
  return good ? status : SONDE_ENOMEM;
}
