/* SPDX-License-Identifier: MIT */
#include "report/exports/page/firefox.h"

#include <stdlib.h>
#include <string.h>

#include "report/exports/page/firefox_writer.h"
#include "report/exports/usage_counters.h"
#include "sonde/status.h"

/* Of the format. */
enum { VERSION = 48 };

typedef firefox_writer_t writer_t;

static void put_length(writer_t *w, size_t count) {
  page_put(w->out, "\"length\":");
  page_put_number(w->out, (int64_t)count);
  page_put(w->out, "}");
}

/* ---- threads ------------------------------------------------------------------------------ */

static void put_threads(writer_t *w) {
  uint32_t pid = reader_header(w->source->report->reader)->pid;
  page_put(w->out, "\"threads\":[");
  for (size_t i = 0; i < w->threads.count; i++) {
    const page_thread_t *t = &w->threads.items[i];
    if (i) page_put(w->out, ",");
    firefox_put_thread(w, t->tid, t->name, t->tid == pid);
  }
  page_put(w->out, "]");
}

/* ---- counters ----------------------------------------------------------------------------- */

static void begin_counter(writer_t *w, const char *category, const char *name,
                          const char *description) {
  page_put(w->out, "{\"category\":\"");
  page_put(w->out, category);
  page_put(w->out, "\",\"name\":\"");
  page_put(w->out, name);
  page_put(w->out, "\",\"description\":\"");
  page_put(w->out, description);
  page_put(w->out, "\",\"pid\":\"");
  page_put_number(w->out, reader_header(w->source->report->reader)->pid);
  page_put(w->out, "\",\"mainThreadIndex\":0,\"samples\":{\"time\":[");
}

/* Ends a counter. Without this, the viewer calls each counter of memory "Memory", and shows how
 * fast a level changes. */
static void put_display(writer_t *w, const char *name, bool is_level, bool is_memory,
                        const char *color) {
  page_put(w->out, ",\"display\":{\"graphType\":\"");
  page_put(w->out, is_level ? "line-accumulated" : "line-rate");
  page_put(w->out, is_memory ? "\",\"unit\":\"bytes\"" : "\",\"unit\":\"\"");
  page_put(w->out, ",\"color\":\"");
  page_put(w->out, color);
  page_put(w->out, "\",\"markerSchemaLocation\":null,\"sortWeight\":50,\"label\":\"");
  page_put(w->out, name);
  page_put(w->out, "\"}}");
}

/* The format has changes, not values. */
static void put_heap(writer_t *w) {
  const page_blocks_t *b = w->source->blocks;
  size_t count = 0;
  uint64_t before = 0;
  begin_counter(w, "Memory", "live heap", "Live bytes of the malloc log");
  for (size_t i = 0; i < PAGE_CURVE; i++) {
    if (!b->changed[i]) continue;
    if (count++) page_put(w->out, ",");
    page_put_ms(w->out, i * b->curve_ns);
  }
  page_put(w->out, "],\"count\":[");
  for (size_t i = 0, n = 0; i < PAGE_CURVE; i++) {
    if (!b->changed[i]) continue;
    if (n++) page_put(w->out, ",");
    page_put_number(w->out, (int64_t)(b->largest[i] - before));
    before = b->largest[i];
  }
  page_put(w->out, "],");
  put_length(w, count);
  put_display(w, "live heap", true, true, "blue");
}

/* The readings of C: pairs of a time and a value. NULL: unknown, or always 0. */
static json_object *points_of(const writer_t *w, const usage_counter_t *c) {
  json_object *usage, *series, *peak, *points;
  bool is_known = json_object_object_get_ex(w->source->sections, "usage", &usage) &&
                  json_object_object_get_ex(usage, usage_key(c->field), &series) &&
                  json_object_object_get_ex(series, "peak", &peak) &&
                  json_object_object_get_ex(series, "points", &points);
  return is_known && json_object_get_int64(peak) ? points : NULL;
}

static int64_t point(json_object *points, size_t i, size_t column) {
  return json_object_get_int64(
      json_object_array_get_idx(json_object_array_get_idx(points, i), column));
}

static void put_usage(writer_t *w, const usage_counter_t *c, json_object *points) {
  bool is_memory = !strcmp(c->unit, "bytes");
  size_t count = json_object_array_length(points);
  int64_t before = 0;
  begin_counter(w, is_memory ? "Memory" : c->unit, c->name, c->description);
  for (size_t i = 0; i < count; i++) {
    if (i) page_put(w->out, ",");
    page_put_ms(w->out, (uint64_t)point(points, i, 0));
  }
  page_put(w->out, "],\"count\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) page_put(w->out, ",");
    page_put_number(w->out, point(points, i, 1) - before);
    before = point(points, i, 1);
  }
  page_put(w->out, "],");
  put_length(w, count);
  bool is_sum = c->field == USAGE_MINOR_FAULTS || c->field == USAGE_MAJOR_FAULTS;
  put_display(w, c->name, !is_sum, is_memory, is_memory ? "orange" : "grey");
}

