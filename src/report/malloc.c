/* SPDX-License-Identifier: MIT
 *
 * The malloc report as text: what happened in a few lines, where the bytes were at the peak (or
 * what else it is ranked by), by function, by library, and the stacks themselves.
 */
#include "report/malloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "record/recorder.h"
#include "sonde/status.h"

enum { DEPTH_SHOWN = 12, DEPTH_MAX = 4096 };

const frame_name_t *report_owner(const malloc_report_t *r, uint32_t stack) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names, *first = NULL;
  int count = reader_stack(r->reader, stack, frames, DEPTH_MAX);
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    int n = names_of_frame(r->names, frames[i], &names);
    if (!first) first = &names[0];
    if (!names[n - 1].system && !names_is_marker(frames[i])) return &names[0];
  }
  return first;
}

/* ---- the head ----------------------------------------------------------------------------- */

static void print_end(const record_header_t *h, FILE *out) {
  int status = (int)h->exit_status;
  if (h->state != RECORD_FINISHED)
    fprintf(out, "not finished: it runs, or its recorder was killed");
  else if (WIFEXITED(status))
    fprintf(out, "ended with status %d", WEXITSTATUS(status));
  else
    fprintf(out, "killed by signal %d", WTERMSIG(status));
}

void report_missing(const reader_t *reader, FILE *out) {
  const record_header_t *h = reader_header(reader);
  const read_damage_t *d = reader_damage(reader);
  if (h->stop_reason)
    fprintf(out, "  missing    recording stopped before the end: %s\n",
            record_stop_text(h->stop_reason));
  if (h->lost_events)
    fprintf(out, "  missing    %" PRIu64 " events could not be written\n", h->lost_events);
  if (h->lost_stacks)
    fprintf(out, "  missing    the stacks of %" PRIu64 " events\n", h->lost_stacks);
  if (h->lost_definitions || d->missing_definitions)
    fprintf(out, "  missing    %" PRIu64 " definitions of stacks and frames\n",
            h->lost_definitions + d->missing_definitions);
  if (d->damaged_chunks || d->bad_records || d->missing_chunks)
    fprintf(out,
            "  damaged    %" PRIu64 " chunks are damaged, %" PRIu64 " are missing, %" PRIu64
            " records are not understood\n",
            d->damaged_chunks, d->missing_chunks, d->bad_records);
  if (d->skipped_bytes)
    fprintf(out, "  damaged    %" PRIu64 " bytes are no chunk, the first at offset %" PRIu64 "\n",
            d->skipped_bytes, d->first_skipped_at);
  if (h->incarnations > 1)
    fprintf(out,
            "  note       the process ran %" PRIu32 " programs in turn; this is the last one\n",
            h->incarnations);
}

void report_head_text(const malloc_report_t *r, FILE *out) {
  const record_header_t *h = reader_header(r->reader);
  fprintf(out, "%s%s%s\n", r->bold, r->path, r->plain);
  const char *argument;
  fprintf(out, "  program    ");
  for (uint32_t i = 1; (argument = reader_argument(r->reader, i)) && i < 12; i++)
    fprintf(out, "%s%.80s", i > 1 ? " " : "", argument);
  double seconds = (double)(h->end_monotonic_ns - h->start_monotonic_ns) / 1e9;
  fprintf(out, "\n  process    %" PRIu32 ", %.3f s, ", h->pid, seconds);
  print_end(h, out);
  size_t threads;
  reader_threads(r->reader, &threads);
  fprintf(out, "; %zu thread%s\n", threads, threads == 1 ? "" : "s");
  report_missing(r->reader, out);
}

static void print_totals(const malloc_report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24], b[24], c[24], d[24];
  if (p->sampled)
    fprintf(out, "  sampled    from %s recorded calls: numbers are estimates\n",
            report_count(p->events, a));
  fprintf(out, "  allocated  %s in %s calls; %s frees, %s reallocs\n",
          report_bytes((int64_t)p->allocated.bytes, a),
          report_count(p->allocated.count - p->reallocs, b), report_count(p->frees, c),
          report_count(p->reallocs, d));
  fprintf(out, "  peak       %s in %s blocks, %.3f s after the start\n",
          report_bytes((int64_t)p->at_peak.bytes, a), report_count(p->at_peak.count, b),
          (double)reader_ns(r->reader, p->peak_time) / 1e9);
  fprintf(out, "  never freed  %s in %s blocks\n", report_bytes((int64_t)p->live.bytes, a),
          report_count(p->live.count, b));
  double share = p->allocated.count ? 100.0 * (double)p->temporary / (double)p->allocated.count : 0;
  fprintf(out, "  temporary  %s allocations (%.0f %%) were freed by the thread's next call\n",
          report_count(p->temporary, a), share);
  if (p->unknown_frees || p->double_frees)
    fprintf(out,
            "  odd        %s frees of blocks that were not seen to be given out, %s of them "
            "freed twice\n",
            report_count(p->unknown_frees + p->double_frees, a), report_count(p->double_frees, b));
  if (p->overlaid)
    fprintf(out,
            "  odd        %s blocks were given out again without having been seen to be freed\n",
            report_count(p->overlaid, a));
}

static void print_depths(const malloc_report_t *r, FILE *out) {
  char a[24];
  depths_t depths;
  depths_of(r->replay, &depths);
  double share = 100.0 * (double)depths.complete / (double)r->replay->allocated.count;
  fprintf(out,
          "  stacks     %s distinct; half of the allocations at most %" PRIu32
          " deep, the deepest %" PRIu32 "; %.2f %% complete\n",
          report_count(r->replay->stack_count, a), depths_quantile(&depths, 0.5), depths.deepest,
          share);
}

/* ---- what is ranked ----------------------------------------------------------------------- */

