/* SPDX-License-Identifier: MIT
 *
 * A thread of a Firefox profile. Each thread has its own tables of strings, functions, frames and
 * stacks: those of the page that the thread uses, with new numbers. Times are milliseconds.
 */
#include "report/exports/page/firefox_writer.h"

#include <inttypes.h>
#include <stdlib.h>

typedef firefox_writer_t writer_t;

/* Frames of a stack (report/functions.c) and inlined functions of each. */
enum { PATH_MOST = 1 << 17 };

/* ---- subsets ------------------------------------------------------------------------------ */

static uint32_t use(writer_t *w, subset_t *s, uint32_t number) {
  if (s->number[number]) return s->number[number] - 1;
  uint32_t *added = ARRAY_ADD(s->used);
  if (!added) {
    w->failed = true;
    return 0;
  }
  *added = number;
  return (s->number[number] = (uint32_t)s->used.count) - 1;
}

static void forget(subset_t *s) {
  for (size_t i = 0; i < s->used.count; i++)
    s->number[s->used.items[i]] = 0;
  s->used.count = 0;
}

/* Parents get smaller numbers. */
static uint32_t use_node(writer_t *w, uint32_t node) {
  static uint32_t path[PATH_MOST];
  size_t depth = 0;
  for (; node && !w->nodes.number[node] && depth < PATH_MOST;
       node = w->names.nodes.items[node].parent)
    path[depth++] = node;
  uint32_t last = node ? w->nodes.number[node] - 1 : 0;
  while (depth-- > 0)
    last = use(w, &w->nodes, path[depth]);
  return last;
}

/* ---- columns ------------------------------------------------------------------------------ */

typedef void cell_t(writer_t *w, size_t i);

static void put_name(writer_t *w, const char *name) {
  page_put(w->out, "\"");
  page_put(w->out, name);
  page_put(w->out, "\":");
}

static void column(writer_t *w, const char *name, size_t count, cell_t *cell) {
  put_name(w, name);
  page_put(w->out, "[");
  for (size_t i = 0; i < count; i++) {
    if (i) page_put(w->out, ",");
    cell(w, i);
  }
  page_put(w->out, "],");
}

static void put_null(writer_t *w, size_t i) {
  (void)i;
  page_put(w->out, "null");
}

static void put_zero(writer_t *w, size_t i) {
  (void)i;
  page_put(w->out, "0");
}

static void put_one(writer_t *w, size_t i) {
  (void)i;
  page_put(w->out, "1");
}

static void put_minus_one(writer_t *w, size_t i) {
  (void)i;
  page_put(w->out, "-1");
}

static void put_false(writer_t *w, size_t i) {
  (void)i;
  page_put(w->out, "false");
}

static void put_length(writer_t *w, size_t count) {
  page_put(w->out, "\"length\":");
  page_put_number(w->out, (int64_t)count);
  page_put(w->out, "}");
}

/* ---- the tables of a thread --------------------------------------------------------------- */

static const page_node_t *node_at(const writer_t *w, size_t i) {
  return &w->names.nodes.items[w->nodes.used.items[i]];
}

static const page_frame_t *frame_at(const writer_t *w, size_t i) {
  return &w->names.frames.items[w->frames.used.items[i]];
}

/* A function is its first frame: the numbers of the page have no functions. */
static const page_frame_t *function_at(const writer_t *w, size_t i) {
  return &w->names.frames.items[w->functions.used.items[i]];
}

static void node_frame(writer_t *w, size_t i) {
  page_put_number(w->out, use(w, &w->frames, node_at(w, i)->frame));
}

static void node_prefix(writer_t *w, size_t i) {
  uint32_t parent = node_at(w, i)->parent;
  if (parent)
    page_put_number(w->out, w->nodes.number[parent] - 1);
  else
    page_put(w->out, "null");
}

/* The categories are: own, library, system, wait. */
static int64_t category_of(const page_frame_t *f) {
  return f->flags & PAGE_FRAME_OWN ? 0 : f->flags & PAGE_FRAME_SYSTEM ? 2 : 1;
}

static void node_category(writer_t *w, size_t i) {
  page_put_number(w->out, category_of(&w->names.frames.items[node_at(w, i)->frame]));
}

static void frame_function(writer_t *w, size_t i) {
  page_put_number(w->out, use(w, &w->functions, w->function_of[w->frames.used.items[i]]));
}

static void frame_line(writer_t *w, size_t i) {
  if (frame_at(w, i)->line)
    page_put_number(w->out, frame_at(w, i)->line);
  else
    page_put(w->out, "null");
}

static void frame_category(writer_t *w, size_t i) {
  page_put_number(w->out, category_of(frame_at(w, i)));
}

