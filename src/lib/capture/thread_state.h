/* SPDX-License-Identifier: MIT
 *
 * The state that a thread keeps for capturing itself: the verified part of its stack, and the frame
 * cache (capture/frame_cache.h). At most 16 KB a thread, mapped at its first capture.
 *
 * Only the thread itself touches its state, through one initial-exec pointer of 8 bytes. A capture
 * that interrupts another one of the same thread (a signal between any two instructions) finds the
 * state busy and does without it. A state left busy by a handler that jumped out of a capture is
 * recognised, because the stack has been unwound past it, and taken over.
 *
 * fork: a child inherits the state, and all of it still holds there, under a capture that a handler
 * forked in too; but the thread has another tid. So the words that say whose a state is are kept
 * apart, in memory that is zero in a child, and the first capture there claims the state again. A
 * vfork child runs on its parent's state while the parent waits. Thread exit: nothing is done,
 * since frees still follow the last destructor; the state of a thread that has ended is found and
 * reused when another thread needs one.
 */
#ifndef SONDE_CAPTURE_THREAD_STATE_H
#define SONDE_CAPTURE_THREAD_STATE_H

#include "os/thread_slot.h"
#include "capture/frame_cache.h"
#include "capture/walk.h"

#define THREAD_STATE_BYTES 16384

typedef struct capture_thread capture_thread_t;
struct capture_thread {
  int32_t *owner; /* a tid; 0: the thread that forked us, if anybody; negative: being set up */
  uint64_t busy;  /* the stack pointer of the capture under way; 0: none */
  stack_window_t window;  /* the verified part of the stack it last captured on */
  capture_thread_t *next; /* in the list of all states */
  frame_cache_t cache;
};

_Static_assert(sizeof(capture_thread_t) <= THREAD_STATE_BYTES,
               "a thread's state has outgrown its bound");

#if defined(__APPLE__)
#define thread_state_current ((capture_thread_t *)os_thread_slot(SLOT_THREAD_STATE))
#else
extern __thread capture_thread_t *thread_state_current SLOT_MODEL;
#endif

static ALWAYS_INLINE void thread_state_leave(capture_thread_t *self) {
  signal_fence();
  self->busy = 0;
}

/* The calling thread's state when it is there and not busy, else NULL. */
static ALWAYS_INLINE capture_thread_t *thread_state_idle(void) {
  capture_thread_t *self = thread_state_current;
  return LIKELY(self && *self->owner > 0 && !self->busy) ? self : NULL;
}

/* Claims the calling thread's state for a capture that starts at SP. NULL when there is none to be
 * had: it is busy (a signal handler within a capture) or there is no memory. */
NOINLINE capture_thread_t *thread_state_enter_slow(uint64_t sp);
static ALWAYS_INLINE capture_thread_t *thread_state_enter(uint64_t sp) {
  capture_thread_t *self = thread_state_idle();
  if (UNLIKELY(!self || !stack_window_holds(&self->window, sp))) return thread_state_enter_slow(sp);
  self->busy = sp;
  signal_fence();
  return self;
}

#endif
