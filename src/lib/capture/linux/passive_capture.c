/* SPDX-License-Identifier: MIT
 *
 * Passive capture on Linux: /proc/self/task/TID/syscall reports the stack pointer and pc of a
 * blocked thread; process_vm_readv copies its stack.
 */
#include "capture/passive_capture.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/bits.h"
#include "sonde/status.h"
#include "capture/capture_cache.h"
#include "unwind/infer/infer.h"
#include "capture/walk.h"

/* Reserved, not touched: twice the usual limit of a stack. */
#define COPY_BYTES_MAX (16u << 20)
#define COPY_BYTES_MIN (256u << 10)
#define SPARE_BYTES    (128u << 10)
#define PAGE_BYTES     4096u
/* Size of the first copy; most stacks are shorter. */
#define COPY_FIRST_MIN   (PAGE_BYTES / 2)
#define COPY_FIRST_MAX   (PAGE_BYTES + COPY_FIRST_MIN)
#define COPY_PIECE_BYTES (16u << 10)
#define TRIES            4
/* Copied from below the stack pointer, as far as its page reaches. */
#define BELOW_BYTES 128

_Static_assert(PASSIVE_GROUP *(COPY_FIRST_MAX + BELOW_BYTES) < COPY_BYTES_MIN, "a group has room");

/* A buffer is kept for the next capture, unless a deep stack filled more than SPARE_BYTES of it.
 * Pages that are already mapped save a tenth of the time. */
static uint8_t *spare_buffer;

static uint8_t *take_spare_buffer(void) {
  return __atomic_exchange_n(&spare_buffer, NULL, __ATOMIC_ACQ_REL);
}

static bool keep_spare_buffer(const passive_buffer_t *copy) {
  uint8_t *none = NULL;
  return copy->used <= SPARE_BYTES && copy->size == COPY_BYTES_MAX &&
         cas_acq_rel(&spare_buffer, &none, copy->bytes);
}

bool passive_open(passive_buffer_t *copy) {
  *copy = (passive_buffer_t){.folder = -1, .bytes = take_spare_buffer(), .size = COPY_BYTES_MAX};
  if (copy->bytes) return true;
  for (; copy->size >= COPY_BYTES_MIN; copy->size /= 8) {
    copy->bytes = os_map(copy->size);
    if (copy->bytes) return true;
  }
  return false;
}

void passive_close(passive_buffer_t *copy) {
  if (!keep_spare_buffer(copy)) os_unmap(copy->bytes, copy->size);
}

/* ---- the copy as a window ------------------------------------------------------------------- */

typedef struct copy_window {
  stack_window_t window;
  passive_buffer_t *copy;
  uint8_t *bytes;
  uint64_t capacity;
} copy_window_t;

static void note_used(passive_buffer_t *copy, const uint8_t *end) {
  uint64_t used = (uint64_t)(end - copy->bytes);
  if (used > copy->used) copy->used = used;
}

/* Copies the next piece, which ends at a page boundary of the stack. */
static bool copy_more(copy_window_t *c) {
  stack_window_t *w = &c->window;
  uint64_t have = w->hi - w->lo, piece = COPY_PIECE_BYTES - w->hi % PAGE_BYTES;
  if (piece > c->capacity - have) piece = c->capacity - have;
  if (!piece) return false;
  ssize_t count = os_read_memory(w->hi, c->bytes + have, piece);
  if (count < 8) return false;
  w->hi += (uint64_t)count & ~(uint64_t)7;
  note_used(c->copy, c->bytes + have + count);
  return true;
}

static bool reach_copy(stack_window_t *w, uint64_t address) {
  copy_window_t *c = (copy_window_t *)w;
  if (address < w->lo || address % 8 || address - w->lo >= c->capacity) return false;
  while (w->hi < address + 8)
    if (!copy_more(c)) return false;
  return true;
}

/* Returns the window over the first copy, from SP on. The rest of the buffer follows it. */
static copy_window_t copy_window(passive_buffer_t *copy, const os_piece_t *first, uint64_t sp) {
  uint64_t lo = ALIGN_DOWN(sp, (uint64_t)8), below = lo - first->address;
  uint64_t got = first->got > 0 ? (uint64_t)first->got & ~(uint64_t)7 : 0;
  uint64_t have = got > below ? got - below : 0;
  uint8_t *bytes = (uint8_t *)first->out + below;
  return (copy_window_t){
      .window = {.lo = lo,
                 .hi = lo + have,
                 .delta = (uint64_t)(uintptr_t)bytes - lo,
                 .reach = reach_copy},
      .copy = copy,
      .bytes = bytes,
      .capacity = copy->size - (uint64_t)(bytes - copy->bytes),
  };
}

