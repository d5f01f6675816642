/* SPDX-License-Identifier: MIT
 *
 * Making, reusing and claiming thread states, and moving their windows.
 */
#include "capture/thread_state.h"
#include "os/os.h"

/* Limit of the stack's growth between two captures for which the window is extended. */
#define ADJACENT_MAX (64u << 10)

SLOT_HERE(capture_thread_t, thread_state_current);
/* Every state ever made. States are only ever added. */
static capture_thread_t *all_states;
/* Where the last search for a reusable state stopped. */
static capture_thread_t *next_candidate;

/* ---- the window ----------------------------------------------------------------------------- */

/* Makes the state's window hold SP, or starts a new window and clears the cache. For a handler on
 * the alternate signal stack the window stays on the interrupted stack, which the walk will soon
 * reach. */
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

/* Claims a state whose thread has ended. Returns NULL if there is none among the next few. The
 * search continues where the last one stopped, so a thread's first capture costs the same with ten
 * thousand threads as with ten. */
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

/* One page of words. */
#define OWNERS_BITS 10

static int32_t *owners[1024];
static uint32_t owner_count;

/* Returns a word that is 0 in every forked child; NULL if memory is exhausted. */
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

/* In a forked child, the states of the threads that it did not inherit become reusable. That must
 * not happen earlier: until now no other thread knows which state belongs to this one. */
static void claim_in_child(capture_thread_t *own, int32_t tid) {
  store_release(own->owner, tid);
  for (capture_thread_t *self = load_acquire(&all_states); self; self = self->next) {
    int32_t none = 0;
    (void)cas_acq_rel(self->owner, &none, INT32_MAX); /* No thread has this tid. */
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

/* True if the capture that left the state busy still runs beneath this one. A handler on the
 * alternate signal stack may have any SP, also within the bounds of the interrupted stack. If both
 * captures are on one stack, the earlier one still runs while SP is further in. On different stacks
 * it still runs, unless it was on the alternate signal stack and this one is not. */
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