static void put_counters(writer_t *w) {
  page_put(w->out, ",\"counters\":[");
  put_heap(w);
  for (int i = 0; i < USAGE_COUNTERS; i++) {
    json_object *points = points_of(w, &usage_counters[i]);
    if (points) page_put(w->out, ",");
    if (points) put_usage(w, &usage_counters[i], points);
  }
  page_put(w->out, "]");
}

/* ---- the profile -------------------------------------------------------------------------- */

#define SCHEMA(name, label)                                                                        \
  "{\"name\":\"" name "\",\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"  \
  "\"tooltipLabel\":\"" label "\",\"tableLabel\":\"{marker.data.details}\",\"data\":[{\"key\":"    \
  "\"details\",\"label\":\"Details\",\"format\":\"string\",\"searchable\":true}]}"

static void put_meta(writer_t *w) {
  const record_header_t *h = reader_header(w->source->report->reader);
  page_put(w->out, "{\"meta\":{\"interval\":10,\"startTime\":");
  page_put_ms(w->out, h->start_realtime_ns);
  page_put(w->out, ",\"processType\":0,\"version\":29,\"preprocessedProfileVersion\":");
  page_put_number(w->out, VERSION);
  page_put(
      w->out,
      ",\"stackwalk\":1,\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":"
      "\"ns\"},\"debug\":false,\"symbolicated\":true,\"importedFrom\":\"sonde\","
      "\"product\":");
  const char *exe = reader_argument(w->source->report->reader, 0);
  page_put_json(w->out, exe ? exe : "sonde");
  page_put(
      w->out,
      ",\"categories\":[{\"name\":\"Own code\",\"color\":\"orange\",\"subcategories\":"
      "[\"Other\"]},{\"name\":\"Libraries\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
      "{\"name\":\"System\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}],"
      "\"markerSchema\":[" SCHEMA("wait", "{marker.name}") "," SCHEMA("stall", "stall") "," SCHEMA(
          "mark", "{marker.name}") "," SCHEMA("audited", "{marker.name}") "]},\"libs\":");
  firefox_libs_put(&w->images, w->source->report->reader, w->out);
  page_put(w->out, ",");
}

static void write_profile(writer_t *w) {
  put_meta(w);
  put_threads(w);
  put_counters(w);
  page_put(w->out, "}");
}

static void add_marked(writer_t *w, const page_marks_t *marks) {
  for (size_t i = 0; i < marks->count; i++)
    (void)page_text(&w->names, marks->items[i].name);
}

static void add_stalled(writer_t *w) {
  const stall_groups_t *groups = w->source->stalls;
  for (size_t g = 0, i = 0; g < groups->count; g++)
    for (size_t k = 0; k < groups->items[g].count; k++, i++)
      if (groups->stalls[i].worst) (void)page_stack(&w->names, groups->stalls[i].worst->stack);
}

/* All stacks and texts get their numbers before any thread is written. */
static void add_all(writer_t *w) {
  const page_events_t *e = w->source->events;
  const page_rows_t *const rows[] = {&e->samples, &w->source->blocks->rows};
  static const char *const texts[] = {LOCK_NAME, BLOCKED_NAME, STALL_NAME};
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < rows[k]->count; i++)
      (void)page_stack(&w->names, rows[k]->items[i].place);
  for (size_t i = 0; i < e->places.count; i++) {
    (void)page_stack(&w->names, e->places.items[i].stack);
    (void)page_text(&w->names, e->places.items[i].call);
  }
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    (void)page_text(&w->names, texts[i]);
  add_stalled(w);
  add_marked(w, &e->marks);
  add_marked(w, &e->calls);
}

static bool make(subset_t *s, size_t count) {
  s->number = calloc(count + 1, sizeof *s->number);
  return s->number != NULL;
}

static void release(subset_t *s) {
  free(s->number);
  free(s->used.items);
}

int firefox_write(const page_source_t *source, portions_t sample_times, FILE *out) {
  writer_t w = {
      .source = source, .names = {.report = source->report}, .sample_times = sample_times};
  page_stream_t *stream = malloc(sizeof *stream);
  if (!stream || !page_stream_start(stream, out, false)) {
    free(stream);
    return SONDE_ENOMEM;
  }
  w.out = stream;
  page_names_start(&w.names);
  add_all(&w);
  bool good = page_threads_find(&w.threads, source) && firefox_libs_find(&w.images, &w.names) &&
              make(&w.nodes, w.names.nodes.count) && make(&w.frames, w.names.frames.count) &&
              make(&w.functions, w.names.frames.count) && make(&w.libs, w.images.images.count) &&
              make(&w.texts, w.names.texts.count) && !w.names.failed &&
              (w.function_of = page_functions(&w.names));
  if (good) write_profile(&w);
  good = page_stream_end(stream) && good && !w.failed && !w.names.failed;
  subset_t *const all[] = {&w.nodes, &w.frames, &w.functions, &w.libs, &w.texts};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    release(all[i]);
  firefox_libs_free(&w.images);
  page_threads_free(&w.threads);
  free(w.function_of);
  page_names_free(&w.names);
  free(stream);
  return good ? 0 : SONDE_ENOMEM;
}