/* ---- the frame register --------------------------------------------------------------------- */

typedef struct copy_memory {
  memory_t memory;
  copy_window_t *from;
} copy_memory_t;

static bool read_copy(memory_t *self, uint64_t address, void *out, size_t size) {
  const stack_window_t *w = &((copy_memory_t *)self)->from->window;
  if (address >= w->lo && address < w->hi) {
    if (size > w->hi - address) return false;
    memcpy(out, stack_window_at(w, address), size);
    return true;
  }
  return os_read_memory(address, out, size) == (ssize_t)size;
}

/* The walk stopped at P because the frame register is unknown. No frame further in restored it, so
 * its value there is its value in the innermost frame. It is inferred once, and the stack is walked
 * again from the start. */
static bool infer_fp(copy_window_t *c, const position_t *p, uint64_t *fp) {
  copy_memory_t memory = {{read_copy}, c};
  regs_t regs = {.pc = p->pc};
  regs_set(&regs, machine_sp(MACHINE_HERE), p->sp);
  while (c->window.hi - c->window.lo < FP_INFERENCE_STACK_BYTES_MAX && copy_more(c)) {
  }
  if (infer_frame_pointer(MACHINE_HERE, &memory.memory, walk_images(), &regs, p->exact,
                          c->window.hi) != FP_INFERENCE_FOUND)
    return false;
  *fp = regs.r[machine_fp(MACHINE_HERE)];
  return true;
}

/* ---- one sample ----------------------------------------------------------------------------- */

static position_t position_of(const capture_place_t *place) {
  return (position_t){
      .pc = place->pc, .raw = place->pc, .exact = true, .sp = place->sp, .fp_value = place->fp};
}

static void walk_copy(copy_window_t *c, capture_place_t *place, sonde_capture_t *capture) {
  uint64_t epoch = walk_epoch();
  position_t p = position_of(place);
  if (!place->has_fp) {
    capture->flags = 0;
    walk_capture(&c->window, &p, epoch, capture);
    place->end = ALIGN_DOWN(p.sp, (uint64_t)8);
    if (capture->status != SONDE_STACK_BROKEN || capture->reason != SONDE_ENOTFOUND || p.fp_at)
      return;
    place->has_fp = infer_fp(c, &p, &place->fp);
    if (!place->has_fp) return;
    p = position_of(place);
  }
  p.fp_at = &p.fp_value;
  capture->flags = SONDE_FLAG_INFERRED;
  walk_capture(&c->window, &p, epoch, capture);
  place->end = ALIGN_DOWN(p.sp, (uint64_t)8);
}

/* The progress counter decides. The same place is no proof, since the thread may have left it and
 * returned. The clock of a thread that is about to leave its CPU can be late (os_thread_cpu_ns), so
 * it is read twice. */
static bool has_not_run(int folder, pid_t tid, int64_t before) {
  /* The stack was read before the counter. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (os_thread_progress(folder, tid) != before) return false;
  int64_t used = os_thread_cpu_ns(tid);
  return used < 0 || used == before;
}

typedef struct passive_sample {
  passive_t *thread;
  capture_cache_key_t key;
  /* A stack is saved that started at PLACE. */
  bool saved;
  capture_place_t place;
} passive_sample_t;

static bool is_cacheable(const capture_cache_key_t *key) {
  return key->identity != 0 && key->progress >= 0 && key->epoch != 0;
}

