/* SPDX-License-Identifier: MIT
 *
 * A slot's state is one word: phase in the low 3 bits, the number of its use above. It goes
 *   FREE -> ASKED -> ANSWERING -> ANSWERED -> FREE (next use)
 * and, when the asker gives up, ASKED -> FREE or ANSWERING -> ABANDONED, from where the handler
 * sets it FREE. Acquire and release on that word order everything else in the slot.
 *
 * A signal that finds another one pending is merged with it. So a handler does not answer the
 * question its signal came with, but every one that is asked of its thread: whatever was asked
 * before the signal is delivered gets its answer. States and thread ids are kept apart from the
 * answers, in a kilobyte that is looked through quickly.
 *
 * An asker waits for any of its answers at once, at a bell that it shares with few others: a
 * handler that has answered rings it if somebody sleeps there. Being woken by the first answer
 * matters: an asker that shares its CPU with the thread it asked gets it back from that thread's
 * handler, where otherwise it would wait for the scheduler's next tick.
 *
 * In the handler the signal is blocked (else questions could pile up on the thread's stack), so a
 * thread that is still leaving it looks like one that does not want to be asked. Handlers note that
 * they are at it in `inside`.
 */
#include "capture/signal_capture.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"

enum { FREE, REQUESTED, CAPTURING, DONE, ABANDONED };
#define PHASE_MASK 7u
#define NEXT_USE   8u

#define SPIN_NS        30000u   /* about the time of an interrupt to another CPU */
#define CHECK_EVERY_NS 5000000u /* that the threads still live */
#define WAKEUPS        16u

typedef struct request_slot {
  uint32_t state;
  pid_t tid;
} request_slot_t;

typedef struct request_data {
  int skip, max; /* asked */
  sonde_async_t async;
  uint32_t wakeup;
  int count, status, reason; /* answered */
  unsigned flags;
  uintptr_t pcs[SIGNAL_CAPTURE_PCS];
} request_data_t;

typedef struct wakeup {
  uint32_t count;    /* counts; sleepers wait for it to change */
  uint32_t sleepers; /* askers that sleep here, or are about to */
} wakeup_t;

typedef struct request_pool {
  wakeup_t wakeups[WAKEUPS];
  pid_t in_handler[SIGNAL_CAPTURE_SLOTS]; /* threads that are in the handler */
  request_slot_t slots[SIGNAL_CAPTURE_SLOTS];
  request_data_t data[SIGNAL_CAPTURE_SLOTS];
} request_pool_t;

static request_pool_t *the_pool;

static request_pool_t *pool_open(void) {
  request_pool_t *known = load_acquire(&the_pool);
  if (LIKELY(known != NULL)) return known;
  request_pool_t *mine = os_map(sizeof *mine);
  if (mine == NULL) return NULL;
  (void)os_wipe_on_fork(mine, sizeof *mine); /* a child has no questions under way */
  if (cas_acq_rel(&the_pool, &known, mine)) return mine;
  os_unmap(mine, sizeof *mine);
  return known;
}

static uint32_t in_phase(uint32_t state, uint32_t phase) { return (state & ~PHASE_MASK) | phase; }

static bool change_state(request_slot_t *request_slot, uint32_t from, uint32_t to) {
  return cas_acq_rel(&request_slot->state, &from, to);
}

static void set_free(request_slot_t *request_slot, uint32_t state) {
  store_release(&request_slot->state, in_phase(state, FREE) + NEXT_USE);
}

/* ---- in the thread that was asked ------------------------------------------------------------ */

/* The count and the number of sleepers are in one order for everybody: a sleeper is either seen
 * here, or sees the count changed before it sleeps. */
static void wake(wakeup_t *wakeup) {
  (void)__atomic_fetch_add(&wakeup->count, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&wakeup->sleepers, __ATOMIC_SEQ_CST) != 0)
    (void)os_futex_wake(&wakeup->count, INT32_MAX);
}

