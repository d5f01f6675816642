/* SPDX-License-Identifier: MIT
 *
 * Reads a summary, which is as untrusted as any recording: memory is proportional to its size, and
 * unknown records are ignored.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/replay.h"
#include "analysis/summary/summary.h"
#include "base/varint.h"
#include "reader/internal.h"
#include "sonde/status.h"

enum { NUMBERS_MAX = 24 };
_Static_assert(3 + NO_SAMPLE_CAUSES <= NUMBERS_MAX, "a SUMMARY_CPU_TIME fits");

typedef struct loader {
  replay_t *replay;
  const replay_options_t *options;
  uint64_t from, to; /* ticks of the window; 0 and UINT64_MAX: all of it */
} summary_reader_t;

bool is_summary(const reader_t *reader) {
  return reader_header(reader)->features & RECORD_FEATURE_SUMMARY;
}

/* Reads the numbers of a record; missing ones are 0. */
static void get_numbers(const uint8_t *p, const uint8_t *end, uint64_t *out) {
  memset(out, 0, NUMBERS_MAX * sizeof *out);
  for (int i = 0; i < NUMBERS_MAX && varint_get(&p, end, &out[i]); i++) {
  }
}

/* Equal stacks have a record each; they are added up. */
static int read_stack(replay_t *r, const uint64_t *n) {
  stack_totals_t *s = replay_stack(r, (uint32_t)n[0]);
  if (!s) return SONDE_ENOMEM;
  counts_add(&s->allocated, (counts_t){n[1], n[2]});
  counts_add(&s->live, (counts_t){n[3], n[4]});
  counts_add(&s->at_peak, (counts_t){n[5], n[6]});
  s->temporary += n[7];
  s->frees += n[8];
  return 0;
}

static int read_thread(replay_t *r, const uint64_t *n) {
  thread_totals_t *t = replay_thread(r, (uint32_t)n[0]);
  if (!t) return SONDE_ENOMEM;
  t->allocated = (counts_t){n[1], n[2]};
  t->live = (counts_t){n[3], n[4]};
  t->frees = n[5];
  return 0;
}

static void read_size(replay_t *r, const uint64_t *n) {
  if (n[0] >= SIZE_CLASSES) return;
  r->sizes[n[0]] = (size_totals_t){{n[1], n[2]}, {n[3], n[4]}};
}

static void read_invalid_free(replay_t *r, const uint64_t *n) {
  if (r->invalid_free_count < INVALID_FREES_KEPT)
    r->invalid_frees[r->invalid_free_count++] =
        (invalid_free_t){n[0], n[1], (uint32_t)n[2], (uint32_t)n[3], n[4] != 0};
}

static void read_totals(replay_t *r, const uint64_t *n) {
  int i = 0;
#define SUMMARY_GET(what) r->what = n[i++];
  SUMMARY_TOTALS_TABLE(SUMMARY_GET)
#undef SUMMARY_GET
  bool sampled = n[i] & 1;
  r->incomplete = n[i++] & 2;
  r->blocks_until = n[i++];
  /* Older summaries do not contain the rate: 1 gives errors of 0, which reports omit. */
  r->sample_bytes = sampled && !n[i] ? 1 : n[i];
}

/* Passes SAMPLES of a stack, and the ticks merged into them, on as one event. */
static int pass_samples(const summary_reader_t *l, uint32_t stack, uint64_t samples,
                        uint64_t missed) {
  const replay_options_t *o = l->options;
  record_event_t e = {.kind = EVENT_SAMPLE, .old = samples - 1, .size = missed};
  if (!o->other || samples + missed == 0) return 0;
  if (!stack_dedup_first(l->replay->dedup, stack, &e.stack)) return SONDE_ENOMEM;
  return o->other(o->other_context, &e) ? 0 : SONDE_ENOMEM;
}

/* Older summaries record all merged ticks with the first stack; the stacks they belong to are
 * unknown. */
static int read_samples(const summary_reader_t *l, const uint64_t *n) {
  uint32_t stack = (uint32_t)n[0];
  if (n[3] == SAMPLE_OWN_MISSED) return pass_samples(l, stack, n[1], n[2]);
  int status = pass_samples(l, stack, n[1], 0);
  return status ? status : pass_samples(l, 0, 0, n[2]);
}

static int pass_extended(const summary_reader_t *l, uint8_t subtype, const uint8_t *body,
                         size_t size) {
  const record_event_t e = {
      .kind = EVENT_EXTENDED, .subtype = subtype, .body = body, .body_size = (uint32_t)size};
  return l->options->other(l->options->other_context, &e) ? 0 : SONDE_ENOMEM;
}

