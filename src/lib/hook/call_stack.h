/* SPDX-License-Identifier: MIT
 *
 * The calls in progress of a thread: their memory, and the detection of calls that never return.
 *
 * A thread's state is at the start of its first block. Only the thread itself changes it, with one
 * exception: a call that ends on another thread (a coroutine that moved) is marked as ended there
 * and collected here. Calls in progress form a list, newest first; free entries form another. While
 * `busy` is set, the thread is changing these lists, and a signal handler leaves them alone.
 *
 * A call is lost if the thread, on its own stack, makes another call that is not deeper. If that is
 * wrong (a coroutine whose stack lies within the thread's own), the lost call can still return,
 * because its memory is reused only after 256 other calls were lost.
 *
 * fork: the child continues with a copy; the states of other threads are ignored there. Thread
 * exit: nothing happens; another thread that needs a state reuses that of an ended one.
 */
#ifndef SONDE_HOOK_CALL_STACK_H
#define SONDE_HOOK_CALL_STACK_H

#include "hook/trampoline.h"
#include "os/thread_slot.h"

#define CALL_STACK_LOST_KEPT 256u

typedef struct calls call_stack_t;
struct calls {
  uint64_t busy;                  /* the sp of the call that the thread is processing; 0: none */
  call_t *live;                   /* the newest; the last one is `root` */
  call_t *free;                   /* linked by `outer` */
  uint64_t low, high;             /* the thread's own stack; 0, 0: unknown */
  call_t *lost_first, *lost_last; /* the oldest and the newest; linked by `outer` */
  uint32_t lost_count;
  int32_t tid;        /* of its thread; negative: being claimed by another */
  uint32_t epoch;     /* number of forks before its creation */
  call_stack_t *next; /* the list of all states */
  const uint64_t
      *results; /* for handlers: of the call that ends now, between `leave` and `after` */
  call_t root;  /* sp: UINT64_MAX */
};

#if defined(SLOT_BY_CALL)
#define call_stack_own ((call_stack_t *)os_thread_slot(SLOT_CALL_STACK))
#else
extern __thread call_stack_t *call_stack_own SLOT_MODEL;
#endif
extern HIDDEN uint64_t calls_missed;

/* Reserves the memory of all calls. Returns false on out of memory. */
bool call_stack_init(void);

/* The calling thread's state for a call that leaves SP behind. Creates it if there is none; resets
 * `busy` if a handler has jumped out of the processing. NULL if the thread is busy or on out of
 * memory; then the call is counted as missed. */
call_stack_t *call_stack_enter(uint64_t sp);

/* The address of the pointer to the first state, from which another process can read the calls in
 * progress. */
uint64_t call_stack_states(void);

/* True if a call may be in progress in a thread: its frame is below a frame of the program. Waits
 * up to PATIENCE_NS for a thread that begins or ends a call. No trampoline has handlers any more.
 * Not in a handler. */
bool call_stack_is_used(uint64_t patience_ns);

/* Adds free calls. Returns false on out of memory. */
bool call_stack_more(call_stack_t *own);

/* Ends the newest calls that cannot return because the thread now has a call at SP; not SELF. */
void call_stack_drop_lost(call_stack_t *own, uint64_t sp, const call_t *self);

/* Ends a call that is not the newest of its thread, that belongs to another thread, or whose thread
 * is busy. */
void call_stack_end_call(call_t *call, call_end_t end);

static ALWAYS_INLINE void call_stack_notify(call_t *call, call_end_t end) {
  const trampoline_handlers_t *calls = load_relaxed(&call->trampoline->calls);
  if (LIKELY(calls != NULL)) calls->after(call, end);
}

/* Fills in a call, except for `data`, which belongs to the handlers. */
static ALWAYS_INLINE void call_stack_fill(call_t *call, const trampoline_t *t, uint64_t sp,
                                          uint64_t fp, uint64_t return_address) {
  call->caller_fp = fp;
  call->return_address = return_address;
  call->trampoline = t;
  call->sp = sp;
}

/* Makes CALL, the first free one, the newest one. */
static ALWAYS_INLINE void call_stack_push(call_stack_t *own, call_t *call) {
  call_t *outer = own->live;
  own->free = call->outer;
  call->outer = outer;
  outer->inner = call;
  own->live = call;
}

/* Removes the newest call. */
static ALWAYS_INLINE void call_stack_pop(call_stack_t *own) {
  call_t *call = own->live;
  own->live = call->outer;
  call->outer = own->free;
  own->free = call;
}

#endif
