/* SPDX-License-Identifier: MIT
 *
 * A request slot's state is one word: the phase in the low 3 bits, the use number above. It goes
 *   FREE -> REQUESTED -> CAPTURING -> DONE -> FREE (next use)
 * If the requester gives up, it goes REQUESTED -> FREE, or CAPTURING -> ABANDONED, and the handler
 * then sets it to FREE. Acquire and release on that word order everything else in the slot.
 *
 * The kernel merges a signal with a pending one. So a handler serves not one request but every
 * request to its thread that was made before the signal was delivered. States and thread ids are
 * apart from the stacks, in one kilobyte that is searched quickly.
 *
 * A requester waits for any of its stacks at one futex, which it shares with few other requesters.
 * A handler wakes that futex only if a requester sleeps there. Each stack that arrives wakes the
 * requester, not only the last one. A requester that shares a CPU with the captured thread then
 * continues at once, not at the scheduler's next tick.
 *
 * The signal is blocked while its handler runs, because otherwise handlers could pile up on the
 * thread's stack. A thread in the handler therefore looks like a thread that blocks the signal.
 * Handlers register their thread in `in_handler`, so that requesters can tell the two apart.
 */
#include "capture/signal_capture.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"

enum { FREE, REQUESTED, CAPTURING, DONE, ABANDONED };
#define PHASE_MASK 7u
#define NEXT_USE   8u

/* About the time of an interrupt to another CPU. */
#define SPIN_NS 30000u
/* Interval of the check that the threads still exist. */
#define CHECK_EVERY_NS 5000000u
#define WAKEUPS        16u

typedef struct request_slot {
  uint32_t state;
  pid_t tid;
} request_slot_t;

typedef struct request_data {
  /* The request. */
  int skip, max;
  sonde_async_t async;
  uint32_t wakeup;
  /* The result. */
  int count, status, reason;
  unsigned flags;
  uintptr_t pcs[SIGNAL_CAPTURE_PCS];
} request_data_t;

typedef struct wakeup {
  /* Incremented by each wake; sleepers wait for a change. */
  uint32_t count;
  /* Requesters that sleep here or are about to. */
  uint32_t sleepers;
} wakeup_t;

typedef struct request_pool {
  wakeup_t wakeups[WAKEUPS];
  /* The threads that run the handler. */
  pid_t in_handler[SIGNAL_CAPTURE_SLOTS];
  request_slot_t slots[SIGNAL_CAPTURE_SLOTS];
  request_data_t data[SIGNAL_CAPTURE_SLOTS];
} request_pool_t;

static request_pool_t *the_pool;

static request_pool_t *pool_open(void) {
  request_pool_t *known = load_acquire(&the_pool);
  if (LIKELY(known != NULL)) return known;
  request_pool_t *mine = os_map(sizeof *mine);
  if (mine == NULL) return NULL;
  (void)os_wipe_on_fork(mine, sizeof *mine); /* A child has no pending requests. */
  if (cas_acq_rel(&the_pool, &known, mine)) return mine;
  os_unmap(mine, sizeof *mine);
  return known;
}

static uint32_t in_phase(uint32_t state, uint32_t phase) { return (state & ~PHASE_MASK) | phase; }

static bool change_state(request_slot_t *slot, uint32_t from, uint32_t to) {
  return cas_acq_rel(&slot->state, &from, to);
}

static void set_free(request_slot_t *slot, uint32_t state) {
  store_release(&slot->state, in_phase(state, FREE) + NEXT_USE);
}

/* ---- in the signaled thread ----------------------------------------------------------------- */

/* The count and the number of sleepers are sequentially consistent: a sleeper is either seen here,
 * or sees the changed count before it sleeps. */
static void wake(wakeup_t *wakeup) {
  (void)__atomic_fetch_add(&wakeup->count, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&wakeup->sleepers, __ATOMIC_SEQ_CST) != 0)
    (void)os_futex_wake(&wakeup->count, INT32_MAX);
}

