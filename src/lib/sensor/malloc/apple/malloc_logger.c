/* SPDX-License-Identifier: MIT
 *
 * The malloc sensor's source on Apple's systems: libmalloc calls malloc_logger for each block that
 * it allocates, frees or reallocates, whoever the caller is; __syscall_logger reports mappings and
 * is set only if mappings are recorded. Both are private symbols without a header; a build without
 * them (SONDE_APPLE_PRIVATE=OFF) uses sensor/malloc/hooks.c. Types and arguments are those of
 * stack_logging.h in Apple's open libmalloc and libsyscall.
 *
 * libmalloc may hold a lock of its own during the call. The first use of a thread's variables
 * allocates (dyld's thread-local storage), which would call the logger again. So a thread inside
 * the logger is flagged by a pthread key, which allocates nothing; its allocations meanwhile are
 * not recorded.
 */
#if defined(SONDE_APPLE_PRIVATE)
#include <stdint.h>
#include <sys/mman.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/apple/thread.h"
#include "record/vm_tag.h"
#include "sensor/malloc/standalone.h"
#include "sensor/malloc/malloc.h"
#include "sensor/malloc/mapping.h"
#include "sonde/status.h"

#define TYPE_ALLOC     2u
#define TYPE_FREE      4u
#define TYPE_HAS_ZONE  8u
#define TYPE_VM_ALLOC  16u
#define TYPE_VM_FREE   32u
#define TYPE_CLEARED   64u
#define TYPE_MAPPED    128u /* a file, or shared memory */
#define TYPE_TAG(type) ((type) >> 24)

typedef void logger_t(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t result,
                      uint32_t frames_to_skip);
extern logger_t *malloc_logger __attribute__((weak_import));
extern logger_t *__syscall_logger __attribute__((weak_import));

static logger_t *before_malloc, *before_syscall; /* loggers that were installed before */

/* The frame of the caller, a function of libmalloc. */
#define CALLER_HERE                                                                                \
  ({                                                                                               \
    const uint64_t *frame_ = __builtin_frame_address(0);                                           \
    (caller_t){arch_strip(frame_[1]), (uint64_t)(uintptr_t)(frame_ + 2), frame_[0]};               \
  })

/* libmalloc reports after the operation. So the old address of a reallocated block is free already,
 * and may belong to another thread. */
static void log_block(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t result,
                      caller_t at) {
  if (!(type & TYPE_HAS_ZONE)) c = b, b = a;
  bool allocates = type & TYPE_ALLOC, frees = type & TYPE_FREE;
  if (allocates && frees) {
    malloc_realloc_t before;
    const void *old = (const void *)b, *block = (const void *)result;
    if (b) {
      malloc_before_realloc(&before, old);
      malloc_on_realloc(&before, old, block, c, at);
    } else if (result) {
      malloc_on_alloc(EVENT_MALLOC, block, c, at);
    }
  } else if (allocates && result) {
    malloc_on_alloc(type & TYPE_CLEARED ? EVENT_CALLOC : EVENT_MALLOC, (const void *)result, b, at);
  } else if (frees && b) {
    malloc_on_free((const void *)b, at);
  }
}

static NOINLINE void on_malloc(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c,
                               uintptr_t result, uint32_t skip) {
  caller_t at = CALLER_HERE;
  if (before_malloc) before_malloc(type, a, b, c, result, skip);
  if (!os_thread_enter()) return;
  log_block(type, a, b, c, result, at);
  os_thread_leave();
}

/* Arguments: the task, then a size and the result, or an address and a size. */
static NOINLINE void on_syscall(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c,
                                uintptr_t result, uint32_t skip) {
  caller_t at = CALLER_HERE;
  if (before_syscall) before_syscall(type, a, b, c, result, skip);
  if (!os_thread_enter()) return;
  bool allocates = type & TYPE_VM_ALLOC;
  char tag[VM_TAG_NAME_MAX];
  bool is_tagged = allocates && vm_tag_name(TYPE_TAG(type), tag);
  const region_t r = {.call = allocates ? MAPPING_CREATED : MAPPING_REMOVED,
                      .address = allocates ? result : b,
                      .size = allocates ? b : c,
                      .protection = allocates ? PROT_READ | PROT_WRITE : 0,
                      .flags = vm_tag_flags(type & TYPE_MAPPED),
                      .fd = -1,
                      .tag = is_tagged ? tag : NULL};
  if ((allocates || (type & TYPE_VM_FREE)) && r.address) mapping_record(&r, 0, at);
  os_thread_leave();
}

int malloc_hooks_add(void) {
  if (!&malloc_logger) return SONDE_EUNSUPPORTED;
  if (!os_thread_marks()) return SONDE_ENOMEM;
  before_malloc = load_relaxed(&malloc_logger);
  store_release(&malloc_logger, on_malloc);
  return 0;
}

bool malloc_hooks_see_mappings(void) { return &__syscall_logger != NULL; }

void malloc_hooks_add_mappings(void) {
  if (load_relaxed(&__syscall_logger) == on_syscall) return;
  before_syscall = load_relaxed(&__syscall_logger);
  store_release(&__syscall_logger, on_syscall);
}

/* A logger that was installed later stays, and calls ours, which then records nothing. */
void malloc_hooks_remove(void) {
  if (load_relaxed(&malloc_logger) == on_malloc) store_release(&malloc_logger, before_malloc);
  if (&__syscall_logger && load_relaxed(&__syscall_logger) == on_syscall)
    store_release(&__syscall_logger, before_syscall);
}

#endif
