/* SPDX-License-Identifier: MIT
 *
 * The allocator's names. Each is an entry of a few instructions that adds its caller's registers to
 * the arguments (arch/…/entry.h) and goes on in a function that calls the real one and tells the
 * sensor. malloc_usable_size only passes through, but it must be here: a program that finds ours
 * for one name and another library's for the other would hand one allocator's block to the other.
 *
 * While blocks are sampled, nearly every call is one that is not recorded. That is found out before
 * anything else, and the call goes on in the real function with no frame of ours.
 *
 * Between a free's event and the real free no other of our calls on this thread can come; between
 * the real malloc and its event a signal handler may, which the writer allows for.
 */
#include <errno.h>
#include <stddef.h>

#include "agent/agent.h"
#include "arch/arch.h"
#include "sensor/malloc/malloc.h"

#define TARGET __attribute__((used)) HIDDEN
#define AT     ((caller_t){pc, sp, fp})
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*memalign)(size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
  void *(*reallocarray)(void *, size_t, size_t);
  size_t (*malloc_usable_size)(void *);
} real;

void malloc_find_real(void) {
  static const char *const names[] = {
      "malloc",   "calloc", "realloc", "free",         "posix_memalign",    "aligned_alloc",
      "memalign", "valloc", "pvalloc", "reallocarray", "malloc_usable_size"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

static bool take_start(const os_image_t *image, void *start) {
  *(uint64_t *)start = image->start;
  return false;
}

bool malloc_is_executables(void) {
  static const char *const names[] = {"malloc"};
  uint64_t first, executable = 0;
  os_image_t image;
  os_symbols(0, names, &first, 1);
  os_images(take_start, &executable);
  return first && os_image_of_pc(first, &image) && image.start == executable;
}

void malloc_try(void) {
  if (real.calloc && real.free) real.free(real.calloc(1, 1));
}

/* Around a real function that may be built on another of the names here. */
static ALWAYS_INLINE uint32_t hush(void) {
  return UNLIKELY(agent_calls_back) ? writer_mute() : WRITER_MUTED;
}

static ALWAYS_INLINE void speak(uint32_t hushed) {
  if (UNLIKELY(agent_calls_back)) writer_unmute(hushed);
}

static ALWAYS_INLINE void *given(event_kind_t kind, void *block, size_t size, caller_t at) {
  if (LIKELY(block)) malloc_on_alloc(kind, block, size, at);
  return block;
}

static NOINLINE void *recorded_malloc(size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.malloc)) return NULL;
  return given(EVENT_MALLOC, real.malloc(size), size, AT);
}

TARGET void *hook_malloc(size_t size, CALLER) {
  if (malloc_skips_alloc(size) && LIKELY(real.malloc)) return real.malloc(size);
  return recorded_malloc(size, pc, sp, fp);
}
ENTRY_1(malloc, hook_malloc);

static NOINLINE void *recorded_calloc(size_t count, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.calloc)) return NULL;
  uint32_t hushed = hush();
  void *block = real.calloc(count, size);
  speak(hushed);
  return given(EVENT_CALLOC, block, count * size, AT);
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
  if (!old) return given(EVENT_MALLOC, real.realloc(old, size), size, AT);
  malloc_realloc_t before;
  malloc_before_realloc(&before, old);
  void *block = real.realloc(old, size);
  malloc_on_realloc(&before, old, block, size, AT);
  return block;
}
ENTRY_2(realloc, hook_realloc);

/* glibc before 2.26 has none: then as it is defined, a realloc of the product. */
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
  uint32_t hushed = hush();
  int status = real.posix_memalign(out, alignment, size);
  speak(hushed);
  if (status == 0 && *out) malloc_on_alloc(EVENT_ALIGNED, *out, size, AT);
  return status;
}
ENTRY_3(posix_memalign, hook_posix_memalign);

TARGET void *hook_aligned_alloc(size_t alignment, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.aligned_alloc)) return NULL;
  uint32_t hushed = hush();
  void *block = real.aligned_alloc(alignment, size);
  speak(hushed);
  return given(EVENT_ALIGNED, block, size, AT);
}
ENTRY_2(aligned_alloc, hook_aligned_alloc);

TARGET void *hook_memalign(size_t alignment, size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.memalign)) return NULL;
  uint32_t hushed = hush();
  void *block = real.memalign(alignment, size);
  speak(hushed);
  return given(EVENT_ALIGNED, block, size, AT);
}
ENTRY_2(memalign, hook_memalign);

TARGET void *hook_valloc(size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.valloc)) return NULL;
  uint32_t hushed = hush();
  void *block = real.valloc(size);
  speak(hushed);
  return given(EVENT_ALIGNED, block, size, AT);
}
ENTRY_1(valloc, hook_valloc);

TARGET void *hook_pvalloc(size_t size, CALLER) {
  agent_enter();
  if (UNLIKELY(!real.pvalloc)) return NULL;
  uint32_t hushed = hush();
  void *block = real.pvalloc(size);
  speak(hushed);
  return given(EVENT_ALIGNED, block, size, AT);
}
ENTRY_1(pvalloc, hook_pvalloc);

__attribute__((visibility("default"))) size_t malloc_usable_size(void *block) {
  agent_enter();
  return real.malloc_usable_size ? real.malloc_usable_size(block) : 0;
}
