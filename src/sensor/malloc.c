/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor's rarer half: reallocs and sampled blocks.
 *
 * A realloc takes one block and gives another. The old one may be in another thread's hands before
 * the call returns, so both moments are recorded. While blocks are sampled it is recorded as a free
 * and an allocation, since the one may be sampled and the other not.
 */
#include "sensor/malloc.h"

/* The chunk must say how its events are chosen. Afterwards there is room in it for the event of
 * ADDRESS, so that the two are not parted. */
static bool say_sampling(stream_t *s, uint64_t address, uint64_t rate) {
  if (!event_room(s, address) || !write_room(s, 4 * EVENT_MAX_BYTES)) return false;
  if (s->sampling == rate) return true;
  s->sampling = rate;
  return event_put_extended(s, EXTENDED_SAMPLING, rate);
}

static uint64_t rate_of(const stream_t *s) {
  return load_relaxed(&s->writer->control->sample_bytes);
}

bool sensor_ends_sampling(stream_t *s, uint64_t address) { return say_sampling(s, address, 0); }

bool sensor_samples(stream_t *s, uint64_t address, uint64_t size, bool given) {
  if (LIKELY(given ? !sampled_choose(s, address, size) : !sampled_forget(address))) return false;
  if (say_sampling(s, address, rate_of(s))) return true;
  write_lost_event(s->writer->control);
  return false;
}

moving_t sensor_moving(const void *old) {
  moving_t before = {0};
  stream_t *s = write_enter(SENSOR_MODES);
  if (!s) return before;
  before.sampled = !sensor_takes_all(s) && sampled_forget((uintptr_t)old);
  before.time = write_now(s->writer);
  write_leave(s);
  return before;
}

static void moved_sampled(stream_t *s, moving_t before, const void *old, const void *address,
                          uint64_t size, caller_t at) {
  bool chosen = address && sampled_choose(s, (uintptr_t)address, size), written = true;
  if (chosen || before.sampled) {
    uint64_t after = write_now(s->writer);
    uint32_t stack = sensor_stack(s, at);
    if (before.sampled)
      written = say_sampling(s, (uintptr_t)old, rate_of(s)) &&
                event_put_free(s, before.time, (uintptr_t)old, stack);
    if (written && chosen)
      written = say_sampling(s, (uintptr_t)address, rate_of(s)) &&
                event_put_new(s, EVENT_MALLOC, after, (uintptr_t)address, size, stack);
  }
  sensor_done(s, written);
}

/* ADDRESS 0: the call failed and OLD is as it was, unless SIZE is 0: then the allocator took that
 * for a free. */
void sensor_moved(moving_t before, const void *old, const void *address, uint64_t size,
                  caller_t at) {
  if (!address && size) {
    if (before.sampled) sampled_restore((uintptr_t)old);
    return;
  }
  if (!before.time) return;
  stream_t *s = write_enter(SENSOR_MODES);
  if (!s) return;
  if (!sensor_takes_all(s)) {
    moved_sampled(s, before, old, address, size, at);
    return;
  }
  uint64_t after = write_now(s->writer);
  uint32_t stack = sensor_stack(s, at);
  if (UNLIKELY(s->sampling)) (void)sensor_ends_sampling(s, (uintptr_t)old);
  bool written = address ? event_put_realloc(s, before.time, after, (uintptr_t)old,
                                             (uintptr_t)address, size, stack)
                         : event_put_free(s, before.time, (uintptr_t)old, stack);
  sensor_done(s, written);
}
