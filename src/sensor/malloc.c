/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor's rarer half: a realloc, which takes one block and gives another. The old one
 * may be in another thread's hands before the call returns, so both moments are recorded.
 */
#include "sensor/malloc.h"

uint64_t sensor_moving(void) {
  stream_t *s = write_enter(RECORD_BLOCKS);
  if (!s) return 0;
  uint64_t time = write_now(s->writer);
  write_leave(s);
  return time;
}

/* ADDRESS 0: the call failed and OLD is as it was, unless SIZE is 0: then the allocator took that
 * for a free. */
void sensor_moved(uint64_t before, const void *old, const void *address, uint64_t size,
                  caller_t at) {
  if (!before || (!address && size)) return;
  stream_t *s = write_enter(RECORD_BLOCKS);
  if (!s) return;
  uint64_t after = write_now(s->writer);
  uint32_t stack = sensor_stack(s, at);
  bool written = address ? event_put_realloc(s, before, after, (uintptr_t)old, (uintptr_t)address,
                                             size, stack)
                         : event_put_free(s, before, (uintptr_t)old, stack);
  sensor_done(s, written);
}
