/* SPDX-License-Identifier: MIT
 *
 * The allocator's functions. Each entry is a few instructions that add the caller's registers to
 * the arguments (arch/…/entry.h) and continue in a function that calls the real one and the sensor.
 * malloc_usable_size only calls the real one, but must be here: a program that found the agent's
 * malloc and another library's malloc_usable_size would pass one allocator's block to the other.
 *
 * While blocks are sampled, nearly every call is not recorded. That is checked first, and then the
 * real function is entered by a jump, without a frame of the agent.
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

#define TARGET __attribute__((used)) HIDDEN
#define AT     ((caller_t){pc, sp, fp})
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

static struct {
  ALLOCATOR_TABLE(ALLOCATOR_POINTER)
  size_t (*malloc_usable_size)(void *);
} real;

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

static NOINLINE void *recorded_malloc(size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.malloc)) return NULL;
  return allocated(EVENT_MALLOC, real.malloc(size), size, AT);
}

TARGET void *hook_malloc(size_t size, CALLER) {
  if (malloc_skips_alloc(size) && LIKELY(real.malloc)) return real.malloc(size);
  return recorded_malloc(size, pc, sp, fp);
}
ENTRY_1(malloc, hook_malloc);

static NOINLINE void *recorded_calloc(size_t count, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.calloc)) return NULL;
  uint32_t muted = mute();
  void *block = real.calloc(count, size);
  unmute(muted);
  return allocated(EVENT_CALLOC, block, count * size, AT);
}

TARGET void *hook_calloc(size_t count, size_t size, CALLER) {
  if (LIKELY(!agent_calls_back) && malloc_skips_alloc(count * size) && LIKELY(real.calloc))
    return real.calloc(count, size);
  return recorded_calloc(count, size, pc, sp, fp);
}
ENTRY_2(calloc, hook_calloc);

static NOINLINE void recorded_free(void *block, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.free)) return;
  if (LIKELY(block)) malloc_on_free(block, AT);
  real.free(block);
}

TARGET void hook_free(void *block, CALLER) {
  if (malloc_skips_free(block) && LIKELY(real.free))
    real.free(block);
  else
    recorded_free(block, pc, sp, fp);
}
ENTRY_1(free, hook_free);

TARGET void *hook_realloc(void *old, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.realloc)) return NULL;
  if (!old) return allocated(EVENT_MALLOC, real.realloc(old, size), size, AT);
  malloc_realloc_t before;
  malloc_before_realloc(&before, old);
  void *block = real.realloc(old, size);
  malloc_on_realloc(&before, old, block, size, AT);
  return block;
}
ENTRY_2(realloc, hook_realloc);

/* A realloc of the product, as it is defined; glibc before 2.26 has none. */
TARGET void *hook_reallocarray(void *old, size_t count, size_t size, CALLER) {
  size_t bytes;
  agent_enter();
  if (__builtin_mul_overflow(count, size, &bytes))
    return real.reallocarray ? real.reallocarray(old, count, size) : NULL;
  return hook_realloc(old, bytes, pc, sp, fp);
}
ENTRY_3(reallocarray, hook_reallocarray);

TARGET int hook_posix_memalign(void **out, size_t alignment, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.posix_memalign)) return ENOMEM;
  uint32_t muted = mute();
  int status = real.posix_memalign(out, alignment, size);
  unmute(muted);
  if (status == 0 && *out) malloc_on_alloc(EVENT_ALIGNED, *out, size, AT);
  return status;
}
ENTRY_3(posix_memalign, hook_posix_memalign);

#define ALIGNED_ALLOC(name, count, parameters, arguments)                                          \
  TARGET void *hook_##name parameters {                                                            \
    agent_enter();                                                                                 \
    if (UNLIKELY(!real.name)) return NULL;                                                         \
    uint32_t muted = mute();                                                                       \
    void *block = real.name arguments;                                                             \
    unmute(muted);                                                                                 \
    return allocated(EVENT_ALIGNED, block, size, AT);                                              \
  }                                                                                                \
  ENTRY_##count(name, hook_##name)

ALIGNED_ALLOC(aligned_alloc, 2, (size_t alignment, size_t size, CALLER), (alignment, size));
ALIGNED_ALLOC(memalign, 2, (size_t alignment, size_t size, CALLER), (alignment, size));
ALIGNED_ALLOC(valloc, 1, (size_t size, CALLER), (size));
ALIGNED_ALLOC(pvalloc, 1, (size_t size, CALLER), (size));

__attribute__((visibility("default"))) size_t malloc_usable_size(void *block) {
  agent_enter();
  return real.malloc_usable_size ? real.malloc_usable_size(block) : 0;
}