static const char *title_of(measure_t measure) {
  static const char *const titles[MEASURE_COUNT] = {"live at the peak", "never freed",
                                                    "allocated in all", "temporary allocations",
                                                    "growth over the window"};
  return titles[measure];
}

static uint64_t whole_of(const replay_t *p, measure_t measure) {
  switch (measure) {
  case MEASURE_PEAK: return p->at_peak.bytes;
  case MEASURE_LIVE: return p->live.bytes;
  case MEASURE_TEMPORARY: return p->temporary;
  case MEASURE_GROWTH: {
    int64_t growth = (int64_t)(p->live.bytes - p->at_start.bytes);
    return (uint64_t)(growth < 0 ? -growth : growth);
  }
  default: return p->allocated.bytes;
  }
}

/* "  12.3 MB  45.6 %  1,234 ×" */
static void print_amount(const malloc_report_t *r, const stack_totals_t *s, FILE *out) {
  char a[24], b[24];
  tally_t t = tally_of(s, r->measure);
  uint64_t whole = whole_of(r->replay, r->measure);
  double share = whole ? 100.0 * (double)(int64_t)t.bytes / (double)whole : 0;
  if (r->measure == MEASURE_TEMPORARY)
    fprintf(out, "  %12s  %5.1f %%  ", report_count(t.count, a), share);
  else if (r->measure == MEASURE_GROWTH)
    fprintf(out, "  %10s  %5.1f %%  %+12" PRId64 " ×  ", report_bytes((int64_t)t.bytes, a), share,
            (int64_t)t.count);
  else
    fprintf(out, "  %10s  %5.1f %%  %12s ×  ", report_bytes((int64_t)t.bytes, a), share,
            report_count(t.count, b));
}

static int print_groups(const malloc_report_t *r, FILE *out, bool by_library) {
  groups_t groups = {0};
  bool good = true;
  for (size_t i = 0; good && i < r->replay->stack_count; i++) {
    const stack_totals_t *s = &r->replay->stacks[i];
    const frame_name_t *owner = report_owner(r, s->stack);
    const char *key = !owner       ? "[a stack that is not in the recording]"
                      : by_library ? owner->library
                                   : owner->function;
    if (measure_of(s, r->measure)) good = groups_add(&groups, key, s);
  }
  if (good) {
    groups_rank(&groups, r->measure);
    fprintf(out, "\n%s%s, by %s%s\n", r->bold, title_of(r->measure),
            by_library ? "library" : "function", r->plain);
    for (size_t i = 0; i < groups.count && i < r->top; i++) {
      print_amount(r, &groups.items[i].totals, out);
      fprintf(out, "%s\n", *groups.items[i].key ? groups.items[i].key : "[no library]");
    }
    if (groups.count > r->top) fprintf(out, "  … and %zu more\n", groups.count - r->top);
  }
  groups_free(&groups);
  return good ? 0 : SONDE_ENOMEM;
}

static void print_name(const malloc_report_t *r, const frame_name_t *name, FILE *out) {
  fprintf(out, "      %s", name->function);
  if (name->file)
    fprintf(out, "  %s%s:%" PRIu32 "%s", r->dim, name->file, name->line, r->plain);
  else if (name->known && *name->library)
    fprintf(out, "  %s%s%s", r->dim, name->library, r->plain);
  if (name->inlined) fprintf(out, "  %s(inlined)%s", r->dim, r->plain);
  fputc('\n', out);
}

static void print_stack(const malloc_report_t *r, uint32_t stack, FILE *out) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  int count = reader_stack(r->reader, stack, frames, DEPTH_MAX), shown = 0;
  if (count < 0) fprintf(out, "      [the stack is not in the recording]\n");
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    int n = names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < n; k++)
      if (shown++ < DEPTH_SHOWN) print_name(r, &names[k], out);
  }
  if (shown > DEPTH_SHOWN) fprintf(out, "      … %d more\n", shown - DEPTH_SHOWN);
}

static int print_stacks(const malloc_report_t *r, FILE *out) {
  uint32_t *ranked;
  ptrdiff_t count = rank_stacks(r->replay, r->measure, &ranked);
  if (count < 0) return SONDE_ENOMEM;
  fprintf(out, "\n%s%s, by stack%s\n", r->bold, title_of(r->measure), r->plain);
  for (ptrdiff_t i = 0; i < count && i < (ptrdiff_t)r->top; i++) {
    const stack_totals_t *s = &r->replay->stacks[ranked[i]];
    print_amount(r, s, out);
    fprintf(out, "stack %" PRIu32 "\n", s->stack);
    print_stack(r, s->stack, out);
  }
  if (count > (ptrdiff_t)r->top)
    fprintf(out, "  … and %td more stacks\n", count - (ptrdiff_t)r->top);
  free(ranked);
  return 0;
}

static void print_odd(const malloc_report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  if (!p->double_frees) return;
  fprintf(out, "\n%sfreed twice%s\n", r->bold, r->plain);
  for (uint32_t i = 0; i < p->odd_count; i++) {
    if (!p->odd[i].twice) continue;
    fprintf(out, "  0x%" PRIx64 ", %.6f s after the start, from stack %" PRIu32 "\n",
            p->odd[i].address, (double)reader_ns(r->reader, p->odd[i].time) / 1e9, p->odd[i].stack);
    print_stack(r, p->odd[i].stack, out);
  }
}

int report_malloc_text(const malloc_report_t *r, FILE *out) {
  fprintf(out, "\n%sallocations%s\n", r->bold, r->plain);
  print_totals(r, out);
  if (r->replay->allocated.count) print_depths(r, out);
  print_odd(r, out);
  int status = print_groups(r, out, false);
  if (status == 0) status = print_groups(r, out, true);
  return status == 0 ? print_stacks(r, out) : status;
}
