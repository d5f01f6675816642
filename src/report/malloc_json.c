/* SPDX-License-Identifier: MIT
 *
 * The malloc report as JSON; docs/json.md describes it.
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "record/recorder.h"
#include "report/json.h"
#include "report/malloc.h"

enum { DEPTH_MAX = 4096 };

static void put_number(json_object *o, const char *key, uint64_t value) {
  json_object_object_add(o, key, json_object_new_uint64(value));
}

static json_object *of_tally(tally_t t) {
  json_object *o = json_object_new_object();
  put_number(o, "blocks", t.count);
  put_number(o, "bytes", t.bytes);
  return o;
}

static json_object *of_address(uint64_t address) {
  char text[24];
  snprintf(text, sizeof text, "0x%" PRIx64, address);
  return json_object_new_string(text);
}

static json_object *of_frame(const record_frame_t *f, const frame_name_t *name) {
  json_object *o = json_object_new_object();
  json_object_object_add(o, "pc", of_address(f->pc));
  if (*name->library) json_object_object_add(o, "module", json_new_text(name->library));
  if (name->known) json_object_object_add(o, "function", json_new_text(name->function));
  if (name->file) {
    json_object_object_add(o, "file", json_new_text(name->file));
    put_number(o, "line", name->line);
  }
  if (name->inlined) json_object_object_add(o, "inlined", json_object_new_boolean(1));
  return o;
}

json_object *report_frames_json(const reader_t *reader, names_t *known, uint32_t stack,
                                bool *complete) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  json_object *list = json_object_new_array();
  int count = reader_stack(reader, stack, frames, DEPTH_MAX);
  bool whole = count > 0 && count <= DEPTH_MAX;
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    if (names_is_marker(frames[i])) {
      whole = false;
      continue;
    }
    int n = names_of_frame(known, frames[i], &names);
    for (int k = 0; k < n; k++)
      json_object_array_add(list, of_frame(frames[i], &names[k]));
  }
  if (complete) *complete = whole;
  return list;
}

static json_object *of_stack(const malloc_report_t *r, const stack_totals_t *s) {
  bool complete;
  json_object *o = json_object_new_object();
  put_number(o, "stack", s->stack);
  json_object_object_add(o, "allocated", of_tally(s->allocated));
  json_object_object_add(o, "peak", of_tally(s->at_peak));
  json_object_object_add(o, "live", of_tally(s->live));
  json_object_object_add(o, "live_at_start", of_tally(s->at_start));
  put_number(o, "temporary", s->temporary);
  put_number(o, "frees", s->frees);
  json_object_object_add(o, "frames", report_frames_json(r->reader, r->names, s->stack, &complete));
  json_object_object_add(o, "complete", json_object_new_boolean(complete));
  return o;
}

static json_object *of_missing(const reader_t *reader) {
  const record_header_t *h = reader_header(reader);
  const read_damage_t *d = reader_damage(reader);
  json_object *o = json_object_new_object();
  if (h->stop_reason)
    json_object_object_add(o, "stopped", json_object_new_string(record_stop_text(h->stop_reason)));
  put_number(o, "events", h->lost_events);
  put_number(o, "stacks", h->lost_stacks);
  put_number(o, "definitions", h->lost_definitions + d->missing_definitions);
  put_number(o, "chunks", d->missing_chunks);
  put_number(o, "damaged_chunks", d->damaged_chunks);
  put_number(o, "damaged_records", d->bad_records);
  put_number(o, "skipped_bytes", d->skipped_bytes);
  return o;
}

static json_object *of_sizes(const replay_t *p) {
  json_object *list = json_object_new_array();
  for (unsigned i = 0; i < SIZE_CLASSES; i++) {
    if (!p->sizes[i]) continue;
    json_object *o = json_object_new_object();
    put_number(o, "at_least", i ? UINT64_C(1) << i : 0);
    put_number(o, "allocations", p->sizes[i]);
    json_object_array_add(list, o);
  }
  return list;
}

static json_object *of_depths(const replay_t *p) {
  depths_t depths;
  depths_of(p, &depths);
  json_object *o = json_object_new_object(), *list = json_object_new_array();
  put_number(o, "complete", depths.complete);
  put_number(o, "undefined", depths.undefined);
  put_number(o, "deepest", depths.deepest);
  for (unsigned i = 0; i < DEPTHS; i++) {
    if (!depths.allocations[i]) continue;
    json_object *row = json_object_new_object();
    put_number(row, "frames", i);
    put_number(row, "allocations", depths.allocations[i]);
    json_object_array_add(list, row);
  }
  json_object_object_add(o, "histogram", list);
  return o;
}

static json_object *of_threads(const malloc_report_t *r) {
  json_object *list = json_object_new_array();
  for (size_t i = 0; i < r->replay->thread_count; i++) {
    const thread_totals_t *t = &r->replay->threads[i];
    const record_thread_t *known = reader_thread(r->reader, t->stream);
    if (!t->stream || !(t->allocated.count || t->frees)) continue;
    json_object *o = json_object_new_object();
    if (known) {
      put_number(o, "tid", known->tid);
      json_object_object_add(o, "name", json_new_text(known->name));
      if (known->level) json_object_object_add(o, "in_signal_handler", json_object_new_boolean(1));
    }
    json_object_object_add(o, "allocated", of_tally(t->allocated));
    put_number(o, "frees", t->frees);
    json_object_array_add(list, o);
  }
  return list;
}

void report_head_json(const malloc_report_t *r, json_object *o) {
  const record_header_t *h = reader_header(r->reader);
  json_object *arguments = json_object_new_array();
  const char *argument;
  for (uint32_t i = 1; (argument = reader_argument(r->reader, i)); i++)
    json_object_array_add(arguments, json_new_text(argument));
  put_number(o, "pid", h->pid);
  if ((argument = reader_argument(r->reader, 0)))
    json_object_object_add(o, "exe", json_new_text(argument));
  json_object_object_add(o, "arguments", arguments);
  json_object_object_add(o, "finished", json_object_new_boolean(h->state == RECORD_FINISHED));
  if (h->state == RECORD_FINISHED) put_number(o, "wait_status", h->exit_status);
  put_number(o, "duration_ns", h->end_monotonic_ns - h->start_monotonic_ns);
  json_object_object_add(o, "missing", of_missing(r->reader));
}

static void add_totals(const malloc_report_t *r, json_object *o) {
  const replay_t *p = r->replay;
  put_number(o, "events", p->events);
  json_object_object_add(o, "sampled", json_object_new_boolean(p->sampled));
  json_object_object_add(o, "allocated", of_tally(p->allocated));
  put_number(o, "frees", p->frees);
  put_number(o, "reallocs", p->reallocs);
  put_number(o, "temporary", p->temporary);
  json_object_object_add(o, "peak", of_tally(p->at_peak));
  put_number(o, "peak_ns", reader_ns(r->reader, p->peak_time));
  json_object_object_add(o, "live", of_tally(p->live));
  json_object_object_add(o, "live_at_start", of_tally(p->at_start));
  put_number(o, "unknown_frees", p->unknown_frees);
  put_number(o, "double_frees", p->double_frees);
  put_number(o, "overlaid", p->overlaid);
}

json_object *report_malloc_json(const malloc_report_t *r) {
  uint32_t *ranked;
  ptrdiff_t count = rank_stacks(r->replay, r->measure, &ranked);
  json_object *o = json_object_new_object(), *stacks = json_object_new_array();
  if (count < 0 || !o || !stacks) return NULL;
  add_totals(r, o);
  json_object_object_add(o, "sizes", of_sizes(r->replay));
  json_object_object_add(o, "depth", of_depths(r->replay));
  json_object_object_add(o, "threads", of_threads(r));
  json_object_object_add(o, "ranked_by", json_object_new_string(measure_name(r->measure)));
  put_number(o, "stack_count", (uint64_t)count);
  for (ptrdiff_t i = 0; i < count && i < (ptrdiff_t)r->top; i++)
    json_object_array_add(stacks, of_stack(r, &r->replay->stacks[ranked[i]]));
  json_object_object_add(o, "stacks", stacks);
  free(ranked);
  return o;
}
