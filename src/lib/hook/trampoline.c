/* SPDX-License-Identifier: MIT
 *
 * Before and after a call. This code runs while vector registers contain the program's values: this
 * file and call_stack.c are compiled for general registers only, and call other code through
 * arch_call_keeping.
 */
#include "hook/trampoline.h"

#include "hook/call_stack.h"
#include "os/os.h"

HIDDEN trampoline_t trampolines[TRAMPOLINE_COUNT];

/* The trampoline of a tail-called function whose `before` returned false. */
static trampoline_t no_handlers;

/* ---- the table ------------------------------------------------------------------------------ */

#define BUCKETS (TRAMPOLINE_COUNT * 2)

static uint32_t used;
static uint64_t table_keys[TRAMPOLINE_COUNT];
static uint16_t buckets[BUCKETS]; /* index + 1 of a trampoline, hashed by its key */

const char *trampoline_ready(void) {
  if (os_shadow_stack())
    return "this thread has a hardware shadow stack: a return address must not be moved";
  if (!call_stack_init()) return "no memory for the calls under way";
  return NULL;
}

static uint32_t bucket_of(uint64_t function) {
  return (uint32_t)(function * 0x9e3779b97f4a7c15u >> 40) % BUCKETS;
}

trampoline_t *trampoline_new(uint64_t function) {
  uint32_t fresh = 0;
  for (uint32_t at = bucket_of(function);; at = (at + 1) % BUCKETS) {
    uint16_t number = load_acquire(&buckets[at]);
    if (!number) {
      if (!fresh) {
        fresh = add_relaxed(&used, 1) + 1;
        if (fresh > TRAMPOLINE_COUNT) {
          store_relaxed(&used, TRAMPOLINE_COUNT);
          return NULL;
        }
        trampolines[fresh - 1].target = trampolines[fresh - 1].function = function;
        table_keys[fresh - 1] = function;
      }
      if (cas_acq_rel(&buckets[at], &number, (uint16_t)fresh)) number = (uint16_t)fresh;
    }
    if (table_keys[number - 1] == function) return &trampolines[number - 1];
  }
}

trampoline_t *trampoline_find(uint64_t function) {
  for (uint32_t at = bucket_of(function);; at = (at + 1) % BUCKETS) {
    uint16_t number = load_acquire(&buckets[at]);
    if (!number) return NULL;
    if (table_keys[number - 1] == function) return &trampolines[number - 1];
  }
}

void trampolines_retire(const trampoline_handlers_t *calls) {
  for (uint32_t i = 0; i < load_relaxed(&used) && i < TRAMPOLINE_COUNT; i++)
    if (load_relaxed(&trampolines[i].calls) == calls) trampoline_set(&trampolines[i], NULL);
}

bool trampoline_exists(void) { return load_relaxed(&used) != 0; }

uint64_t trampoline_thunk(const trampoline_t *trampoline) {
  uint64_t number = (uint64_t)(trampoline - trampolines);
  return trampoline_address(TRAMPOLINE_THUNKS) + number * TRAMPOLINE_THUNK_BYTES;
}

const call_t *trampoline_innermost(void) {
  const call_stack_t *own = call_stack_own;
  return own && own->live != &own->root ? own->live : NULL;
}

/* ---- a call --------------------------------------------------------------------------------- */

call_t *trampoline_before(trampoline_t *t, uint64_t sp, uint64_t fp, uint64_t return_address,
                          const uint64_t *arguments) HIDDEN;
void trampoline_after(call_t *call, const uint64_t *results) HIDDEN;

/* TRAMPOLINE_ENTRY_ONLY. */
static void call_before_only(const trampoline_t *t, const trampoline_handlers_t *calls, uint64_t sp,
                             uint64_t fp, uint64_t return_address, const uint64_t *arguments) {
  call_t call;
  call.caller_fp = fp;
  call.return_address = return_address;
  call.trampoline = t;
  call.sp = sp;
  call.data = 0;
  call.outer = call.inner = NULL;
  call.owner = call_stack_own;
  (void)calls->before(&call, arguments);
}

/* True for a call that the trampoline of an import has reported to the same user. */
static bool was_reported(const call_t *call, const trampoline_t *t) {
  return call->trampoline->calls == t->calls && call->trampoline->data == t->data &&
         (t->flags & TRAMPOLINE_INSIDE) && !(call->trampoline->flags & TRAMPOLINE_INSIDE) &&
         call->trampoline->function == t->function;
}

/* The newest call has tail-called another hooked function, which replaces it. */
static call_t *replace_call(call_t *call, const trampoline_t *t, const trampoline_handlers_t *calls,
                            const uint64_t *arguments) {
  if (was_reported(call, t)) return NULL;
  call_stack_notify(call, CALL_TAIL);
  call->trampoline = t;
  if (calls->before(call, arguments)) return call;
  call->trampoline = &no_handlers;
  return NULL;
}

