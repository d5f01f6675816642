/* SPDX-License-Identifier: MIT
 *
 * The malloc log's source on Apple's systems: malloc_logger, which libmalloc calls for every block
 * that it gives, takes or moves, whoever asked; and __syscall_logger, the same for regions, which
 * is set only when regions are asked for. Neither is in a header of Apple's: they are private
 * symbols, and a build without them (SONDE_APPLE_PRIVATE=OFF) has sensor/malloc/hooks.c instead.
 * Types and arguments are those of stack_logging.h of Apple's open libmalloc and libsyscall.
 *
 * libmalloc calls while it may hold a lock of its own. The first use of a thread's variables
 * allocates (dyld's thread-local storage), which would come back here: so a thread that is inside
 * is marked by a pthread key, which allocates nothing. What it allocates there is not logged.
 */
#if defined(SONDE_APPLE_PRIVATE)
#include <stdint.h>
#include <sys/mman.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/apple/thread.h"
#include "sensor/malloc/standalone.h"
#include "sensor/malloc/malloc.h"
#include "sensor/malloc/mapping.h"
#include "sonde/status.h"

#define TYPE_GIVEN     2u
#define TYPE_TAKEN     4u
#define TYPE_HAS_ZONE  8u
#define TYPE_VM_GIVEN  16u
#define TYPE_VM_TAKEN  32u
#define TYPE_CLEARED   64u
#define TYPE_MAPPED    128u /* a file, or shared memory */
#define TYPE_TAG(type) ((type) >> 24)

typedef void logger_t(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t result,
                      uint32_t frames_to_skip);
extern logger_t *malloc_logger __attribute__((weak_import));
extern logger_t *__syscall_logger __attribute__((weak_import));

static logger_t *before_malloc, *before_syscall; /* who else listens */

/* Our caller's frame: of libmalloc's function. */
#define CALLER_HERE                                                                                \
  ({                                                                                               \
    const uint64_t *frame_ = __builtin_frame_address(0);                                           \
    (caller_t){arch_strip(frame_[1]), (uint64_t)(uintptr_t)(frame_ + 2), frame_[0]};               \
  })

/* libmalloc reports when it is done. So a block that is moved has had its old address taken back
 * already, and perhaps given to another thread. */
static void log_block(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t result,
                      caller_t at) {
  if (!(type & TYPE_HAS_ZONE)) c = b, b = a;
  bool gives = type & TYPE_GIVEN, takes = type & TYPE_TAKEN;
  if (gives && takes) {
    malloc_realloc_t moving;
    const void *old = (const void *)b, *block = (const void *)result;
    if (b) {
      malloc_before_realloc(&moving, old);
      malloc_on_realloc(&moving, old, block, c, at);
    } else if (result) {
      malloc_on_alloc(EVENT_MALLOC, block, c, at);
    }
  } else if (gives && result) {
    malloc_on_alloc(type & TYPE_CLEARED ? EVENT_CALLOC : EVENT_MALLOC, (const void *)result, b, at);
  } else if (takes && b) {
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
  bool gives = type & TYPE_VM_GIVEN;
  const region_t r = {.call = gives ? MAPPING_CREATED : MAPPING_REMOVED,
                      .address = gives ? result : b,
                      .size = gives ? b : c,
                      .protection = gives ? PROT_READ | PROT_WRITE : 0,
                      .fd = -1};
  if ((gives || (type & TYPE_VM_TAKEN)) && r.address) mapping_record(&r, 0, at);
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

/* Somebody who came after us stays, and goes on to us, who then record nothing. */
void malloc_hooks_remove(void) {
  if (load_relaxed(&malloc_logger) == on_malloc) store_release(&malloc_logger, before_malloc);
  if (&__syscall_logger && load_relaxed(&__syscall_logger) == on_syscall)
    store_release(&__syscall_logger, before_syscall);
}

#endif
