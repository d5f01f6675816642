/* SPDX-License-Identifier: MIT */
#include "capture/thread_state.h"
#include "os/os.h"

#define ADJACENT_MAX (64u << 10) /* the stack grew by less than this between two captures */

SLOT_HERE(capture_thread_t, thread_state_current);
static capture_thread_t *all_states;     /* every state ever made; only ever pushed to */
static capture_thread_t *next_candidate; /* where the last search for a reusable one stopped */

/* ---- the window ----------------------------------------------------------------------------- */

/* Makes the state's window hold SP, or starts a new one and forgets what was cached of the old. A
 * handler on the alternate signal stack leaves the window where it is: on the stack that the signal
 * interrupted, where the walk will soon arrive. */
static NOINLINE void move_window(capture_thread_t *self, uint64_t sp) {
  stack_window_t *w = &self->window;
  uint64_t page = ALIGN_DOWN(sp - 8, STACK_WINDOW_PAGE);
  if (page < w->lo && w->lo - page <= ADJACENT_MAX && stack_window_probe(page, w->lo)) {
    w->lo = page;
    return;
  }
  if (os_on_signal_stack(sp)) return;
  frame_cache_clear(&self->cache);
  *w = stack_window_of_process();
  w->move(w, sp);
}

/* ---- the state ------------------------------------------------------------------------------ */

static void set_up(capture_thread_t *self, int32_t tid) {
  self->busy = 0;
  self->window = stack_window_of_process();
  frame_cache_clear(&self->cache);
  predictor_init(&self->cache.predictor);
  signal_fence();
  store_release(self->owner, tid);
}

/* A state whose thread has ended, now ours; NULL when none was found among the next few. The search
 * goes round like the hand of a clock, so that a thread's first capture costs the same among ten
 * thousand threads as among ten. */
static capture_thread_t *reuse_state(int32_t tid) {
  capture_thread_t *self = load_acquire(&next_candidate);
  for (int i = 0; i < 8; i++) {
    if (!self) self = load_acquire(&all_states);
    if (!self) return NULL;
    int32_t owner = load_relaxed(self->owner);
    store_release(&next_candidate, self->next);
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

static capture_thread_t *make_state(int32_t tid) {
  int32_t *owner = make_owner();
  capture_thread_t *self = owner ? os_map(THREAD_STATE_BYTES) : NULL;
  if (!self) return NULL;
  self->owner = owner;
  store_release(owner, -tid);
  capture_thread_t *head = load_acquire(&all_states);
  do
    self->next = head;
  while (!cas_acq_rel(&all_states, &head, self));
  return self;
}

/* In a child of fork, the states of the threads that it did not inherit may be reused. That has to
 * wait for this: until then nobody else knows which state is ours. */
static void claim_in_child(capture_thread_t *own, int32_t tid) {
  store_release(own->owner, tid);
  for (capture_thread_t *self = load_acquire(&all_states); self; self = self->next) {
    int32_t none = 0;
    (void)cas_acq_rel(self->owner, &none, INT32_MAX); /* the tid of no thread */
  }
}

static NOINLINE capture_thread_t *claim_state(void) {
  if (!frame_table_init()) return NULL;
  int32_t tid = os_tid();
  capture_thread_t *self = thread_state_current;
  if (self) {
    claim_in_child(self, tid);
    return self;
  }
  self = reuse_state(tid);
  if (!self) self = make_state(tid);
  if (!self) return NULL;
  set_up(self, tid);
  SLOT_SET(thread_state_current, SLOT_THREAD_STATE, self);
  return self;
}

/* Is the capture that left the state busy still under way beneath this one? A handler on the
 * alternate signal stack may stand anywhere, within the bounds of the stack it interrupted too.
 * When both are on one stack, it is as long as we are further in. On different stacks it is, unless
 * it was on the alternate signal stack and we are not. */
static NOINLINE bool is_nested(const capture_thread_t *self, uint64_t sp) {
  const stack_window_t *w = &self->window;
  os_stack_side_t side = os_stack_side(self->busy, sp);
  if (side != OS_STACK_SAME) return side == OS_STACK_BENEATH;
  return sp < w->lo || sp >= w->hi || sp < self->busy;
}

capture_thread_t *thread_state_enter_slow(uint64_t sp) {
  capture_thread_t *self = thread_state_current;
  if (UNLIKELY(!self || *self->owner <= 0)) {
    self = claim_state();
    if (!self) return NULL;
  }
  if (UNLIKELY(self->busy && is_nested(self, sp))) return NULL;
  self->busy = sp;
  signal_fence();
  if (UNLIKELY(!stack_window_holds(&self->window, sp))) move_window(self, sp);
  return self;
}
