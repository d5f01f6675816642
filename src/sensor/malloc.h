/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor: one event a call that gave, took or moved a block, with its stack.
 *
 * It is told by whoever stands between the program and its allocator (agent/malloc.c): after a call
 * that gave a block, before a call that takes one, and so the clock is read: whoever is given a
 * block that another thread freed has a later time. The stack is captured before a free and after
 * an allocation; neither may be seen by the program.
 *
 * An event costs, on the hot path: the enter (write.h), one read of the cycle counter, one capture
 * through the frame cache (unwind/cache.h), and a record of 4 to 8 bytes. No atomic instruction, no
 * system call.
 *
 * Nothing here can recurse: neither the capture nor the writer allocates with malloc. A signal
 * handler that allocates while its thread is in here writes to the thread's second stream.
 */
#ifndef SONDE_SENSOR_MALLOC_H
#define SONDE_SENSOR_MALLOC_H

#include "record/write_event.h"
#include "stack/stack.h"

/* The frame of the function that called the allocator. */
typedef struct caller {
  uint64_t pc, sp, fp;
} caller_t;

static ALWAYS_INLINE uint32_t sensor_stack(stream_t *s, caller_t at) {
  uint32_t id = 0;
  if (UNLIKELY(stack_id_here(&id, at.pc, at.sp, at.fp) < 0)) {
    add_relaxed(&s->writer->control->lost_stacks, 1);
    return 0;
  }
  return id;
}

static ALWAYS_INLINE void sensor_done(stream_t *s, bool written) {
  if (UNLIKELY(!written)) write_lost_event(s->writer->control);
  write_leave(s);
}

/* A call of KIND has given SIZE bytes at ADDRESS, which is not 0. */
static ALWAYS_INLINE void sensor_given(event_kind_t kind, const void *address, uint64_t size,
                                       caller_t at) {
  stream_t *s = write_enter(RECORD_BLOCKS);
  if (!s) return;
  uint64_t time = write_now(s->writer);
  uint32_t stack = sensor_stack(s, at);
  sensor_done(s, event_put_new(s, kind, time, (uintptr_t)address, size, stack));
}

/* The block at ADDRESS, which is not 0, is about to be freed. */
static ALWAYS_INLINE void sensor_taken(const void *address, caller_t at) {
  stream_t *s = write_enter(RECORD_BLOCKS);
  if (!s) return;
  uint32_t stack = sensor_stack(s, at);
  uint64_t time = write_now(s->writer);
  sensor_done(s, event_put_free(s, time, (uintptr_t)address, stack));
}

/* Before and after a realloc of the block OLD, which is not 0. `sensor_moving` answers the time to
 * hand to `sensor_moved`, 0 when nothing is recorded. */
uint64_t sensor_moving(void);
void sensor_moved(uint64_t before, const void *old, const void *address, uint64_t size, caller_t at);

#endif
