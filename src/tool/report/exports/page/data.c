/* SPDX-License-Identifier: MIT
 *
 * Tables are objects of columns, and a time is the difference from the row before: this compresses
 * to a third of an array of objects. Numbers of stacks are nodes of the table "stacks".
 */
#include "report/exports/page/data.h"

#include <string.h>

#include "base/terminal.h"
#include "report/exports/page/sources.h"
#include "report/futex_wait.h"
#include "report/json.h"
#include "report/sections/trace_view.h"

/* Cells between two steps of the progress bar. */
enum { PROGRESS_CELLS = 8192 };

typedef struct writer {
  const page_source_t *source;
  page_names_t names;
  page_stream_t *out;
  terminal_progress_t progress;
  uint64_t cells; /* of columns, written so far */
} writer_t;

/* ---- columns ------------------------------------------------------------------------------ */

/* The number of row I in a column; CONTEXT is of the column. */
typedef int64_t cell_t(writer_t *w, const void *context, size_t i);

static void put_column(writer_t *w, const char *name, size_t count, cell_t *cell,
                       const void *context) {
  page_put(w->out, "\"");
  page_put(w->out, name);
  page_put(w->out, "\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) page_put(w->out, ",");
    page_put_number(w->out, cell(w, context, i));
    if (++w->cells % PROGRESS_CELLS == 0) terminal_progress_step(&w->progress, w->cells);
  }
  page_put(w->out, "]");
}

static bool is_constant(writer_t *w, size_t count, cell_t *cell, const void *context) {
  int64_t first = count ? cell(w, context, 0) : 0;
  for (size_t i = 1; i < count; i++)
    if (cell(w, context, i) != first) return false;
  return count > 1;
}

/* Behind the first column, one number stands for a column of equal ones, such as the only thread.
 */
static void next_column(writer_t *w, const char *name, size_t count, cell_t *cell,
                        const void *context) {
  page_put(w->out, ",");
  if (!is_constant(w, count, cell, context)) {
    put_column(w, name, count, cell, context);
    return;
  }
  page_put(w->out, "\"");
  page_put(w->out, name);
  page_put(w->out, "\":");
  page_put_number(w->out, cell(w, context, 0));
  w->cells += count;
}

/* ---- rows --------------------------------------------------------------------------------- */

static const page_row_t *row_at(const void *rows, size_t i) {
  return &((const page_rows_t *)rows)->items[i];
}

static int64_t row_from(writer_t *w, const void *rows, size_t i) {
  (void)w;
  return (int64_t)(row_at(rows, i)->from - (i ? row_at(rows, i - 1)->from : 0));
}

/* -1: never ended */
static int64_t row_length(writer_t *w, const void *rows, size_t i) {
  (void)w;
  const page_row_t *r = row_at(rows, i);
  return r->to == PAGE_NEVER ? -1 : (int64_t)(r->to - r->from);
}

static int64_t row_stack(writer_t *w, const void *rows, size_t i) {
  return page_stack(&w->names, row_at(rows, i)->place);
}

static int64_t row_place(writer_t *w, const void *rows, size_t i) {
  (void)w;
  return row_at(rows, i)->place;
}

static int64_t row_thread(writer_t *w, const void *rows, size_t i) {
  (void)w;
  return row_at(rows, i)->thread;
}

static int64_t tid_of_stream(const writer_t *w, uint32_t stream) {
  const record_thread_t *t = reader_thread(w->source->report->reader, stream);
  return t ? t->tid : 0;
}

/* Of blocks and traced calls the thread is a stream. */
static int64_t row_stream(writer_t *w, const void *rows, size_t i) {
  return tid_of_stream(w, row_at(rows, i)->thread);
}

static int64_t row_kind(writer_t *w, const void *rows, size_t i) {
  (void)w;
  return row_at(rows, i)->kind;
}

static int64_t row_count(writer_t *w, const void *rows, size_t i) {
  (void)w;
  return (int64_t)row_at(rows, i)->count;
}

