/* SPDX-License-Identifier: MIT
 *
 * The allocator's functions. While blocks are sampled, nearly every call is not recorded. Each
 * function checks that first, and then jumps to the real one. That is 22 instructions on x86_64 for
 * malloc and free, 26 for calloc, 32 for realloc, and no frame.
 *
 * Otherwise it jumps to record_…, a few instructions that add the caller's registers to the
 * arguments (arch/…/entry.h) and continue in a function that calls the real one and the sensor.
 * Both jumps are tail calls, which the compiler makes when it optimizes.
 *
 * malloc_usable_size only calls the real one, but must be here: a program that found the agent's
 * malloc and another library's malloc_usable_size would pass one allocator's block to the other.
 *
 * Between the event of a free and the real free, this thread can run no other function of the
 * agent. Between the real malloc and its event a signal handler can; the writer supports that.
 */
#include <errno.h>
#include <stddef.h>

#include "agent/agent.h"
#include "arch/arch.h"
#include "sensor/malloc/allocator.h"
#include "sensor/malloc/malloc.h"

#define PUBLIC __attribute__((visibility("default")))
#define TARGET __attribute__((used)) HIDDEN
#define AT     ((caller_t){pc, sp, fp})
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

/* record_NAME, which adds CALLER and jumps to recorded_NAME. */
#define RECORD(count, name)                                                                        \
  __asm__(HIDE_SYMBOL(record_##name));                                                             \
  ENTRY_##count(record_##name, recorded_##name)

#define DECLARE(name, result, parameters) HIDDEN result record_##name parameters;
ALLOCATOR_TABLE(DECLARE)
#undef DECLARE

static struct {
  ALLOCATOR_TABLE(ALLOCATOR_POINTER)
  size_t (*malloc_usable_size)(void *);
} real __attribute__((aligned(64)));

void malloc_find_real(void) {
  static const char *const names[] = {ALLOCATOR_TABLE(ALLOCATOR_NAME) "malloc_usable_size"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

bool malloc_is_hidden(void) {
  static const char *const names[] = {"malloc"};
  uint64_t first;
  os_image_t image;
  os_symbols(0, names, &first, 1);
  uint64_t own = (uint64_t)(uintptr_t)malloc_is_hidden;
  return first && os_image_of_pc(own, &image) && (first < image.start || first >= image.end);
}

void malloc_try(void) {
  if (real.calloc && real.free) real.free(real.calloc(1, 1));
}

/* Around a real function that may call another function of this file by name. */
static ALWAYS_INLINE uint32_t mute(void) {
  return UNLIKELY(agent_calls_back) ? writer_mute() : WRITER_MUTED;
}

static ALWAYS_INLINE void unmute(uint32_t muted) {
  if (UNLIKELY(agent_calls_back)) writer_unmute(muted);
}

static ALWAYS_INLINE void *allocated(event_kind_t kind, void *block, size_t size, caller_t at) {
  if (LIKELY(block)) malloc_on_alloc(kind, block, size, at);
  return block;
}

/* ---- recorded ------------------------------------------------------------------------------- */

TARGET void *recorded_malloc(size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.malloc)) return NULL;
  return allocated(EVENT_MALLOC, real.malloc(size), size, AT);
}
RECORD(1, malloc);

TARGET void *recorded_calloc(size_t count, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.calloc)) return NULL;
  uint32_t muted = mute();
  void *block = real.calloc(count, size);
  unmute(muted);
  return allocated(EVENT_CALLOC, block, count * size, AT);
}
RECORD(2, calloc);

TARGET void recorded_free(void *block, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.free)) return;
  if (LIKELY(block)) malloc_on_free(block, AT);
  real.free(block);
}
RECORD(1, free);