static void serve_request(request_pool_t *request_pool, int index, uint32_t requested,
                          const void *ucontext) {
  request_slot_t *request_slot = &request_pool->slots[index];
  request_data_t *a = &request_pool->data[index];
  uint32_t answering = in_phase(requested, CAPTURING);
  if (!change_state(request_slot, requested, answering)) return;
  sonde_capture_t capture = {
      .pcs = a->pcs, .max = a->max, .skip = a->skip, .async = a->async, .ucontext = ucontext};
  int r = sonde_capture(&capture);
  a->count = r < 0 ? r : capture.count;
  a->status = (int)capture.status;
  a->reason = capture.reason;
  a->flags = capture.flags;
  wakeup_t *wakeup = &request_pool->wakeups[a->wakeup];
  if (change_state(request_slot, answering, in_phase(requested, DONE)))
    wake(wakeup);
  else
    set_free(request_slot, requested);
}

/* The cell that has TID now; NULL when all are taken. */
static pid_t *enter_handler(request_pool_t *request_pool, pid_t tid) {
  for (uint32_t i = 0; i < SIGNAL_CAPTURE_SLOTS; i++) {
    pid_t *cell = &request_pool->in_handler[((uint32_t)tid + i) % SIGNAL_CAPTURE_SLOTS], none = 0;
    if (load_relaxed(cell) == 0 && cas_acq_rel(cell, &none, tid)) return cell;
  }
  return NULL;
}

bool signal_capture_in_handler(pid_t tid) {
  const request_pool_t *request_pool = load_acquire(&the_pool);
  for (uint32_t i = 0; request_pool != NULL && i < SIGNAL_CAPTURE_SLOTS; i++)
    if (load_relaxed(&request_pool->in_handler[((uint32_t)tid + i) % SIGNAL_CAPTURE_SLOTS]) == tid)
      return true;
  return false;
}

bool signal_capture_was_requested(pid_t tid) {
  const request_pool_t *request_pool = load_acquire(&the_pool);
  for (uint32_t i = 0; request_pool != NULL && i < SIGNAL_CAPTURE_SLOTS; i++)
    if (load_relaxed(&request_pool->slots[i].tid) == tid) return true;
  return false;
}

static void serve_requests(const void *ucontext) {
  request_pool_t *request_pool = load_acquire(&the_pool);
  pid_t own = os_tid();
  pid_t *cell = enter_handler(request_pool, own);
  for (int i = 0; i < SIGNAL_CAPTURE_SLOTS; i++) {
    request_slot_t *request_slot = &request_pool->slots[i];
    if (load_relaxed(&request_slot->tid) != own) continue;
    uint32_t state = load_acquire(&request_slot->state);
    if ((state & PHASE_MASK) == REQUESTED) serve_request(request_pool, i, state, ucontext);
  }
  if (cell != NULL) store_release(cell, 0);
}

/* ---- in the thread that asks ----------------------------------------------------------------- */

/* Returns the slot's number, or -1. While it is claimed and not yet asked, a slot is as good as
 * abandoned. ASKED is set after all else and before the signal is sent. */
static int claim(request_pool_t *request_pool, pid_t tid, const sonde_capture_t *capture) {
  static uint32_t next_slot;
  uint32_t wakeup = (uint32_t)os_tid() % WAKEUPS;
  for (int tries = 0; tries < SIGNAL_CAPTURE_SLOTS; tries++) {
    uint32_t i = add_relaxed(&next_slot, 1) % SIGNAL_CAPTURE_SLOTS;
    request_slot_t *request_slot = &request_pool->slots[i];
    uint32_t state = load_acquire(&request_slot->state);
    if ((state & PHASE_MASK) != FREE ||
        !change_state(request_slot, state, in_phase(state, ABANDONED)))
      continue;
    request_pool->data[i].skip = capture->skip;
    request_pool->data[i].async = capture->async;
    request_pool->data[i].wakeup = wakeup;
    request_pool->data[i].max =
        capture->max < SIGNAL_CAPTURE_PCS ? capture->max : SIGNAL_CAPTURE_PCS;
    store_relaxed(&request_slot->tid, tid);
    store_release(&request_slot->state, in_phase(state, REQUESTED));
    return (int)i;
  }
  return -1;
}

