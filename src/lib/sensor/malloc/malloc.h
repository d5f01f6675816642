/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor: one event per call that allocates, frees or reallocates a block, with its
 * stack.
 *
 * The agent's replacements of the allocator's functions call it (agent/malloc.c), as do hooks in a
 * program that records itself. The sensor is called after an allocation and before a free, and
 * reads the clock at that moment. So if one thread frees a block and another thread then gets that
 * memory, the allocation has the later time. The stack is captured before a free and after an
 * allocation.
 *
 * Cost of an event: writer_enter (record/writer.h), one reading of the cycle counter, one capture
 * through the frame cache (capture/frame_cache.h), and a record of 4 to 8 bytes. No atomic
 * instruction, no system call.
 *
 * Nothing here recurses: neither the capture nor the writer allocates with malloc. A signal handler
 * that allocates while it interrupts an event writes to the thread's second stream. errno is not
 * changed.
 */
#ifndef SONDE_SENSOR_MALLOC_MALLOC_H
#define SONDE_SENSOR_MALLOC_MALLOC_H

#include "record/event.h"
#include "sensor/malloc/live.h"
#include "sensor/malloc/sampled.h"
#include "capture/stack.h"

/* The frame of the function that called the hooked function. */
typedef struct caller {
  uint64_t pc, sp, fp;
} caller_t;

static ALWAYS_INLINE uint32_t sensor_count_lost(stream_t *s, uint32_t id) {
  if (UNLIKELY(!id)) add_relaxed(&s->writer->control->lost_stacks, 1);
  return id;
}

static ALWAYS_INLINE uint32_t sensor_stack_id(stream_t *s, caller_t at) {
  return sensor_count_lost(s, stack_id_of_event(at.pc, at.sp, at.fp));
}

/* As sensor_stack_id for an event that is rare: with the lines of all Python frames. */
static inline uint32_t sensor_rare_stack_id(stream_t *s, caller_t at) {
  return sensor_count_lost(s, stack_id_of_rare_event(at.pc, at.sp, at.fp));
}

static ALWAYS_INLINE void sensor_finish(stream_t *s, bool written) {
  if (UNLIKELY(!written)) writer_lost_event(s->writer->control);
  writer_leave(s);
}

#define MALLOC_MODES RECORD_ANY_BLOCKS

/* True if every event is recorded, not only those of sampled blocks. */
static ALWAYS_INLINE bool malloc_records_all(const stream_t *s) {
  return LIKELY(load_relaxed(&s->writer->control->mode) & RECORD_BLOCKS);
}

/* True if the event of the block at ADDRESS is to be recorded while blocks are sampled. The chunk
 * then contains the sampling rate. SIZE is 0 for a free. */
bool malloc_choose_sampled(stream_t *s, uint64_t address, uint64_t size, bool given);
/* The reverse: ends sampling in a chunk that contains a sampling rate, because all blocks are
 * recorded now. */
bool malloc_end_sampling(stream_t *s, uint64_t address);

/* Blocks without history (sensor/malloc/live.h). */
static ALWAYS_INLINE bool malloc_records_live(const stream_t *s) {
  return load_relaxed(&s->writer->control->mode) & RECORD_LIVE;
}
/* The caller's registers are scalars, since a caller_t would be in memory in each event. */
NOINLINE void malloc_live_alloc(stream_t *s, uint64_t address, uint64_t size, uint64_t pc,
                                uint64_t sp, uint64_t fp);
NOINLINE void malloc_live_free(stream_t *s, uint64_t address);

/* Whether an event is recorded; sampled ones are rare. */
typedef enum malloc_wanted { MALLOC_UNWANTED, MALLOC_WANTED, MALLOC_SAMPLED } malloc_wanted_t;

static ALWAYS_INLINE malloc_wanted_t malloc_wants(stream_t *s, uint32_t mode, uint64_t address,
                                                  uint64_t size, bool is_alloc, caller_t at) {
  if (UNLIKELY(!(mode & RECORD_BLOCKS))) {
    if (mode & RECORD_LIVE) {
      if (is_alloc)
        malloc_live_alloc(s, address, size, at.pc, at.sp, at.fp);
      else
        malloc_live_free(s, address);
      return MALLOC_UNWANTED;
    }
    return malloc_choose_sampled(s, address, size, is_alloc) ? MALLOC_SAMPLED : MALLOC_UNWANTED;
  }
  return LIKELY(!s->sampling) || malloc_end_sampling(s, address) ? MALLOC_WANTED : MALLOC_UNWANTED;
}

