/* SPDX-License-Identifier: MIT
 *
 * The malloc report as text: what happened in a few lines, where the bytes were at the peak (or
 * what else it is ranked by), by function, library, thread and size, and the stacks themselves.
 */
#include "report/sections/malloc.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analysis/summary/summary.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 5 };

/* Then what was live between them is not known, and so no peak. */
static bool snapshots_alone(const replay_t *p) { return p->snapshots && !p->events; }

static void print_totals(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  char a[24], b[24], c[24], d[24];
  if (is_summary(r->reader) && (r->window->from_ns || r->window->to_ns))
    fprintf(
        out,
        "  summary    growth is from %.3f s to %.3f s, moments that the summary has; the rest is "
        "of the whole run\n",
        (double)reader_ns(r->reader, p->window_from) / 1e9,
        (double)reader_ns(r->reader, p->window_to ? p->window_to : p->last_time) / 1e9);
  if (p->sampled)
    fprintf(out, "  sampled    from %s recorded calls: numbers are estimates\n",
            report_count(p->events, a));
  if (p->events)
    fprintf(out, "  allocated  %s in %s calls; %s frees, %s reallocs\n",
            report_bytes((int64_t)p->allocated.bytes, a),
            report_count(p->allocated.count - p->reallocs, b), report_count(p->frees, c),
            report_count(p->reallocs, d));
  if (p->snapshots)
    fprintf(out, "  snapshots  %s of what was live; in the mode live there is no history\n",
            report_count(p->snapshots, a));
  fprintf(out, "  %s %s in %s blocks, %.3f s after the start\n",
          snapshots_alone(p) ? "largest   " : "peak      ",
          report_bytes((int64_t)p->at_peak.bytes, a), report_count(p->at_peak.count, b),
          (double)reader_ns(r->reader, p->peak_time) / 1e9);
  fprintf(out, "  never freed  %s in %s blocks\n", report_bytes((int64_t)p->live.bytes, a),
          report_count(p->live.count, b));
  double share = p->allocated.count ? 100.0 * (double)p->temporary / (double)p->allocated.count : 0;
  if (p->events)
    fprintf(out, "  temporary  %s allocations (%.0f %%) were freed by the thread's next call\n",
            report_count(p->temporary, a), share);
  if (p->incomplete && p->prerecording_frees)
    fprintf(out, "  earlier    %s frees of blocks given out before they were recorded\n",
            report_count(p->prerecording_frees, a));
  if (p->blocks_until)
    fprintf(out, "  recorded   until %.3f s: what was freed later counts as never freed\n",
            (double)reader_ns(r->reader, p->blocks_until) / 1e9);
  if (p->untracked)
    fprintf(out, "  switched   %s blocks were live when the recording of blocks changed\n",
            report_count(p->untracked, a));
  if (p->unknown_frees)
    fprintf(out, "  odd        %s frees of blocks that were not seen to be given out\n",
            report_count(p->unknown_frees, a));
  if (p->double_frees)
    fprintf(out, "  odd        %s frees of blocks that had been freed before\n",
            report_count(p->double_frees, a));
  if (p->address_reuses)
    fprintf(out,
            "  odd        %s blocks were given out again without having been seen to be freed\n",
            report_count(p->address_reuses, a));
}

static void print_depths(const report_t *r, FILE *out) {
  char a[24];
  depths_t depths;
  depths_of(r->replay, &depths);
  uint64_t all = depths.undefined;
  for (int i = 0; i < DEPTHS; i++)
    all += depths.allocations[i];
  double share = all ? 100.0 * (double)depths.complete / (double)all : 100.0;
  fprintf(out,
          "  stacks     %s distinct; half of the allocations at most %" PRIu32
          " deep, the deepest %" PRIu32 "; %.2f %% complete\n",
          report_count(r->replay->stack_count, a), depths_quantile(&depths, 0.5), depths.deepest,
          share);
}

/* ---- what is ranked ----------------------------------------------------------------------- */