int signal_capture_send(pid_t tid, sonde_capture_t *capture, signal_request_t *out) {
  request_pool_t *request_pool = pool_open();
  if (request_pool == NULL) return SONDE_ENOMEM;
  if (os_signal_prepare(serve_requests) != 0) return SONDE_EPERM;
  int i = claim(request_pool, tid, capture);
  if (i < 0) return SONDE_EFULL;
  request_slot_t *request_slot = &request_pool->slots[i];
  uint32_t requested = in_phase(load_relaxed(&request_slot->state), REQUESTED);
  *out =
      (signal_request_t){.capture = capture, .tid = tid, .request_slot = i, .requested = requested};
  int r = os_signal_thread(tid);
  /* When it could not be sent, another asker's signal may have had it answered all the same. */
  if (r != 0 && change_state(request_slot, requested, in_phase(requested, FREE) + NEXT_USE))
    return r == -ESRCH ? SONDE_ENOTHREAD : SONDE_EPERM;
  return 0;
}

void signal_capture_set_unavailable(sonde_capture_t *capture, int reason) {
  if (capture->status != SONDE_STACK_UNAVAILABLE) return;
  capture->count = 0;
  capture->reason = reason;
  capture->flags = 0;
}

static void take_result(request_pool_t *request_pool, const signal_request_t *request) {
  sonde_capture_t *capture = request->capture;
  const request_data_t *a = &request_pool->data[request->request_slot];
  if (a->count < 0) {
    signal_capture_set_unavailable(capture, a->count);
  } else {
    capture->count = a->count;
    capture->status = (sonde_stack_status_t)a->status;
    capture->reason = a->reason;
    capture->flags = a->flags | SONDE_FLAG_SIGNALED;
    memcpy(capture->pcs, a->pcs, (size_t)capture->count * sizeof *capture->pcs);
  }
  set_free(&request_pool->slots[request->request_slot], request->requested);
}

static void give_up(request_pool_t *request_pool, const signal_request_t *request, int reason) {
  request_slot_t *request_slot = &request_pool->slots[request->request_slot];
  uint32_t requested = request->requested;
  sonde_capture_t *capture = request->capture;
  if (!change_state(request_slot, requested, in_phase(requested, FREE) + NEXT_USE) &&
      !change_state(request_slot, in_phase(requested, CAPTURING), in_phase(requested, ABANDONED))) {
    take_result(request_pool, request); /* the answer came in the very last moment */
    return;
  }
  signal_capture_set_unavailable(capture, reason);
}

/* Takes the answers that are there; returns how many questions are left, which it moves together.
 */
static int take_results(request_pool_t *request_pool, signal_request_t *requests, int count) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    uint32_t state = load_acquire(&request_pool->slots[requests[i].request_slot].state);
    if ((state & PHASE_MASK) == DONE)
      take_result(request_pool, &requests[i]);
    else
      requests[left++] = requests[i];
  }
  return left;
}

/* Gives up those whose threads have ended, or all of them. */
static int give_up_expired(request_pool_t *request_pool, signal_request_t *requests, int count,
                           bool all) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    bool ended = !os_thread_alive(requests[i].tid);
    if (ended || all)
      give_up(request_pool, &requests[i], ended ? SONDE_ENOTHREAD : SONDE_ETIMEDOUT);
    else
      requests[left++] = requests[i];
  }
  return left;
}

void signal_capture_collect(signal_request_t *requests, int count, uint64_t deadline_ns) {
  request_pool_t *request_pool = load_acquire(&the_pool);
  uint64_t now = os_monotonic_ns(), spin_until = now + SPIN_NS, check_at = now + CHECK_EVERY_NS;
  while (count > 0) {
    wakeup_t *wakeup = &request_pool->wakeups[(uint32_t)os_tid() % WAKEUPS];
    uint32_t woken = __atomic_load_n(&wakeup->count, __ATOMIC_SEQ_CST);
    int left = take_results(request_pool, requests, count);
    now = os_monotonic_ns();
    if (left < count) spin_until = now + SPIN_NS;
    count = left;
    if (now >= deadline_ns || now >= check_at) {
      count = give_up_expired(request_pool, requests, count, now >= deadline_ns);
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
