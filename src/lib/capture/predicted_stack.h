/* SPDX-License-Identifier: MIT
 *
 * The stack of the calling thread if its prediction (capture/predictor.h) is right, without a walk.
 * Sensors of frequent events call these functions, which are inlined, in this order:
 * predicted_stack_enter, predicted_stack_find, thread_state_leave.
 *
 * Threads: as capture/thread_state.h. Async-signal-safe.
 */
#ifndef SONDE_CAPTURE_PREDICTED_STACK_H
#define SONDE_CAPTURE_PREDICTED_STACK_H

#include "capture/thread_state.h"
#include "os/os.h"

/* Claims the calling thread's state for a capture that starts at SP. NULL: it has none, it is busy,
 * or it predicts nothing now. */
static ALWAYS_INLINE capture_thread_t *predicted_stack_enter(uint64_t sp) {
  capture_thread_t *self = thread_state_idle();
  if (UNLIKELY(!self || self->cache.predictor.paused)) return NULL;
  self->busy = sp; /* Before anything is read, since a handler's capture may change all of it. */
  signal_fence();
  return self;
}

/* As predicted_stack_find, for a cache of the loader's epoch. */
static ALWAYS_INLINE READS_STACK uint32_t predicted_stack_find_in(frame_cache_t *cache, uint64_t pc,
                                                                  uint64_t sp, uint64_t fp) {
  uint32_t id = frame_cache_find_predicted(cache, pc, sp, fp);
  if (UNLIKELY(!id)) return 0;
  cache->predictor.last = id;
  cache->predictor.right++;
  return id;
}

/* Returns the predicted stack if it is the current one; otherwise 0. */
static ALWAYS_INLINE READS_STACK uint32_t predicted_stack_find(capture_thread_t *self, uint64_t pc,
                                                               uint64_t sp, uint64_t fp) {
  frame_cache_t *cache = &self->cache;
  if (UNLIKELY(cache->epoch != os_loader_epoch() || !cache->epoch)) return 0;
  return predicted_stack_find_in(cache, pc, sp, fp);
}

#endif
