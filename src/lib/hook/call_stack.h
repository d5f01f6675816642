/* SPDX-License-Identifier: MIT
 *
 * The calls under way of a thread: their memory, and what becomes of those that never return.
 *
 * A thread's state stands at the start of its first block, and only the thread itself changes it,
 * except that a call which ends on another thread (a coroutine that moved) is marked there as over
 * and collected here. Live calls form a list, the newest first; free ones another. While `busy` is
 * set, the thread is between two states of these lists: a signal handler leaves them alone.
 *
 * A call is taken for lost when the thread, on its own stack, makes another one that is not further
 * in. Should that be wrong (a coroutine whose stack lies within the thread's own), the lost call
 * can still return: its memory is not used again before that of 256 others.
 *
 * fork: the child goes on with a copy. The states of threads it did not inherit are left as they
 * are there. Thread exit: nothing is done; the state of a thread that has ended is found and taken
 * over when another thread needs one.
 */
#ifndef SONDE_HOOK_CALL_STACK_H
#define SONDE_HOOK_CALL_STACK_H

#include "hook/trampoline.h"
#include "os/thread_slot.h"

#define CALL_STACK_LOST_KEPT 256u

typedef struct calls call_stack_t;
struct calls {
  uint64_t busy;                  /* the sp of the call that the thread is busy with; 0: none */
  call_t *live;                   /* the newest; the last one is `root` */
  call_t *free;                   /* linked by `outer` */
  uint64_t low, high;             /* the thread's own stack; 0, 0: not known */
  call_t *lost_first, *lost_last; /* the oldest, and the newest; linked by `outer` */
  uint32_t lost_count;
  int32_t tid;        /* of its thread; negative: being taken over */
  uint32_t epoch;     /* of which process in a line of forks */
  call_stack_t *next; /* of all states */
  call_t root;        /* sp: UINT64_MAX */
};

#if defined(__APPLE__)
#define call_stack_own ((call_stack_t *)os_thread_slot(SLOT_CALL_STACK))
#else
extern __thread call_stack_t *call_stack_own SLOT_MODEL;
#endif
extern HIDDEN uint64_t calls_missed;

/* Reserves the memory of all calls. False when there is none. */
bool call_stack_init(void);

/* The calling thread's state for a call that leaves SP behind, made when it has none, freed when a
 * handler has jumped out of it. NULL when it is busy, or when there is no memory; the call is
 * counted as missed then. */
call_stack_t *call_stack_enter(uint64_t sp);

/* More free calls. False: there is no memory. */
bool call_stack_more(call_stack_t *own);

/* Ends those of the newest calls that cannot return, now that the thread has one at SP: SELF is not
 * among them. */
void call_stack_drop_lost(call_stack_t *own, uint64_t sp, const call_t *self);

/* A call ends that is not the thread's newest, or on another thread, or while that is busy. */
void call_stack_end_of(call_t *call, call_end_t end);

static ALWAYS_INLINE void call_stack_tell(call_t *call, call_end_t end) {
  const trampoline_handlers_t *calls = load_relaxed(&call->trampoline->calls);
  if (LIKELY(calls != NULL)) calls->after(call, end);
}

/* What a call is of. `data` is left to who asked for it. */
static ALWAYS_INLINE void call_stack_fill(call_t *call, const trampoline_t *t, uint64_t sp,
                                          uint64_t fp, uint64_t return_address) {
  call->caller_fp = fp;
  call->return_address = return_address;
  call->trampoline = t;
  call->sp = sp;
}

/* CALL, the first free one, becomes the newest one. */
static ALWAYS_INLINE void call_stack_push(call_stack_t *own, call_t *call) {
  call_t *outer = own->live;
  own->free = call->outer;
  call->outer = outer;
  outer->inner = call;
  own->live = call;
}

/* Takes the newest call off. */
static ALWAYS_INLINE void call_stack_pop(call_stack_t *own) {
  call_t *call = own->live;
  own->live = call->outer;
  call->outer = own->free;
  own->free = call;
}

#endif