static void function_name(writer_t *w, size_t i) {
  page_put_number(w->out, use(w, &w->texts, function_at(w, i)->function));
}

static void function_file(writer_t *w, size_t i) {
  const page_frame_t *f = function_at(w, i);
  uint32_t text = f->file ? f->file : f->library;
  if (text)
    page_put_number(w->out, use(w, &w->texts, text));
  else
    page_put(w->out, "null");
}

/* The image of a function, as a resource of the thread. */
static void function_resource(writer_t *w, size_t i) {
  uint32_t lib = w->images.of_text[function_at(w, i)->library];
  page_put_number(w->out, lib ? (int64_t)use(w, &w->libs, lib - 1) : -1);
}

static void resource_lib(writer_t *w, size_t i) { page_put_number(w->out, w->libs.used.items[i]); }

static void resource_name(writer_t *w, size_t i) {
  page_put_number(w->out, use(w, &w->texts, w->images.names.items[w->libs.used.items[i]]));
}

static void text_value(writer_t *w, size_t i) {
  page_put_json(w->out, w->names.texts.items[w->texts.used.items[i]]);
}

/* Each table uses items of the next one, so this is their order. */
static void put_tables(writer_t *w) {
  size_t count = w->nodes.used.count;
  page_put(w->out, "\"stackTable\":{");
  column(w, "frame", count, node_frame);
  column(w, "prefix", count, node_prefix);
  column(w, "category", count, node_category);
  column(w, "subcategory", count, put_zero);
  put_length(w, count);
  count = w->frames.used.count;
  page_put(w->out, ",\"frameTable\":{");
  column(w, "func", count, frame_function);
  column(w, "line", count, frame_line);
  column(w, "category", count, frame_category);
  column(w, "subcategory", count, put_zero);
  column(w, "address", count, put_minus_one);
  column(w, "inlineDepth", count, put_zero);
  column(w, "nativeSymbol", count, put_null);
  column(w, "innerWindowID", count, put_null);
  column(w, "implementation", count, put_null);
  column(w, "column", count, put_null);
  put_length(w, count);
  count = w->functions.used.count;
  page_put(w->out, ",\"funcTable\":{");
  column(w, "name", count, function_name);
  column(w, "fileName", count, function_file);
  column(w, "isJS", count, put_false);
  column(w, "relevantForJS", count, put_false);
  column(w, "resource", count, function_resource);
  column(w, "lineNumber", count, put_null);
  column(w, "columnNumber", count, put_null);
  put_length(w, count);
  count = w->libs.used.count;
  page_put(w->out, ",\"resourceTable\":{");
  column(w, "lib", count, resource_lib);
  column(w, "name", count, resource_name);
  column(w, "host", count, put_null);
  column(w, "type", count, put_one); /* a library */
  put_length(w, count);
  page_put(w->out, ",\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
                   "\"functionSize\":[],\"length\":0},");
  column(w, "stringArray", w->texts.used.count, text_value);
}

/* ---- rows of a thread --------------------------------------------------------------------- */

static uint32_t thread_of_row(const writer_t *w, const page_rows_t *rows, const page_row_t *row) {
  if (rows != &w->source->blocks->rows) return row->thread;
  const record_thread_t *t = reader_thread(w->source->report->reader, row->thread);
  return t ? t->tid : 0;
}

typedef void row_cell_t(writer_t *w, const page_rows_t *rows, const page_row_t *row);

/* A column of the rows of the thread. Returns their number. */
static size_t row_column(writer_t *w, const char *name, const page_rows_t *rows, row_cell_t *cell) {
  size_t count = 0;
  put_name(w, name);
  page_put(w->out, "[");
  for (size_t i = 0; i < rows->count; i++) {
    const page_row_t *row = &rows->items[i];
    if (thread_of_row(w, rows, row) != w->tid) continue;
    if (count++) page_put(w->out, ",");
    cell(w, rows, row);
  }
  page_put(w->out, "],");
  return count;
}

static void put_stack(writer_t *w, uint32_t stack) {
  uint32_t node = page_stack(&w->names, stack);
  if (node)
    page_put_number(w->out, use_node(w, node));
  else
    page_put(w->out, "null");
}

static void row_time(writer_t *w, const page_rows_t *rows, const page_row_t *row) {
  page_put_ms(w->out, row->from * rows->unit_ns);
}

static void row_stack(writer_t *w, const page_rows_t *rows, const page_row_t *row) {
  (void)rows;
  put_stack(w, row->place);
}

static void row_count(writer_t *w, const page_rows_t *rows, const page_row_t *row) {
  (void)rows;
  page_put_number(w->out, (int64_t)row->count);
}

static void row_cpu(writer_t *w, const page_rows_t *rows, const page_row_t *row) {
  (void)rows;
  page_put_number(w->out, (int64_t)portions_next(&w->sample_times, row->count));
}