/* Adds the thread's newest call. */
static ALWAYS_INLINE call_t *push(call_stack_t *own, const trampoline_t *t,
                                  const trampoline_handlers_t *calls, uint64_t sp, uint64_t fp,
                                  uint64_t return_address, const uint64_t *arguments) {
  call_t *call = own->free;
  call_stack_fill(call, t, sp, fp, return_address);
  call_stack_push(own, call);
  if (LIKELY(calls->before(call, arguments))) return call;
  call_stack_pop(own);
  return NULL;
}

/* True if CALL, the newest one, has just entered T as its target. */
static bool is_target(const call_t *call, const trampoline_t *t) {
  const trampoline_t *outer = call->trampoline;
  if (!(t->flags & TRAMPOLINE_INSIDE)) return outer->target == trampoline_thunk(t);
  if (outer->flags & TRAMPOLINE_INSIDE)
    return outer->function == t->function &&
           outer->flags >> TRAMPOLINE_DEPTH_SHIFT == (t->flags >> TRAMPOLINE_DEPTH_SHIFT) + 1;
  return outer->target == t->function && !was_reported(call, t);
}

static call_t *begin(call_stack_t *own, const trampoline_t *t, const trampoline_handlers_t *calls,
                     uint64_t sp, uint64_t fp, uint64_t return_address, const uint64_t *arguments) {
  if (own->live->sp <= sp) {
    call_t *newest = own->live;
    if (newest->sp == sp && fp == (uint64_t)(uintptr_t)newest &&
        return_address == trampoline_address(TRAMPOLINE_RETURN)) {
      if (!is_target(newest, t)) return replace_call(newest, t, calls, arguments);
    } else {
      call_stack_drop_lost(own, sp, NULL);
    }
  }
  if (!own->free && !call_stack_more(own)) return NULL;
  return push(own, t, calls, sp, fp, return_address, arguments);
}

NOINLINE call_t *trampoline_enter_slow(const trampoline_t *t, uint64_t sp, uint64_t fp,
                                       uint64_t return_address, const uint64_t *arguments,
                                       const trampoline_handlers_t *calls) {
  call_stack_t *own = call_stack_enter(sp);
  call_t *call = NULL;
  if (!own) return NULL;
  own->busy = sp;
  signal_fence();
  if (t->flags & TRAMPOLINE_ENTRY_ONLY)
    call_before_only(t, calls, sp, fp, return_address, arguments);
  else
    call = begin(own, t, calls, sp, fp, return_address, arguments);
  signal_fence();
  own->busy = 0;
  return call;
}

/* Rare cases are separate functions, so that the usual call saves only two registers. */
static NOINLINE call_t *enter_usual(const trampoline_t *t, uint64_t sp, uint64_t fp,
                                    uint64_t return_address, const uint64_t *arguments,
                                    const trampoline_handlers_t *calls) {
  call_stack_t *own = call_stack_own;
  if (UNLIKELY(!own || own->busy || (t->flags & TRAMPOLINE_ENTRY_ONLY)))
    return trampoline_enter_slow(t, sp, fp, return_address, arguments, calls);
  own->busy = sp;
  signal_fence();
  if (UNLIKELY(own->live->sp <= sp || !own->free)) {
    own->busy = 0;
    return trampoline_enter_slow(t, sp, fp, return_address, arguments, calls);
  }
  call_t *call = push(own, t, calls, sp, fp, return_address, arguments);
  signal_fence();
  own->busy = 0;
  return call;
}

__attribute__((used)) call_t *trampoline_before(trampoline_t *t, uint64_t sp, uint64_t fp,
                                                uint64_t return_address,
                                                const uint64_t *arguments) {
  const trampoline_handlers_t *calls = load_acquire(&t->calls);
  if (UNLIKELY(!calls)) return NULL;
  if (calls->enter) return calls->enter(t, sp, fp, return_address, arguments, calls);
  return enter_usual(t, sp, fp, return_address, arguments, calls);
}

NOINLINE void trampoline_leave_slow(call_t *call) {
  call_stack_t *own = call_stack_own;
  if (UNLIKELY(!own || own->live != call || own->busy)) {
    call_stack_end_call(call, CALL_RETURNED);
    return;
  }
  own->busy = call->sp;
  signal_fence();
  call_stack_notify(call, CALL_RETURNED);
  call_stack_pop(own);
  signal_fence();
  own->busy = 0;
}

__attribute__((used)) void trampoline_after(call_t *call, const uint64_t *results) {
  const trampoline_handlers_t *calls = load_relaxed(&call->trampoline->calls);
  if (LIKELY(calls && calls->leave))
    calls->leave(call, results);
  else
    trampoline_leave_slow(call);
}
