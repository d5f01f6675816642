/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack as program counters: sonde_stack and sonde_capture.
 *
 * There are three methods; each is the fallback of the one before. The first uses the thread's
 * state and frame cache. The second, if the state is busy, is an uncached walk over a window on the
 * stack. The third is cfi_step with all registers, if a row needs them.
 */
#include "capture/capture.h"

#include <string.h>

#include "os/os.h"

/* ---- with all registers --------------------------------------------------------------------- */

#define BLOCK_BYTES 512u /* a power of two, and a part of a page */

/* Memory of the process, with the block that was read last. Frames are read word by word, each read
 * takes two system calls, and to infer where a frame returns may take thousands of reads. Words
 * alone are copied here, without a call: memcpy may use vector registers, which a capture keeps. */
typedef struct block_memory {
  memory_t memory; /* must be first */
  /* of the block; 0: none */
  uint64_t start;
  bool is_readable;
  uint8_t bytes[BLOCK_BYTES];
} block_memory_t;

static bool read_memory(memory_t *self, uint64_t address, void *out, size_t size) {
  block_memory_t *m = (block_memory_t *)self;
  uint64_t start = ALIGN_DOWN(address, (uint64_t)BLOCK_BYTES);
  if (size != 8 || address - start > BLOCK_BYTES - 8)
    return os_read_memory(address, out, size) == (ssize_t)size;
  if (m->start != start) {
    m->is_readable = os_read_memory(start, m->bytes, BLOCK_BYTES) == BLOCK_BYTES;
    m->start = start;
  }
  if (!m->is_readable) return os_read_memory(address, out, size) == (ssize_t)size;
  memcpy(out, m->bytes + (address - start), 8);
  return true;
}

/* Calls VISIT for each frame from the one with stack pointer FROM_SP outward. Returns what ended
 * the walk, STEP_CALLER if VISIT did; adds to *FLAGS. */
static unwind_step_t each_frame(regs_t *regs, uint64_t from_sp, register_frame_t *visit,
                                void *context, uint32_t *flags) {
  block_memory_t m;
  memory_t *memory = &m.memory;
  memory->read = read_memory;
  m.start = 0;
  m.is_readable = false;
  int sp = machine_sp(MACHINE_HERE);
  bool exact = true;
  for (int steps = 0;; steps++) {
    if (regs->r[sp] >= from_sp) {
      from_sp = 0;
      if (!visit(context, regs->pc, regs->r[sp], exact)) return STEP_CALLER;
    }
    unwind_step_t step = cfi_step(MACHINE_HERE, memory, walk_images(), regs, exact);
    if (step == STEP_NO_RULE) {
      rule_t rule;
      step = inferred_step(MACHINE_HERE, memory, walk_images(), regs, exact, &rule);
      *flags |= SONDE_FLAG_HEURISTIC;
    }
    exact = step == STEP_SIGNAL;
    if (exact) *flags |= SONDE_FLAG_SIGNAL_FRAME;
    if (step != STEP_CALLER && step != STEP_SIGNAL) return step;
    if (steps > (1 << 20)) return STEP_NO_RULE;
  }
}

static NOINLINE unwind_step_t each_frame_from(const void *ucontext, uint64_t sp,
                                              register_frame_t *visit, void *context,
                                              uint32_t *flags) {
  regs_t regs = {.known = 0};
  if (ucontext) {
    int sp_number = machine_sp(MACHINE_HERE);
    arch_frame_t frame = {.pc = arch_context_registers(ucontext, regs.r, &regs.known)};
    frame.sp = regs.r[sp_number];
    walk_translate(&frame);
    regs.pc = frame.pc;
    regs.r[sp_number] = frame.sp;
  } else {
    regs.pc = arch_here(regs.r, &regs.known);
  }
  return each_frame(&regs, ucontext ? 0 : sp, visit, context, flags);
}

bool capture_each_with_registers(const void *ucontext, uint64_t sp, register_frame_t *visit,
                                 void *context) {
  uint32_t flags = 0;
  return each_frame_from(ucontext, sp, visit, context, &flags) == STEP_END;
}

typedef struct pcs {
  sonde_capture_t *capture;
  uint64_t *exact_set;
  int skip, count;
} pcs_t;

static bool add_pc(void *context, uint64_t pc, uint64_t sp, bool exact) {
  pcs_t *pcs = context;
  (void)sp;
  if (pcs->skip > 0) {
    pcs->skip--;
    return true;
  }
  if (pcs->count == pcs->capture->max) return false;
  if (pcs->exact_set && exact) pcs->exact_set[pcs->count / 64] |= (uint64_t)1 << pcs->count % 64;
  pcs->capture->pcs[pcs->count++] = pc;
  return true;
}

NOINLINE void capture_with_registers(const void *ucontext, uint64_t sp, sonde_capture_t *capture,
                                     uint64_t *exact_set) {
  pcs_t pcs = {capture, exact_set, capture->skip, 0};
  unwind_step_t end = each_frame_from(ucontext, sp, add_pc, &pcs, &capture->flags);
  capture->status = end == STEP_CALLER ? SONDE_STACK_TRUNCATED
                    : end == STEP_END  ? SONDE_STACK_COMPLETE
                                       : SONDE_STACK_BROKEN;
  if (end != STEP_CALLER) capture->reason = end == STEP_END ? 0 : SONDE_EFORMAT;
  capture->count = pcs.count;
}

/* ---- with the frame cache ------------------------------------------------------------------- */

