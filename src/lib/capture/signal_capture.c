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

enum { FREE, ASKED, ANSWERING, ANSWERED, ABANDONED };
#define PHASE_MASK 7u
#define NEXT_USE   8u

#define SPIN_NS        30000u   /* about the time of an interrupt to another CPU */
#define CHECK_EVERY_NS 5000000u /* that the threads still live */
#define BELLS          16u

typedef struct slot {
  uint32_t state;
  pid_t tid;
} slot_t;

typedef struct answer {
  int skip, max; /* asked */
  sonde_async_t async;
  uint32_t bell;
  int count, status, reason; /* answered */
  unsigned flags;
  uintptr_t pcs[SIGNAL_CAPTURE_PCS];
} answer_t;

typedef struct bell {
  uint32_t rung;     /* counts; sleepers wait for it to change */
  uint32_t sleepers; /* askers that sleep here, or are about to */
} bell_t;

typedef struct pool {
  bell_t bells[BELLS];
  pid_t inside[SIGNAL_CAPTURE_SLOTS]; /* threads that are in the handler */
  slot_t slots[SIGNAL_CAPTURE_SLOTS];
  answer_t answers[SIGNAL_CAPTURE_SLOTS];
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

/* The count and the number of sleepers are in one order for everybody: a sleeper is either seen
 * here, or sees the count changed before it sleeps. */
static void ring(bell_t *bell) {
  (void)__atomic_fetch_add(&bell->rung, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&bell->sleepers, __ATOMIC_SEQ_CST) != 0)
    (void)os_futex_wake(&bell->rung, INT32_MAX);
}

static void answer_slot(pool_t *pool, int index, uint32_t asked, const void *ucontext) {
  slot_t *slot = &pool->slots[index];
  answer_t *a = &pool->answers[index];
  uint32_t answering = in_phase(asked, ANSWERING);
  if (!change(slot, asked, answering)) return;
  sonde_capture_t capture = {
      .pcs = a->pcs, .max = a->max, .skip = a->skip, .async = a->async, .ucontext = ucontext};
  int r = sonde_capture(&capture);
  a->count = r < 0 ? r : capture.count;
  a->status = (int)capture.status;
  a->reason = capture.reason;
  a->flags = capture.flags;
  bell_t *bell = &pool->bells[a->bell];
  if (change(slot, answering, in_phase(asked, ANSWERED)))
    ring(bell);
  else
    set_free(slot, asked);
}

/* The cell that has TID now; NULL when all are taken. */
static pid_t *enter(pool_t *pool, pid_t tid) {
  for (uint32_t i = 0; i < SIGNAL_CAPTURE_SLOTS; i++) {
    pid_t *cell = &pool->inside[((uint32_t)tid + i) % SIGNAL_CAPTURE_SLOTS], none = 0;
    if (load_relaxed(cell) == 0 && cas_acq_rel(cell, &none, tid)) return cell;
  }
  return NULL;
}

bool signal_capture_inside(pid_t tid) {
  const pool_t *pool = load_acquire(&the_pool);
  for (uint32_t i = 0; pool != NULL && i < SIGNAL_CAPTURE_SLOTS; i++)
    if (load_relaxed(&pool->inside[((uint32_t)tid + i) % SIGNAL_CAPTURE_SLOTS]) == tid) return true;
  return false;
}

bool signal_capture_before(pid_t tid) {
  const pool_t *pool = load_acquire(&the_pool);
  for (uint32_t i = 0; pool != NULL && i < SIGNAL_CAPTURE_SLOTS; i++)
    if (load_relaxed(&pool->slots[i].tid) == tid) return true;
  return false;
}

static void answer_all(const void *ucontext) {
  pool_t *pool = load_acquire(&the_pool);
  pid_t own = os_tid();
  pid_t *cell = enter(pool, own);
  for (int i = 0; i < SIGNAL_CAPTURE_SLOTS; i++) {
    slot_t *slot = &pool->slots[i];
    if (load_relaxed(&slot->tid) != own) continue;
    uint32_t state = load_acquire(&slot->state);
    if ((state & PHASE_MASK) == ASKED) answer_slot(pool, i, state, ucontext);
  }
  if (cell != NULL) store_release(cell, 0);
}

/* ---- in the thread that asks ----------------------------------------------------------------- */

/* Returns the slot's number, or -1. While it is claimed and not yet asked, a slot is as good as
 * abandoned. ASKED is set after all else and before the signal is sent. */
