/* SPDX-License-Identifier: MIT
 *
 * The state that a thread keeps for capturing itself: the verified part of its stack, and the frame
 * cache (capture/frame_cache.h). At most 16 KB a thread, mapped at its first capture.
 *
 * Only the thread itself touches its state, through one initial-exec pointer of 8 bytes. A capture
 * that interrupts another capture of the same thread (a signal between any two instructions) finds
 * the state busy and works without it. If a handler jumped out of a capture, the state stays busy;
 * the next capture recognizes that by the stack, which has been unwound past the old one, and takes
 * the state over.
 *
 * fork: a child inherits the state, which remains valid there, even under a capture whose handler
 * forked. But the thread has another tid. So the owner words are separate from the states, in
 * memory that is zero in a child. The first capture in the child claims the state again. A vfork
 * child runs on its parent's state while the parent waits.
 *
 * Thread exit: nothing is done, since frees still follow the last destructor. A thread that needs a
 * state reuses the state of a thread that has ended.
 */
#ifndef SONDE_CAPTURE_THREAD_STATE_H
#define SONDE_CAPTURE_THREAD_STATE_H

#include "os/thread_slot.h"
#include "capture/frame_cache.h"
#include "capture/walk.h"

#define THREAD_STATE_BYTES 16384

typedef struct capture_thread capture_thread_t;
struct capture_thread {
  /* A tid; 0: inherited over fork; negative: being initialized. */
  int32_t *owner;
  /* The stack pointer of the running capture; 0: none. */
  uint64_t busy;
  /* The verified part of the stack of the last capture. */
  stack_window_t window;
  /* In the list of all states. */
  capture_thread_t *next;
  /* The Python frames of the last captures, of frequent and of rare events
   * (capture/python/python_event.h); NULL: none yet. */
  struct python_chain_cache *python[2];
  frame_cache_t cache;
};

_Static_assert(sizeof(capture_thread_t) <= THREAD_STATE_BYTES,
               "a thread's state has outgrown its bound");

#if defined(SLOT_BY_CALL)
#define thread_state_current ((capture_thread_t *)os_thread_slot(SLOT_THREAD_STATE))
#else
extern __thread capture_thread_t *thread_state_current SLOT_MODEL;
#endif

static ALWAYS_INLINE void thread_state_leave(capture_thread_t *self) {
  SONDE_ASSERT(self->window.lo <= self->window.hi && frame_cache_is_valid(&self->cache));
  signal_fence();
  self->busy = 0;
}

/* Returns the calling thread's state if it exists and is not busy; otherwise NULL. */
static ALWAYS_INLINE capture_thread_t *thread_state_idle(void) {
  capture_thread_t *self = thread_state_current;
  return LIKELY(self && *self->owner > 0 && !self->busy) ? self : NULL;
}

/* Claims the calling thread's state for a capture that starts at SP. Returns NULL if it is busy (a
 * signal handler within a capture) or memory is exhausted. */
NOINLINE capture_thread_t *thread_state_enter_slow(uint64_t sp);
static ALWAYS_INLINE capture_thread_t *thread_state_enter(uint64_t sp) {
  capture_thread_t *self = thread_state_idle();
  if (UNLIKELY(!self || !stack_window_holds(&self->window, sp))) return thread_state_enter_slow(sp);
  self->busy = sp;
  signal_fence();
  return self;
}

#endif
