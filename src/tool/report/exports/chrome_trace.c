/* SPDX-License-Identifier: MIT
 *
 * Writes calls in the order in which they end, then waits, stalls and counters; readers of the
 * format accept any order.
 */
#include "report/exports/chrome_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/stalls.h"
#include "analysis/wall.h"
#include "reader/merge.h"
#include "report/exports/name.h"
#include "report/exports/usage_counters.h"
#include "report/json.h"
#include "report/sections/stall_groups.h"
#include "sonde/status.h"

typedef struct trace_writer {
  reader_t *reader;
  frame_names_t *names;
  FILE *out;
  const record_frame_t *frames;
  char **texts; /* by index of the frame: its name as JSON */
  uint32_t pid;
  double least_ns;
  bool full;
  usage_t usage;
  stalls_t stalls;
} trace_writer_t;

static char *text_of(const char *text) {
  json_object *o = json_new_text(text);
  char *copy = strdup(json_print(o, JSON_STYLE));
  json_object_put(o);
  return copy;
}

static const char *name_of(trace_writer_t *w, uint32_t frame) {
  const record_frame_t *f = frame ? reader_frame(w->reader, frame) : NULL;
  if (!f) return "\"[called before the recording]\"";
  char **text = &w->texts[f - w->frames];
  if (!*text) {
    const frame_name_t *names;
    int count = frame_names_of_frame(w->names, f, &names);
    char name[REPORT_NAME_MAX];
    *text = text_of(export_name(&names[count - 1], w->full, name));
  }
  return *text;
}

static bool put_call(void *context, const trace_span_t *call) {
  trace_writer_t *w = context;
  const char *name = name_of(w, call->frame);
  const record_thread_t *t = reader_thread(w->reader, call->stream);
  if (!name) return false;
  fprintf(w->out,
          ",\n{\"ph\":\"X\",\"name\":%s,\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
          ",\"ts\":%.3f,\"dur\":%.3f%s}",
          name, w->pid, t ? t->tid : call->stream, call->start_ns / 1e3, call->took_ns / 1e3,
          call->open ? ",\"args\":{\"open\":true}" : "");
  return !ferror(w->out);
}

/* ---- waits -------------------------------------------------------------------------------- */

static char *text_of_bytes(const uint8_t *bytes, uint64_t size) {
  char text[256];
  body_copy_text(text, sizeof text, bytes, size);
  return text_of(text);
}

static bool is_wait(const record_event_t *event) {
  return event->kind == EVENT_EXTENDED && event->subtype == EXTENDED_WALL;
}

/* False: out of memory. */
static bool put_wait(trace_writer_t *w, const record_event_t *event) {
  body_t b = {event->body, event->body + event->body_size, false};
  wall_period_t p = wall_period(&b);
  if (b.truncated || (double)p.ns < w->least_ns) return true;
  uint64_t end = reader_ns(w->reader, event->time), start = end > p.ns ? end - p.ns : 0;
  char *call = p.call_size ? text_of_bytes(p.call, p.call_size) : text_of("blocked");
  char *on = p.is_mutex && !p.what_size ? text_of("lock") : text_of_bytes(p.what, p.what_size);
  if (call && on) {
    fprintf(w->out,
            ",\n{\"ph\":\"b\",\"cat\":\"wait\",\"id\":%" PRIu32 ",\"name\":%s,\"pid\":%" PRIu32
            ",\"tid\":%" PRIu32 ",\"ts\":%.3f,\"args\":{\"on\":%s}}",
            p.tid, call, w->pid, p.tid, (double)start / 1e3, on);
    fprintf(w->out,
            ",\n{\"ph\":\"e\",\"cat\":\"wait\",\"id\":%" PRIu32 ",\"name\":%s,\"pid\":%" PRIu32
            ",\"tid\":%" PRIu32 ",\"ts\":%.3f}",
            p.tid, call, w->pid, p.tid, (double)end / 1e3);
  }
  bool good = call && on;
  free(call);
  free(on);
  return good;
}

/* ---- stalls ------------------------------------------------------------------------------- */

static bool is_stall(const record_event_t *event) {
  return event->kind == EVENT_EXTENDED && event->subtype == EXTENDED_STALL;
}

/* False: out of memory. */
static bool put_stall(trace_writer_t *w, const attributed_stall_t *a) {
  const stall_t *s = a->stall;
  uint64_t start = reader_ns(w->reader, s->start);
  char hot[REPORT_NAME_MAX];
  char *where = text_of(a->hot ? export_name(a->hot, w->full, hot) : "");
  char *call = text_of(a->call), *what = text_of(a->what);
  bool good = where && call && what;
  if (good) {
    fprintf(w->out,
            ",\n{\"ph\":\"b\",\"cat\":\"stall\",\"id\":%" PRIu64
            ",\"name\":\"stall: %s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
            ",\"ts\":%.3f,\"args\":{\"function\":%s,\"call\":%s,\"what\":%s,\"length_ms\":%.3f}}",
            s->number, stall_label_text(s->label), w->pid, s->tid, (double)start / 1e3, where, call,
            what, (double)s->length_ns / 1e6);
    fprintf(w->out,
            ",\n{\"ph\":\"e\",\"cat\":\"stall\",\"id\":%" PRIu64
            ",\"name\":\"stall: %s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":%.3f}",
            s->number, stall_label_text(s->label), w->pid, s->tid,
            (double)(start + s->total_ns) / 1e3);
  }
  free(where);
  free(call);
  free(what);
  return good;
}

