/* SPDX-License-Identifier: MIT */
#include "hook/call_stack.h"

#include "arch/keep.h"
#include "capture/walk.h"
#include "os/os.h"

/* The arena is this far below memory that the kernel has placed: below the stacks of threads, so
 * that the slots of a frame cache ascend even with calls. The kernel's choice is random. At a
 * constant address the arena would lie where a program may place memory with MAP_FIXED. */
#define ARENA_BELOW   (UINT64_C(1) << 38)
#define BLOCK_BYTES   4096u
#define FREED_AT_ONCE 64u

SLOT_HERE(call_stack_t, call_stack_own);
uint64_t calls_missed;

static uint64_t arena, arena_used; /* its address; bytes of it allocated */
static call_stack_t *all, *hand;   /* every state; the next one to examine for reuse */
static uint32_t *inherited;        /* 0 in a child of fork that has not detected the fork yet */
static uint32_t epoch;             /* forks detected */

_Static_assert(sizeof(call_stack_t) % 64 == 0 || sizeof(call_stack_t) < BLOCK_BYTES / 4,
               "in a block");

bool call_stack_init(void) {
  if (load_acquire(&arena)) return true;
  uint32_t *word = os_map(BLOCK_BYTES);
  if (!word) return false;
  uint64_t none = 0, at = (uint64_t)(uintptr_t)word - ARENA_BELOW;
  uint64_t fresh = (uint64_t)(uintptr_t)os_map_at(at, CALLS_BYTES);
  if (!fresh) fresh = (uint64_t)(uintptr_t)os_map(CALLS_BYTES);
  if (!fresh) return false;
  *word = 1;
  (void)os_wipe_on_fork(word, BLOCK_BYTES);
  store_release(&inherited, word);
  if (cas_acq_rel(&arena, &none, fresh))
    walk_know_calls(fresh);
  else
    os_unmap((void *)(uintptr_t)fresh, CALLS_BYTES);
  return true;
}

uint64_t call_stack_states(void) { return (uint64_t)(uintptr_t)&all; }

static void *alloc_block(void) {
  uint64_t at = add_relaxed(&arena_used, BLOCK_BYTES);
  if (!arena || at + BLOCK_BYTES > CALLS_BYTES) return NULL;
  return (void *)(uintptr_t)(arena + at);
}

/* ---- a thread's state ----------------------------------------------------------------------- */

/* Adds the calls from FIRST up to END to the free ones of OWN. */
static void add_free(call_stack_t *own, call_t *first, const void *end) {
  for (call_t *call = first; (const void *)(call + 1) <= end; call++) {
    call->owner = own;
    call->outer = own->free;
    own->free = call;
  }
}

static void set_up(call_stack_t *own, int32_t tid) {
  own->busy = 0;
  own->root.sp = UINT64_MAX;
  if (!own->live) own->live = &own->root;
  if (!os_thread_stack(&own->low, &own->high)) own->low = own->high = 0;
  own->epoch = epoch;
  store_release(&own->tid, tid);
}

static void detect_fork(void) {
  uint32_t none = 0;
  if (cas_acq_rel(inherited, &none, 1u)) add_relaxed(&epoch, 1);
}

/* Frees the calls of an ended thread; they cannot return, except coroutines with their own stacks.
 */
static void collect(call_stack_t *own) {
  for (call_t *call = own->live, *outer; call != &own->root; call = outer) {
    outer = call->outer;
    if (load_acquire(&call->sp) - own->low >= own->high - own->low && call->sp) continue;
    if (call == own->live)
      own->live = outer;
    else
      call->inner->outer = outer;
    outer->inner = call->inner;
    call->outer = own->free;
    own->free = call;
  }
}

static call_stack_t *reuse(int32_t tid) {
  call_stack_t *at = load_acquire(&hand);
  for (int i = 0; i < 4; i++) {
    if (!at) at = load_acquire(&all);
    if (!at) return NULL;
    call_stack_t *next = at->next;
    store_release(&hand, next);
    int32_t owner = load_acquire(&at->tid);
    if (owner > 0 && at->epoch == epoch && !os_thread_alive(owner) &&
        cas_acq_rel(&at->tid, &owner, -tid)) {
      collect(at);
      return at;
    }
    at = next;
  }
  return NULL;
}

static call_stack_t *make(int32_t tid) {
  call_stack_t *own = alloc_block();
  if (!own) return NULL;
  own->tid = -tid;
  add_free(own, (call_t *)(own + 1), (const uint8_t *)own + BLOCK_BYTES);
  call_stack_t *head = load_acquire(&all);
  do
    own->next = head;
  while (!cas_acq_rel(&all, &head, own));
  return own;
}