/* Passes the CPU time of all threads on as that of one. */
static int read_cpu_time(const summary_reader_t *l, const uint64_t *n) {
  uint8_t body[(7 + 2 * NO_SAMPLE_CAUSES) * VARINT_MAX_SIZE], *p = body;
  if (!l->options->other) return 0;
  const uint64_t process[] = {n[1], n[0], 0}, thread[] = {0, 0, n[1], n[2], 0, 0 /* no name */};
  for (size_t i = 0; i < sizeof process / sizeof *process; i++)
    p += varint_put(p, process[i]);
  int status = pass_extended(l, EXTENDED_PROCESS_TIME, body, (size_t)(p - body));
  p = body;
  for (size_t i = 0; i < sizeof thread / sizeof *thread; i++)
    p += varint_put(p, thread[i]);
  for (unsigned cause = 0; cause < NO_SAMPLE_CAUSES; cause++) {
    p += varint_put(p, cause);
    p += varint_put(p, n[3 + cause]);
  }
  return status ? status : pass_extended(l, EXTENDED_THREAD_TIME, body, (size_t)(p - body));
}

/* A checkpoint: its time, then the id, live blocks and live bytes of each stack. */
static int read_checkpoint(const summary_reader_t *l, const uint8_t *p, const uint8_t *end) {
  replay_t *r = l->replay;
  uint64_t time = 0, id, count, bytes;
  (void)varint_get(&p, end, &time);
  bool starts = l->from && time <= l->from, ends = l->to != UINT64_MAX && time <= l->to;
  for (size_t i = 0; (starts || ends) && i < r->stack_count; i++) {
    if (starts) r->stacks[i].at_start = (counts_t){0};
    if (ends) r->stacks[i].live = (counts_t){0};
  }
  if (starts) r->at_start = (counts_t){0}, r->window_from = time;
  if (ends) r->live = (counts_t){0}, r->window_to = time;
  while (varint_get(&p, end, &id) && varint_get(&p, end, &count) && varint_get(&p, end, &bytes)) {
    stack_totals_t *s = starts || ends ? replay_stack(r, (uint32_t)id) : NULL;
    if ((starts || ends) && !s) return SONDE_ENOMEM;
    for (int k = 0; k < 2; k++) {
      if (!(k ? ends : starts)) continue;
      counts_t *total = k ? &r->live : &r->at_start;
      counts_add(k ? &s->live : &s->at_start, (counts_t){count, bytes});
      counts_add(total, (counts_t){count, bytes});
    }
  }
  return 0;
}

static int read_record(const summary_reader_t *l, unsigned type, const uint8_t *p,
                       const uint8_t *end) {
  uint64_t n[NUMBERS_MAX];
  if (type == SUMMARY_CHECKPOINT) return read_checkpoint(l, p, end);
  get_numbers(p, end, n);
  switch (type) {
  case SUMMARY_TOTALS: read_totals(l->replay, n); return 0;
  case SUMMARY_STACK: return read_stack(l->replay, n);
  case SUMMARY_THREAD: return read_thread(l->replay, n);
  case SUMMARY_SIZE: read_size(l->replay, n); return 0;
  case SUMMARY_INVALID_FREE: read_invalid_free(l->replay, n); return 0;
  case SUMMARY_SAMPLE: return read_samples(l, n);
  case SUMMARY_CPU_TIME: return read_cpu_time(l, n);
  default: return 0;
  }
}

static int read_chunk(const summary_reader_t *l, const uint8_t *p, const uint8_t *end) {
  int status = 0;
  while (status == 0 && p < end && *p) {
    unsigned type = *p++;
    uint64_t size;
    if (!varint_get(&p, end, &size) || size > (uint64_t)(end - p)) {
      l->replay->reader->damage.bad_records++;
      break;
    }
    status = read_record(l, type, p, p + size);
    p += size;
  }
  return status;
}

int summary_read(replay_t *r, const replay_options_t *options) {
  reader_t *reader = r->reader;
  chunk_buffer_t buffer = {0};
  chunk_header_t h;
  const uint8_t *p, *end;
  summary_reader_t l = {.replay = r, .options = options, .to = UINT64_MAX};
  if (options->from_ns) l.from = replay_tick(reader, options->from_ns);
  if (options->to_ns) l.to = replay_tick(reader, options->to_ns);
  int status = 0;
  for (size_t i = 0; i < reader->chunks.count && status == 0; i++) {
    if (reader->chunks.items[i].type != CHUNK_SUMMARY) continue;
    if (!reader_place(reader, &reader->chunks.items[i], &buffer)) continue;
    while (status == 0 && reader_chunk(&buffer, &h, &p, &end))
      status = read_chunk(&l, p, end);
  }
  free(buffer.bytes);
  return status;
}
