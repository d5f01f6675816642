/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor's less frequent half: reallocs, sampled blocks, live blocks.
 *
 * A realloc frees one block and allocates another. Another thread may own the old block before the
 * call returns, so both times are recorded. While blocks are sampled, a realloc is recorded as a
 * free and an allocation, since only one of the two may be sampled.
 */
#include "sensor/malloc/malloc.h"

#include "sensor/malloc/heap_probe.h"
#include "sensor/malloc/mapping.h"
#include "sensor/sensor.h"

/* Records in the chunk how its events are sampled, if that has changed. Ensures space for the event
 * of ADDRESS, so that both are in one chunk. */
static bool put_rate(stream_t *s, uint64_t address, uint64_t rate) {
  if (!event_reserve(s, address) || !writer_reserve(s, 4 * EVENT_MAX_BYTES)) return false;
  if (s->sampling == rate) return true;
  s->sampling = rate;
  return event_put_extended(s, EXTENDED_SAMPLING, rate);
}

static uint64_t rate_of(const stream_t *s) {
  return load_relaxed(&s->writer->control->sample_bytes);
}

bool malloc_end_sampling(stream_t *s, uint64_t address) { return put_rate(s, address, 0); }

/* The probes do not depend on what the recording has space for. */
static void probe_alloc(uint64_t address, uint64_t size, uint64_t rate) {
#if HEAP_PROBES
  if (UNLIKELY(otel_memory_alloc_semaphore))
    heap_probe_fire_alloc(address, size, sampled_weight(size, rate));
#else
  (void)address, (void)size, (void)rate;
#endif
}

static void probe_free(uint64_t address) {
#if HEAP_PROBES
  if (UNLIKELY(otel_memory_free_semaphore)) heap_probe_fire_free(address);
#else
  (void)address;
#endif
}

bool malloc_choose_sampled(stream_t *s, uint64_t address, uint64_t size, bool is_alloc) {
  if (!is_alloc) sampled_prepare(s->writer);
  if (LIKELY(is_alloc ? !sampled_choose(s, address, size) : !sampled_forget(address))) return false;
  if (is_alloc)
    probe_alloc(address, size, rate_of(s));
  else
    probe_free(address);
  if (put_rate(s, address, rate_of(s))) return true;
  writer_lost_event(s->writer->control);
  return false;
}

void malloc_live_alloc(stream_t *s, uint64_t address, uint64_t size, uint64_t pc, uint64_t sp,
                       uint64_t fp) {
  live_table_prefetch(s->writer->control, address);
  live_detail_t block = {.size = size,
                         .time = writer_now(s->writer),
                         .stack = sensor_stack_id(s, (caller_t){pc, sp, fp})};
  writer_define_stream(s);
  block.stream = s->id;
  if (!live_table_put(s->writer->control, address, &block)) writer_lost_event(s->writer->control);
}

static bool remove_live(stream_t *s, uint64_t address, live_detail_t *out) {
  bool found = live_table_take(s->writer->control, address, out);
  if (!found) add_relaxed(&s->writer->control->unknown_frees, 1);
  return found;
}

void malloc_live_free(stream_t *s, uint64_t address) { (void)remove_live(s, address, NULL); }

/* The realloc has failed: the block OLD remains. */
static void restore(const void *old, const malloc_realloc_t *before) {
  if (before->sampled) sampled_restore((uintptr_t)old);
  if (before->live && !live_table_put(writer_control(), (uintptr_t)old, &before->block))
    writer_lost_event(writer_control());
}

void malloc_before_realloc(malloc_realloc_t *before, const void *old) {
  stream_t *s = writer_enter(MALLOC_MODES);
  before->time = 0;
  before->sampled = before->live = false;
  if (!s) return;
  if (UNLIKELY(!malloc_records_all(s))) {
    if (malloc_records_live(s))
      before->live = remove_live(s, (uintptr_t)old, &before->block);
    else
      before->sampled = sampled_forget((uintptr_t)old);
  }
  before->time = writer_now(s->writer);
  store_relaxed(&s->writer->realloc_old, (uint64_t)(uintptr_t)old);
  writer_leave(s);
}

static void record_sampled_realloc(stream_t *s, const malloc_realloc_t *before, const void *old,
                                   const void *address, uint64_t size, caller_t at) {
  bool chosen = address && sampled_choose(s, (uintptr_t)address, size), written = true;
  if (before->sampled) probe_free((uintptr_t)old);
  if (chosen) probe_alloc((uintptr_t)address, size, rate_of(s));
  if (chosen || before->sampled) {
    uint64_t after = writer_now(s->writer);
    uint32_t stack = sensor_rare_stack_id(s, at);
    if (before->sampled)
      written = put_rate(s, (uintptr_t)old, rate_of(s)) &&
                event_put_free(s, before->time, (uintptr_t)old, stack);
    if (written && chosen)
      written = put_rate(s, (uintptr_t)address, rate_of(s)) &&
                event_put_new(s, EVENT_MALLOC, after, (uintptr_t)address, size, stack);
  }
  sensor_finish(s, written);
}

static void record_realloc(const malloc_realloc_t *before, const void *old, const void *address,
                           uint64_t size, caller_t at) {
  if (!address && size) {
    restore(old, before);
    return;
  }
  if (!before->time) return;
  stream_t *s = writer_enter(MALLOC_MODES);
  if (!s) return;
  if (!malloc_records_all(s)) {
    if (!malloc_records_live(s)) {
      record_sampled_realloc(s, before, old, address, size, at);
      return;
    }
    if (address) malloc_live_alloc(s, (uintptr_t)address, size, at.pc, at.sp, at.fp);
    writer_leave(s);
    return;
  }
  uint64_t after = writer_now(s->writer);
  uint32_t stack = sensor_stack_id(s, at);
  if (UNLIKELY(s->sampling)) (void)malloc_end_sampling(s, (uintptr_t)old);
  bool written = address ? event_put_realloc(s, before->time, after, (uintptr_t)old,
                                             (uintptr_t)address, size, stack)
                         : event_put_free(s, before->time, (uintptr_t)old, stack);
  sensor_finish(s, written);
}

void malloc_on_realloc(const malloc_realloc_t *before, const void *old, const void *address,
                       uint64_t size, caller_t at) {
  record_realloc(before, old, address, size, at);
  if (writer_tls) store_relaxed(&writer_tls->realloc_old, (uint64_t)0);
}

static void stop(shm_control_t *control) {
  (void)control;
  mapping_checkpoint();
}

HIDDEN const sensor_t sensor_malloc = {.after_fork = live_table_forget, .stop = stop};
