/* SPDX-License-Identifier: MIT
 *
 * Writes a summary: replays the recording and writes the totals, with fewer and fewer stacks until
 * the summary is small enough.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cpu_time.h"
#include "analysis/samples.h"
#include "analysis/summary/summary.h"
#include "reader/internal.h"
#include "sonde/status.h"

enum { LEVEL = 19, THREADS_MAX = 2000 };

typedef struct checkpoint {
  uint64_t time;
  size_t count;
  counts_t *live; /* by the stacks' indexes in the replay */
} checkpoint_t;

typedef struct item {
  uint32_t stack;
  uint32_t place, sample; /* index + 1 in the replay, in the samples; 0: none */
  double weight;          /* the largest of its shares of each measure */
} summary_stack_t;

typedef struct writer {
  reader_t *reader;
  const pack_names_t *names; /* NULL: those that the recording has */
  replay_t replay;
  samples_t samples;
  cpu_time_t cpu_time;
  checkpoint_t checkpoints[SUMMARY_CHECKPOINTS];
  int checkpoint_count;
  summary_stack_t *items; /* largest weight first */
  size_t item_count;
  bool no_memory;
} summary_writer_t;

/* ---- collecting --------------------------------------------------------------------------- */

static bool add_sample(void *context, const record_event_t *e) {
  summary_writer_t *w = context;
  return cpu_time_add(&w->cpu_time, e) && (e->kind != EVENT_SAMPLE || samples_add(&w->samples, e));
}

static bool add_checkpoint(void *context, const replay_t *r, uint64_t time) {
  summary_writer_t *w = context;
  checkpoint_t *m = &w->checkpoints[w->checkpoint_count];
  m->live = malloc((r->stack_count + 1) * sizeof *m->live);
  if (!m->live) {
    w->no_memory = true;
    return false;
  }
  m->time = time;
  m->count = r->stack_count;
  for (size_t i = 0; i < m->count; i++)
    m->live[i] = (counts_t){(r->stacks[i].live.count + WEIGHT_ONE / 2) / WEIGHT_ONE,
                            r->stacks[i].live.bytes};
  return ++w->checkpoint_count < SUMMARY_CHECKPOINTS;
}

static double share(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : 0;
}

static double larger(double a, double b) { return a > b ? a : b; }

static double weight_of(const summary_writer_t *w, const stack_totals_t *s) {
  const replay_t *r = &w->replay;
  double weight =
      larger(share(s->at_peak.bytes, r->at_peak.bytes), share(s->live.bytes, r->live.bytes));
  weight = larger(weight, share(s->allocated.bytes, r->allocated.bytes));
  return larger(weight, share(s->temporary, r->temporary));
}