/* Finds where a thread is blocked: where it was at its last capture, if it has not run since. */
static bool locate_thread(int folder, passive_sample_t *s) {
  passive_t *t = s->thread;
  os_blocked_t at;
  s->key = (capture_cache_key_t){t->tid, t->identity, os_thread_progress(folder, t->tid),
                                 os_loader_epoch()};
  /* Async stacks differ from the saved ones. */
  if (t->capture->async) s->key.epoch = 0;
  s->saved = is_cacheable(&s->key) && capture_cache_find(&s->key, &s->place);
  if (s->saved) return true;
  int r = os_thread_blocked(folder, t->tid, &at);
  s->place = (capture_place_t){.pc = at.pc, .sp = at.sp};
  if (r == 0 && s->key.progress >= 0) return true;
  if (r == 0) r = (int)s->key.progress;
  t->result = r == -EAGAIN ? SONDE_ERUNNING : r == -ESRCH ? SONDE_ENOTHREAD : SONDE_EUNSUPPORTED;
  return false;
}

/* Of a stack that was read before, as much as the walk read then. Of another, up to the end of its
 * page or, if that is near, of the next one. */
static uint64_t first_size(const capture_place_t *place, uint64_t lo) {
  if (place->end > lo && place->end - lo <= COPY_FIRST_MAX) return place->end - lo;
  uint64_t size = PAGE_BYTES - lo % PAGE_BYTES;
  return size < COPY_FIRST_MIN ? size + PAGE_BYTES : size;
}

/* Copies the innermost part of each stack, one behind the other. */
static void copy_first(passive_buffer_t *copy, const passive_sample_t *samples, int count,
                       os_piece_t *pieces) {
  uint8_t *out = copy->bytes;
  for (int i = 0; i < count; i++) {
    uint64_t lo = ALIGN_DOWN(samples[i].place.sp, (uint64_t)8), in_page = lo % PAGE_BYTES;
    uint64_t below = in_page < BELOW_BYTES ? in_page : BELOW_BYTES;
    uint64_t size = below + first_size(&samples[i].place, lo);
    pieces[i] = (os_piece_t){.address = lo - below, .out = out, .size = size};
    out += size;
  }
  os_read_pieces(pieces, count);
  note_used(copy, out);
}

/* A hash of the words that were copied from below the stack pointer. */
static uint64_t hash_below(const os_piece_t *first, uint64_t sp) {
  const uint64_t *words = first->out;
  uint64_t hash = 0;
  if (first->got != (ssize_t)first->size) return 0;
  for (uint64_t i = 0; i < (sp - first->address) / 8; i++)
    hash = (hash ^ hash >> 29 ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return hash;
}

/* Samples each thread once; the result of a thread that ran meanwhile is HAS_RUN. The last thread
 * is walked first: further pieces of a long stack overwrite the copies of threads that are
 * finished. */
#define HAS_RUN INT_MIN
static void sample_group(passive_buffer_t *copy, passive_t *group, int count) {
  passive_sample_t samples[PASSIVE_GROUP];
  os_piece_t pieces[PASSIVE_GROUP];
  int found = 0;
  for (int i = 0; i < count; i++) {
    samples[found].thread = &group[i];
    found += locate_thread(copy->folder, &samples[found]);
  }
  copy_first(copy, samples, found, pieces);
  while (found-- > 0) {
    passive_sample_t *s = &samples[found];
    passive_t *t = s->thread;
    copy_window_t c = copy_window(copy, &pieces[found], s->place.sp);
    s->place.below = hash_below(&pieces[found], s->place.sp);
    walk_copy(&c, &s->place, t->capture);
    bool still = s->saved ? capture_cache_confirm(&s->key, &s->place, t->capture)
                          : has_not_run(copy->folder, t->tid, s->key.progress);
    t->result = still ? t->capture->count : HAS_RUN;
    if (still && !s->saved && is_cacheable(&s->key))
      capture_cache_store(&s->key, &s->place, t->capture);
  }
}

/* A thread that ran is sampled again alone, since that takes the shortest time. */
static void retry(passive_buffer_t *copy, passive_t *thread) {
  for (int i = 1; i < TRIES && thread->result == HAS_RUN; i++)
    sample_group(copy, thread, 1);
  if (thread->result == HAS_RUN) thread->result = SONDE_ERUNNING;
}

void passive_capture_group(passive_buffer_t *copy, passive_t *group, int count) {
  sample_group(copy, group, count);
  for (int i = 0; i < count; i++)
    retry(copy, &group[i]);
}

int passive_capture(passive_buffer_t *copy, pid_t tid, uint64_t identity,
                    sonde_capture_t *capture) {
  passive_t one = {.tid = tid, .identity = identity, .capture = capture};
  passive_capture_group(copy, &one, 1);
  return one.result;
}
