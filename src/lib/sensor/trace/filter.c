/* SPDX-License-Identifier: MIT */
#include "sensor/trace/filter.h"

/* The clock's rate is measured at the start, for a short time. So the limit is a 64th lower here,
 * and readers apply it exactly. */
static uint64_t units_of(const shm_control_t *c, uint64_t ns) {
  uint64_t ticks = c->calibrated_ticks[1] - c->calibrated_ticks[0];
  uint64_t span = c->calibrated_ns[1] - c->calibrated_ns[0];
  ns -= ns / 64;
  if (c->clock == RECORD_CLOCK_MONOTONIC) return ns;
  for (; ticks >> 24 || span >> 24; span >>= 1)
    ticks >>= 1;
  if (!span) return 0;
  return (ns / span * ticks + ns % span * ticks / span) >> TRACE_CLOCK_SHIFT;
}

void filter_start(trace_thread_t *t) {
  const shm_control_t *c = t->stream.writer->control;
  t->deepest = c->trace_filter.depth;
  t->least = units_of(c, c->trace_filter.least_ns);
}

void filter_record(void) {
  const shm_control_t *c = writer_control();
  const uint64_t limits[] = {c->trace_filter.least_ns, c->trace_filter.depth};
  if (limits[0] || limits[1]) writer_table(TABLE_CALL_LIMITS, limits, 2, NULL);
}

/* Writes an enter of FUNCTION. Where short calls have left no record, the time since the last one
 * is long. Returns the record; NULL: something is unusual, and nothing has changed. */
static uint8_t *put_enter(trace_thread_t *t, uint64_t function) {
  const trace_cached_t *known = &t->known[trace_hash(function)];
  stream_t *s = &t->stream;
  uint8_t *record = s->next;
  if (known->function != function || load_relaxed(t->adds_now) != t->adds || record >= s->limit)
    return NULL;
  uint64_t now = trace_cycle_clock(), passed = now - s->last_time;
  if (passed >= TRACE_LONG_TIME) return NULL;
  uint64_t word = known->word | passed << 18;
  uint32_t bytes = 4;
  if (passed >= TRACE_SHORT_TIME) {
    bytes = 8;
    word = CALL_OTHER | CALL_8_BYTES | CALL_8_ENTER << 3 | (uint64_t)known->id << 6 | passed << 28;
    memcpy(record, &word, 8); /* one store each */
  } else {
    memcpy(record, &word, 4);
  }
  s->last_time = now;
  s->next = record + bytes;
  s->records++;
  return record;
}

bool trace_enter_filtered(uint64_t function, uint64_t key, uint64_t sp, uint64_t call_site,
                          uint64_t hook_site) {
  trace_thread_t *t = trace_tls;
  t->busy = sp;
  signal_fence();
  filter_begin(t);
  trace_call_t *call = t->top;
  bool hidden = filter_hides(t, call + 1);
  bool done = call->sp - sp - 1 < TRACE_NEAR && call - t->calls < TRACE_CALLS_MAX - 1;
  uint8_t *record = done && !hidden ? put_enter(t, function) : NULL;
  done &= hidden || record;
  if (done) {
    call[1] = (trace_call_t){key, sp, call_site, hook_site, record};
    t->top = call + 1;
  }
  signal_fence();
  t->busy = 0;
  return done;
}

bool trace_exit_filtered(uint64_t function, uint64_t sp, bool frame_popped) {
  trace_thread_t *t = trace_tls;
  const trace_call_t *call = t->top;
  bool is_it = frame_popped ? call->sp < sp && call[-1].sp >= sp : call->sp == sp;
  if (!is_it || call->function != function) return false;
  t->busy = sp;
  signal_fence();
  bool done = filter_hides(t, call) || (t->least && filter_take_back(t, trace_cycle_clock()));
  if (done) t->top--;
  signal_fence();
  t->busy = 0;
  return done || trace_try_exit(t, function, sp, frame_popped);
}