static ALWAYS_INLINE uint32_t malloc_stack_id(stream_t *s, malloc_wanted_t wanted, caller_t at) {
  return wanted == MALLOC_SAMPLED ? sensor_rare_stack_id(s, at) : sensor_stack_id(s, at);
}

/* The thread's state if blocks are sampled and not recorded in another way, else NULL. */
static ALWAYS_INLINE writer_t *malloc_samples_only(void) {
  writer_t *w = writer_tls;
  return LIKELY(w != NULL) && sampled_alone(w) ? w : NULL;
}

/* True if an allocation of SIZE bytes, a free of ADDRESS, or both, need not be recorded. That is
 * usual for sampled blocks, and known before the call, so the hook can jump to the allocator. The
 * bytes of an allocation that fails count too, without bias: the position of the next sampled byte
 * does not depend on earlier ones. */
static ALWAYS_INLINE bool malloc_skips_alloc(uint64_t size) {
  writer_t *w = malloc_samples_only();
  return w && LIKELY(w->depth < WRITER_LEVELS) && LIKELY(sampled_passes(w, size));
}
static ALWAYS_INLINE bool malloc_skips_free(const void *address) {
  return malloc_samples_only() && LIKELY(!sampled_may_be((uintptr_t)address));
}
static ALWAYS_INLINE bool malloc_skips_realloc(const void *address, uint64_t size) {
  writer_t *w = malloc_samples_only();
  return w && LIKELY(!sampled_may_be((uintptr_t)address)) && LIKELY(w->depth < WRITER_LEVELS) &&
         LIKELY(sampled_passes(w, size));
}

/* A call of KIND has allocated SIZE bytes at ADDRESS, which is not 0. AT is its caller. */
static ALWAYS_INLINE void malloc_on_alloc(event_kind_t kind, const void *address, uint64_t size,
                                          caller_t at) {
  uint32_t mode;
  stream_t *s = writer_enter_in_mode(MALLOC_MODES, &mode);
  if (UNLIKELY(!s)) return;
  malloc_wanted_t wanted = malloc_wants(s, mode, (uintptr_t)address, size, true, at);
  if (!wanted) {
    writer_leave(s);
    return;
  }
  uint64_t time = writer_now(s->writer);
  uint32_t stack = malloc_stack_id(s, wanted, at);
  sensor_finish(s, event_put_new(s, kind, time, (uintptr_t)address, size, stack));
}

/* The block at ADDRESS, which is not 0, is about to be freed. */
static ALWAYS_INLINE void malloc_on_free(const void *address, caller_t at) {
  uint32_t mode;
  stream_t *s = writer_enter_in_mode(MALLOC_MODES, &mode);
  if (UNLIKELY(!s)) return;
  malloc_wanted_t wanted = malloc_wants(s, mode, (uintptr_t)address, 0, false, at);
  if (!wanted) {
    writer_leave(s);
    return;
  }
  uint32_t stack = malloc_stack_id(s, wanted, at);
  uint64_t time = writer_now(s->writer);
  sensor_finish(s, event_put_free(s, time, (uintptr_t)address, stack));
}

/* State between the two calls around a realloc of the block OLD, which is not 0. */
typedef struct malloc_realloc {
  uint64_t time; /* 0: nothing is recorded */
  bool sampled;  /* OLD is a sampled block */
  bool live;     /* OLD was in the table of live blocks, as BLOCK */
  live_detail_t block;
} malloc_realloc_t;

/* OLD is about to be reallocated. */
void malloc_before_realloc(malloc_realloc_t *before, const void *old);
/* The call has returned ADDRESS, a block of SIZE bytes. If ADDRESS is 0 and SIZE is 0, OLD was
 * freed. If only ADDRESS is 0, the call failed and OLD is unchanged. */
void malloc_on_realloc(const malloc_realloc_t *before, const void *old, const void *address,
                       uint64_t size, caller_t at);

#endif