static void serve_request(request_pool_t *pool, int index, uint32_t requested,
                          const void *ucontext) {
  request_slot_t *slot = &pool->slots[index];
  request_data_t *data = &pool->data[index];
  uint32_t capturing = in_phase(requested, CAPTURING);
  if (!change_state(slot, requested, capturing)) return;
  sonde_capture_t capture = {.pcs = data->pcs,
                             .max = data->max,
                             .skip = data->skip,
                             .async = data->async,
                             .ucontext = ucontext};
  int r = sonde_capture(&capture);
  data->count = r < 0 ? r : capture.count;
  data->status = (int)capture.status;
  data->reason = capture.reason;
  data->flags = capture.flags;
  wakeup_t *wakeup = &pool->wakeups[data->wakeup];
  if (change_state(slot, capturing, in_phase(requested, DONE)))
    wake(wakeup);
  else
    set_free(slot, requested);
}

/* Returns the cell that holds TID from now on; NULL if all cells are in use. */
static pid_t *enter_handler(request_pool_t *pool, pid_t tid) {
  for (uint32_t i = 0; i < SIGNAL_CAPTURE_SLOTS; i++) {
    pid_t *cell = &pool->in_handler[((uint32_t)tid + i) % SIGNAL_CAPTURE_SLOTS], none = 0;
    if (load_relaxed(cell) == 0 && cas_acq_rel(cell, &none, tid)) return cell;
  }
  return NULL;
}

bool signal_capture_in_handler(pid_t tid) {
  const request_pool_t *pool = load_acquire(&the_pool);
  for (uint32_t i = 0; pool != NULL && i < SIGNAL_CAPTURE_SLOTS; i++)
    if (load_relaxed(&pool->in_handler[((uint32_t)tid + i) % SIGNAL_CAPTURE_SLOTS]) == tid)
      return true;
  return false;
}

bool signal_capture_was_requested(pid_t tid) {
  const request_pool_t *pool = load_acquire(&the_pool);
  for (uint32_t i = 0; pool != NULL && i < SIGNAL_CAPTURE_SLOTS; i++)
    if (load_relaxed(&pool->slots[i].tid) == tid) return true;
  return false;
}

static void serve_requests(const void *ucontext) {
  request_pool_t *pool = load_acquire(&the_pool);
  pid_t own = os_tid();
  pid_t *cell = enter_handler(pool, own);
  for (int i = 0; i < SIGNAL_CAPTURE_SLOTS; i++) {
    request_slot_t *slot = &pool->slots[i];
    if (load_relaxed(&slot->tid) != own) continue;
    uint32_t state = load_acquire(&slot->state);
    if ((state & PHASE_MASK) == REQUESTED) serve_request(pool, i, state, ucontext);
  }
  if (cell != NULL) store_release(cell, 0);
}

/* ---- in the requesting thread --------------------------------------------------------------- */

/* Claims a slot and returns its number, or -1. While the request is being filled in, the slot is
 * ABANDONED, so that handlers skip it. REQUESTED is stored after everything else and before the
 * signal is sent. */
static int claim(request_pool_t *pool, pid_t tid, const sonde_capture_t *capture) {
  static uint32_t next_slot;
  uint32_t wakeup = (uint32_t)os_tid() % WAKEUPS;
  for (int tries = 0; tries < SIGNAL_CAPTURE_SLOTS; tries++) {
    uint32_t i = add_relaxed(&next_slot, 1) % SIGNAL_CAPTURE_SLOTS;
    request_slot_t *slot = &pool->slots[i];
    uint32_t state = load_acquire(&slot->state);
    if ((state & PHASE_MASK) != FREE || !change_state(slot, state, in_phase(state, ABANDONED)))
      continue;
    pool->data[i].skip = capture->skip;
    pool->data[i].async = capture->async;
    pool->data[i].wakeup = wakeup;
    pool->data[i].max = capture->max < SIGNAL_CAPTURE_PCS ? capture->max : SIGNAL_CAPTURE_PCS;
    store_relaxed(&slot->tid, tid);
    store_release(&slot->state, in_phase(state, REQUESTED));
    return (int)i;
  }
  return -1;
}

