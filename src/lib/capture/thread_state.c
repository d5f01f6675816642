/* SPDX-License-Identifier: MIT */
#include "capture/thread_state.h"
#include "os/os.h"

#define PAGE           4096u
#define REACH_MAX      (64u << 20) /* no frame is larger: beyond lies garbage */
#define OVERFLOW_PAGES 16          /* by which a frame may have overshot the end of its stack */
#define ADJACENT_MAX   (64u << 10) /* the stack grew by less than this between two captures */

SLOT_HERE(capture_thread_t, thread_state_current);
static capture_thread_t *all;  /* every state ever made; only ever pushed to */
static capture_thread_t *hand; /* where the last search for a reusable one stopped */

/* ---- the window ----------------------------------------------------------------------------- */

static bool probe(uint64_t from, uint64_t to) {
  for (uint64_t page = from; page < to; page += PAGE)
    if (!os_readable(page)) return false;
  return true;
}

static bool reach_own(stack_window_t *w, uint64_t address) {
  if (address < w->hi || address % 8 || address - w->hi > REACH_MAX) return false;
  uint64_t end = ALIGN_DOWN(address, PAGE) + PAGE;
  if (!probe(w->hi, end)) return false;
  w->hi = end;
  return true;
}

static bool move_own(stack_window_t *w, uint64_t sp) {
  uint64_t page = ALIGN_DOWN(sp - 8, PAGE);
  /* Of a stack that overflowed, SP itself may lie in the guard below. */
  for (int i = 0; i <= OVERFLOW_PAGES; i++, page += PAGE) {
    if (!os_readable(page)) continue;
    w->lo = page;
    w->hi = page + PAGE;
    return true;
  }
  return false;
}

stack_window_t thread_state_window(void) {
  return (stack_window_t){.reach = reach_own, .move = move_own};
}

/* Makes the state's window hold SP, or starts a new one and forgets what was cached of the old. A
 * handler on the alternate signal stack leaves the window where it is: on the stack that the signal
 * interrupted, where the walk will soon arrive. */
static NOINLINE void move_window(capture_thread_t *self, uint64_t sp) {
  stack_window_t *w = &self->window;
  uint64_t page = ALIGN_DOWN(sp - 8, PAGE);
  if (page < w->lo && w->lo - page <= ADJACENT_MAX && probe(page, w->lo)) {
    w->lo = page;
    return;
  }
  if (os_on_signal_stack(sp)) return;
  frame_cache_clear(&self->cache);
  *w = thread_state_window();
  w->move(w, sp);
}

/* ---- the state ------------------------------------------------------------------------------ */

static void set_up(capture_thread_t *self, int32_t tid) {
  self->busy = 0;
  self->window = thread_state_window();
  frame_cache_clear(&self->cache);
  predictor_init(&self->cache.tips);
  signal_fence();
  store_release(self->owner, tid);
}

/* A state whose thread has ended, now ours; NULL when none was found among the next few. The search
 * goes round like the hand of a clock, so that a thread's first capture costs the same among ten
 * thousand threads as among ten. */
static capture_thread_t *reuse(int32_t tid) {
  capture_thread_t *self = load_acquire(&hand);
  for (int i = 0; i < 8; i++) {
    if (!self) self = load_acquire(&all);
    if (!self) return NULL;
    int32_t owner = load_relaxed(self->owner);
    store_release(&hand, self->next);
    if (owner > 0 && !os_thread_alive(owner) && cas_acq_rel(self->owner, &owner, -tid)) return self;
    self = self->next;
  }
  return NULL;
}

#define OWNERS_BITS 10 /* a page of them */

static int32_t *owners[1024];
static uint32_t owner_count;

/* A word that is 0 in every child of fork; NULL when there is no memory. */
static int32_t *make_owner(void) {
  uint32_t n = add_relaxed(&owner_count, 1), block = n >> OWNERS_BITS;
  if (block >= ARRAY_COUNT(owners)) return NULL;
  int32_t *words = load_acquire(&owners[block]), *none = NULL;
  if (!words) {
    const size_t size = sizeof *words << OWNERS_BITS;
    words = os_map(size);
    if (!words) return NULL;
    os_wipe_on_fork(words, size);
    if (!cas_acq_rel(&owners[block], &none, words)) {
      os_unmap(words, size);
      words = none;
    }
  }
  return &words[n & ((1u << OWNERS_BITS) - 1)];
}

static capture_thread_t *make(int32_t tid) {
  int32_t *owner = make_owner();
  capture_thread_t *self = owner ? os_map(THREAD_STATE_BYTES) : NULL;
  if (!self) return NULL;
  self->owner = owner;
  store_release(owner, -tid);
  capture_thread_t *head = load_acquire(&all);
  do
    self->next = head;
  while (!cas_acq_rel(&all, &head, self));
  return self;
}

/* In a child of fork, the states of the threads that it did not inherit may be reused. That has to
 * wait for this: until then nobody else knows which state is ours. */
static void claim_in_child(capture_thread_t *own, int32_t tid) {
  store_release(own->owner, tid);
  for (capture_thread_t *self = load_acquire(&all); self; self = self->next) {
    int32_t none = 0;
    (void)cas_acq_rel(self->owner, &none, INT32_MAX); /* the tid of no thread */
  }
}

static NOINLINE capture_thread_t *self_create(void) {
  if (!frame_table_init()) return NULL;
  int32_t tid = os_tid();
  capture_thread_t *self = thread_state_current;
  if (self) {
    claim_in_child(self, tid);
    return self;
  }
  self = reuse(tid);
  if (!self) self = make(tid);
  if (!self) return NULL;
  set_up(self, tid);
  SLOT_SET(thread_state_current, SLOT_THREAD_STATE, self);
  return self;
}

/* Is the capture that left the state busy still under way beneath this one? A handler on the
 * alternate signal stack may stand anywhere, within the bounds of the stack it interrupted too.
 * When both are on one stack, it is as long as we are further in. On different stacks it is, unless
 * it was on the alternate signal stack and we are not. */
static NOINLINE bool still_busy(const capture_thread_t *self, uint64_t sp) {
  const stack_window_t *w = &self->window;
  os_stack_side_t side = os_stack_side(self->busy, sp);
  if (side != OS_STACK_SAME) return side == OS_STACK_BENEATH;
  return sp < w->lo || sp >= w->hi || sp < self->busy;
}

capture_thread_t *thread_state_enter_slow(uint64_t sp) {
  capture_thread_t *self = thread_state_current;
  if (UNLIKELY(!self || *self->owner <= 0)) {
    self = self_create();
    if (!self) return NULL;
  }
  if (UNLIKELY(self->busy && still_busy(self, sp))) return NULL;
  self->busy = sp;
  signal_fence();
  if (UNLIKELY(!stack_window_holds(&self->window, sp))) move_window(self, sp);
  return self;
}
