/* SPDX-License-Identifier: MIT
 *
 * The replay: a few table look-ups per event. One thread runs it.
 *
 * The peak by stack needs no second pass. A new peak copies nothing; it only stores the current
 * sequence number. Before a stack's live bytes change for the first time after the peak, they are
 * saved as its bytes at the peak. If they never change after the peak, `live` is also the number of
 * bytes at the peak.
 *
 * The events of two threads may be in the wrong order by a tick. An event that contradicts the live
 * blocks is held back (merge_defer). If the event still contradicts them when it returns, the
 * contradiction is counted and the event is applied.
 *
 * Tables here are specialized for speed: the live blocks (live_set.h), and a map from stack ids
 * to totals. Both prefetch the memory that the next events will use.
 */
#include "analysis/malloc/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/estimate.h"
#include "analysis/markers.h"
#include "analysis/summary/summary.h"
#include "base/bits.h"
#include "sonde/status.h"
#include "reader/body.h"
#include "reader/merge.h"

#define FREED_SLOTS 65536u

/* How many events ahead memory is fetched. A cache miss takes as long as some ten events. */
#define FETCH_PLACES 24
#define FETCH_TOTALS 8

/* Recordings with as many bytes of events are decoded by a second thread. */
#define READ_AHEAD_BYTES (1u << 20)

/* Events between two reports of progress, less one. */
#define PROGRESS_MASK 0xffffu

/* ---- totals ------------------------------------------------------------------------------- */

static inline thread_totals_t *thread_of(replay_t *r, uint32_t stream) {
  return __builtin_expect(stream < r->thread_count, 1) ? &r->threads[stream]
                                                       : replay_thread(r, stream);
}

/* Call this before the stack's live bytes change in step R->seq. */
static inline void save_peak(const replay_t *r, stack_totals_t *s) {
  if (s->changed <= r->peak_seq) s->at_peak = s->live;
  s->changed = r->seq;
}

/* ---- events ------------------------------------------------------------------------------- */

static unsigned class_of(uint64_t size) {
  unsigned bits = size ? 63 - (unsigned)__builtin_clzll(size) : 0;
  return bits < SIZE_CLASSES ? bits : SIZE_CLASSES - 1;
}