static void put_samples(writer_t *w) {
  const page_rows_t *rows = &w->source->events->samples;
  page_put(w->out, "\"samples\":{\"weightType\":\"samples\",");
  row_column(w, "stack", rows, row_stack);
  row_column(w, "time", rows, row_time);
  row_column(w, "threadCPUDelta", rows, row_cpu);
  size_t count = row_column(w, "weight", rows, row_count);
  put_length(w, count);
}

/* ---- allocations: two for each block that was freed --------------------------------------- */

typedef struct moments {
  struct moment {
    uint64_t ns;
    uint32_t row;
    bool is_free;
  } * items;
  size_t count, capacity;
} moments_t;

static int by_time(const void *left, const void *right) {
  const struct moment *a = left, *b = right;
  if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
  if (a->is_free != b->is_free) return a->is_free ? 1 : -1;
  return a->row < b->row ? -1 : a->row > b->row;
}

static void add_moment(writer_t *w, moments_t *m, uint64_t ns, size_t row, bool is_free) {
  struct moment *added = ARRAY_ADD(*m);
  if (added)
    *added = (struct moment){ns, (uint32_t)row, is_free};
  else
    w->failed = true;
}

static void find_moments(writer_t *w, moments_t *m) {
  const page_rows_t *rows = &w->source->blocks->rows;
  for (size_t i = 0; i < rows->count; i++) {
    const page_row_t *row = &rows->items[i];
    if (thread_of_row(w, rows, row) != w->tid) continue;
    add_moment(w, m, row->from * rows->unit_ns, i, false);
    if (row->to != PAGE_NEVER) add_moment(w, m, row->to * rows->unit_ns, i, true);
  }
  if (m->count) qsort(m->items, m->count, sizeof *m->items, by_time);
}

static void put_allocations(writer_t *w) {
  const page_rows_t *rows = &w->source->blocks->rows;
  moments_t m = {0};
  find_moments(w, &m);
  if (!m.count) return;
  page_put(w->out, "\"nativeAllocations\":{\"weightType\":\"bytes\",\"time\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    page_put_ms(w->out, m.items[i].ns);
  }
  page_put(w->out, "],\"weight\":[");
  for (size_t i = 0; i < m.count; i++) {
    int64_t bytes = (int64_t)rows->items[m.items[i].row].amount;
    if (i) page_put(w->out, ",");
    page_put_number(w->out, m.items[i].is_free ? -bytes : bytes);
  }
  page_put(w->out, "],\"stack\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    put_stack(w, rows->items[m.items[i].row].place);
  }
  page_put(w->out, "],\"memoryAddress\":["); /* the number of the row joins both */
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    page_put_number(w->out, (int64_t)(m.items[i].row + 1) * 16);
  }
  page_put(w->out, "],\"threadId\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    page_put_number(w->out, w->tid);
  }
  page_put(w->out, "],");
  put_length(w, m.count);
  page_put(w->out, ",");
  free(m.items);
}

/* ---- markers ------------------------------------------------------------------------------ */

/* A marker of any kind; the names are texts. */
typedef struct marker {
  uint64_t ns, end_ns; /* end_ns 0: a moment */
  const char *name, *type;
  const char *details;
  const page_place_t *place; /* of a wait */
  uint32_t stack;
  bool has_stack;
} marker_t;

typedef struct markers {
  marker_t *items;
  size_t count, capacity;
} markers_t;

static void add_marker(writer_t *w, markers_t *m, marker_t marker) {
  marker_t *added = ARRAY_ADD(*m);
  if (added)
    *added = marker;
  else
    w->failed = true;
}

static void add_waits(writer_t *w, markers_t *m) {
  const page_events_t *e = w->source->events;
  for (size_t i = 0; i < e->waits.count; i++) {
    const page_row_t *row = &e->waits.items[i];
    const page_place_t *p = &e->places.items[row->place];
    if (row->thread != w->tid) continue;
    add_marker(w, m,
               (marker_t){.ns = row->from * e->waits.unit_ns,
                          .end_ns = row->to * e->waits.unit_ns,
                          .name = p->is_mutex ? LOCK_NAME
                                  : *p->call  ? p->call
                                              : BLOCKED_NAME,
                          .type = "wait",
                          .place = p,
                          .stack = p->stack,
                          .has_stack = p->stack != 0});
  }
}

