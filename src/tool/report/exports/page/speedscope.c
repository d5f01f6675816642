/* SPDX-License-Identifier: MIT
 *
 * A profile is one list of stacks and one of weights. The rows of a series are ordered by thread
 * and time; rows of one step of time with the same stack are one sample, since their order is not
 * known.
 */
#include "report/exports/page/speedscope.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/exports/page/threads.h"
#include "report/json.h"
#include "sonde/status.h"

/* A row as speedscope has it. */
typedef struct sample {
  uint32_t tid, node;
  uint64_t from, weight;
} sample_t;

typedef struct writer {
  const page_source_t *source;
  page_names_t names;
  page_threads_t threads;
  uint32_t *function_of; /* by frame: the frame that stands for its function */
  portions_t sample_times;
  ARRAY(sample_t) samples; /* of the series that is written */
  size_t profiles;         /* written so far */
  bool failed;
  FILE *out;
} writer_t;

/* ---- series ------------------------------------------------------------------------------- */

typedef enum series {
  SERIES_CPU,
  SERIES_WAIT,
  SERIES_ALLOCATED,
  SERIES_KEPT,
  SERIES_TEMPORARY,
  SERIES_COUNT
} series_t;

/* What stands behind the thread's name, and the unit. */
static const struct {
  const char *label, *unit;
} series[SERIES_COUNT] = {{"", "nanoseconds"},
                          {", blocked", "nanoseconds"},
                          {", allocated", "bytes"},
                          {", never freed", "bytes"},
                          {", temporary", "bytes"}};

static const page_rows_t *rows_of(const writer_t *w, series_t s) {
  const page_events_t *e = w->source->events;
  return s == SERIES_CPU ? &e->samples : s == SERIES_WAIT ? &e->waits : &w->source->blocks->rows;
}

static uint32_t node_of(writer_t *w, series_t s, const page_row_t *row) {
  const page_events_t *e = w->source->events;
  return page_stack(&w->names, s == SERIES_WAIT ? e->places.items[row->place].stack : row->place);
}

/* Of blocks the thread is a stream. */
static uint32_t tid_of(const writer_t *w, series_t s, const page_row_t *row) {
  if (s == SERIES_CPU || s == SERIES_WAIT) return row->thread;
  const record_thread_t *t = reader_thread(w->source->report->reader, row->thread);
  return t ? t->tid : 0;
}

static uint64_t weight_of(writer_t *w, series_t s, const page_row_t *row) {
  switch (s) {
  case SERIES_CPU: return portions_next(&w->sample_times, row->count);
  case SERIES_KEPT: return row->to == PAGE_NEVER ? row->amount : 0;
  case SERIES_TEMPORARY: return row->kind ? row->amount : 0;
  default: return row->amount;
  }
}

static int by_thread_and_time(const void *left, const void *right) {
  const sample_t *a = left, *b = right;
  if (a->tid != b->tid) return a->tid < b->tid ? -1 : 1;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  return a->node < b->node ? -1 : a->node > b->node;
}

/* Adds up samples of one thread, step and stack. */
static void join_samples(writer_t *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->samples.count; i++) {
    const sample_t *s = &w->samples.items[i];
    if (kept && !by_thread_and_time(&w->samples.items[kept - 1], s))
      w->samples.items[kept - 1].weight += s->weight;
    else
      w->samples.items[kept++] = *s;
  }
  w->samples.count = kept;
}

static void find_samples(writer_t *w, series_t s) {
  const page_rows_t *rows = rows_of(w, s);
  w->samples.count = 0;
  for (size_t i = 0; i < rows->count; i++) {
    const page_row_t *row = &rows->items[i];
    uint64_t weight = weight_of(w, s, row);
    if (!weight) continue;
    sample_t *added = ARRAY_ADD(w->samples);
    if (added)
      *added = (sample_t){tid_of(w, s, row), node_of(w, s, row), row->from, weight};
    else
      w->failed = true;
  }
  if (w->samples.count)
    qsort(w->samples.items, w->samples.count, sizeof *w->samples.items, by_thread_and_time);
  join_samples(w);
}

/* The time that a thread was blocked, as `sonde report wall` has it: the kernel counts it exactly,
 * and the sampler may be late. 0: unknown. */
static uint64_t blocked_ns(const writer_t *w, uint32_t tid) {
  json_object *wall, *threads, *value;
  if (!json_object_object_get_ex(w->source->sections, "wall", &wall) ||
      !json_object_object_get_ex(wall, "threads", &threads))
    return 0;
  for (size_t i = 0; i < json_object_array_length(threads); i++) {
    json_object *t = json_object_array_get_idx(threads, i);
    if (json_object_object_get_ex(t, "tid", &value) && json_object_get_int64(value) == tid)
      return json_object_object_get_ex(t, "blocked_ns", &value)
                 ? (uint64_t)json_object_get_int64(value)
                 : 0;
  }
  return 0;
}

static void divide_blocked_time(const writer_t *w, sample_t *samples, size_t count) {
  portions_t times = {.amount = blocked_ns(w, samples->tid)};
  for (size_t i = 0; i < count; i++)
    times.counts += samples[i].weight;
  for (size_t i = 0; times.amount && i < count; i++)
    samples[i].weight = portions_next(&times, samples[i].weight);
}

/* ---- profiles ----------------------------------------------------------------------------- */