static int by_stack(const void *left, const void *right) {
  const summary_stack_t *a = left, *b = right;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static int by_weight(const void *left, const void *right) {
  const summary_stack_t *a = left, *b = right;
  if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
  return by_stack(left, right);
}

/* Lists the stacks of allocations and of samples, each once. */
static bool list_items(summary_writer_t *w) {
  size_t n = 0, kept = 0;
  w->items = calloc(w->replay.stack_count + w->samples.stack_count + 1, sizeof *w->items);
  if (!w->items) return false;
  for (size_t i = 0; i < w->replay.stack_count; i++)
    w->items[n++] = (summary_stack_t){w->replay.stacks[i].stack, (uint32_t)i + 1, 0,
                                      weight_of(w, &w->replay.stacks[i])};
  for (size_t i = 0; i < w->samples.stack_count; i++)
    w->items[n++] = (summary_stack_t){w->samples.stacks[i].stack, 0, (uint32_t)i + 1,
                                      share(w->samples.stacks[i].ticks, w->samples.ticks)};
  if (n) qsort(w->items, n, sizeof *w->items, by_stack);
  for (size_t i = 0; i < n; i++) {
    summary_stack_t *last = kept ? &w->items[kept - 1] : NULL;
    if (!last || last->stack != w->items[i].stack) {
      w->items[kept++] = w->items[i];
      continue;
    }
    last->place |= w->items[i].place;
    last->sample |= w->items[i].sample;
    last->weight = larger(last->weight, w->items[i].weight);
  }
  w->item_count = kept;
  if (kept) qsort(w->items, kept, sizeof *w->items, by_weight);
  return true;
}

/* ---- records ------------------------------------------------------------------------------ */

static bool put_record(byte_buffer_t *out, unsigned type, const uint64_t *numbers, size_t count) {
  byte_buffer_t body = {0};
  uint8_t byte = (uint8_t)type;
  bool good = true;
  for (size_t i = 0; good && i < count; i++)
    good = bytes_number(&body, numbers[i]);
  good = good && bytes_add(out, &byte, 1) && bytes_number(out, body.count) &&
         bytes_add(out, body.items, body.count);
  free(body.items);
  return good;
}

static bool put_totals(const summary_writer_t *w, byte_buffer_t *out) {
  const replay_t *r = &w->replay;
  const uint64_t numbers[] = {
#define SUMMARY_PUT(what) r->what,
      SUMMARY_TOTALS_TABLE(SUMMARY_PUT)
#undef SUMMARY_PUT
              (uint64_t)(r->sample_bytes != 0) |
          (uint64_t)r->incomplete << 1,
      r->blocks_until, r->sample_bytes};
  return put_record(out, SUMMARY_TOTALS, numbers, sizeof numbers / sizeof *numbers);
}

static bool put_stack(uint32_t id, const stack_totals_t *s, byte_buffer_t *out) {
  const uint64_t numbers[] = {id,
                              s->allocated.count,
                              s->allocated.bytes,
                              s->live.count,
                              s->live.bytes,
                              s->at_peak.count,
                              s->at_peak.bytes,
                              s->temporary,
                              s->frees};
  return put_record(out, SUMMARY_STACK, numbers, sizeof numbers / sizeof *numbers);
}

static bool put_samples(const sample_stack_t *s, byte_buffer_t *out) {
  const uint64_t numbers[] = {s->stack, s->ticks - s->missed, s->missed, SAMPLE_OWN_MISSED};
  return put_record(out, SUMMARY_SAMPLE, numbers, sizeof numbers / sizeof *numbers);
}

static bool put_cpu_time(const summary_writer_t *w, byte_buffer_t *out) {
  const cpu_times_t sum = cpu_time_sum(&w->cpu_time);
  if (!w->cpu_time.is_recorded) return true;
  uint64_t numbers[3 + NO_SAMPLE_CAUSES] = {w->cpu_time.thread_count, sum.cpu_ns, sum.sampled_ns};
  memcpy(numbers + 3, sum.no_sample_ns, sizeof sum.no_sample_ns);
  return put_record(out, SUMMARY_CPU_TIME, numbers, 3 + NO_SAMPLE_CAUSES);
}

/* Writes the first KEPT stacks and the sum of the others. */
static bool put_stacks(const summary_writer_t *w, size_t kept, byte_buffer_t *out) {
  stack_totals_t rest = {0};
  sample_stack_t rest_samples = {0};
  bool good = true;
  for (size_t i = 0; good && i < w->item_count; i++) {
    const summary_stack_t *item = &w->items[i];
    const stack_totals_t *s = item->place ? &w->replay.stacks[item->place - 1] : NULL;
    const sample_stack_t *sample = item->sample ? &w->samples.stacks[item->sample - 1] : NULL;
    if (i < kept && item->stack) {
      good = (!s || put_stack(item->stack, s, out)) && (!sample || put_samples(sample, out));
      continue;
    }
    if (sample) {
      rest_samples.ticks += sample->ticks;
      rest_samples.missed += sample->missed;
    }
    if (s) stack_totals_add(&rest, s);
  }
  bool any = rest.allocated.count | rest.live.count | rest.at_peak.count | rest.frees;
  return good && (!any || put_stack(0, &rest, out)) &&
         (!rest_samples.ticks || put_samples(&rest_samples, out));
}

static bool put_checkpoint(const summary_writer_t *w, const checkpoint_t *m, size_t kept,
                           byte_buffer_t *out) {
  uint64_t *numbers = malloc((3 * kept + 4) * sizeof *numbers);
  counts_t rest = {0};
  size_t n = 0;
  if (!numbers) return false;
  numbers[n++] = m->time;
  for (size_t i = 0; i < w->item_count; i++) {
    size_t place = w->items[i].place;
    if (!place || place > m->count || !m->live[place - 1].bytes) continue;
    if (i >= kept || !w->items[i].stack) {
      counts_add(&rest, m->live[place - 1]);
      continue;
    }
    numbers[n++] = w->items[i].stack;
    numbers[n++] = m->live[place - 1].count;
    numbers[n++] = m->live[place - 1].bytes;
  }
  numbers[n++] = 0;
  numbers[n++] = rest.count;
  numbers[n++] = rest.bytes;
  bool good = put_record(out, SUMMARY_CHECKPOINT, numbers, n);
  free(numbers);
  return good;
}

static bool put_thread(uint32_t stream, const thread_totals_t *t, byte_buffer_t *out) {
  const uint64_t numbers[] = {stream,        t->allocated.count, t->allocated.bytes,
                              t->live.count, t->live.bytes,      t->frees};
  return put_record(out, SUMMARY_THREAD, numbers, sizeof numbers / sizeof *numbers);
}

static bool put_threads(const summary_writer_t *w, byte_buffer_t *out) {
  thread_totals_t rest = {0};
  uint32_t put = 0;
  bool good = true;
  for (size_t i = 0; good && i < w->replay.thread_count; i++) {
    const thread_totals_t *t = &w->replay.threads[i];
    if (!t->allocated.count && !t->frees && !t->live.count) continue;
    if (put++ < THREADS_MAX && i) {
      good = put_thread((uint32_t)i, t, out);
      continue;
    }
    counts_add(&rest.allocated, t->allocated);
    counts_add(&rest.live, t->live);
    rest.frees += t->frees;
  }
  return good && (!(rest.allocated.count | rest.frees) || put_thread(0, &rest, out));
}

static bool put_sizes_and_invalid_frees(const summary_writer_t *w, byte_buffer_t *out) {
  bool good = true;
  for (uint64_t i = 0; good && i < SIZE_CLASSES; i++) {
    const size_totals_t *s = &w->replay.sizes[i];
    const uint64_t numbers[] = {i, s->allocated.count, s->allocated.bytes, s->live.count,
                                s->live.bytes};
    if (s->allocated.count || s->live.count) good = put_record(out, SUMMARY_SIZE, numbers, 5);
  }
  for (uint32_t i = 0; good && i < w->replay.invalid_free_count; i++) {
    const invalid_free_t *o = &w->replay.invalid_frees[i];
    const uint64_t numbers[] = {o->time, o->address, o->stack, o->stream, o->twice};
    good = put_record(out, SUMMARY_INVALID_FREE, numbers, 5);
  }
  return good;
}

/* ---- tables ------------------------------------------------------------------------------- */

/* Marks the nodes and frames of STACK, innermost first, up to a node that is already marked. */
static void mark_stack(const reader_t *r, uint32_t stack, uint8_t *nodes, uint8_t *frames) {
  for (uint32_t id = stack; id;) {
    const record_node_t *n = reader_node(r, id);
    if (!n || nodes[n - r->nodes.items]) return;
    nodes[n - r->nodes.items] = 1;
    const record_frame_t *f = reader_frame(r, n->frame);
    if (f) frames[f - r->frames.items] = 1;
    id = n->parent;
  }
}

static bool put_text(byte_buffer_t *body, const void *text, size_t size) {
  return bytes_number(body, size) && bytes_add(body, text, size);
}

static bool put_body(byte_buffer_t *out, unsigned type, byte_buffer_t *body, bool good) {
  uint8_t byte = (uint8_t)type;
  good = good && bytes_add(out, &byte, 1) && bytes_number(out, body->count) &&
         bytes_add(out, body->items, body->count);
  body->count = 0;
  return good;
}

static bool put_process_and_images(const reader_t *r, byte_buffer_t *out) {
  byte_buffer_t body = {0};
  const char *argument;
  bool good = bytes_number(&body, r->header.pid);
  for (uint32_t i = 0; good && i < 64 && (argument = reader_argument(r, i)); i++)
    good = put_text(&body, argument, strlen(argument));
  good = put_body(out, TABLE_PROCESS, &body, good);
  for (size_t i = 0; good && i < r->images.count; i++) {
    const record_image_t *m = &r->images.items[i];
    good = bytes_number(&body, m->id) && bytes_number(&body, m->time) &&
           bytes_number(&body, m->start) && bytes_number(&body, m->end) &&
           bytes_number(&body, m->slide) && put_text(&body, m->build_id, m->build_id_size) &&
           put_text(&body, m->path, strlen(m->path));
    good = put_body(out, TABLE_IMAGE, &body, good);
  }
  for (size_t i = 0; good && i < r->threads.count && i < THREADS_MAX; i++) {
    const record_thread_t *t = &r->threads.items[i];
    good = bytes_number(&body, t->stream) && bytes_number(&body, t->tid) &&
           bytes_number(&body, t->time) && bytes_number(&body, t->level) &&
           put_text(&body, t->name, strlen(t->name));
    good = put_body(out, TABLE_THREAD, &body, good);
  }
  for (size_t i = 0; good && i < r->sensor_records.count; i++) {
    const sensor_record_t *s = &r->sensor_records.items[i];
    if (s->type != TABLE_SECCOMP) continue;
    good = put_body(out, s->type, &body, bytes_add(&body, s->body, s->size));
  }
  free(body.items);
  return good;
}

/* The functions that the recording has stored. */
static int stored_functions(void *context, const record_frame_t *f, const record_function_t **out) {
  (void)context;
  *out = f->functions;
  return (int)f->function_count;
}

/* Writes the names of the kept frames: those that the recording has, and those to be stored. */
static bool put_names(const summary_writer_t *w, const uint8_t *frames, byte_buffer_t *out) {
  const reader_t *r = w->reader;
  byte_buffer_t body = {0};
  size_t from = 0;
  bool good = true;
  for (size_t i = 0; good && i < r->frames.count; i++) {
    const record_frame_t *f = &r->frames.items[i];
    if (!frames[i] || !f->text) continue;
    good = bytes_number(&body, f->id) && put_text(&body, f->text, strlen(f->text));
    good = put_body(out, TABLE_FRAME_NAME, &body, good);
  }
  free(body.items);
  const pack_names_t stored = {stored_functions, NULL};
  return good && pack_functions(r, w->names ? w->names : &stored, frames, SIZE_MAX, &from, out);
}

static bool put_tables(const summary_writer_t *w, size_t kept, byte_buffer_t *out) {
  const reader_t *r = w->reader;
  uint8_t *nodes = calloc(r->nodes.count + 1, 1), *frames = calloc(r->frames.count + 1, 1);
  bool good = nodes && frames && put_process_and_images(r, out);
  for (size_t i = 0; good && i < w->item_count && i < kept; i++)
    mark_stack(r, w->items[i].stack, nodes, frames);
  for (uint32_t i = 0; good && i < w->replay.invalid_free_count; i++)
    mark_stack(r, w->replay.invalid_frees[i].stack, nodes, frames);
  for (size_t i = 0; good && i < r->frames.count; i++) {
    const record_frame_t *f = &r->frames.items[i];
    const uint64_t numbers[] = {f->id, f->pc, f->image, f->flags};
    if (frames[i]) good = put_record(out, TABLE_FRAME, numbers, 4);
  }
  for (size_t i = 0; good && i < r->nodes.count; i++) {
    const record_node_t *n = &r->nodes.items[i];
    const uint64_t numbers[] = {n->id, n->parent, n->frame};
    if (nodes[i]) good = put_record(out, TABLE_NODE, numbers, 3);
  }
  good = good && put_names(w, frames, out);
  free(nodes);
  free(frames);
  return good;
}

/* ---- the file ----------------------------------------------------------------------------- */

/* Sets PACKED to the payload of a packed chunk, which contains one chunk of TYPE with RECORDS. */
static bool pack_records(const summary_writer_t *w, chunk_type_t type, const byte_buffer_t *records,
                         byte_buffer_t *packed) {
  static const uint8_t zeros[8];
  chunk_header_t h = {.magic = CHUNK_MAGIC,
                      .type = (uint16_t)type,
                      .flags = CHUNK_CLOSED,
                      .exec_index = (uint16_t)reader_program(w->reader),
                      .records = 1};
  byte_buffer_t chunk = {0};
  uint8_t mode = PACKED_PLAIN;
  size_t padding = (size_t)-records->count % 8;
  h.used = (uint32_t)records->count;
  h.size = (uint32_t)(sizeof h + records->count + padding);
  bool good =
      sizeof h + records->count + padding <= PACKED_UNPACKED_MAX - 64 &&
      bytes_add(&chunk, &h, sizeof h) && bytes_add(&chunk, records->items, records->count) &&
      bytes_add(&chunk, zeros, padding) && bytes_add(packed, &mode, 1) &&
      bytes_number(packed, chunk.count) && bytes_squeeze(packed, chunk.items, chunk.count, LEVEL);
  free(chunk.items);
  return good;
}

/* False when memory runs out or the summary would be much too large. */
static bool build(const summary_writer_t *w, size_t kept, byte_buffer_t *tables,
                  byte_buffer_t *summary) {
  byte_buffer_t t = {0}, s = {0};
  bool good = put_tables(w, kept, &t) && put_totals(w, &s) && put_stacks(w, kept, &s) &&
              put_cpu_time(w, &s) && put_threads(w, &s) && put_sizes_and_invalid_frees(w, &s);
  for (int i = 0; good && i < w->checkpoint_count; i++)
    good = put_checkpoint(w, &w->checkpoints[i], kept, &s);
  tables->count = summary->count = 0;
  good = good && pack_records(w, CHUNK_TABLES, &t, tables) &&
         pack_records(w, CHUNK_SUMMARY, &s, summary);
  free(t.items);
  free(s.items);
  return good;
}

static int write_file(const summary_writer_t *w, FILE *out, const byte_buffer_t *tables,
                      const byte_buffer_t *summary) {
  int status = pack_begin(w->reader, RECORD_FEATURE_PACKED | RECORD_FEATURE_SUMMARY, out);
  for (int i = 0; i < 2 && status == 0; i++) {
    const byte_buffer_t *payload = i ? summary : tables;
    chunk_header_t h = {.type = i ? CHUNK_SUMMARY : CHUNK_TABLES,
                        .flags = CHUNK_PACKED,
                        .exec_index = (uint16_t)reader_program(w->reader),
                        .records = 1};
    status = pack_write_chunk(out, &h, payload->items, payload->count);
  }
  return status == 0 ? pack_end(w->reader, out) : status;
}

/* A summary has no more stacks: each takes more than 15 of SUMMARY_MAX bytes. */
enum { STACKS_MIN = 16, STACKS_MAX = 65536 };

size_t summary_estimate(summary_size_t last, summary_size_t before, size_t limit) {
  double power = 1;
  if (before.stacks > last.stacks && before.bytes > last.bytes)
    power = log((double)before.bytes / (double)last.bytes) /
            log((double)before.stacks / (double)last.stacks);
  if (power < 0.3) power = 0.3;
  if (power > 1.2) power = 1.2;
  double part = exp(log((double)limit / (double)last.bytes) / power);
  double estimate = (double)last.stacks * part * 0.95;
  return estimate > STACKS_MIN ? (size_t)estimate : STACKS_MIN;
}

static int write_within_limit(const summary_writer_t *w, FILE *out, pack_totals_t *totals) {
  byte_buffer_t tables = {0}, summary = {0};
  const size_t limit = SUMMARY_MAX - RECORD_HEADER_SIZE - 1024;
  size_t kept = w->item_count < STACKS_MAX ? w->item_count : STACKS_MAX;
  summary_size_t before = {0};
  bool good;
  while (good = build(w, kept, &tables, &summary), kept > STACKS_MIN) {
    summary_size_t last = {kept, tables.count + summary.count};
    if (good && last.bytes <= limit) break;
    kept = good ? summary_estimate(last, before, limit) : kept / 4;
    if (good) before = last;
  }
  int status = good ? write_file(w, out, &tables, &summary) : SONDE_ENOMEM;
  totals->after = tables.count + summary.count + RECORD_HEADER_SIZE;
  totals->left_out = w->item_count - kept;
  free(tables.items);
  free(summary.items);
  return status;
}

int summary_write(reader_t *reader, const pack_names_t *names, FILE *out, pack_totals_t *totals,
                  pack_progress_fn progress, void *context) {
  summary_writer_t w = {.reader = reader, .names = names};
  const record_header_t *h = reader_header(reader);
  const replay_options_t options = {.other = add_sample,
                                    .other_context = &w,
                                    .progress = progress,
                                    .progress_context = context,
                                    .on_interval = add_checkpoint,
                                    .on_interval_context = &w,
                                    .interval_ns = (h->end_monotonic_ns - h->start_monotonic_ns) /
                                                   (SUMMARY_CHECKPOINTS + 1)};
  memset(totals, 0, sizeof *totals);
  int status = replay_run(&w.replay, reader, &options);
  for (size_t i = 0; i < reader->chunks.count; i++)
    totals->before += reader->chunks.items[i].size;
  if (status == 0 && (w.no_memory || !list_items(&w))) status = SONDE_ENOMEM;
  if (status == 0) status = write_within_limit(&w, out, totals);
  for (int i = 0; i < w.checkpoint_count; i++)
    free(w.checkpoints[i].live);
  free(w.items);
  samples_free(&w.samples);
  cpu_time_free(&w.cpu_time);
  replay_free(&w.replay);
  return status;
}