static void create(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  (void)a, (void)b, (void)c, (void)d;
  int32_t tid = os_tid();
  if (!call_stack_init()) return;
  detect_fork();
  call_stack_t *own = reuse(tid);
  if (!own) own = make(tid);
  if (!own) return;
  set_up(own, tid);
  SLOT_SET(call_stack_own, SLOT_CALL_STACK, own);
}

/* ---- rare cases ---------------------------------------------------------------------------- */

static bool is_own_stack(const call_stack_t *own, uint64_t sp) {
  return sp - own->low < own->high - own->low;
}

static call_t *miss(void) {
  add_relaxed(&calls_missed, 1);
  return NULL;
}

static call_stack_t *own_state(void) {
  if (!call_stack_own) arch_call_keeping(0, 0, 0, 0, create);
  return call_stack_own;
}

call_stack_t *call_stack_enter(uint64_t sp) {
  call_stack_t *own = own_state();
  if (!own) return (call_stack_t *)miss();
  if (!own->busy) return own;
  /* If the stack has been unwound past the busy call, a handler has jumped out of it. Where that is
   * not certain, the thread is still busy. */
  if (!is_own_stack(own, sp) || !is_own_stack(own, own->busy) || sp <= own->busy)
    return (call_stack_t *)miss();
  own->busy = 0;
  return own;
}

static void alloc_more(uint64_t state, uint64_t b, uint64_t c, uint64_t d) {
  call_stack_t *own = (call_stack_t *)(uintptr_t)state;
  (void)b, (void)c, (void)d;
  call_t *block = alloc_block();
  if (block) add_free(own, block, (const uint8_t *)block + BLOCK_BYTES);
}

bool call_stack_is_used(uint64_t patience_ns) {
  const uint32_t never = 0;
  uint64_t deadline_ns = os_monotonic_ns() + patience_ns;
  os_barrier(); /* a thread that has not seen that there are no handlers is now seen busy */
  for (const call_stack_t *own = load_acquire(&all); own; own = own->next) {
    int32_t tid = load_acquire(&own->tid);
    if (tid > 0 && !os_thread_alive(tid)) continue;
    while (load_acquire(&own->busy) && os_monotonic_ns() < deadline_ns)
      (void)os_futex_wait(&never, 0, 100000);
    if (load_acquire(&own->busy) || load_acquire(&own->live) != &own->root) return true;
  }
  return false;
}

bool call_stack_more(call_stack_t *own) {
  if (own->lost_count > CALL_STACK_LOST_KEPT) {
    for (uint32_t i = 0; i < FREED_AT_ONCE; i++) {
      call_t *call = own->lost_first;
      own->lost_first = call->outer;
      call->outer = own->free;
      own->free = call;
    }
    own->lost_count -= FREED_AT_ONCE;
    return true;
  }
  arch_call_keeping((uint64_t)(uintptr_t)own, 0, 0, 0, alloc_more);
  if (own->free) return true;
  miss();
  return false;
}

static void add_lost(call_stack_t *own, call_t *call) {
  call->sp = 0; /* marks it, in case it returns after all */
  call->outer = NULL;
  if (own->lost_count++)
    own->lost_last->outer = call;
  else
    own->lost_first = call;
  own->lost_last = call;
}

void call_stack_drop_lost(call_stack_t *own, uint64_t sp, const call_t *self) {
  for (;;) {
    call_t *call = own->live;
    uint64_t was = load_acquire(&call->sp);
    if (call == self || was > sp) return;
    if (was == 0) { /* it ended on another thread */
      call_stack_pop(own);
      continue;
    }
    if (!is_own_stack(own, sp) || !is_own_stack(own, was)) return;
    own->live = call->outer;
    call_stack_notify(call, CALL_LOST);
    add_lost(own, call);
  }
}

static void unlink_call(call_stack_t *own, call_t *call) {
  if (call != own->live) {
    call->inner->outer = call->outer;
    call->outer->inner = call->inner;
    call->outer = own->free;
    own->free = call;
  } else {
    call_stack_pop(own);
  }
}

void call_stack_end_call(call_t *call, call_end_t end) {
  call_stack_t *own = own_state();
  if (call->sp == 0) return; /* already reported as lost; it stays in its list */
  if (!own || own->busy) {
    miss();
    store_release(&call->sp, 0);
    return;
  }
  own->busy = call->sp;
  signal_fence();
  if (own == call->owner) call_stack_drop_lost(own, call->sp, call);
  call_stack_notify(call, end);
  if (own == call->owner)
    unlink_call(own, call);
  else
    store_release(&call->sp, 0);
  signal_fence();
  own->busy = 0;
}
