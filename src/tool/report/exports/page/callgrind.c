/* SPDX-License-Identifier: MIT
 *
 * Readers add up repeated entries, so each node of the stack table is written by itself: its own
 * costs, and the costs of the call from its parent. A name is written once, with a number in front.
 * Traced calls are nodes, too: paths of traced functions alone.
 */
#include "report/exports/page/callgrind.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/exports/command_line.h"
#include "report/sections/trace_view.h"
#include "sonde/status.h"

/* The format numbers the names of each kind by themselves. */
typedef enum kind { KIND_OBJECT, KIND_FILE, KIND_FUNCTION, KINDS } kind_t;

typedef enum cost {
  COST_CPU,
  COST_BYTES,
  COST_BLOCKS,
  COST_PEAK,
  COST_LIVE,
  COST_CALL,
  COSTS
} cost_t;

static const struct {
  const char *name, *meaning;
} costs[COSTS] = {{"ns", "CPU time in nanoseconds"},
                  {"bytes", "allocated bytes"},
                  {"blocks", "allocated blocks"},
                  {"peak_bytes", "bytes that were live at the peak"},
                  {"live_bytes", "bytes that were never freed"},
                  {"call_ns", "time in traced calls in nanoseconds"}};

typedef uint64_t cost_row_t[COSTS];

typedef struct writer {
  const page_source_t *source;
  page_names_t names;
  portions_t sample_times;
  cost_row_t *self, *total; /* by node */
  uint64_t *calls;          /* by node: traced calls */
  uint32_t *call_nodes;     /* by node of the traced calls: its node here */
  bool *written[KINDS];     /* texts */
  bool used[COSTS];         /* the recording has any */
  FILE *out;
} writer_t;

/* ---- sums --------------------------------------------------------------------------------- */

static const trace_t *trace_of(const writer_t *w) { return &w->source->calls->trace; }

/* All nodes and texts get their numbers before the tables by number are made. */
static void find_nodes(writer_t *w) {
  const page_rows_t *samples = &w->source->events->samples;
  const replay_t *replay = w->source->report->replay;
  const trace_t *trace = trace_of(w);
  for (size_t i = 0; i < samples->count; i++)
    (void)page_stack(&w->names, samples->items[i].place);
  for (size_t i = 0; i < replay->stack_count; i++)
    (void)page_stack(&w->names, replay->stacks[i].stack);
  for (size_t i = 1; w->call_nodes && i < trace->node_count; i++) {
    const frame_name_t *name = trace_frame_name(w->source->report, trace->nodes[i].frame);
    uint32_t parent = w->call_nodes[trace->nodes[i].parent];
    w->call_nodes[i] = page_node(&w->names, parent, page_function(&w->names, name));
  }
}

/* The samples of a node are counted first, so that the time of a node is rounded once. */
static void add_samples(writer_t *w) {
  const page_rows_t *samples = &w->source->events->samples;
  for (size_t i = 0; i < samples->count; i++)
    w->self[page_stack(&w->names, samples->items[i].place)][COST_CPU] += samples->items[i].count;
  for (size_t i = 0; i < w->names.nodes.count; i++)
    w->self[i][COST_CPU] = portions_next(&w->sample_times, w->self[i][COST_CPU]);
}

static void add_blocks(writer_t *w) {
  const replay_t *replay = w->source->report->replay;
  for (size_t i = 0; i < replay->stack_count; i++) {
    const stack_totals_t *s = &replay->stacks[i];
    uint64_t *row = w->self[page_stack(&w->names, s->stack)];
    row[COST_BYTES] += s->allocated.bytes;
    row[COST_BLOCKS] += s->allocated.count;
    row[COST_PEAK] += s->at_peak.bytes;
    row[COST_LIVE] += s->live.bytes;
  }
}

static void add_calls(writer_t *w) {
  const trace_t *trace = trace_of(w);
  for (size_t i = 1; i < trace->node_count; i++) {
    const trace_times_t *t = &trace->nodes[i].times;
    w->self[w->call_nodes[i]][COST_CALL] += t->self_ns > 0 ? (uint64_t)(t->self_ns + 0.5) : 0;
    w->calls[w->call_nodes[i]] += t->calls;
  }
}

/* Parents have smaller numbers than their children. Node 0 has what has no stack. */
static void add_up(writer_t *w) {
  add_samples(w);
  add_blocks(w);
  add_calls(w);
  for (size_t i = w->names.nodes.count; i-- > 0;)
    for (int c = 0; c < COSTS; c++) {
      w->total[i][c] += w->self[i][c];
      if (i) w->total[w->names.nodes.items[i].parent][c] += w->total[i][c];
    }
  for (int c = 0; c < COSTS; c++)
    w->used[c] = w->total[0][c] > 0;
  bool is_empty = true;
  for (int c = 0; c < COSTS; c++)
    is_empty &= !w->used[c];
  w->used[COST_CPU] |= is_empty; /* the format needs an event */
}