static int64_t row_amount(writer_t *w, const void *rows, size_t i) {
  (void)w;
  return (int64_t)row_at(rows, i)->amount;
}

static void begin_rows(writer_t *w, const char *name, const page_rows_t *rows) {
  page_put(w->out, ",\"");
  page_put(w->out, name);
  page_put(w->out, "\":{\"unit_ns\":");
  page_put_number(w->out, (int64_t)rows->unit_ns);
  page_put(w->out, ",");
  put_column(w, "from", rows->count, row_from, rows);
}

static void put_samples(writer_t *w, const page_rows_t *rows) {
  begin_rows(w, "samples", rows);
  next_column(w, "thread", rows->count, row_thread, rows);
  next_column(w, "stack", rows->count, row_stack, rows);
  next_column(w, "samples", rows->count, row_count, rows);
  page_put(w->out, "}");
}

static void put_waits(writer_t *w, const page_rows_t *rows) {
  begin_rows(w, "waits", rows);
  next_column(w, "length", rows->count, row_length, rows);
  next_column(w, "thread", rows->count, row_thread, rows);
  next_column(w, "place", rows->count, row_place, rows);
  next_column(w, "samples", rows->count, row_count, rows);
  next_column(w, "ns", rows->count, row_amount, rows);
  page_put(w->out, "}");
}

static void put_queued(writer_t *w, const page_rows_t *rows) {
  begin_rows(w, "queued", rows);
  next_column(w, "length", rows->count, row_length, rows);
  next_column(w, "thread", rows->count, row_thread, rows);
  next_column(w, "run_ns", rows->count, row_count, rows);
  next_column(w, "queued_ns", rows->count, row_amount, rows);
  page_put(w->out, "}");
}

static void put_blocks(writer_t *w, const page_rows_t *rows) {
  begin_rows(w, "blocks", rows);
  next_column(w, "length", rows->count, row_length, rows);
  next_column(w, "thread", rows->count, row_stream, rows);
  next_column(w, "stack", rows->count, row_stack, rows);
  next_column(w, "temporary", rows->count, row_kind, rows);
  next_column(w, "blocks_256", rows->count, row_count, rows);
  next_column(w, "bytes", rows->count, row_amount, rows);
  page_put(w->out, "}");
}

/* ---- places of waits ---------------------------------------------------------------------- */

static const page_place_t *place_at(const void *events, size_t i) {
  return &((const page_events_t *)events)->places.items[i];
}

static int64_t place_stack(writer_t *w, const void *events, size_t i) {
  return page_stack(&w->names, place_at(events, i)->stack);
}

/* What the program called, as in the report. */
static int64_t place_call(writer_t *w, const void *events, size_t i) {
  const page_place_t *p = place_at(events, i);
  return page_text(&w->names, *p->call ? wait_called(w->source->report, p->stack, p->call) : "");
}

/* "a condition variable"; "": unknown, or no futex. */
static int64_t place_kind(writer_t *w, const void *events, size_t i) {
  const page_place_t *p = place_at(events, i);
  const futex_wait_t *wait =
      p->address && p->stack ? futex_wait_of_stack(w->source->report, p->stack) : NULL;
  return page_text(&w->names, wait ? wait->kind : "");
}

static int64_t place_what(writer_t *w, const void *events, size_t i) {
  return page_text(&w->names, place_at(events, i)->what);
}

static int64_t place_futex(writer_t *w, const void *events, size_t i) {
  char text[256];
  return page_text(&w->names, page_place_futex(place_at(events, i), w->source->report->names, text,
                                               sizeof text));
}

static int64_t place_owner(writer_t *w, const void *events, size_t i) {
  (void)w;
  return place_at(events, i)->owner;
}

static int64_t place_mutex(writer_t *w, const void *events, size_t i) {
  (void)w;
  return place_at(events, i)->is_mutex;
}