static void put_text(const writer_t *w, const char *text) {
  json_object *string = json_new_text(text);
  fputs(string ? json_print(string, JSON_STYLE) : "\"\"", w->out);
  json_object_put(string);
}

/* Speedscope adds up samples by number, so a function has one: that of its first frame, without the
 * line of the call. Numbers of other frames are not used. */
static void put_frames(const writer_t *w) {
  for (size_t i = 1; i < w->names.frames.count; i++) {
    const page_frame_t *f = &w->names.frames.items[i];
    const char *place = w->names.texts.items[f->file ? f->file : f->library];
    fputs(i > 1 ? ",\n{\"name\":" : "{\"name\":", w->out);
    put_text(w, w->names.texts.items[f->function]);
    if (*place) {
      fputs(",\"file\":", w->out);
      put_text(w, place);
    }
    fputc('}', w->out);
  }
}

/* From the outermost frame. */
static void put_stack(const writer_t *w, uint32_t node) {
  const page_node_t *nodes = w->names.nodes.items;
  size_t depth = 0;
  for (uint32_t n = node; n; n = nodes[n].parent)
    depth++;
  uint32_t *path = malloc((depth + 1) * sizeof *path);
  size_t at = depth;
  for (uint32_t n = node; path && n; n = nodes[n].parent)
    path[--at] = w->function_of[nodes[n].frame] - 1;
  fputc('[', w->out);
  for (size_t i = 0; path && i < depth; i++)
    fprintf(w->out, i ? ",%" PRIu32 : "%" PRIu32, path[i]);
  fputc(']', w->out);
  free(path);
}

static void put_profile(writer_t *w, const char *name, const char *unit, const sample_t *samples,
                        size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += samples[i].weight;
  fputs(w->profiles++ ? ",\n{\"type\":\"sampled\",\"name\":" : "{\"type\":\"sampled\",\"name\":",
        w->out);
  put_text(w, name);
  fprintf(w->out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\"samples\":[", unit,
          sum);
  for (size_t i = 0; i < count; i++) {
    if (i) fputs(",\n", w->out);
    put_stack(w, samples[i].node);
  }
  fputs("],\"weights\":[", w->out);
  for (size_t i = 0; i < count; i++)
    fprintf(w->out, i ? ",%" PRIu64 : "%" PRIu64, samples[i].weight);
  fputs("]}", w->out);
}

/* "worker 42, blocked". */
static void name_of(const writer_t *w, uint32_t tid, const char *label, char *out, size_t size) {
  snprintf(out, size, "%.80s %" PRIu32 "%s", page_threads_name(&w->threads, tid), tid, label);
}

static void put_series(writer_t *w, series_t s) {
  char name[128];
  size_t end;
  find_samples(w, s);
  for (size_t i = 0; i < w->samples.count; i = end) {
    sample_t *samples = &w->samples.items[i];
    for (end = i; end < w->samples.count && w->samples.items[end].tid == samples->tid;)
      end++;
    if (s == SERIES_WAIT) divide_blocked_time(w, samples, end - i);
    name_of(w, samples->tid, series[s].label, name, sizeof name);
    put_profile(w, name, series[s].unit, samples, end - i);
  }
}

/* The times of these blocks are known in steps only, so it is not divided by thread. */
static void put_peak(writer_t *w) {
  const replay_t *replay = w->source->report->replay;
  w->samples.count = 0;
  for (size_t i = 0; i < replay->stack_count; i++) {
    const stack_totals_t *s = &replay->stacks[i];
    sample_t *added = s->at_peak.bytes ? ARRAY_ADD(w->samples) : NULL;
    if (added)
      *added = (sample_t){.node = page_stack(&w->names, s->stack), .weight = s->at_peak.bytes};
    else
      w->failed |= s->at_peak.bytes > 0;
  }
  if (w->samples.count)
    put_profile(w, "all threads, live at the peak", "bytes", w->samples.items, w->samples.count);
}

/* All stacks get their numbers before the frames are written. */
static void find_stacks(writer_t *w) {
  const replay_t *replay = w->source->report->replay;
  for (series_t s = SERIES_CPU; s < SERIES_COUNT; s++)
    for (size_t i = 0; i < rows_of(w, s)->count; i++)
      (void)node_of(w, s, &rows_of(w, s)->items[i]);
  for (size_t i = 0; i < replay->stack_count; i++)
    (void)page_stack(&w->names, replay->stacks[i].stack);
}

int speedscope_write(const page_source_t *source, portions_t sample_times, FILE *out) {
  writer_t w = {.source = source,
                .names = {.report = source->report},
                .sample_times = sample_times,
                .out = out};
  page_names_start(&w.names);
  find_stacks(&w);
  fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
        "\"exporter\":\"sonde\",\"shared\":{\"frames\":[",
        out);
  put_frames(&w);
  fputs("]},\"profiles\":[", out);
  w.function_of = page_functions(&w.names);
  w.failed = !page_threads_find(&w.threads, source);
  if (w.function_of && !w.failed) {
    for (series_t s = SERIES_CPU; s < SERIES_COUNT; s++)
      put_series(&w, s);
    put_peak(&w);
  }
  fputs("]}\n", out);
  bool failed = w.failed || w.names.failed || !w.function_of;
  free(w.function_of);
  page_threads_free(&w.threads);
  free(w.samples.items);
  page_names_free(&w.names);
  return failed ? SONDE_ENOMEM : 0;
}
