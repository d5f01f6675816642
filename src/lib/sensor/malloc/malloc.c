/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor's rarer half: reallocs and sampled blocks.
 *
 * A realloc takes one block and gives another. The old one may be in another thread's hands before
 * the call returns, so both moments are recorded. While blocks are sampled it is recorded as a free
 * and an allocation, since the one may be sampled and the other not.
 */
#include "sensor/malloc/malloc.h"

#include "sensor/malloc/mapping.h"
#include "sensor/sensor.h"

/* The chunk must say how its events are chosen. Afterwards there is room in it for the event of
 * ADDRESS, so that the two are not parted. */
static bool say_sampling(stream_t *s, uint64_t address, uint64_t rate) {
  if (!event_reserve(s, address) || !writer_reserve(s, 4 * EVENT_MAX_BYTES)) return false;
  if (s->sampling == rate) return true;
  s->sampling = rate;
  return event_put_extended(s, EXTENDED_SAMPLING, rate);
}

static uint64_t rate_of(const stream_t *s) {
  return load_relaxed(&s->writer->control->sample_bytes);
}

bool malloc_end_sampling(stream_t *s, uint64_t address) { return say_sampling(s, address, 0); }

bool malloc_choose_sampled(stream_t *s, uint64_t address, uint64_t size, bool given) {
  if (LIKELY(given ? !sampled_choose(s, address, size) : !sampled_forget(address))) return false;
  if (say_sampling(s, address, rate_of(s))) return true;
  writer_lost_event(s->writer->control);
  return false;
}

void malloc_live_alloc(stream_t *s, uint64_t address, uint64_t size, caller_t at) {
  live_table_prefetch(s->writer->control, address);
  live_detail_t block = {
      .size = size, .time = writer_now(s->writer), .stack = sensor_stack_id(s, at)};
  writer_define_stream(s);
  block.stream = s->id;
  if (!live_table_put(s->writer->control, address, &block)) writer_lost_event(s->writer->control);
}

static bool take_live(stream_t *s, uint64_t address, live_detail_t *out) {
  bool there = live_table_take(s->writer->control, address, out);
  if (!there) add_relaxed(&s->writer->control->unknown_frees, 1);
  return there;
}

void malloc_live_free(stream_t *s, uint64_t address) { (void)take_live(s, address, NULL); }

/* The call that was to move the block has failed, and it is where it was. */
static void put_back(const void *old, const malloc_realloc_t *before) {
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
      before->live = take_live(s, (uintptr_t)old, &before->block);
    else
      before->sampled = sampled_forget((uintptr_t)old);
  }
  before->time = writer_now(s->writer);
  store_relaxed(&s->writer->realloc_old, (uint64_t)(uintptr_t)old);
  writer_leave(s);
}

static void moved_sampled(stream_t *s, const malloc_realloc_t *before, const void *old,
                          const void *address, uint64_t size, caller_t at) {
  bool chosen = address && sampled_choose(s, (uintptr_t)address, size), written = true;
  if (chosen || before->sampled) {
    uint64_t after = writer_now(s->writer);
    uint32_t stack = sensor_stack_id(s, at);
    if (before->sampled)
      written = say_sampling(s, (uintptr_t)old, rate_of(s)) &&
                event_put_free(s, before->time, (uintptr_t)old, stack);
    if (written && chosen)
      written = say_sampling(s, (uintptr_t)address, rate_of(s)) &&
                event_put_new(s, EVENT_MALLOC, after, (uintptr_t)address, size, stack);
  }
  sensor_finish(s, written);
}

/* ADDRESS 0: the call failed and OLD is as it was, unless SIZE is 0: then the allocator took that
 * for a free. */
static void moved(const malloc_realloc_t *before, const void *old, const void *address,
                  uint64_t size, caller_t at) {
  if (!address && size) {
    put_back(old, before);
    return;
  }
  if (!before->time) return;
  stream_t *s = writer_enter(MALLOC_MODES);
  if (!s) return;
  if (!malloc_records_all(s)) {
    if (!malloc_records_live(s)) {
      moved_sampled(s, before, old, address, size, at);
      return;
    }
    if (address) malloc_live_alloc(s, (uintptr_t)address, size, at);
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
  moved(before, old, address, size, at);
  if (writer_tls) store_relaxed(&writer_tls->realloc_old, (uint64_t)0);
}

static void stop(shm_control_t *control) {
  (void)control;
  mapping_checkpoint();
}

HIDDEN const sensor_t sensor_malloc = {.after_fork = live_table_forget, .stop = stop};