static void add_stalls(writer_t *w, markers_t *m) {
  const stall_groups_t *groups = w->source->stalls;
  const reader_t *reader = w->source->report->reader;
  for (size_t g = 0, i = 0; g < groups->count; g++)
    for (size_t k = 0; k < groups->items[g].count; k++, i++) {
      const attributed_stall_t *a = &groups->stalls[i];
      if (a->stall->tid != w->tid) continue;
      add_marker(w, m,
                 (marker_t){.ns = reader_ns(reader, a->stall->start),
                            .end_ns = reader_ns(reader, a->stall->start) + a->stall->total_ns,
                            .name = STALL_NAME,
                            .type = "stall",
                            .details = a->hot ? a->hot->function : "",
                            .stack = a->worst ? a->worst->stack : 0,
                            .has_stack = a->worst && a->worst->stack});
    }
}

static void add_marks(writer_t *w, markers_t *m, const page_marks_t *marks, const char *type,
                      bool is_main) {
  for (size_t i = 0; i < marks->count; i++) {
    const page_mark_t *mark = &marks->items[i];
    if (mark->tid != w->tid && (mark->tid || !is_main)) continue;
    add_marker(w, m, (marker_t){.ns = mark->ns, .name = mark->name, .type = type, .details = ""});
  }
}

/* Of a wait: "queue, held by worker 42". */
static void put_details(writer_t *w, const marker_t *m) {
  char futex[256], text[512];
  const page_place_t *p = m->place;
  if (!p) {
    page_put_json(w->out, m->details);
    return;
  }
  page_place_futex(p, w->source->report->names, futex, sizeof futex);
  int used = snprintf(text, sizeof text, "%.250s", *p->what ? p->what : futex);
  if (p->is_mutex && p->owner)
    snprintf(text + used, sizeof text - (size_t)used, "%sheld by %.100s %" PRIu32, used ? ", " : "",
             page_threads_name(&w->threads, p->owner), p->owner);
  page_put_json(w->out, text);
}

static void put_marker_data(writer_t *w, const marker_t *m) {
  page_put(w->out, "{\"type\":\"");
  page_put(w->out, m->type);
  page_put(w->out, "\",\"details\":");
  put_details(w, m);
  if (m->has_stack) {
    page_put(w->out, ",\"cause\":{\"time\":");
    page_put_ms(w->out, m->ns);
    page_put(w->out, ",\"stack\":");
    put_stack(w, m->stack);
    page_put(w->out, "}");
  }
  page_put(w->out, "}");
}

static void put_markers(writer_t *w, bool is_main) {
  markers_t m = {0};
  add_waits(w, &m);
  add_stalls(w, &m);
  add_marks(w, &m, &w->source->events->marks, "mark", is_main);
  add_marks(w, &m, &w->source->events->calls, "audited", is_main);
  page_put(w->out, ",\"markers\":{\"data\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    put_marker_data(w, &m.items[i]);
  }
  page_put(w->out, "],\"name\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    page_put_number(w->out, use(w, &w->texts, page_text(&w->names, m.items[i].name)));
  }
  page_put(w->out, "],\"startTime\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    page_put_ms(w->out, m.items[i].ns);
  }
  page_put(w->out, "],\"endTime\":[");
  for (size_t i = 0; i < m.count; i++) {
    if (i) page_put(w->out, ",");
    if (m.items[i].end_ns)
      page_put_ms(w->out, m.items[i].end_ns);
    else
      page_put(w->out, "null");
  }
  page_put(w->out, "],\"phase\":["); /* 0: a moment, 1: an interval */
  for (size_t i = 0; i < m.count; i++)
    page_put(w->out, m.items[i].end_ns ? (i ? ",1" : "1") : i ? ",0" : "0");
  page_put(w->out, "],");
  column(w, "category", m.count, put_zero);
  put_length(w, m.count);
  page_put(w->out, ",");
  free(m.items);
}

/* ---- threads ------------------------------------------------------------------------------ */

void firefox_put_thread(writer_t *w, uint32_t tid, const char *name, bool is_main) {
  w->tid = tid;
  page_put(w->out, "{\"processType\":\"default\",\"processStartupTime\":0,"
                   "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
                   "\"pausedRanges\":[],\"name\":");
  page_put_json(w->out, *name ? name : "thread");
  page_put(w->out,
           is_main ? ",\"isMainThread\":true,\"pid\":\"" : ",\"isMainThread\":false,\"pid\":\"");
  page_put_number(w->out, reader_header(w->source->report->reader)->pid);
  page_put(w->out, "\",\"tid\":");
  page_put_number(w->out, tid);
  page_put(w->out, ",");
  put_samples(w);
  put_markers(w, is_main);
  put_allocations(w);
  put_tables(w);
  page_put(w->out, "\"processName\":");
  const char *exe = reader_argument(w->source->report->reader, 0);
  page_put_json(w->out, exe ? exe : "");
  page_put(w->out, "}");
  subset_t *const all[] = {&w->nodes, &w->frames, &w->functions, &w->libs, &w->texts};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    forget(all[i]);
}
