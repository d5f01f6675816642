/* SPDX-License-Identifier: MIT */
#include "sensor/audit/memory.h"

#include "arch/guarded.h"
#include "base/bits.h"
#include "os/os.h"
#include "sensor/audit/policy.h"
#include "sensor/crash.h"
#include "capture/thread_state.h"

/* The smallest page size; readability is decided in these steps. */
#define PAGE        4096u
#define STACK_PAGES 16u

static uint64_t page_end(uint64_t address) { return ALIGN_DOWN(address, (uint64_t)PAGE) + PAGE; }

/* The thread's stack is readable from here to the end of the page of the caller's frame, and as far
 * as captures have read it. */
static bool on_own_stack(const audit_memory_t *m, uint64_t address) {
  uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  if (address < here) return false;
  if (address < ALIGN_UP(m->caller_sp, (uint64_t)PAGE) && m->caller_sp - here < STACK_PAGES * PAGE)
    return true;
  const capture_thread_t *self = thread_state_idle();
  return self && stack_window_holds(&self->window, here) && address < self->window.hi;
}

/* ---- initial strings and the heap ------------------------------------------------------------ */

static struct {
  uint64_t strings, strings_end;
  /* start of the heap; 0: unknown, or parts of it are unmapped */
  uint64_t heap;
  /* the C library's variable with its end */
  const uint64_t *end;
} first;

void audit_memory_start(void) {
  static const char *const names[] = {"__curbrk"};
  os_initial_stack_t b;
  uint64_t variable = 0;
  if (!os_initial_stack(&b)) return;
  first.strings = b.stack;
  first.strings_end = b.strings_end ? page_end(b.strings_end - 1) : b.stack;
  os_symbols(0, names, &variable, 1);
  first.end = (const uint64_t *)(uintptr_t)variable;
  if (variable) store_relaxed(&first.heap, b.heap);
}

void audit_memory_changes(uint64_t start, uint64_t size) {
  uint64_t heap = load_relaxed(&first.heap);
  if (UNLIKELY(heap) && start < load_relaxed(first.end) && start + size > heap)
    store_relaxed(&first.heap, (uint64_t)0);
}

/* The page that contains __curbrk is mapped to its end. */
static bool in_heap(uint64_t address) {
  uint64_t heap = load_relaxed(&first.heap);
  return heap && address >= heap && address < load_relaxed(first.end);
}

static bool needs_no_proof(uint64_t address) {
  if (address >= first.strings && address < first.strings_end) return true;
  return in_heap(address) && crash_catches_faults();
}

/* True if ADDRESS is in a readable page of an image. */
static bool in_image(const audit_memory_t *m, uint64_t address) {
  audit_page_t *page = &m->pages[address / PAGE % AUDIT_PAGES];
  uint64_t epoch = os_loader_epoch();
  os_image_t image;
  if (LIKELY(epoch && page->number == address / PAGE && page->epoch == epoch))
    return page->is_image;
  bool is = os_image_of_pc(address, &image) && os_readable(ALIGN_DOWN(address, (uint64_t)8));
  *page = (audit_page_t){.number = address / PAGE, .epoch = epoch, .is_image = is};
  return is;
}

/* For memory whose faults nobody would catch. */
static NOINLINE uint32_t copy_by_kernel(uint8_t *out, uint64_t address, uint32_t size, bool text) {
  uint8_t copied[AUDIT_TEXT_MAX];
  ssize_t got = os_read_memory(address, copied, size);
  return got > 0 ? (uint32_t)arch_copy_guarded(out, copied, (uint64_t)got, text) : 0;
}

/* Copies SIZE bytes within one page. */
static uint32_t copy_piece(const audit_memory_t *m, uint8_t *out, uint64_t address, uint32_t size,
                           bool text, bool known) {
  if (!known && !on_own_stack(m, address) && !needs_no_proof(address) && !in_image(m, address)) {
    if (UNLIKELY(!crash_catches_faults())) return copy_by_kernel(out, address, size, text);
    if (!os_readable(ALIGN_DOWN(address, (uint64_t)8))) return 0;
  }
  return (uint32_t)arch_copy_guarded(out, (const void *)(uintptr_t)address, size, text);
}

static uint32_t copy(const audit_memory_t *m, uint8_t *out, uint64_t address, uint32_t size,
                     bool text, bool known) {
  uint32_t done = 0;
  while (address && done < size) {
    uint64_t at = address + done, left = page_end(at) - at;
    uint32_t piece = left < size - done ? (uint32_t)left : size - done;
    uint32_t got = copy_piece(m, out + done, at, piece, text, known);
    done += got;
    if (got < piece) break;
  }
  return done;
}

uint32_t audit_copy(const audit_memory_t *m, void *out, uint64_t address, uint32_t size) {
  return copy(m, out, address, size, false, false);
}

uint32_t audit_copy_text(const audit_memory_t *m, void *out, uint64_t address, uint32_t max,
                         bool known) {
  return copy(m, out, address, max, true, known);
}