int signal_capture_send(pid_t tid, sonde_capture_t *capture, signal_request_t *out) {
  request_pool_t *pool = pool_open();
  if (pool == NULL) return SONDE_ENOMEM;
  if (os_signal_prepare(serve_requests) != 0) return SONDE_EPERM;
  int i = claim(pool, tid, capture);
  if (i < 0) return SONDE_EFULL;
  request_slot_t *slot = &pool->slots[i];
  uint32_t requested = in_phase(load_relaxed(&slot->state), REQUESTED);
  *out = (signal_request_t){.capture = capture, .tid = tid, .slot = i, .requested = requested};
  int r = os_signal_thread(tid);
  /* If the signal could not be sent, another requester's signal may still have caused the capture.
   */
  if (r != 0 && change_state(slot, requested, in_phase(requested, FREE) + NEXT_USE))
    return r == -ESRCH ? SONDE_ENOTHREAD : SONDE_EPERM;
  return 0;
}

void signal_capture_set_unavailable(sonde_capture_t *capture, int reason) {
  if (capture->status != SONDE_STACK_UNAVAILABLE) return;
  capture->count = 0;
  capture->reason = reason;
  capture->flags = 0;
}

static void take_result(request_pool_t *pool, const signal_request_t *request) {
  sonde_capture_t *capture = request->capture;
  const request_data_t *data = &pool->data[request->slot];
  if (data->count < 0) {
    signal_capture_set_unavailable(capture, data->count);
  } else {
    capture->count = data->count;
    capture->status = (sonde_stack_status_t)data->status;
    capture->reason = data->reason;
    capture->flags = data->flags | SONDE_FLAG_SIGNALED;
    memcpy(capture->pcs, data->pcs, (size_t)capture->count * sizeof *capture->pcs);
  }
  set_free(&pool->slots[request->slot], request->requested);
}

static void give_up(request_pool_t *pool, const signal_request_t *request, int reason) {
  request_slot_t *slot = &pool->slots[request->slot];
  uint32_t requested = request->requested;
  sonde_capture_t *capture = request->capture;
  if (!change_state(slot, requested, in_phase(requested, FREE) + NEXT_USE) &&
      !change_state(slot, in_phase(requested, CAPTURING), in_phase(requested, ABANDONED))) {
    take_result(pool, request); /* The stack arrived just now. */
    return;
  }
  signal_capture_set_unavailable(capture, reason);
}

/* Collects the stacks that have arrived. Moves the remaining requests to the front of the array and
 * returns their number. */
static int take_results(request_pool_t *pool, signal_request_t *requests, int count) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    uint32_t state = load_acquire(&pool->slots[requests[i].slot].state);
    if ((state & PHASE_MASK) == DONE)
      take_result(pool, &requests[i]);
    else
      requests[left++] = requests[i];
  }
  return left;
}

/* Gives up the requests whose threads have ended, or all of them. */
static int give_up_expired(request_pool_t *pool, signal_request_t *requests, int count, bool all) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    bool ended = !os_thread_alive(requests[i].tid);
    if (ended || all)
      give_up(pool, &requests[i], ended ? SONDE_ENOTHREAD : SONDE_ETIMEDOUT);
    else
      requests[left++] = requests[i];
  }
  return left;
}

void signal_capture_collect(signal_request_t *requests, int count, uint64_t deadline_ns) {
  request_pool_t *pool = load_acquire(&the_pool);
  uint64_t now = os_monotonic_ns(), spin_until = now + SPIN_NS, check_at = now + CHECK_EVERY_NS;
  while (count > 0) {
    wakeup_t *wakeup = &pool->wakeups[(uint32_t)os_tid() % WAKEUPS];
    uint32_t woken = __atomic_load_n(&wakeup->count, __ATOMIC_SEQ_CST);
    int left = take_results(pool, requests, count);
    now = os_monotonic_ns();
    if (left < count) spin_until = now + SPIN_NS;
    count = left;
    if (now >= deadline_ns || now >= check_at) {
      count = give_up_expired(pool, requests, count, now >= deadline_ns);
      check_at = now + CHECK_EVERY_NS;
    }
    if (count > 0 && now >= spin_until) {
      uint64_t until = check_at < deadline_ns ? check_at : deadline_ns;
      (void)__atomic_fetch_add(&wakeup->sleepers, 1, __ATOMIC_SEQ_CST);
      (void)os_futex_wait(&wakeup->count, woken, until > now ? until - now : 1);
      (void)__atomic_fetch_sub(&wakeup->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    arch_relax();
  }
}