static void put_places(writer_t *w) {
  const page_events_t *e = w->source->events;
  page_put(w->out, ",\"places\":{");
  put_column(w, "stack", e->places.count, place_stack, e);
  next_column(w, "call", e->places.count, place_call, e);
  next_column(w, "kind", e->places.count, place_kind, e);
  next_column(w, "what", e->places.count, place_what, e);
  next_column(w, "futex", e->places.count, place_futex, e);
  next_column(w, "owner", e->places.count, place_owner, e);
  next_column(w, "mutex", e->places.count, place_mutex, e);
  page_put(w->out, "}");
}

/* ---- stacks with blocks ------------------------------------------------------------------- */

static int64_t total_stack(writer_t *w, const void *replay, size_t i) {
  return page_stack(&w->names, ((const replay_t *)replay)->stacks[i].stack);
}

#define TOTAL_CELL(name, field)                                                                    \
  static int64_t name(writer_t *w, const void *replay, size_t i) {                                 \
    (void)w;                                                                                       \
    return (int64_t)((const replay_t *)replay)->stacks[i].field;                                   \
  }
TOTAL_CELL(total_allocated, allocated.count)
TOTAL_CELL(total_allocated_bytes, allocated.bytes)
TOTAL_CELL(total_peak, at_peak.count)
TOTAL_CELL(total_peak_bytes, at_peak.bytes)
TOTAL_CELL(total_live, live.count)
TOTAL_CELL(total_live_bytes, live.bytes)
TOTAL_CELL(total_temporary, temporary)

static void put_totals(writer_t *w) {
  const replay_t *r = w->source->report->replay;
  page_put(w->out, ",\"block_totals\":{");
  put_column(w, "stack", r->stack_count, total_stack, r);
  next_column(w, "allocated", r->stack_count, total_allocated, r);
  next_column(w, "allocated_bytes", r->stack_count, total_allocated_bytes, r);
  next_column(w, "peak", r->stack_count, total_peak, r);
  next_column(w, "peak_bytes", r->stack_count, total_peak_bytes, r);
  next_column(w, "live", r->stack_count, total_live, r);
  next_column(w, "live_bytes", r->stack_count, total_live_bytes, r);
  next_column(w, "temporary", r->stack_count, total_temporary, r);
  page_put(w->out, "}");
}

/* ---- the curve of the live heap ----------------------------------------------------------- */

static void put_curve(writer_t *w, const page_blocks_t *b) {
  const char *comma = "";
  page_put(w->out, ",\"heap\":{\"unit_ns\":");
  page_put_number(w->out, (int64_t)b->curve_ns);
  /* Triples: step, the largest value in it, the last one. */
  page_put(w->out, ",\"points\":[");
  for (int64_t i = 0; i < PAGE_CURVE; i++) {
    if (!b->changed[i]) continue;
    const int64_t point[] = {i, (int64_t)b->largest[i], (int64_t)b->last[i]};
    for (int k = 0; k < 3; k++, comma = ",") {
      page_put(w->out, comma);
      page_put_number(w->out, point[k]);
    }
  }
  page_put(w->out, "]}");
}

/* ---- traced calls ------------------------------------------------------------------------- */

/* Node 0 is the caller of all calls that no traced call made. */
static const trace_node_t *node_at(const void *calls, size_t i) {
  return &((const page_calls_t *)calls)->trace.nodes[i];
}

static int64_t node_parent(writer_t *w, const void *calls, size_t i) {
  (void)w;
  return node_at(calls, i)->parent;
}

static int64_t node_frame(writer_t *w, const void *calls, size_t i) {
  return i ? page_function(&w->names, trace_frame_name(w->source->report, node_at(calls, i)->frame))
           : 0;
}

static int64_t node_recursive(writer_t *w, const void *calls, size_t i) {
  (void)w;
  return trace_is_recursive(&((const page_calls_t *)calls)->trace, (uint32_t)i);
}

static const trace_span_t *span_at(const void *calls, size_t i) {
  return &((const page_calls_t *)calls)->trace.slowest[i];
}