/* ---- writing ------------------------------------------------------------------------------ */

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

static bool is_zero(const writer_t *w, const uint64_t *row) {
  for (int c = 0; c < COSTS; c++)
    if (w->used[c] && row[c]) return false;
  return true;
}

/* The columns of the costs that are used. Readers take missing ones as 0. */
static void put_costs(writer_t *w, const uint64_t *row) {
  int last = COSTS;
  while (last > 0 && (!w->used[last - 1] || !row[last - 1]))
    last--;
  for (int c = 0; c < last; c++)
    if (w->used[c]) fprintf(w->out, " %" PRIu64, row[c]);
  if (!last) fputs(" 0", w->out);
  fputc('\n', w->out);
}

static void put_node(writer_t *w, uint32_t node) {
  const page_frame_t *f = frame_of(w, node);
  uint32_t parent = w->names.nodes.items[node].parent;
  if (!is_zero(w, w->self[node])) {
    put_function(w, f);
    fprintf(w->out, "%" PRIu32, f->line);
    put_costs(w, w->self[node]);
    fputc('\n', w->out);
  }
  if (!parent || (is_zero(w, w->total[node]) && !w->calls[node])) return;
  put_function(w, frame_of(w, parent));
  put_name(w, KIND_OBJECT, "cob", f->library);
  put_name(w, KIND_FILE, "cfl", f->file);
  put_name(w, KIND_FUNCTION, "cfn", f->function);
  uint64_t calls = trace_of(w)->node_count > 1 ? w->calls[node] : 1;
  fprintf(w->out, "calls=%" PRIu64 " %" PRIu32 "\n%" PRIu32, calls, f->line,
          frame_of(w, parent)->line);
  put_costs(w, w->total[node]);
  fputc('\n', w->out);
}

static void put_head(writer_t *w) {
  fputs("# callgrind format\nversion: 1\ncreator: sonde\ncmd:", w->out);
  export_command_line(w->source->report->reader, w->out);
  fputs("\npositions: line\n", w->out);
  for (int c = 0; c < COSTS; c++)
    if (w->used[c]) fprintf(w->out, "event: %s : %s\n", costs[c].name, costs[c].meaning);
  fputs("events:", w->out);
  for (int c = 0; c < COSTS; c++)
    if (w->used[c]) fprintf(w->out, " %s", costs[c].name);
  fputs("\nsummary:", w->out);
  put_costs(w, w->total[0]);
  fputc('\n', w->out);
}

static void put_all(writer_t *w) {
  put_head(w);
  if (!is_zero(w, w->self[0])) {
    put_name(w, KIND_OBJECT, "ob", 0);
    put_name(w, KIND_FILE, "fl", 0);
    fputs("fn=[no stack]\n0", w->out);
    put_costs(w, w->self[0]);
    fputc('\n', w->out);
  }
  for (uint32_t i = 1; i < w->names.nodes.count; i++)
    put_node(w, i);
  fputs("totals:", w->out);
  put_costs(w, w->total[0]);
}

static bool allocate(writer_t *w) {
  size_t nodes = w->names.nodes.count + 1;
  w->self = calloc(nodes, sizeof *w->self);
  w->total = calloc(nodes, sizeof *w->total);
  w->calls = calloc(nodes, sizeof *w->calls);
  bool good = w->self && w->total && w->calls;
  for (int k = 0; k < KINDS; k++) {
    w->written[k] = calloc(w->names.texts.count + 1, sizeof *w->written[k]);
    good = good && w->written[k];
  }
  return good;
}

int callgrind_write(const page_source_t *source, portions_t sample_times, FILE *out) {
  writer_t w = {.source = source,
                .names = {.report = source->report},
                .sample_times = sample_times,
                .out = out};
  page_names_start(&w.names);
  w.call_nodes = calloc(trace_of(&w)->node_count + 1, sizeof *w.call_nodes);
  find_nodes(&w);
  bool good = w.call_nodes && allocate(&w) && !w.names.failed;
  if (good) {
    add_up(&w);
    put_all(&w);
  }
  free(w.self);
  free(w.total);
  free(w.calls);
  free(w.call_nodes);
  for (int k = 0; k < KINDS; k++)
    free(w.written[k]);
  page_names_free(&w.names);
  return good ? 0 : SONDE_ENOMEM;
}
