/* SPDX-License-Identifier: MIT
 *
 * Readers add up repeated entries, so each node of the stack table is written by itself: its own
 * cost, and the cost of the call from its parent. A name is written once, with a number in front.
 */
#include "report/exports/page/callgrind.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/exports/command_line.h"
#include "sonde/status.h"

/* The format numbers the names of each kind by themselves. */
typedef enum kind { KIND_OBJECT, KIND_FILE, KIND_FUNCTION, KINDS } kind_t;

typedef struct writer {
  page_names_t names;
  uint64_t *self, *total; /* by node */
  bool *written[KINDS];   /* texts */
  FILE *out;
} writer_t;

static void put_name(writer_t *w, kind_t kind, const char *key, uint32_t text) {
  fprintf(w->out, "%s=(%" PRIu32 ")", key, text + 1);
  if (!w->written[kind][text]) {
    fputc(' ', w->out);
    export_line_text(w->names.texts.items[text], w->out);
    if (!*w->names.texts.items[text]) fputs("???", w->out);
  }
  w->written[kind][text] = true;
  fputc('\n', w->out);
}

static const page_frame_t *frame_of(const writer_t *w, size_t node) {
  return &w->names.frames.items[w->names.nodes.items[node].frame];
}

static void put_function(writer_t *w, const page_frame_t *f) {
  put_name(w, KIND_OBJECT, "ob", f->library);
  put_name(w, KIND_FILE, "fl", f->file);
  put_name(w, KIND_FUNCTION, "fn", f->function);
}

static void put_node(writer_t *w, uint32_t node) {
  const page_frame_t *f = frame_of(w, node);
  uint32_t parent = w->names.nodes.items[node].parent;
  if (w->self[node]) {
    put_function(w, f);
    fprintf(w->out, "%" PRIu32 " %" PRIu64 "\n\n", f->line, w->self[node]);
  }
  if (!parent || !w->total[node]) return;
  put_function(w, frame_of(w, parent));
  put_name(w, KIND_OBJECT, "cob", f->library);
  put_name(w, KIND_FILE, "cfl", f->file);
  put_name(w, KIND_FUNCTION, "cfn", f->function);
  fprintf(w->out, "calls=1 %" PRIu32 "\n%" PRIu32 " %" PRIu64 "\n\n", f->line,
          frame_of(w, parent)->line, w->total[node]);
}

/* Parents have smaller numbers than their children. */
static uint64_t add_up(writer_t *w, const page_rows_t *rows, uint64_t sample_ns) {
  uint64_t sum = 0;
  for (size_t i = 0; i < rows->count; i++) {
    uint64_t ns = rows->items[i].count * sample_ns;
    w->self[page_stack(&w->names, rows->items[i].place)] += ns;
    sum += ns;
  }
  for (size_t i = w->names.nodes.count; i-- > 1;) {
    w->total[i] += w->self[i];
    w->total[w->names.nodes.items[i].parent] += w->total[i];
  }
  return sum;
}

static void put_head(const writer_t *w, const reader_t *reader, uint64_t sum) {
  fputs("# callgrind format\nversion: 1\ncreator: sonde\ncmd:", w->out);
  export_command_line(reader, w->out);
  fprintf(w->out,
          "\npositions: line\nevent: ns : CPU time in nanoseconds\nevents: ns\nsummary: %" PRIu64
          "\n\n",
          sum);
}

int callgrind_write(const page_source_t *source, uint64_t sample_ns, FILE *out) {
  const page_rows_t *rows = &source->events->samples;
  writer_t w = {.names = {.report = source->report}, .out = out};
  page_names_start(&w.names);
  for (size_t i = 0; i < rows->count; i++)
    (void)page_stack(&w.names, rows->items[i].place);
  w.self = calloc(w.names.nodes.count + 1, sizeof *w.self);
  w.total = calloc(w.names.nodes.count + 1, sizeof *w.total);
  bool good = w.self && w.total && !w.names.failed;
  for (int k = 0; k < KINDS; k++) {
    w.written[k] = calloc(w.names.texts.count + 1, sizeof *w.written[k]);
    good = good && w.written[k];
  }
  if (good) {
    put_head(&w, source->report->reader, add_up(&w, rows, sample_ns));
    for (uint32_t i = 1; i < w.names.nodes.count; i++)
      put_node(&w, i);
    fprintf(out, "totals: %" PRIu64 "\n", w.total[0]);
  }
  free(w.self);
  free(w.total);
  for (int k = 0; k < KINDS; k++)
    free(w.written[k]);
  page_names_free(&w.names);
  return good ? 0 : SONDE_ENOMEM;
}