static const char *title_of(const replay_t *p, measure_t measure) {
  static const char *const titles[MEASURE_COUNT] = {"live at the peak", "never freed",
                                                    "allocated in all", "temporary allocations",
                                                    "growth over the window"};
  return measure == MEASURE_PEAK && snapshots_alone(p) ? "live in the largest snapshot"
                                                       : titles[measure];
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
static void print_amount(const report_t *r, const stack_totals_t *s, FILE *out) {
  char a[24], b[24];
  counts_t t = counts_of(s, r->measure);
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

static const char *key_of(const report_t *r, const stack_totals_t *s, bool by_library) {
  const frame_name_t *owner = frame_names_owner(r->names, s->stack);
  if (!owner) return "[a stack that is not in the recording]";
  return by_library ? owner->library : owner->function;
}

int malloc_groups(const report_t *r, bool by_library, aggregate_t *groups) {
  *groups = (aggregate_t){0};
  for (size_t i = 0; i < r->replay->stack_count; i++) {
    const stack_totals_t *s = &r->replay->stacks[i];
    if (measure_of(s, r->measure) && !aggregate_add(groups, key_of(r, s, by_library), s)) {
      aggregate_free(groups);
      return SONDE_ENOMEM;
    }
  }
  aggregate_rank(groups, r->measure);
  return 0;
}

static int print_groups(const report_t *r, FILE *out, bool by_library) {
  aggregate_t groups;
  int status = malloc_groups(r, by_library, &groups);
  if (status < 0) return status;
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  fprintf(out, "\n%s%s, by %s%s\n", r->bold, title_of(r->replay, r->measure),
          by_library ? "library" : "function", r->plain);
  for (size_t i = 0; i < groups.count && i < top; i++) {
    print_amount(r, &groups.items[i].totals, out);
    fprintf(out, "%s\n", *groups.items[i].key ? groups.items[i].key : "[no library]");
  }
  if (groups.count > top) fprintf(out, "  … and %zu more\n", groups.count - top);
  aggregate_free(&groups);
  return 0;
}

/* ---- by thread and by size ---------------------------------------------------------------- */

static void print_thread(const report_t *r, const thread_totals_t *t, FILE *out) {
  char a[24], b[24], c[24], d[24];
  const record_thread_t *known = reader_thread(r->reader, t->stream);
  fprintf(out, "  %10s  %12s  %12s  %10s  ", report_bytes((int64_t)t->allocated.bytes, a),
          report_count(t->allocated.count, b), report_count(t->frees, c),
          report_bytes((int64_t)t->live.bytes, d));
  if (known)
    fprintf(out, "%" PRIu32 " %s%s\n", known->tid, known->name,
            known->level ? " (in its signal handlers)" : "");
  else
    fprintf(out, "[a thread that is not in the recording]\n");
}

static int print_threads(const report_t *r, FILE *out) {
  uint32_t *ranked;
  ptrdiff_t count = rank_threads(r->replay, &ranked);
  if (count < 0) return SONDE_ENOMEM;
  fprintf(out, "\n%sby thread%s\n   allocated         calls         frees  never freed\n", r->bold,
          r->plain);
  for (ptrdiff_t i = 0; i < count && i < (ptrdiff_t)r->top; i++)
    print_thread(r, &r->replay->threads[ranked[i]], out);
  if (count > (ptrdiff_t)r->top)
    fprintf(out, "  … and %td more threads\n", count - (ptrdiff_t)r->top);
  free(ranked);
  return 0;
}

static void print_sizes(const report_t *r, FILE *out) {
  fprintf(out,
          "\n%sby size of the block%s\n  allocations         bytes   never freed  size in bytes\n",
          r->bold, r->plain);
  for (unsigned i = 0; i < SIZE_CLASSES; i++) {
    const size_totals_t *s = &r->replay->sizes[i];
    char a[24], b[24], c[24], low[24], high[24];
    if (!s->allocated.count && !s->live.count) continue;
    fprintf(out, "  %11s  %12s  %12s  ", report_count(s->allocated.count, a),
            report_bytes((int64_t)s->allocated.bytes, b), report_bytes((int64_t)s->live.bytes, c));
    report_count(i ? UINT64_C(1) << i : 0, low);
    if (i + 1 == SIZE_CLASSES)
      fprintf(out, "%s and more\n", low);
    else
      fprintf(out, "%s to %s\n", low, report_count((UINT64_C(2) << i) - 1, high));
  }
}

/* ---- by stack ----------------------------------------------------------------------------- */

static int print_stacks(const report_t *r, FILE *out) {
  uint32_t *ranked;
  ptrdiff_t count = rank_stacks(r->replay, r->measure, &ranked);
  if (count < 0) return SONDE_ENOMEM;
  fprintf(out, "\n%s%s, by stack%s\n", r->bold, title_of(r->replay, r->measure), r->plain);
  for (ptrdiff_t i = 0; i < count && i < (ptrdiff_t)r->top; i++) {
    const stack_totals_t *s = &r->replay->stacks[ranked[i]];
    print_amount(r, s, out);
    fprintf(out, "stack %" PRIu32 "\n", s->stack);
    report_stack_text(r, s->stack, out);
  }
  if (count > (ptrdiff_t)r->top)
    fprintf(out, "  … and %td more stacks\n", count - (ptrdiff_t)r->top);
  free(ranked);
  return 0;
}

/* ---- frees that nothing explains ---------------------------------------------------------- */

static void print_odd(const report_t *r, FILE *out) {
  const replay_t *p = r->replay;
  if (!p->invalid_free_count) return;
  fprintf(out, "\n%sfrees that nothing explains%s\n", r->bold, r->plain);
  for (uint32_t i = 0; i < p->invalid_free_count; i++) {
    fprintf(out, "  0x%" PRIx64 " %s, %.6f s after the start, from stack %" PRIu32 "\n",
            p->invalid_frees[i].address,
            p->invalid_frees[i].twice ? "freed twice" : "never seen to be given out",
            (double)reader_ns(r->reader, p->invalid_frees[i].time) / 1e9,
            p->invalid_frees[i].stack);
    report_stack_text(r, p->invalid_frees[i].stack, out);
  }
  uint64_t all = p->unknown_frees + p->double_frees;
  if (all > p->invalid_free_count)
    fprintf(out, "  … and %" PRIu64 " more\n", all - p->invalid_free_count);
}

/* ---- the section -------------------------------------------------------------------------- */

tree_t *malloc_tree(const report_t *r) {
  tree_t *tree = tree_new(r);
  bool good = tree != NULL;
  for (size_t i = 0; good && i < r->replay->stack_count; i++) {
    const stack_totals_t *s = &r->replay->stacks[i];
    counts_t t = counts_of(s, r->measure);
    if (t.bytes) good = tree_add(tree, s->stack, (int64_t)t.bytes, (int64_t)t.count);
  }
  if (good) return tree;
  tree_free(tree);
  return NULL;
}

static int print_tree(const report_t *r, FILE *out) {
  tree_t *tree = malloc_tree(r);
  if (!tree) return SONDE_ENOMEM;
  tree_text(tree, title_of(r->replay, r->measure), r->measure != MEASURE_TEMPORARY, "", out);
  tree_free(tree);
  return 0;
}

static int print_lists(const report_t *r, FILE *out) {
  print_odd(r, out);
  int status = print_groups(r, out, false);
  if (status == 0) status = print_groups(r, out, true);
  if (status == 0) status = print_threads(r, out);
  if (status < 0) return status;
  print_sizes(r, out);
  return print_stacks(r, out);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  (void)state;
  fprintf(out, "\n%sallocations%s\n", r->bold, r->plain);
  print_totals(r, out);
  if (r->replay->stack_count) print_depths(r, out);
  if (r->tree) return print_tree(r, out);
  return r->brief ? print_groups(r, out, false) : print_lists(r, out);
}

static bool holds(const report_t *r, void *state) {
  (void)state;
  return r->replay->events || r->replay->snapshots;
}

static json_object *make_json(const report_t *r, void *state) {
  (void)state;
  return malloc_json(r);
}

const report_section_t section_malloc = {.name = "malloc",
                                         .option = "--malloc",
                                         .mode = RECORD_ANY_BLOCKS,
                                         .holds = holds,
                                         .text = print_text,
                                         .json = make_json};