static int64_t span_start(const void *calls, size_t i) {
  return (int64_t)(span_at(calls, i)->start_ns + 0.5);
}

static int64_t span_from(writer_t *w, const void *calls, size_t i) {
  (void)w;
  return span_start(calls, i) - (i ? span_start(calls, i - 1) : 0);
}

static int64_t span_length(writer_t *w, const void *calls, size_t i) {
  (void)w;
  return (int64_t)(span_at(calls, i)->took_ns + 0.5);
}

static int64_t span_thread(writer_t *w, const void *calls, size_t i) {
  return tid_of_stream(w, span_at(calls, i)->stream);
}

static int64_t span_node(writer_t *w, const void *calls, size_t i) {
  (void)w;
  return span_at(calls, i)->node;
}

static int64_t span_open(writer_t *w, const void *calls, size_t i) {
  (void)w;
  return span_at(calls, i)->open;
}

static void put_calls(writer_t *w, const page_calls_t *c) {
  const trace_t *t = &c->trace;
  page_put(w->out, ",\"call_nodes\":{");
  put_column(w, "parent", t->node_count, node_parent, c);
  next_column(w, "frame", t->node_count, node_frame, c);
  next_column(w, "recursive", t->node_count, node_recursive, c);
  page_put(w->out, "},\"spans\":{\"unit_ns\":1,");
  put_column(w, "from", t->slowest_count, span_from, c);
  next_column(w, "length", t->slowest_count, span_length, c);
  next_column(w, "thread", t->slowest_count, span_thread, c);
  next_column(w, "node", t->slowest_count, span_node, c);
  next_column(w, "open", t->slowest_count, span_open, c);
  page_put(w->out, "}");
  begin_rows(w, "call_sums", &c->rows);
  next_column(w, "thread", c->rows.count, row_stream, &c->rows);
  next_column(w, "node", c->rows.count, row_place, &c->rows);
  next_column(w, "self", c->rows.count, row_kind, &c->rows);
  next_column(w, "calls", c->rows.count, row_count, &c->rows);
  next_column(w, "ns", c->rows.count, row_amount, &c->rows);
  page_put(w->out, "}");
}

/* ---- marks, threads, stalls --------------------------------------------------------------- */

static int64_t mark_time(writer_t *w, const void *marks, size_t i) {
  (void)w;
  return (int64_t)((const page_marks_t *)marks)->items[i].ns;
}

static int64_t mark_thread(writer_t *w, const void *marks, size_t i) {
  (void)w;
  return ((const page_marks_t *)marks)->items[i].tid;
}

static int64_t mark_name(writer_t *w, const void *marks, size_t i) {
  return page_text(&w->names, ((const page_marks_t *)marks)->items[i].name);
}

static void put_marks(writer_t *w, const char *name, const page_marks_t *marks) {
  page_put(w->out, ",\"");
  page_put(w->out, name);
  page_put(w->out, "\":{");
  put_column(w, "ns", marks->count, mark_time, marks);
  next_column(w, "thread", marks->count, mark_thread, marks);
  next_column(w, "name", marks->count, mark_name, marks);
  page_put(w->out, "}");
}

static int64_t thread_tid(writer_t *w, const void *threads, size_t i) {
  (void)w;
  return ((const record_thread_t *)threads)[i].tid;
}

static int64_t thread_name(writer_t *w, const void *threads, size_t i) {
  return page_text(&w->names, ((const record_thread_t *)threads)[i].name);
}

static void put_threads(writer_t *w) {
  size_t count;
  const record_thread_t *threads = reader_threads(w->source->report->reader, &count);
  page_put(w->out, ",\"threads\":{");
  put_column(w, "tid", count, thread_tid, threads);
  next_column(w, "name", count, thread_name, threads);
  page_put(w->out, "}");
}

static size_t count_of_stalls(const stall_groups_t *groups) {
  size_t count = 0;
  for (size_t i = 0; i < groups->count; i++)
    count += groups->items[i].count;
  return count;
}

