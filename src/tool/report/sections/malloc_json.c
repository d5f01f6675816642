/* SPDX-License-Identifier: MIT
 *
 * The malloc report as JSON; docs/json.md describes it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/sections/malloc.h"

static json_object *of_stack(const report_t *r, const stack_totals_t *s) {
  bool complete;
  json_object *o = json_object_new_object();
  json_add_count(o, "stack", s->stack);
  json_object_object_add(o, "allocated", report_tally_json(s->allocated));
  json_object_object_add(o, "peak", report_tally_json(s->at_peak));
  json_object_object_add(o, "live", report_tally_json(s->live));
  json_object_object_add(o, "live_at_start", report_tally_json(s->at_start));
  json_add_count(o, "temporary", s->temporary);
  json_add_count(o, "frees", s->frees);
  json_object_object_add(o, "frames", report_frames_json(r, s->stack, &complete));
  json_object_object_add(o, "complete", json_object_new_boolean(complete));
  return o;
}

static json_object *of_sizes(const replay_t *p) {
  json_object *list = json_object_new_array();
  for (unsigned i = 0; i < SIZE_CLASSES; i++) {
    if (!p->sizes[i].allocated.count && !p->sizes[i].live.count) continue;
    json_object *o = json_object_new_object();
    json_add_count(o, "at_least", i ? UINT64_C(1) << i : 0);
    json_add_count(o, "allocations", p->sizes[i].allocated.count);
    json_add_count(o, "bytes", p->sizes[i].allocated.bytes);
    json_object_object_add(o, "live", report_tally_json(p->sizes[i].live));
    json_object_array_add(list, o);
  }
  return list;
}

static json_object *of_depths(const replay_t *p) {
  depths_t depths;
  depths_of(p, &depths);
  json_object *o = json_object_new_object(), *list = json_object_new_array();
  json_add_count(o, "complete", depths.complete);
  json_add_count(o, "undefined", depths.undefined);
  json_add_count(o, "deepest", depths.deepest);
  for (unsigned i = 0; i < DEPTHS; i++) {
    if (!depths.allocations[i]) continue;
    json_object *row = json_object_new_object();
    json_add_count(row, "frames", i);
    json_add_count(row, "allocations", depths.allocations[i]);
    json_object_array_add(list, row);
  }
  json_object_object_add(o, "histogram", list);
  return o;
}

static json_object *of_thread(const report_t *r, const thread_totals_t *t) {
  const record_thread_t *known = reader_thread(r->reader, t->stream);
  json_object *o = json_object_new_object();
  if (known) {
    json_add_count(o, "tid", known->tid);
    json_add_text(o, "name", known->name);
    if (known->level) json_object_object_add(o, "in_signal_handler", json_object_new_boolean(1));
  }
  json_object_object_add(o, "allocated", report_tally_json(t->allocated));
  json_object_object_add(o, "live", report_tally_json(t->live));
  json_add_count(o, "frees", t->frees);
  return o;
}

static json_object *of_threads(const report_t *r) {
  uint32_t *ranked;
  ptrdiff_t count = rank_threads(r->replay, &ranked);
  json_object *list = json_object_new_array();
  for (ptrdiff_t i = 0; i < count; i++)
    json_object_array_add(list, of_thread(r, &r->replay->threads[ranked[i]]));
  free(ranked);
  return list;
}

/* By function or by library; at most as many rows as are asked for. */
static json_object *of_groups(const report_t *r, bool by_library) {
  aggregate_t groups;
  if (malloc_groups(r, by_library, &groups) < 0) return NULL;
  json_object *list = json_object_new_array();
  for (size_t i = 0; i < groups.count && i < r->top; i++) {
    const stack_totals_t *s = &groups.items[i].totals;
    json_object *o = json_object_new_object();
    json_add_text(o, by_library ? "module" : "function", groups.items[i].key);
    json_object_object_add(o, "allocated", report_tally_json(s->allocated));
    json_object_object_add(o, "peak", report_tally_json(s->at_peak));
    json_object_object_add(o, "live", report_tally_json(s->live));
    json_object_object_add(o, "live_at_start", report_tally_json(s->at_start));
    json_add_count(o, "temporary", s->temporary);
    json_add_count(o, "stacks", groups.items[i].stacks);
    json_object_array_add(list, o);
  }
  aggregate_free(&groups);
  return list;
}

