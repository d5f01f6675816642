/* SPDX-License-Identifier: MIT
 *
 * Lines of a letter and hexadecimal numbers; an item is defined before its first use, and gets the
 * next number of its kind, from 1. A frame of the page is an instruction here, with a made-up
 * address.
 *
 *   v VERSION 3            s LENGTH TEXT                 i ADDRESS MODULE [FUNCTION FILE LINE]
 *   X COMMAND              t INSTRUCTION PARENT          a SIZE TRACE
 *   I PAGE-SIZE PAGES      + ALLOCATION  - ALLOCATION    c MILLISECONDS  R PAGES
 *
 * An ALLOCATION is a size at a trace, with numbers from 0. Readers count an allocation as temporary
 * if a "-" has the number of the "+" in the line before it, or number 0 after another "-". Blocks
 * that are not temporary may meet this condition, because they share a number. Their frees name a
 * second definition of the same size and trace, the twin.
 *
 * heaptrack_gui requires that numbers appear in "+" in their order, without a gap. Twins appear in
 * no "+", so their numbers follow all others. A first replay finds the allocations and those that
 * need a twin; the second one writes the events.
 */
#include "report/exports/page/heaptrack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/estimate.h"
#include "analysis/usage.h"
#include "base/terminal.h"
#include "report/exports/command_line.h"
#include "report/exports/page/names.h"
#include "sonde/status.h"

enum { PAGE_BYTES = 4096 };

/* A size at a trace. */
typedef struct allocation {
  uint64_t size;
  uint32_t trace;
  uint32_t twin; /* its number in the file; 0: there is none. The index is the other number */
} allocation_t;

typedef struct writer {
  FILE *out;
  const report_t *report;
  page_names_t names;
  size_t texts, frames, nodes; /* of the tables, written so far; number 0 is never written */
  ARRAY(allocation_t) allocations;
  hash_index_t index;
  bool is_second;  /* replay: it writes the events */
  uint32_t last;   /* the number of the last "+"; 0 after a "-", as readers have it */
  live_set_t live; /* the size is the index of the allocation */
  usage_t usage;
  uint64_t ms;
  bool failed;
} writer_t;

/* ---- definitions -------------------------------------------------------------------------- */

/* Writes what the tables got since the last call. */
static void define(writer_t *w) {
  page_names_t *n = &w->names;
  for (; w->texts < n->texts.count; w->texts++) {
    const char *text = n->texts.items[w->texts];
    fprintf(w->out, "s %zx ", strlen(text));
    export_line_text(text, w->out);
    fputc('\n', w->out);
  }
  for (; w->frames < n->frames.count; w->frames++) {
    const page_frame_t *f = &n->frames.items[w->frames];
    fprintf(w->out, "i %zx %" PRIx32 " %" PRIx32, w->frames, f->library, f->function);
    if (f->file) fprintf(w->out, " %" PRIx32 " %" PRIx32, f->file, f->line);
    fputc('\n', w->out);
  }
  for (; w->nodes < n->nodes.count; w->nodes++) {
    const page_node_t *node = &n->nodes.items[w->nodes];
    fprintf(w->out, "t %" PRIx32 " %" PRIx32 "\n", node->frame, node->parent);
  }
}

static uint64_t hash_of_allocation(const void *writer, size_t i) {
  const allocation_t *a = &((const writer_t *)writer)->allocations.items[i];
  return hash_pair(a->size, a->trace);
}

static void put_definition(const writer_t *w, const allocation_t *a) {
  fprintf(w->out, "a %" PRIx64 " %" PRIx32 "\n", a->size, a->trace);
}

/* Writes what the first replay found. */
static void define_allocations(writer_t *w) {
  uint32_t twin = (uint32_t)w->allocations.count;
  for (size_t i = 0; i < w->allocations.count; i++)
    put_definition(w, &w->allocations.items[i]);
  for (size_t i = 0; i < w->allocations.count; i++) {
    allocation_t *a = &w->allocations.items[i];
    if (!a->twin) continue;
    a->twin = twin++;
    put_definition(w, a);
  }
}

/* The number of the allocation. */
static uint64_t allocation_of(writer_t *w, uint64_t size, uint32_t trace) {
  uint32_t *slot;
  if (!hash_reserve(&w->index, w->allocations.count, hash_of_allocation, w)) goto no_memory;
  HASH_FIND(&w->index, hash_pair(size, trace), slot) {
    const allocation_t *a = &w->allocations.items[*slot - 1];
    if (a->size == size && a->trace == trace) return *slot - 1;
  }
  allocation_t *a = ARRAY_ADD(w->allocations);
  if (!a) goto no_memory;
  *a = (allocation_t){.size = size, .trace = trace};
  *slot = (uint32_t)w->allocations.count;
  return *slot - 1;
no_memory:
  w->failed = true;
  return 0;
}