TARGET void *recorded_realloc(void *old, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.realloc)) return NULL;
  if (!old) return allocated(EVENT_MALLOC, real.realloc(old, size), size, AT);
  malloc_realloc_t before;
  malloc_before_realloc(&before, old);
  void *block = real.realloc(old, size);
  malloc_on_realloc(&before, old, block, size, AT);
  return block;
}
RECORD(2, realloc);

/* A realloc of the product, as it is defined; glibc before 2.26 has none. */
TARGET void *recorded_reallocarray(void *old, size_t count, size_t size, CALLER) {
  size_t bytes;
  agent_enter();
  if (__builtin_mul_overflow(count, size, &bytes))
    return real.reallocarray ? real.reallocarray(old, count, size) : NULL;
  return recorded_realloc(old, bytes, pc, sp, fp);
}
RECORD(3, reallocarray);

TARGET int recorded_posix_memalign(void **out, size_t alignment, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.posix_memalign)) return ENOMEM;
  uint32_t muted = mute();
  int status = real.posix_memalign(out, alignment, size);
  unmute(muted);
  if (status == 0 && *out) malloc_on_alloc(EVENT_ALIGNED, *out, size, AT);
  return status;
}
RECORD(3, posix_memalign);

/* ---- in front of that ----------------------------------------------------------------------- */

/* The thread has recorded before, so the real function has been found. */
PUBLIC void *malloc(size_t size) {
  return malloc_skips_alloc(size) ? real.malloc(size) : record_malloc(size);
}

PUBLIC void free(void *block) {
  if (malloc_skips_free(block))
    real.free(block);
  else
    record_free(block);
}

PUBLIC void *calloc(size_t count, size_t size) {
  bool skips = LIKELY(!agent_calls_back) && malloc_skips_alloc(count * size);
  return skips ? real.calloc(count, size) : record_calloc(count, size);
}

PUBLIC void *realloc(void *old, size_t size) {
  return malloc_skips_realloc(old, size) ? real.realloc(old, size) : record_realloc(old, size);
}

PUBLIC void *reallocarray(void *old, size_t count, size_t size) {
  size_t bytes;
  bool skips = !__builtin_mul_overflow(count, size, &bytes) && malloc_skips_realloc(old, bytes);
  return skips ? real.realloc(old, bytes) : record_reallocarray(old, count, size);
}

/* True if an aligned block need not be recorded; some C libraries lack the real function. */
#define SKIPS_ALIGNED(name) (!agent_calls_back && real.name && malloc_skips_alloc(size))

PUBLIC int posix_memalign(void **out, size_t alignment, size_t size) {
  return SKIPS_ALIGNED(posix_memalign) ? real.posix_memalign(out, alignment, size)
                                       : record_posix_memalign(out, alignment, size);
}

#define WORDS(...) __VA_ARGS__
#define ALIGNED_ALLOC(name, count, parameters, arguments)                                          \
  TARGET void *recorded_##name(WORDS parameters, CALLER) {                                         \
    agent_enter();                                                                                 \
    if (UNLIKELY(!real.name)) return NULL;                                                         \
    uint32_t muted = mute();                                                                       \
    void *block = real.name arguments;                                                             \
    unmute(muted);                                                                                 \
    return allocated(EVENT_ALIGNED, block, size, AT);                                              \
  }                                                                                                \
  RECORD(count, name);                                                                             \
  PUBLIC void *name parameters {                                                                   \
    return SKIPS_ALIGNED(name) ? real.name arguments : record_##name arguments;                    \
  }

ALIGNED_ALLOC(aligned_alloc, 2, (size_t alignment, size_t size), (alignment, size))
ALIGNED_ALLOC(memalign, 2, (size_t alignment, size_t size), (alignment, size))
ALIGNED_ALLOC(valloc, 1, (size_t size), (size))
ALIGNED_ALLOC(pvalloc, 1, (size_t size), (size))

PUBLIC size_t malloc_usable_size(void *block) {
  agent_enter();
  return real.malloc_usable_size ? real.malloc_usable_size(block) : 0;
}