static json_object *of_odd(const report_t *r) {
  json_object *list = json_object_new_array();
  for (uint32_t i = 0; i < r->replay->invalid_free_count; i++) {
    const invalid_free_t *odd = &r->replay->invalid_frees[i];
    json_object *o = json_object_new_object();
    json_add_address(o, "address", odd->address);
    json_object_object_add(o, "twice", json_object_new_boolean(odd->twice));
    json_add_count(o, "time_ns", reader_ns(r->reader, odd->time));
    json_add_count(o, "stack", odd->stack);
    json_object_object_add(o, "frames", report_frames_json(r, odd->stack, NULL));
    json_object_array_add(list, o);
  }
  return list;
}

static void add_totals(const report_t *r, json_object *o) {
  const replay_t *p = r->replay;
  json_add_count(o, "events", p->events);
  json_object_object_add(o, "sampled", json_object_new_boolean(p->sampled));
  json_object_object_add(o, "allocated", report_tally_json(p->allocated));
  json_add_count(o, "frees", p->frees);
  json_add_count(o, "reallocs", p->reallocs);
  json_add_count(o, "temporary", p->temporary);
  json_object_object_add(o, "peak", report_tally_json(p->at_peak));
  json_add_count(o, "peak_ns", reader_ns(r->reader, p->peak_time));
  json_object_object_add(o, "live", report_tally_json(p->live));
  json_object_object_add(o, "live_at_start", report_tally_json(p->at_start));
  json_add_count(o, "unknown_frees", p->unknown_frees);
  json_add_count(o, "double_frees", p->double_frees);
  json_add_count(o, "overlaid", p->address_reuses);
  json_add_count(o, "earlier_frees", p->prerecording_frees);
  json_add_count(o, "lost_sight", p->untracked);
  if (p->blocks_until)
    json_add_count(o, "recorded_until_ns", reader_ns(r->reader, p->blocks_until));
  json_add_count(o, "switches", p->switches);
  json_add_count(o, "snapshots", p->snapshots);
}

static json_object *of_stacks(const report_t *r, ptrdiff_t *count) {
  uint32_t *ranked;
  *count = rank_stacks(r->replay, r->measure, &ranked);
  json_object *list = json_object_new_array();
  for (ptrdiff_t i = 0; i < *count && i < (ptrdiff_t)r->top; i++)
    json_object_array_add(list, of_stack(r, &r->replay->stacks[ranked[i]]));
  free(ranked);
  return list;
}

static void add_tree(const report_t *r, json_object *o) {
  tree_t *tree = malloc_tree(r);
  if (tree) json_object_object_add(o, "tree", tree_json(tree));
  tree_free(tree);
}

json_object *malloc_json(const report_t *r) {
  json_object *o = json_object_new_object();
  ptrdiff_t count;
  add_totals(r, o);
  json_object_object_add(o, "odd_frees", of_odd(r));
  json_object_object_add(o, "sizes", of_sizes(r->replay));
  json_object_object_add(o, "depth", of_depths(r->replay));
  json_object_object_add(o, "threads", of_threads(r));
  json_object_object_add(o, "ranked_by", json_object_new_string(measure_name(r->measure)));
  if (r->tree) add_tree(r, o);
  json_object_object_add(o, "functions", of_groups(r, false));
  json_object_object_add(o, "libraries", of_groups(r, true));
  json_object *stacks = of_stacks(r, &count);
  json_add_count(o, "stack_count", (uint64_t)(count < 0 ? 0 : count));
  json_object_object_add(o, "stacks", stacks);
  return o;
}