/* ---- events ------------------------------------------------------------------------------- */

static void put_time(writer_t *w, uint64_t ns) {
  if (!w->is_second || ns / 1000000 <= w->ms) return;
  w->ms = ns / 1000000;
  fprintf(w->out, "c %" PRIx64 "\n", w->ms);
}

static void put_allocation(writer_t *w, uint32_t number) {
  w->last = number;
  if (w->is_second) fprintf(w->out, "+ %" PRIx32 "\n", number);
}

static void put_free(writer_t *w, uint32_t number, bool is_temporary) {
  allocation_t *a = &w->allocations.items[number];
  bool needs_twin = number == w->last && !is_temporary;
  w->last = 0;
  if (w->is_second)
    fprintf(w->out, "- %" PRIx32 "\n", needs_twin ? a->twin : number);
  else if (needs_twin)
    a->twin = 1; /* numbered by define_allocations */
}

static void on_block(void *context, const replay_t *r, const live_block_t *block, uint64_t time,
                     replay_change_t change) {
  writer_t *w = context;
  if (w->failed) return;
  put_time(w, reader_ns(r->reader, time));
  live_block_t *known = live_set_find(&w->live, block->address);
  if (change != REPLAY_ALLOCATED) {
    if (!known) return;
    put_free(w, (uint32_t)known->size, change == REPLAY_FREED_AT_ONCE);
    live_set_remove(&w->live, known);
    return;
  }
  uint32_t trace = page_stack(&w->names, r->stacks[block->stack].stack);
  uint64_t number = allocation_of(w, estimate_scale(block->size, block->weight), trace);
  live_block_t live = {.address = block->address, .size = number & LIVE_SIZE_MAX};
  if (known || w->failed) return;
  w->failed = !live_set_add(&w->live, &live);
  put_allocation(w, (uint32_t)number);
}

static bool on_event(void *context, const record_event_t *event) {
  writer_t *w = context;
  if (event->kind != EVENT_EXTENDED || event->subtype != EXTENDED_USAGE) return true;
  uint64_t before = w->usage.series[USAGE_RSS].last;
  if (!usage_add(&w->usage, w->report->reader, event)) return false;
  uint64_t rss = w->usage.series[USAGE_RSS].last;
  put_time(w, reader_ns(w->report->reader, event->time));
  if (w->is_second && rss != before) fprintf(w->out, "R %" PRIx64 "\n", rss / PAGE_BYTES);
  return true;
}

static void put_head(const writer_t *w) {
  uint64_t machine_bytes = w->usage.series[USAGE_MACHINE_MEMORY].last;
  fprintf(w->out, "v 10400 3\nX");
  export_command_line(w->report->reader, w->out);
  fprintf(w->out, "\nI %x %" PRIx64 "\n", PAGE_BYTES, machine_bytes / PAGE_BYTES);
}

static int replay_blocks(writer_t *w, const char *what) {
  replay_t replay;
  terminal_progress_t progress;
  const replay_options_t window = {.on_block = on_block,
                                   .on_block_context = w,
                                   .other = on_event,
                                   .other_context = w,
                                   .progress = terminal_progress_update,
                                   .progress_context = &progress};
  terminal_progress_start(&progress, what, 0);
  w->last = 0;
  int status =
      live_set_init(&w->live) ? replay_run(&replay, w->report->reader, &window) : SONDE_ENOMEM;
  terminal_progress_end(&progress);
  if (status == 0) replay_free(&replay);
  live_set_free(&w->live);
  return w->failed || w->names.failed ? SONDE_ENOMEM : status;
}

static int write_all(writer_t *w) {
  int status = replay_blocks(w, "reading events");
  if (status != 0) return status;
  put_head(w);
  usage_free(&w->usage);
  define(w);
  define_allocations(w);
  w->is_second = true;
  status = replay_blocks(w, "writing events");
  const record_header_t *h = reader_header(w->report->reader);
  if (status == 0) put_time(w, h->end_monotonic_ns - h->start_monotonic_ns);
  return status;
}

int heaptrack_write(const report_t *report, FILE *out) {
  writer_t w = {.out = out, .report = report, .names = {.report = report}};
  w.texts = w.frames = w.nodes = 1;
  page_names_start(&w.names);
  int status = write_all(&w);
  usage_free(&w.usage);
  page_names_free(&w.names);
  free(w.allocations.items);
  hash_free(&w.index);
  return status;
}