static int claim(pool_t *pool, pid_t tid, const sonde_capture_t *capture) {
  static uint32_t hand;
  uint32_t bell = (uint32_t)os_tid() % BELLS;
  for (int tries = 0; tries < SIGNAL_CAPTURE_SLOTS; tries++) {
    uint32_t i = add_relaxed(&hand, 1) % SIGNAL_CAPTURE_SLOTS;
    slot_t *slot = &pool->slots[i];
    uint32_t state = load_acquire(&slot->state);
    if ((state & PHASE_MASK) != FREE || !change(slot, state, in_phase(state, ABANDONED))) continue;
    pool->answers[i].skip = capture->skip;
    pool->answers[i].async = capture->async;
    pool->answers[i].bell = bell;
    pool->answers[i].max = capture->max < SIGNAL_CAPTURE_PCS ? capture->max : SIGNAL_CAPTURE_PCS;
    store_relaxed(&slot->tid, tid);
    store_release(&slot->state, in_phase(state, ASKED));
    return (int)i;
  }
  return -1;
}

int signal_capture_send(pid_t tid, sonde_capture_t *capture, signal_capture_t *out) {
  pool_t *pool = pool_open();
  if (pool == NULL) return SONDE_ENOMEM;
  if (os_signal_prepare(answer_all) != 0) return SONDE_EPERM;
  int i = claim(pool, tid, capture);
  if (i < 0) return SONDE_EFULL;
  slot_t *slot = &pool->slots[i];
  uint32_t asked = in_phase(load_relaxed(&slot->state), ASKED);
  *out = (signal_capture_t){.capture = capture, .tid = tid, .slot = i, .asked = asked};
  int r = os_signal_thread(tid);
  /* When it could not be sent, another asker's signal may have had it answered all the same. */
  if (r != 0 && change(slot, asked, in_phase(asked, FREE) + NEXT_USE))
    return r == -ESRCH ? SONDE_ENOTHREAD : SONDE_EPERM;
  return 0;
}

void signal_capture_without_answer(sonde_capture_t *capture, int reason) {
  if (capture->status != SONDE_STACK_UNAVAILABLE) return;
  capture->count = 0;
  capture->reason = reason;
  capture->flags = 0;
}

static void take(pool_t *pool, const signal_capture_t *question) {
  sonde_capture_t *capture = question->capture;
  const answer_t *a = &pool->answers[question->slot];
  if (a->count < 0) {
    signal_capture_without_answer(capture, a->count);
  } else {
    capture->count = a->count;
    capture->status = (sonde_stack_status_t)a->status;
    capture->reason = a->reason;
    capture->flags = a->flags | SONDE_FLAG_SIGNALED;
    memcpy(capture->pcs, a->pcs, (size_t)capture->count * sizeof *capture->pcs);
  }
  set_free(&pool->slots[question->slot], question->asked);
}

static void give_up(pool_t *pool, const signal_capture_t *question, int reason) {
  slot_t *slot = &pool->slots[question->slot];
  uint32_t asked = question->asked;
  sonde_capture_t *capture = question->capture;
  if (!change(slot, asked, in_phase(asked, FREE) + NEXT_USE) &&
      !change(slot, in_phase(asked, ANSWERING), in_phase(asked, ABANDONED))) {
    take(pool, question); /* the answer came in the very last moment */
    return;
  }
  signal_capture_without_answer(capture, reason);
}

/* Takes the answers that are there; returns how many questions are left, which it moves together.
 */
static int take_answers(pool_t *pool, signal_capture_t *questions, int count) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    uint32_t state = load_acquire(&pool->slots[questions[i].slot].state);
    if ((state & PHASE_MASK) == ANSWERED)
      take(pool, &questions[i]);
    else
      questions[left++] = questions[i];
  }
  return left;
}

/* Gives up those whose threads have ended, or all of them. */
static int drop(pool_t *pool, signal_capture_t *questions, int count, bool all) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    bool ended = !os_thread_alive(questions[i].tid);
    if (ended || all)
      give_up(pool, &questions[i], ended ? SONDE_ENOTHREAD : SONDE_ETIMEDOUT);
    else
      questions[left++] = questions[i];
  }
  return left;
}

void signal_capture_collect(signal_capture_t *questions, int count, uint64_t deadline_ns) {
  pool_t *pool = load_acquire(&the_pool);
  uint64_t now = os_monotonic_ns(), spin_until = now + SPIN_NS, check_at = now + CHECK_EVERY_NS;
  while (count > 0) {
    bell_t *bell = &pool->bells[(uint32_t)os_tid() % BELLS];
    uint32_t rung = __atomic_load_n(&bell->rung, __ATOMIC_SEQ_CST);
    int left = take_answers(pool, questions, count);
    now = os_monotonic_ns();
    if (left < count) spin_until = now + SPIN_NS;
    count = left;
    if (now >= deadline_ns || now >= check_at) {
      count = drop(pool, questions, count, now >= deadline_ns);
      check_at = now + CHECK_EVERY_NS;
    }
    if (count > 0 && now >= spin_until) {
      uint64_t until = check_at < deadline_ns ? check_at : deadline_ns;
      (void)__atomic_fetch_add(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
      (void)os_futex_wait(&bell->rung, rung, until > now ? until - now : 1);
      (void)__atomic_fetch_sub(&bell->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    arch_relax();
  }
}