/* For each stall its number, then pairs of a stack and the time in ns that its samples represent.
 */
static void put_stall_stacks(writer_t *w, const stall_groups_t *groups) {
  size_t count = count_of_stalls(groups);
  page_put(w->out, ",\"stall_stacks\":[");
  for (size_t i = 0; i < count; i++) {
    const stall_t *stall = groups->stalls[i].stall;
    page_put(w->out, i ? ",[" : "[");
    page_put_number(w->out, (int64_t)stall->number);
    for (size_t k = 0; k < stall->sample_count; k++) {
      page_put(w->out, ",");
      page_put_number(w->out, page_stack(&w->names, stall->samples[k].stack));
      page_put(w->out, ",");
      page_put_number(w->out, (int64_t)stall->samples[k].weight_ns);
    }
    page_put(w->out, "]");
  }
  page_put(w->out, "]");
}

/* ---- names in the report ------------------------------------------------------------------ */

/* A name of C++ or Rust; those of other languages are not shortened. */
static bool can_be_short(const char *name) {
  const char *arguments = strchr(name, '(');
  return strstr(name, "::") || (arguments && arguments != name);
}

/* The functions of VALUE: of stacks of crashes and of audited calls. */
static void add_names(page_names_t *names, json_object *value) {
  if (json_object_is_type(value, json_type_array)) {
    for (size_t i = 0; i < json_object_array_length(value); i++)
      add_names(names, json_object_array_get_idx(value, i));
  } else if (json_object_is_type(value, json_type_object)) {
    json_object_object_foreach(value, key, inner) {
      const char *name = strcmp(key, "function") == 0 ? json_object_get_string(inner) : NULL;
      if (name && can_be_short(name)) page_function_name(names, name);
      add_names(names, inner);
    }
  }
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* The cells of the large tables. */
static uint64_t count_cells(const page_source_t *s) {
  enum { SAMPLE_COLUMNS = 4, WAIT_COLUMNS = 6, QUEUED_COLUMNS = 5, BLOCK_COLUMNS = 7, TOTALS = 8 };
  enum { NODE_COLUMNS = 3, SPAN_COLUMNS = 5, CALL_COLUMNS = 6 };
  const page_events_t *e = s->events;
  const page_calls_t *c = s->calls;
  return SAMPLE_COLUMNS * e->samples.count + WAIT_COLUMNS * e->waits.count +
         QUEUED_COLUMNS * e->queued.count + BLOCK_COLUMNS * s->blocks->rows.count +
         NODE_COLUMNS * c->trace.node_count + SPAN_COLUMNS * c->trace.slowest_count +
         CALL_COLUMNS * c->rows.count + TOTALS * s->report->replay->stack_count;
}

bool page_data_write(const page_source_t *s, page_stream_t *out) {
  writer_t w = {.source = s, .names = {.report = s->report}, .out = out};
  page_names_start(&w.names);
  terminal_progress_start(&w.progress, "writing the page", count_cells(s));
  page_put(out, "{\"version\":1,\"report\":");
  page_put(out, json_print(s->sections, JSON_STYLE));
  put_samples(&w, &s->events->samples);
  put_waits(&w, &s->events->waits);
  put_queued(&w, &s->events->queued);
  put_places(&w);
  put_blocks(&w, &s->blocks->rows);
  put_totals(&w);
  put_curve(&w, s->blocks);
  put_calls(&w, s->calls);
  put_marks(&w, "marks", &s->events->marks);
  put_marks(&w, "calls", &s->events->calls);
  put_threads(&w);
  put_stall_stacks(&w, s->stalls);
  add_names(&w.names, s->sections);
  page_put(out, ",");
  if (s->has_sources) {
    page_sources_write(&w.names, reader_header(s->report->reader)->start_realtime_ns, out);
    page_put(out, ",");
  }
  page_names_write(&w.names, out);
  page_put(out, "}");
  terminal_progress_end(&w.progress);
  bool good = !w.names.failed;
  page_names_free(&w.names);
  return good;
}
