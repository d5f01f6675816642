/* SPDX-License-Identifier: MIT
 *
 * Hooks of the allocator's functions, by name in every image, for a program that records itself. In
 * a program under `sonde record` agent/malloc.c replaces these functions instead.
 */
#if !defined(SONDE_APPLE_PRIVATE)
#include "arch/arch.h"
#include "sensor/malloc/allocator.h"
#include "sensor/malloc/malloc.h"
#include "sensor/malloc/standalone.h"
#include "sonde/hook.h"

#define TARGET __attribute__((used)) HIDDEN
#define AT     ((caller_t){pc, sp, fp})
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

/* An entry point that is not exported. */
#if defined(__APPLE__)
#define HIDE(name) __asm__(".private_extern _" #name)
#else
#define HIDE(name) __asm__(".hidden " #name)
#endif
#define HOOK(arguments, name, target)                                                              \
  HIDE(name);                                                                                      \
  ENTRY_##arguments(name, target)

static struct { ALLOCATOR_TABLE(ALLOCATOR_POINTER) } real;

static ALWAYS_INLINE void *record_alloc(event_kind_t kind, void *block, size_t size, caller_t at) {
  if (LIKELY(block)) malloc_on_alloc(kind, block, size, at);
  return block;
}

TARGET void *hooked_malloc(size_t size, CALLER) {
  return record_alloc(EVENT_MALLOC, load_relaxed(&real.malloc)(size), size, AT);
}
HOOK(1, entry_malloc, hooked_malloc);

TARGET void *hooked_calloc(size_t count, size_t size, CALLER) {
  return record_alloc(EVENT_CALLOC, load_relaxed(&real.calloc)(count, size), count * size, AT);
}
HOOK(2, entry_calloc, hooked_calloc);

TARGET void hooked_free(void *block, CALLER) {
  if (LIKELY(block)) malloc_on_free(block, AT);
  load_relaxed (&real.free)(block);
}
HOOK(1, entry_free, hooked_free);

static void *record_realloc(void *(*function)(void *, size_t), void *old, size_t size,
                            caller_t at) {
  if (!old) return record_alloc(EVENT_MALLOC, function(old, size), size, at);
  malloc_realloc_t before;
  malloc_before_realloc(&before, old);
  void *block = function(old, size);
  malloc_on_realloc(&before, old, block, size, at);
  return block;
}

TARGET void *hooked_realloc(void *old, size_t size, CALLER) {
  return record_realloc(load_relaxed(&real.realloc), old, size, AT);
}
HOOK(2, entry_realloc, hooked_realloc);

TARGET void *hooked_reallocarray(void *old, size_t count, size_t size, CALLER) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes))
    return load_relaxed(&real.reallocarray)(old, count, size);
  return record_realloc(load_relaxed(&real.realloc), old, bytes, AT);
}
HOOK(3, entry_reallocarray, hooked_reallocarray);

TARGET int hooked_posix_memalign(void **out, size_t alignment, size_t size, CALLER) {
  int status = load_relaxed(&real.posix_memalign)(out, alignment, size);
  if (status == 0) (void)record_alloc(EVENT_ALIGNED, *out, size, AT);
  return status;
}
HOOK(3, entry_posix_memalign, hooked_posix_memalign);

TARGET void *hooked_aligned_alloc(size_t alignment, size_t size, CALLER) {
  return record_alloc(EVENT_ALIGNED, load_relaxed(&real.aligned_alloc)(alignment, size), size, AT);
}
HOOK(2, entry_aligned_alloc, hooked_aligned_alloc);

TARGET void *hooked_memalign(size_t alignment, size_t size, CALLER) {
  return record_alloc(EVENT_ALIGNED, load_relaxed(&real.memalign)(alignment, size), size, AT);
}
HOOK(2, entry_memalign, hooked_memalign);

TARGET void *hooked_valloc(size_t size, CALLER) {
  return record_alloc(EVENT_ALIGNED, load_relaxed(&real.valloc)(size), size, AT);
}
HOOK(1, entry_valloc, hooked_valloc);

TARGET void *hooked_pvalloc(size_t size, CALLER) {
  return record_alloc(EVENT_ALIGNED, load_relaxed(&real.pvalloc)(size), size, AT);
}
HOOK(1, entry_pvalloc, hooked_pvalloc);

/* Defined by ENTRY_… in assembly. */
#define HOOK_ENTRY(name, result, parameters) extern HIDDEN char entry_##name[];
ALLOCATOR_TABLE(HOOK_ENTRY)
#undef HOOK_ENTRY

enum {
#define HOOK_NUMBER(name, result, parameters) NUMBER_##name,
  ALLOCATOR_TABLE(HOOK_NUMBER) HOOKS
#undef HOOK_NUMBER
};

static sonde_hook_t *hooks[HOOKS];

int malloc_hooks_add(void) {
  const sonde_hook_request_t requests[HOOKS] = {
#define HOOK_REQUEST(name, result, parameters)                                                     \
  {.symbol = #name, .replacement = entry_##name, .original = (void **)&real.name},
      ALLOCATOR_TABLE(HOOK_REQUEST)
#undef HOOK_REQUEST
  };
  for (int i = 0; i < HOOKS; i++) {
    int status = sonde_hook_add(&requests[i], 1, &hooks[i]);
    if (status == 0) continue;
    hooks[i] = NULL;
    if (status == SONDE_ENOTFOUND && i != NUMBER_malloc && i != NUMBER_free) continue;
    malloc_hooks_remove();
    return status == SONDE_ENOTFOUND ? SONDE_EUNSUPPORTED : status;
  }
  return 0;
}

bool malloc_hooks_see_mappings(void) { return false; }
void malloc_hooks_add_mappings(void) {}

void malloc_hooks_remove(void) {
  for (int i = HOOKS; i-- > 0;) {
    if (hooks[i]) (void)sonde_hook_remove(hooks[i]);
    hooks[i] = NULL;
  }
}

#endif
