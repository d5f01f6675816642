/* SPDX-License-Identifier: MIT */
#include "unwind/blocked.h"

#include <errno.h>
#include <string.h>

#include "sonde/status.h"
#include "unwind/kept.h"
#include "unwind/prove.h"
#include "unwind/walk.h"

#define COPY_BYTES_MAX (16u << 20) /* reserved, not touched: twice the usual limit of a stack */
#define COPY_BYTES_MIN (256u << 10)
#define COPY_FIRST_BYTES                                                                           \
  4096u /* most stacks of blocked threads are shorter; more costs more to copy */
#define COPY_PIECE_BYTES (16u << 10)
#define TRIES            4

bool blocked_open(blocked_copy_t *copy) {
  copy->folder = -1;
  for (copy->size = COPY_BYTES_MAX; copy->size >= COPY_BYTES_MIN; copy->size /= 8) {
    copy->bytes = os_map(copy->size);
    if (copy->bytes) return true;
  }
  return false;
}

void blocked_close(blocked_copy_t *copy) { os_unmap(copy->bytes, copy->size); }

/* ---- the copy as a window ------------------------------------------------------------------- */

typedef struct copy_window {
  window_t window;
  blocked_copy_t *copy;
} copy_window_t;

/* Copies the next piece, up to a whole number of pages of the stack. */
static bool copy_more(copy_window_t *c) {
  window_t *w = &c->window;
  uint64_t have = w->hi - w->lo, piece = have ? COPY_PIECE_BYTES : COPY_FIRST_BYTES;
  if (have % 4096 == 0) piece -= w->hi % 4096;
  if (piece > c->copy->size - have) piece = c->copy->size - have;
  if (!piece) return false;
  ssize_t count = os_read_memory(w->hi, c->copy->bytes + have, piece);
  if (count < 8) return false;
  w->hi += (uint64_t)count & ~(uint64_t)7;
  return true;
}

static bool reach_copy(window_t *w, uint64_t address) {
  copy_window_t *c = (copy_window_t *)w;
  if (address < w->lo || address % 8 || address - w->lo >= c->copy->size) return false;
  while (w->hi < address + 8)
    if (!copy_more(c)) return false;
  return true;
}

static copy_window_t copy_from(blocked_copy_t *copy, uint64_t sp) {
  uint64_t lo = ALIGN_DOWN(sp, (uint64_t)8);
  return (copy_window_t){
      .window = {.lo = lo,
                 .hi = lo,
                 .delta = (uint64_t)(uintptr_t)copy->bytes - lo,
                 .reach = reach_copy},
      .copy = copy,
  };
}

/* ---- the frame register ---------------------------------------------------------------------- */

typedef struct copy_memory {
  memory_t memory;
  copy_window_t *from;
} copy_memory_t;

static bool read_copy(memory_t *self, uint64_t address, void *out, size_t size) {
  const window_t *w = &((copy_memory_t *)self)->from->window;
  if (address >= w->lo && address < w->hi) {
    if (size > w->hi - address) return false;
    memcpy(out, window_at(w, address), size);
    return true;
  }
  return os_read_memory(address, out, size) == (ssize_t)size;
}

/* The walk stopped at P for want of the frame register. No frame further in restored it, so what it
 * is there is what it is in the innermost frame: prove it once and walk again from the start. */
static bool prove(copy_window_t *c, const position_t *p, uint64_t *fp) {
  copy_memory_t memory = {{read_copy}, c};
  regs_t regs = {.pc = p->pc};
  regs_set(&regs, machine_sp(MACHINE_HERE), p->sp);
  while (c->window.hi - c->window.lo < PROVE_STACK_BYTES_MAX && copy_more(c)) {
  }
  if (prove_frame_register(MACHINE_HERE, &memory.memory, walk_images(), &regs, p->exact,
                           c->window.hi) != PROOF_FOUND)
    return false;
  *fp = regs.r[machine_fp(MACHINE_HERE)];
  return true;
}

/* ---- one sample ------------------------------------------------------------------------------ */

static void walk_copy(copy_window_t *c, const os_blocked_t *at, sonde_capture_t *capture) {
  uint64_t epoch = walk_epoch(), fp;
  position_t p = {.pc = at->pc, .raw = at->pc, .exact = true, .sp = at->sp};
  capture->flags = 0;
  walk_to_pcs(&c->window, &p, epoch, capture);
  if (capture->mark != SONDE_TORN || capture->reason != SONDE_ENOTFOUND || p.fp_at ||
      !prove(c, &p, &fp))
    return;
  p = (position_t){.pc = at->pc, .raw = at->pc, .exact = true, .sp = at->sp, .fp_value = fp};
  p.fp_at = &p.fp_value;
  capture->flags = SONDE_FLAG_PROVEN;
  walk_to_pcs(&c->window, &p, epoch, capture);
}

/* Where there is no CPU clock for threads, being found at the same place once more is all that can
 * be asked for. */
static bool kept_still(int folder, pid_t tid, int64_t cpu_before, const os_blocked_t *before) {
  if (cpu_before >= 0) return os_thread_cpu_ns(tid) == cpu_before;
  os_blocked_t now;
  return os_thread_blocked(folder, tid, &now) == 0 && memcmp(&now, before, sizeof now) == 0;
}

int blocked_capture(blocked_copy_t *copy, pid_t tid, uint64_t identity, sonde_capture_t *capture) {
  for (int i = 0; i < TRIES; i++) {
    os_blocked_t at;
    kept_key_t key = {tid, identity, os_thread_cpu_ns(tid), os_loader_epoch()};
    bool keep = identity != 0 && key.cpu_ns >= 0 && key.epoch != 0;
    if (keep && kept_find(&key, capture)) return capture->count;
    int r = os_thread_blocked(copy->folder, tid, &at);
    if (r == -EAGAIN) return SONDE_ERUNNING;
    if (r == -ESRCH) return SONDE_ENOTHREAD;
    if (r != 0) return SONDE_EUNSUPPORTED;
    copy_window_t c = copy_from(copy, at.sp);
    walk_copy(&c, &at, capture);
    if (!kept_still(copy->folder, tid, key.cpu_ns, &at)) continue;
    if (keep) kept_store(&key, capture);
    return capture->count;
  }
  return SONDE_ERUNNING;
}