/* Writes the stack, innermost first: the new frames, then the cached ones. */
static void write_pcs(const frame_cache_t *cache, const new_frames_t *new_frames,
                      sonde_capture_t *capture) {
  uint32_t cached = FRAME_CACHE_ENTRIES - new_frames->joined, total = new_frames->count + cached;
  uint32_t skip = (uint32_t)capture->skip, max = (uint32_t)capture->max;
  uint32_t n = skip < total ? total - skip : 0, written = 0;
  if (n > max) n = max;
  for (uint32_t i = skip; i < new_frames->count && written < n; i++)
    capture->pcs[written++] = arch_strip(new_frames->frames[i].raw);
  const frame_cache_entry_t *entry = &cache->entries[new_frames->joined];
  if (skip > new_frames->count) entry += skip - new_frames->count;
  for (; written < n; entry++)
    capture->pcs[written++] = arch_strip(entry->raw);
  capture->count = (int)n;
  capture->status = skip + n < total ? SONDE_STACK_TRUNCATED : SONDE_STACK_COMPLETE;
}

/* Returns false if the stack is too deep for the ring or does not reach its end. The uncached walk
 * then reports the reason. */
static bool capture_cached(capture_thread_t *self, position_t *p, uint64_t epoch,
                           sonde_capture_t *capture) {
  frame_cache_t *cache = &self->cache;
  new_frames_t new_frames = {.frames = cache->new_frames, .capacity = FRAME_CACHE_NEW_FRAMES};
  walk_stacks_t stacks;
  walk_stacks_init(&stacks, &self->window);
  frame_cache_begin_walk(cache, epoch, &new_frames);
  frame_cache_walk(cache, &stacks, p, epoch, UINT32_MAX, &new_frames);
  if (new_frames.end != WALK_END) return false;
  bool fits = new_frames.count <= FRAME_CACHE_NEW_FRAMES;
  if (fits) write_pcs(cache, &new_frames, capture);
  if (new_frames.count || new_frames.joined != cache->top)
    frame_cache_extend(cache, &new_frames, fits ? 0 : new_frames.count - FRAME_CACHE_NEW_FRAMES,
                       epoch);
  capture->flags |= p->flags;
  return fits;
}

/* ---- the methods combined ------------------------------------------------------------------- */

static bool is_final(const sonde_capture_t *capture) {
  return capture->status != SONDE_STACK_BROKEN || capture->reason != SONDE_ENOTFOUND;
}

static void capture_uncached(position_t *p, uint64_t epoch, sonde_capture_t *capture) {
  stack_window_t window = stack_window_of_process();
  if (window.move(&window, p->sp)) {
    walk_capture(&window, p, epoch, capture);
    return;
  }
  capture->status = SONDE_STACK_BROKEN;
  capture->reason = SONDE_EFAULT;
  capture->pcs[0] = p->pc;
  capture->count = capture->skip == 0;
}

static int capture_from_here(sonde_capture_t *capture, uint64_t pc, uint64_t sp, uint64_t fp) {
  position_t p;
  uint64_t epoch = walk_epoch();
  capture_thread_t *self = thread_state_enter(sp);
  capture->flags = 0;
  capture->reason = 0;
  position_after_return(&p, pc, sp, fp);
  bool done = false;
  if (LIKELY(self)) {
    if (LIKELY(!capture->async)) done = capture_cached(self, &p, epoch, capture);
    thread_state_leave(self);
  } else if (!frame_table_init())
    return SONDE_ENOMEM;
  if (UNLIKELY(!done)) {
    position_after_return(&p, pc, sp, fp);
    capture_uncached(&p, epoch, capture);
  }
  if (UNLIKELY(!is_final(capture))) capture_with_registers(NULL, sp, capture, NULL);
  return capture->count;
}

static int capture_from_context(sonde_capture_t *capture) {
  position_t p;
  arch_frame_t frame = {.pc = capture->pc, .sp = capture->sp, .fp = capture->fp};
  if (capture->ucontext) {
    frame = arch_context_frame(capture->ucontext);
    walk_translate(&frame);
  }
  position_of_frame(&p, frame);
  if (!frame_table_init()) return SONDE_ENOMEM;
  capture_uncached(&p, walk_epoch(), capture);
  if (!is_final(capture) && capture->ucontext)
    capture_with_registers(capture->ucontext, 0, capture, NULL);
  return capture->count;
}

/* ---- the public functions ------------------------------------------------------------------- */

__attribute__((used)) HIDDEN int capture_stack_here(uintptr_t *pcs, int max, uint64_t pc,
                                                    uint64_t sp, uint64_t fp);

int capture_stack_here(uintptr_t *pcs, int max, uint64_t pc, uint64_t sp, uint64_t fp) {
  sonde_capture_t capture;
  if (!pcs || max <= 0) return SONDE_EINVAL;
  capture.pcs = pcs;
  capture.max = max;
  capture.skip = 0;
  capture.async = SONDE_ASYNC_IGNORE;
  return capture_from_here(&capture, pc, sp, fp);
}
ENTRY_2(sonde_stack, capture_stack_here);

__attribute__((used)) int capture_here(sonde_capture_t *capture, uint64_t pc, uint64_t sp,
                                       uint64_t fp) {
  if (!capture || !capture->pcs || capture->max <= 0 || capture->skip < 0 ||
      (uint32_t)capture->async > SONDE_ASYNC_FOLLOW)
    return SONDE_EINVAL;
  capture->count = 0;
  capture->flags = 0;
  capture->reason = 0;
  capture->async_task = 0;
  int count = capture->ucontext || capture->pc ? capture_from_context(capture)
                                               : capture_from_here(capture, pc, sp, fp);
  if (capture->flags & SONDE_FLAG_ASYNC) capture->async_task = os_swift_task();
  return count;
}
ENTRY_1(sonde_capture, capture_here);
