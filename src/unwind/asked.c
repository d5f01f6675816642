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
 * In the handler the signal is blocked (else questions could pile up on the thread's stack), so a
 * thread that is still leaving it looks like one that does not want to be asked. Handlers note that
 * they are at it in `inside`.
 */
#include "unwind/asked.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"

enum { FREE, ASKED, ANSWERING, ANSWERED, ABANDONED };
#define PHASE_MASK 7u
#define NEXT_USE   8u

#define SPINS          500      /* about the time of an interrupt to another CPU */
#define CHECK_EVERY_NS 5000000u /* that the thread still lives */

typedef struct slot {
  uint32_t state;
  pid_t tid;
} slot_t;

typedef struct answer {
  int skip, max;           /* asked */
  int count, mark, reason; /* answered */
  unsigned flags;
  uintptr_t pcs[ASKED_PCS];
} answer_t;

typedef struct pool {
  pid_t inside[ASKED_SLOTS]; /* threads that are in the handler */
  slot_t slots[ASKED_SLOTS];
  answer_t answers[ASKED_SLOTS];
} pool_t;

static pool_t *the_pool;

static pool_t *pool_open(void) {
  pool_t *known = load_acquire(&the_pool);
  if (LIKELY(known != NULL)) return known;
  pool_t *mine = os_map(sizeof *mine);
  if (mine == NULL) return NULL;
  (void)os_wipe_on_fork(mine, sizeof *mine); /* a child has no questions under way */
  if (cas_acq_rel(&the_pool, &known, mine)) return mine;
  os_unmap(mine, sizeof *mine);
  return known;
}

static uint32_t in_phase(uint32_t state, uint32_t phase) { return (state & ~PHASE_MASK) | phase; }

static bool change(slot_t *slot, uint32_t from, uint32_t to) {
  return cas_acq_rel(&slot->state, &from, to);
}

static void set_free(slot_t *slot, uint32_t state) {
  store_release(&slot->state, in_phase(state, FREE) + NEXT_USE);
}

/* ---- in the thread that was asked ------------------------------------------------------------ */

static void answer_slot(slot_t *slot, answer_t *a, uint32_t asked, const void *ucontext) {
  uint32_t answering = in_phase(asked, ANSWERING);
  if (!change(slot, asked, answering)) return;
  sonde_capture_t capture = {.pcs = a->pcs, .max = a->max, .skip = a->skip, .ucontext = ucontext};
  int r = sonde_capture(&capture);
  a->count = r < 0 ? r : capture.count;
  a->mark = (int)capture.mark;
  a->reason = capture.reason;
  a->flags = capture.flags;
  if (change(slot, answering, in_phase(asked, ANSWERED)))
    (void)os_futex_wake(&slot->state, 1);
  else
    set_free(slot, asked);
}

/* The cell that has TID now; NULL when all are taken. */
static pid_t *enter(pool_t *pool, pid_t tid) {
  for (uint32_t i = 0; i < ASKED_SLOTS; i++) {
    pid_t *cell = &pool->inside[((uint32_t)tid + i) % ASKED_SLOTS], none = 0;
    if (load_relaxed(cell) == 0 && cas_acq_rel(cell, &none, tid)) return cell;
  }
  return NULL;
}

bool asked_inside(pid_t tid) {
  const pool_t *pool = load_acquire(&the_pool);
  for (uint32_t i = 0; pool != NULL && i < ASKED_SLOTS; i++)
    if (load_relaxed(&pool->inside[((uint32_t)tid + i) % ASKED_SLOTS]) == tid) return true;
  return false;
}

bool asked_before(pid_t tid) {
  const pool_t *pool = load_acquire(&the_pool);
  for (uint32_t i = 0; pool != NULL && i < ASKED_SLOTS; i++)
    if (load_relaxed(&pool->slots[i].tid) == tid) return true;
  return false;
}

static void answer_all(const void *ucontext) {
  pool_t *pool = load_acquire(&the_pool);
  pid_t own = os_tid();
  pid_t *cell = enter(pool, own);
  for (int i = 0; i < ASKED_SLOTS; i++) {
    slot_t *slot = &pool->slots[i];
    if (load_relaxed(&slot->tid) != own) continue;
    uint32_t state = load_acquire(&slot->state);
    if ((state & PHASE_MASK) == ASKED) answer_slot(slot, &pool->answers[i], state, ucontext);
  }
  if (cell != NULL) store_release(cell, 0);
}

/* ---- in the thread that asks ----------------------------------------------------------------- */

/* Returns the slot's number, or -1. While it is claimed and not yet asked, a slot is as good as
 * abandoned. ASKED is set after all else and before the signal is sent. */
static int claim(pool_t *pool, pid_t tid, const sonde_capture_t *capture) {
  static uint32_t hand;
  for (int tries = 0; tries < ASKED_SLOTS; tries++) {
    uint32_t i = add_relaxed(&hand, 1) % ASKED_SLOTS;
    slot_t *slot = &pool->slots[i];
    uint32_t state = load_acquire(&slot->state);
    if ((state & PHASE_MASK) != FREE || !change(slot, state, in_phase(state, ABANDONED))) continue;
    pool->answers[i].skip = capture->skip;
    pool->answers[i].max = capture->max < ASKED_PCS ? capture->max : ASKED_PCS;
    store_relaxed(&slot->tid, tid);
    store_release(&slot->state, in_phase(state, ASKED));
    return (int)i;
  }
  return -1;
}

int asked_send(pid_t tid, const sonde_capture_t *capture) {
  pool_t *pool = pool_open();
  if (pool == NULL) return SONDE_ENOMEM;
  if (os_ask_prepare(answer_all) != 0) return SONDE_EPERM;
  int i = claim(pool, tid, capture);
  if (i < 0) return SONDE_EFULL;
  slot_t *slot = &pool->slots[i];
  uint32_t asked = in_phase(load_relaxed(&slot->state), ASKED);
  int r = os_ask(tid);
  if (r == 0) return i;
  /* Another asker's signal may have had it answered all the same. */
  if (change(slot, asked, in_phase(asked, FREE) + NEXT_USE))
    return r == -ESRCH ? SONDE_ENOTHREAD : SONDE_EPERM;
  return i;
}

static int take(slot_t *slot, const answer_t *a, uint32_t asked, sonde_capture_t *capture) {
  int count = a->count;
  if (count >= 0) {
    memcpy(capture->pcs, a->pcs, (size_t)count * sizeof *capture->pcs);
    capture->count = count;
    capture->mark = (sonde_mark_t)a->mark;
    capture->reason = a->reason;
    capture->flags = a->flags | SONDE_FLAG_SIGNALLED;
  }
  set_free(slot, asked);
  return count;
}

/* Gives up. True when the answer came in the very last moment. */
static bool give_up(slot_t *slot, uint32_t asked) {
  if (change(slot, asked, in_phase(asked, FREE) + NEXT_USE)) return false;
  return !change(slot, in_phase(asked, ANSWERING), in_phase(asked, ABANDONED));
}

int asked_wait(int index, uint64_t deadline_ns, sonde_capture_t *capture) {
  pool_t *pool = load_acquire(&the_pool);
  slot_t *slot = &pool->slots[index];
  uint32_t state = load_acquire(&slot->state), asked = in_phase(state, ASKED);
  for (int i = 0; i < SPINS && (state & PHASE_MASK) != ANSWERED; i++) {
    arch_relax();
    state = load_acquire(&slot->state);
  }
  while ((state & PHASE_MASK) != ANSWERED) {
    uint64_t now = os_monotonic_ns();
    bool ended = !os_thread_alive(slot->tid);
    if (now >= deadline_ns || ended) {
      if (give_up(slot, asked)) break;
      return ended ? SONDE_ENOTHREAD : SONDE_ETIMEDOUT;
    }
    uint64_t left = deadline_ns - now;
    (void)os_futex_wait(&slot->state, state, left < CHECK_EVERY_NS ? left : CHECK_EVERY_NS);
    state = load_acquire(&slot->state);
  }
  return take(slot, &pool->answers[index], asked, capture);
}