static uint64_t *freed_slot(const replay_t *r, uint64_t address) {
  return &r->freed[(address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static void add(counts_t *t, uint32_t weight, uint64_t bytes) {
  t->count += weight;
  t->bytes += bytes;
}

static void subtract(counts_t *t, uint32_t weight, uint64_t bytes) {
  t->count -= weight;
  t->bytes -= bytes;
}

static inline void tell(const replay_t *r, const live_block_t *block, replay_change_t change) {
  const replay_options_t *o = r->options;
  if (__builtin_expect(o->on_block != NULL, 0))
    o->on_block(o->on_block_context, r, block, r->now, change);
}

static inline void forget_block(replay_t *r, live_block_t *block, replay_change_t change) {
  stack_totals_t *s = &r->stacks[block->stack];
  save_peak(r, s);
  uint64_t bytes = estimate_scale(block->size, block->weight);
  subtract(&s->live, block->weight, bytes);
  subtract(&r->live, block->weight, bytes);
  tell(r, block, change);
  live_set_remove(&r->blocks, block);
}

static live_block_t block_of(uint64_t address, uint64_t size, uint32_t stack, uint32_t stream) {
  return (live_block_t){.address = address,
                        .size = size < LIVE_SIZE_MAX ? size & LIVE_SIZE_MAX : LIVE_SIZE_MAX,
                        .stream =
                            stream < LIVE_STREAM_MAX ? stream & LIVE_STREAM_MASK : LIVE_STREAM_MAX,
                        .stack = stack,
                        .weight = WEIGHT_ONE};
}

static inline void note_peak(replay_t *r, uint64_t time) {
  if (r->live.bytes <= r->at_peak.bytes) return;
  r->at_peak = r->live;
  r->peak_time = time;
  r->peak_seq = r->seq;
}

/* The event allocates a block; PLACE is that of its address, or NULL. */
static inline bool on_alloc(replay_t *r, const merge_run_t *run, const merge_event_t *e,
                            thread_totals_t *t, live_block_t *place) {
  stack_totals_t *s = replay_stack(r, e->stack);
  if (!s) return false;
  if (__builtin_expect(place && live_set_is_live(place), 0)) {
    r->address_reuses++;
    forget_block(r, place, REPLAY_FREED);
  }
  uint32_t index = (uint32_t)(s - r->stacks);
  live_block_t block = block_of(e->address, e->size, index, run->stream);
  block.weight = estimate_weight(block.size, run->sample_bytes);
  uint64_t size = block.size, bytes = estimate_scale(size, block.weight);
  if (run->sample_bytes > r->sample_bytes) r->sample_bytes = run->sample_bytes;
  place = live_set_add_at(&r->blocks, place, block);
  if (!place) return false;
  save_peak(r, s);
  add(&s->allocated, block.weight, bytes);
  add(&s->live, block.weight, bytes);
  add(&t->allocated, block.weight, bytes);
  add(&r->allocated, block.weight, bytes);
  add(&r->live, block.weight, bytes);
  t->last_allocated = run->sample_bytes ? 0 : e->address; /* the next event may be unrecorded */
  t->last_stack = index;
  add(&r->sizes[class_of(size)].allocated, block.weight, bytes);
  note_peak(r, e->time);
  tell(r, place, REPLAY_ALLOCATED);
  return true;
}

/* Counts a free at an address where no block is live. If not all blocks were recorded, that free
 * may be valid: its block was not sampled, or was allocated before recording began. */
static void note_invalid_free(replay_t *r, const merge_run_t *run, const merge_event_t *e,
                              const live_block_t *place) {
  bool every = r->mode & RECORD_BLOCKS && !run->sample_bytes;
  bool twice = every && !r->has_gaps && (place || *freed_slot(r, e->address) == e->address);
  if (twice)
    r->double_frees++;
  else if (r->incomplete || !every) {
    r->prerecording_frees++;
    return;
  } else
    r->unknown_frees++;
  if (r->invalid_free_count < INVALID_FREES_KEPT)
    r->invalid_frees[r->invalid_free_count++] =
        (invalid_free_t){e->time, e->address, e->stack, run->stream, twice};
}

/* The event frees a block; PLACE is that of its address, or NULL. */
static inline bool on_free(replay_t *r, const merge_run_t *run, const merge_event_t *e,
                           thread_totals_t *t, live_block_t *place) {
  stack_totals_t *s = replay_stack(r, e->stack);
  if (!s) return false;
  live_block_t *block = place && live_set_is_live(place) ? place : NULL;
  uint32_t freed = block ? block->weight : WEIGHT_ONE;
  if (e->kind == EVENT_FREE) {
    s->frees += freed;
    r->frees += freed;
    t->frees += freed;
  } else {
    r->reallocs++;
  }
  if (!block) {
    note_invalid_free(r, run, e, place);
    return true;
  }
  bool at_once = e->kind == EVENT_FREE && t->last_allocated == e->address;
  if (at_once) {
    r->stacks[t->last_stack].temporary++;
    r->temporary++;
  }
  forget_block(r, block, at_once ? REPLAY_FREED_AT_ONCE : REPLAY_FREED);
  return true;
}

static inline bool is_alloc(const merge_event_t *e) {
  return e->kind != EVENT_FREE && !(e->kind == EVENT_REALLOC && e->moment == 0);
}

/* One step. PLACE is that of its address, or NULL. */
static inline bool apply(replay_t *r, const merge_run_t *run, const merge_event_t *e,
                         live_block_t *place) {
  thread_totals_t *t = thread_of(r, run->stream);
  if (!t) return false;
  r->events += e->moment == 0;
  r->seq++;
  if (is_alloc(e)) return on_alloc(r, run, e, t, place);
  bool good = on_free(r, run, e, t, place);
  t->last_allocated = 0;
  return good;
}

/* A block that was freed is no longer in `blocks`. */
static void note_dropped(void *context, uint64_t address) {
  *freed_slot(context, address) = address;
}

static bool start_blocks(replay_t *r) {
  if (!live_set_init(&r->blocks)) return false;
  r->blocks.on_drop = note_dropped;
  r->blocks.on_drop_context = r;
  return true;
}

/* ---- modes and snapshots ------------------------------------------------------------------ */

/* Forgets all live blocks. Returns their number. */
static uint64_t forget_all(replay_t *r) {
  uint64_t count = r->blocks.count;
  r->seq++;
  size_t at = 0;
  for (live_block_t *block; (block = live_set_next(&r->blocks, &at));)
    forget_block(r, block, REPLAY_FREED);
  live_set_clear(&r->blocks);
  return count;
}

static bool add_snapshot_block(void *context, const record_block_t *b) {
  replay_t *r = context;
  if (!b->address) return true;
  stack_totals_t *s = replay_stack(r, b->stack);
  live_block_t *old = live_set_find(&r->blocks, b->address);
  if (!s) return false;
  if (old) forget_block(r, old, REPLAY_FREED);
  live_block_t block = block_of(b->address, b->size, (uint32_t)(s - r->stacks), b->stream);
  if (!live_set_add(&r->blocks, &block)) return false;
  save_peak(r, s);
  add(&s->live, WEIGHT_ONE, block.size);
  add(&r->live, WEIGHT_ONE, block.size);
  tell(r, &block, REPLAY_ALLOCATED);
  return true;
}

/* The mode of the recording changes. Blocks that were live before are untracked until a snapshot,
 * and freed addresses may have been allocated again. */
static void switch_mode(replay_t *r, uint32_t mode, uint64_t time) {
  uint32_t before = r->mode;
  r->mode = mode;
  r->modes |= mode;
  if (mode & RECORD_ANY_BLOCKS) r->blocks_mode = mode;
  r->switches++;
  if (!((before ^ mode) & RECORD_ANY_BLOCKS)) return;
  r->incomplete = true;
  r->blocks_until = mode & RECORD_ANY_BLOCKS ? 0 : time;
  live_set_drop_removed(&r->blocks);
  memset(r->freed, 0, FREED_SLOTS * sizeof *r->freed);
  if (mode & ~before & RECORD_ANY_BLOCKS && !(before & RECORD_LIVE)) r->untracked += forget_all(r);
}

static bool extended_event(replay_t *r, const record_event_t *e) {
  uint64_t numbers[2];
  bool good = true;
  switch (e->subtype) {
  case EXTENDED_MODE:
    if (body_numbers(e, numbers, 1)) switch_mode(r, (uint32_t)numbers[0], e->time);
    break;
  case EXTENDED_SNAPSHOT:
    if (!body_numbers(e, numbers, 2)) break;
    forget_all(r);
    r->snapshots++;
    r->unknown_before_snapshot = numbers[1];
    break;
  case EXTENDED_BLOCKS:
    r->seq++;
    good = body_blocks(e, add_snapshot_block, r);
    note_peak(r, e->time);
    break;
  }
  return good;
}

/* Prefetches what the events after E will use: far ahead the places of an event's block and the
 * index of its stack, nearer to E the totals of that stack and of the stack that allocated the
 * block. KNOWN events start at E. Always inline: see live_set_prefetch. */
static ALWAYS_INLINE void fetch_early(const replay_t *r, const merge_event_t *e, uint32_t known) {
  if (known > FETCH_PLACES) {
    const merge_event_t *far = e + FETCH_PLACES;
    live_set_prefetch(&r->blocks, far->address);
    if (r->options->fetched) live_set_prefetch(r->options->fetched, far->address);
    const uint32_t *number = ids_place(&r->stack_ids, far->stack);
    if (number) __builtin_prefetch(number);
  }
  if (known > FETCH_TOTALS) {
    const merge_event_t *near = e + FETCH_TOTALS;
    const uint32_t *number = ids_place(&r->stack_ids, near->stack);
    if (number && *number) __builtin_prefetch(&r->stacks[*number - 1], 1);
    const live_block_t *place = &r->blocks.places[live_set_home(&r->blocks, near->address)];
    if (place->address) __builtin_prefetch(&r->stacks[place->stack], 1);
  }
}

/* ---- the window --------------------------------------------------------------------------- */

static void start_window(replay_t *r) {
  for (size_t i = 0; i < r->stack_count; i++) {
    stack_totals_t *s = &r->stacks[i];
    *s = (stack_totals_t){
        .stack = s->stack, .live = s->live, .at_start = s->live, .changed = s->changed};
  }
  for (size_t i = 0; i < r->thread_count; i++)
    r->threads[i] = (thread_totals_t){.stream = (uint32_t)i};
  r->at_start = r->at_peak = r->live;
  r->peak_seq = r->seq;
  r->allocated = (counts_t){0};
  r->frees = r->reallocs = r->temporary = 0;
  r->unknown_frees = r->double_frees = r->address_reuses = 0;
  r->invalid_free_count = 0;
  memset(r->sizes, 0, sizeof r->sizes);
}

typedef struct pass {
  replay_t *replay;
  merge_t *merge;
  const replay_options_t *options;
  uint64_t from, to;  /* ticks */
  uint64_t stop;      /* the next tick at which the pass must stop */
  uint64_t intervals; /* that have ended */
  bool no_intervals;  /* on_interval returned false */
  bool before_window;
} replay_pass_t;

/* The next tick to stop at: after the window's end, or at the end of an interval. */
static uint64_t next_stop(const replay_pass_t *p) {
  const replay_options_t *o = p->options;
  uint64_t end = p->to == UINT64_MAX ? p->to : p->to + 1, interval = UINT64_MAX;
  if (o->on_interval && !p->no_intervals)
    interval = replay_tick(p->replay->reader, (p->intervals + 1) * o->interval_ns);
  return interval < end ? interval : end;
}

static void call_on_interval(replay_pass_t *p, uint64_t time) {
  const replay_options_t *o = p->options;
  while (o->on_interval && !p->no_intervals && p->stop <= time) {
    p->no_intervals = !o->on_interval(o->on_interval_context, p->replay, p->stop);
    p->intervals++;
    p->stop = next_stop(p);
  }
}

typedef enum step { STEP_NEXT, STEP_HELD, STEP_END, STEP_NO_MEMORY } step_t;

static bool call_other(const replay_pass_t *p, const record_event_t *e) {
  const replay_options_t *o = p->options;
  if (e->kind != EVENT_SAMPLE) return o->other(o->other_context, e);
  record_event_t sample = *e;
  return stack_dedup_first(p->replay->dedup, e->stack, &sample.stack) &&
         o->other(o->other_context, &sample);
}

static inline step_t other_event(const replay_pass_t *p, const merge_run_t *run, uint32_t n) {
  const record_event_t e = merge_event(run, n);
  if (e.kind == EVENT_EXTENDED && !extended_event(p->replay, &e)) return STEP_NO_MEMORY;
  bool good = p->before_window || !p->options->other || call_other(p, &e);
  return good ? STEP_NEXT : STEP_NO_MEMORY;
}

/* Event N of the run. */
static inline step_t one_event(replay_pass_t *p, const merge_run_t *run, uint32_t n) {
  replay_t *r = p->replay;
  const merge_event_t *e = &run->events[n];
  r->now = e->time;
  if (__builtin_expect(p->before_window, 0) && e->time >= p->from) {
    p->before_window = false;
    start_window(r);
  }
  if (__builtin_expect(e->time >= p->stop, 0)) {
    /* An event of the window that was held back may follow right after the end. */
    if (e->time > p->to) return e->time - p->to > MERGE_DEFER_TICKS ? STEP_END : STEP_NEXT;
    call_on_interval(p, e->time);
  }
  if (__builtin_expect(e->kind == EVENT_SAMPLE || e->kind == EVENT_EXTENDED, 0))
    return other_event(p, run, n);
  if (__builtin_expect(!r->first_time, 0)) r->first_time = r->peak_time = e->time;
  r->last_time = e->time;
  fetch_early(r, e, run->known - n);
  if (!e->address) return STEP_NEXT; /* a damaged file: no allocator returns 0 */
  live_block_t *place = live_set_place(&r->blocks, e->address);
  bool is_live = place && live_set_is_live(place);
  if (__builtin_expect(is_alloc(e) == is_live, 0) && merge_defer(p->merge, n)) return STEP_HELD;
  return apply(r, run, e, place) ? STEP_NEXT : STEP_NO_MEMORY;
}

static void report_progress(const replay_pass_t *p) {
  uint64_t done, total;
  if (!p->options->progress) return;
  merge_progress(p->merge, &done, &total);
  p->options->progress(p->options->progress_context, done, total);
}

/* Replays the events from `from_ns` to `to_ns` of the options. */
static int run(replay_t *r, merge_t *merge, const replay_options_t *o) {
  int status = 0;
  replay_pass_t p = {.replay = r, .merge = merge, .options = o, .before_window = o->from_ns != 0};
  p.from = replay_tick(r->reader, o->from_ns);
  p.to = o->to_ns ? replay_tick(r->reader, o->to_ns + 1) - 1 : UINT64_MAX;
  p.stop = next_stop(&p);
  merge_run_t run;
  for (uint64_t n = 0; merge_run(merge, &run); n += run.count) {
    step_t step = STEP_NEXT;
    for (uint32_t i = 0; i < run.count && step == STEP_NEXT; i++)
      step = one_event(&p, &run, i);
    if (step == STEP_END) break;
    if (step == STEP_NO_MEMORY) status = SONDE_ENOMEM;
    if (status < 0) break;
    if (step == STEP_NEXT) merge_consume(merge, run.count);
    if ((n & PROGRESS_MASK) + run.count > PROGRESS_MASK) report_progress(&p);
  }
  if (p.before_window) start_window(r);
  r->prerecording_frees += r->unknown_before_snapshot;
  return status;
}

/* A window with a marker at one end or both. Markers are extended events, so the callback for other
 * events finds them; the pass over allocations is not slowed down. */
typedef struct marker_window {
  replay_t *replay;
  const replay_options_t *options;
  bool before; /* the first marker has not come yet */
  bool ended;  /* the last marker was found */
} marker_window_t;

static bool other_in_window(void *context, const record_event_t *e) {
  marker_window_t *m = context;
  const replay_options_t *o = m->options;
  if (m->before && marker_is(e, o->from_marker)) {
    m->before = false;
    start_window(m->replay);
  }
  if (!m->before && o->other && !o->other(o->other_context, e)) return false;
  m->ended = o->to_marker && marker_is(e, o->to_marker);
  return !m->ended;
}

static int run_between_markers(replay_t *r, merge_t *merge, const replay_options_t *o) {
  marker_window_t window = {.replay = r, .options = o, .before = o->from_marker != NULL};
  replay_options_t times = *o;
  times.other = other_in_window;
  times.other_context = &window;
  if (o->from_marker) times.from_ns = 0;
  /* The callback never sees an end marker that is before from_ns. With such a marker, its time
   * to_ns ends the window, which is empty. */
  if (o->to_marker && (o->from_marker || o->from_ns <= o->to_ns)) times.to_ns = 0;
  int status = run(r, merge, &times);
  if (window.before) start_window(r);
  return window.ended ? 0 : status;
}

/* Counts the live blocks at the end by thread and by size. */
static void count_live(replay_t *r) {
  size_t at = 0;
  for (const live_block_t *b; (b = live_set_next(&r->blocks, &at));) {
    uint64_t bytes = estimate_scale(b->size, b->weight);
    add(&r->sizes[class_of(b->size)].live, b->weight, bytes);
    thread_totals_t *t = thread_of(r, b->stream);
    if (t) add(&t->live, b->weight, bytes);
  }
}

/* From 1/WEIGHT_ONE to blocks. */
static void round_count(uint64_t *count) { *count = (*count + WEIGHT_ONE / 2) / WEIGHT_ONE; }

static void round_counts(counts_t *const *counts, int n) {
  for (int i = 0; i < n; i++)
    round_count(&counts[i]->count);
}

static void finish(replay_t *r) {
  count_live(r);
  round_counts((counts_t *[]){&r->allocated, &r->live, &r->at_peak, &r->at_start}, 4);
  round_count(&r->frees);
  for (size_t i = 0; i < r->stack_count; i++) {
    stack_totals_t *s = &r->stacks[i];
    if (s->changed <= r->peak_seq) s->at_peak = s->live;
    round_counts((counts_t *[]){&s->allocated, &s->live, &s->at_peak, &s->at_start}, 4);
    round_count(&s->frees);
  }
  for (size_t i = 0; i < r->thread_count; i++) {
    round_counts((counts_t *[]){&r->threads[i].allocated, &r->threads[i].live}, 2);
    round_count(&r->threads[i].frees);
  }
  for (int i = 0; i < SIZE_CLASSES; i++)
    round_counts((counts_t *[]){&r->sizes[i].allocated, &r->sizes[i].live}, 2);
}

/* A second thread does not pay off for few events. */
static void read_ahead(merge_t *merge) {
  uint64_t done, total;
  merge_progress(merge, &done, &total);
  if (total >= READ_AHEAD_BYTES) merge_read_ahead(merge);
}

int replay_run(replay_t *r, reader_t *reader, const replay_options_t *options) {
  static const replay_options_t all = {0};
  memset(r, 0, sizeof *r);
  r->reader = reader;
  r->options = options ? options : &all;
  r->mode = r->modes = r->blocks_mode = reader_header(reader)->mode;
  r->incomplete =
      !(r->mode & (RECORD_BLOCKS | RECORD_SAMPLED_BLOCKS)) || reader_damage(reader)->dropped_chunks;
  r->has_gaps = reader_damage(reader)->missing_chunks || reader_header(reader)->lost_events;
  r->dedup = stack_dedup_new(reader);
  if (!r->dedup) return SONDE_ENOMEM;
  (void)reader_nodes(reader, &r->stack_ids.expected);
  if (is_summary(reader)) {
    int loaded = summary_read(r, r->options);
    if (loaded < 0) replay_free(r);
    return loaded;
  }
  r->freed = calloc(FREED_SLOTS, sizeof *r->freed);
  merge_t *merge = merge_open(reader);
  if (merge) read_ahead(merge);
  int status = SONDE_ENOMEM;
  const replay_options_t *o = r->options;
  if (r->freed && merge && start_blocks(r) && replay_add_carried(r))
    status = o->from_marker || o->to_marker ? run_between_markers(r, merge, o) : run(r, merge, o);
  merge_close(merge);
  finish(r);
  if (status < 0) replay_free(r);
  return status;
}

void replay_free(replay_t *r) {
  live_set_free(&r->blocks);
  stack_dedup_free(r->dedup);
  free(r->freed);
  free(r->stacks);
  ids_free(&r->stack_ids);
  free(r->threads);
  memset(r, 0, sizeof *r);
}