/* False: out of memory. */
static bool put_stalls(trace_writer_t *w) {
  const report_t report = {.reader = w->reader, .names = w->names};
  stall_groups_t groups;
  stalls_finish(&w->stalls, w->reader);
  if (!stall_groups_make(&groups, &report, &w->stalls)) return false;
  bool good = true;
  for (size_t i = 0; good && i < w->stalls.count; i++)
    good = put_stall(w, &groups.stalls[i]);
  stall_groups_free(&groups);
  return good;
}

int chrome_trace_has_times(reader_t *reader) {
  const record_event_t *e;
  merge_t *merge = merge_open(reader);
  if (!merge) return SONDE_ENOMEM;
  while ((e = merge_next(merge)) && !is_wait(e) && !is_stall(e)) {
  }
  merge_close(merge);
  return e != NULL;
}

/* ---- counters ----------------------------------------------------------------------------- */

/* A counter that was always 0 would only take space. */
static void put_counter(const trace_writer_t *w, const usage_counter_t *c) {
  const usage_series_t *s = &w->usage.series[c->field];
  for (uint32_t i = 0; s->peak && i < s->count; i++)
    fprintf(w->out,
            ",\n{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%" PRIu32
            ",\"ts\":%.3f,\"args\":{\"%s\":%" PRIu64 "}}",
            c->name, w->pid, (double)s->points[i].time_ns / 1e3, c->unit, s->points[i].value);
}

static int put_times(trace_writer_t *w) {
  const record_event_t *e;
  merge_t *merge = merge_open(w->reader);
  bool good = merge != NULL;
  while (good && (e = merge_next(merge)))
    good = is_wait(e) ? put_wait(w, e)
                      : usage_add(&w->usage, w->reader, e) && stalls_add(&w->stalls, e);
  merge_close(merge);
  good = good && put_stalls(w);
  stalls_free(&w->stalls);
  for (int i = 0; good && i < USAGE_COUNTERS; i++)
    put_counter(w, &usage_counters[i]);
  usage_free(&w->usage);
  return good ? 0 : SONDE_ENOMEM;
}

/* ---- names -------------------------------------------------------------------------------- */

static bool put_metadata(trace_writer_t *w, const char *what, uint32_t tid, const char *name) {
  char *text = text_of(name);
  if (!text) return false;
  fprintf(w->out,
          "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
          ",\"args\":{\"name\":%s}}",
          what, w->pid, tid, text);
  free(text);
  return true;
}

static bool put_names(trace_writer_t *w) {
  const char *program = reader_argument(w->reader, 0);
  size_t count;
  const record_thread_t *threads = reader_threads(w->reader, &count);
  bool good = put_metadata(w, "process_name", w->pid, program ? program : "");
  for (size_t i = 0; good && i < count; i++) {
    if (threads[i].level != 2) continue; /* one stream of calls a thread */
    fputs(",\n", w->out);
    good = put_metadata(w, "thread_name", threads[i].tid, threads[i].name);
  }
  return good;
}

/* Of one event: the mean of C programs, whose names are short. */
#define EVENT_BYTES 90u
/* The least that the records of one call take. */
#define CALL_BYTES 4u

static bool count_call(void *context, const trace_span_t *call) {
  chrome_trace_size_t *size = context;
  size->calls++;
  size->longer_calls += call->took_ns >= 10000;
  return true;
}

int chrome_trace_size(reader_t *reader, const trace_filter_t *filter, chrome_trace_size_t *out) {
  trace_filter_t each = *filter;
  trace_t trace;
  *out = (chrome_trace_size_t){0};
  if (calls_bytes(reader) / CALL_BYTES * EVENT_BYTES < CHROME_TRACE_LARGE) return 0;
  each.on_call = count_call;
  each.on_call_context = out;
  int status = trace_run(&trace, reader, &each);
  if (status != 0) return status;
  trace_free(&trace);
  if (out->calls * EVENT_BYTES >= CHROME_TRACE_LARGE) out->bytes = out->calls * EVENT_BYTES;
  return 0;
}

int chrome_trace_write(reader_t *reader, frame_names_t *names, const trace_filter_t *filter,
                       bool full, FILE *out) {
  size_t frames;
  trace_writer_t w = {.reader = reader,
                      .names = names,
                      .out = out,
                      .pid = reader_header(reader)->pid,
                      .least_ns = filter->min_ns,
                      .full = full};
  w.frames = reader_frames(reader, &frames);
  w.texts = calloc(frames + 1, sizeof *w.texts);
  fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
  int status = w.texts && put_names(&w) ? 0 : SONDE_ENOMEM;
  if (status == 0) {
    trace_filter_t each = *filter;
    trace_t trace;
    each.on_call = put_call;
    each.on_call_context = &w;
    status = trace_run(&trace, reader, &each);
    if (status == 0) trace_free(&trace);
  }
  if (status == 0) status = put_times(&w);
  fputs("\n]}\n", out);
  for (size_t i = 0; w.texts && i < frames; i++)
    free(w.texts[i]);
  free(w.texts);
  return status;
}
