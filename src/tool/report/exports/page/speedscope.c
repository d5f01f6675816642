/* SPDX-License-Identifier: MIT
 *
 * The samples of a thread are one list of stacks and one of weights, so each thread is written in
 * two passes over all samples.
 */
#include "report/exports/page/speedscope.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "sonde/status.h"

typedef struct writer {
  const page_source_t *source;
  page_names_t names;
  uint32_t *function_of; /* by frame: the frame that stands for its function */
  uint64_t sample_ns;
  FILE *out;
} writer_t;

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

/* Returns the number of samples. */
static uint64_t count_of(const writer_t *w, uint32_t tid) {
  const page_rows_t *rows = &w->source->events->samples;
  uint64_t count = 0;
  for (size_t i = 0; i < rows->count; i++)
    if (rows->items[i].thread == tid) count += rows->items[i].count;
  return count;
}

static void put_thread(writer_t *w, const record_thread_t *thread, uint64_t samples) {
  const page_rows_t *rows = &w->source->events->samples;
  char name[128];
  const char *comma = "";
  snprintf(name, sizeof name, "%.80s %" PRIu32, thread->name, thread->tid);
  fputs("{\"type\":\"sampled\",\"name\":", w->out);
  put_text(w, name);
  fprintf(w->out, ",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%" PRIu64,
          samples * w->sample_ns);
  fputs(",\"samples\":[", w->out);
  for (size_t i = 0; i < rows->count; i++) {
    if (rows->items[i].thread != thread->tid) continue;
    fputs(comma, w->out);
    put_stack(w, page_stack(&w->names, rows->items[i].place));
    comma = ",\n";
  }
  fputs("],\"weights\":[", w->out);
  comma = "";
  for (size_t i = 0; i < rows->count; i++) {
    if (rows->items[i].thread != thread->tid) continue;
    fprintf(w->out, "%s%" PRIu64, comma, rows->items[i].count * w->sample_ns);
    comma = ",";
  }
  fputs("]}", w->out);
}

static void put_threads(writer_t *w) {
  size_t count;
  const record_thread_t *threads = reader_threads(w->source->report->reader, &count);
  const char *comma = "";
  for (size_t i = 0; i < count; i++) {
    bool again = false;
    for (size_t k = 0; k < i; k++)
      again |= threads[k].tid == threads[i].tid;
    uint64_t samples = again ? 0 : count_of(w, threads[i].tid);
    if (!samples) continue;
    fputs(comma, w->out);
    put_thread(w, &threads[i], samples);
    comma = ",\n";
  }
}

int speedscope_write(const page_source_t *source, uint64_t sample_ns, FILE *out) {
  writer_t w = {
      .source = source, .names = {.report = source->report}, .sample_ns = sample_ns, .out = out};
  const page_rows_t *rows = &source->events->samples;
  page_names_start(&w.names);
  for (size_t i = 0; i < rows->count; i++)
    (void)page_stack(&w.names, rows->items[i].place);
  fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
        "\"exporter\":\"sonde\",\"shared\":{\"frames\":[",
        out);
  put_frames(&w);
  fputs("]},\"profiles\":[", out);
  w.function_of = page_functions(&w.names);
  if (w.function_of) put_threads(&w);
  fputs("]}\n", out);
  bool failed = w.names.failed || !w.function_of;
  free(w.function_of);
  page_names_free(&w.names);
  return failed ? SONDE_ENOMEM : 0;
}
