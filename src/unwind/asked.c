/* SPDX-License-Identifier: MIT
 *
 * A slot's state is one word: phase in the low 3 bits, the number of its use above. It goes
 *   FREE -> ASKED -> ANSWERING -> ANSWERED -> FREE (next use)
 * and, when the asker gives up, ASKED -> FREE or ANSWERING -> ABANDONED, from where the handler sets
 * it FREE. Acquire and release on that word order everything else in the slot.
 */
#include "unwind/asked.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"

enum { FREE, ASKED, ANSWERING, ANSWERED, ABANDONED };
#define PHASE_MASK 7u
#define NEXT_USE   8u

#define SPINS          500       /* about the time of an interrupt to another CPU */
#define CHECK_EVERY_NS 5000000u  /* that the thread still lives */

typedef struct slot {
  uint32_t state;
  pid_t tid;
  int skip, max;
  int count, mark, reason;
  unsigned flags;
  uintptr_t pcs[ASKED_PCS];
} slot_t;

static slot_t *the_slots;

static slot_t *slots(void) {
  slot_t *known = load_acquire(&the_slots);
  if (LIKELY(known != NULL)) return known;
  size_t size = ASKED_SLOTS * sizeof(slot_t);
  slot_t *mine = os_map(size);
  if (mine == NULL) return NULL;
  (void)os_wipe_on_fork(mine, size); /* a child has no questions under way */
  if (cas_acq_rel(&the_slots, &known, mine)) return mine;
  os_unmap(mine, size);
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

static void answer(uint64_t cookie, void *ucontext) {
  slot_t *slot = &load_acquire(&the_slots)[(cookie >> 32) % ASKED_SLOTS];
  uint32_t asked = (uint32_t)cookie, answering = in_phase(asked, ANSWERING);
  if ((asked & PHASE_MASK) != ASKED || !change(slot, asked, answering)) return;
  sonde_capture_t capture = {
      .pcs = slot->pcs, .max = slot->max, .skip = slot->skip, .ucontext = ucontext};
  int r = sonde_capture(&capture);
  slot->count = r < 0 ? r : capture.count;
  slot->mark = (int)capture.mark;
  slot->reason = capture.reason;
  slot->flags = capture.flags;
  if (change(slot, answering, in_phase(asked, ANSWERED)))
    (void)os_futex_wake(&slot->state, 1);
  else
    set_free(slot, asked);
}

/* ---- in the thread that asks ----------------------------------------------------------------- */

/* ASKED is set before the question is sent, but after the slot's fields: nobody else answers it. */
static slot_t *claim(slot_t *all, pid_t tid, const sonde_capture_t *capture, uint32_t *state) {
  static uint32_t hand;
  for (int i = 0; i < ASKED_SLOTS; i++) {
    slot_t *slot = &all[add_relaxed(&hand, 1) % ASKED_SLOTS];
    uint32_t s = load_acquire(&slot->state);
    /* While it is claimed and not yet asked, the slot is as good as abandoned. */
    if ((s & PHASE_MASK) != FREE || !change(slot, s, in_phase(s, ABANDONED))) continue;
    slot->tid = tid;
    slot->skip = capture->skip;
    slot->max = capture->max < ASKED_PCS ? capture->max : ASKED_PCS;
    *state = in_phase(s, ASKED);
    store_release(&slot->state, *state);
    return slot;
  }
  return NULL;
}

int asked_send(pid_t tid, const sonde_capture_t *capture) {
  uint32_t state;
  slot_t *all = slots();
  if (all == NULL) return SONDE_ENOMEM;
  if (os_ask_prepare(answer) != 0) return SONDE_EPERM;
  slot_t *slot = claim(all, tid, capture, &state);
  if (slot == NULL) return SONDE_EFULL;
  int index = (int)(slot - all);
  int r = os_ask(tid, (uint64_t)index << 32 | state);
  if (r == 0) return index;
  set_free(slot, state);
  return r == -ESRCH ? SONDE_ENOTHREAD : SONDE_EPERM;
}

static int take(slot_t *slot, uint32_t state, sonde_capture_t *capture) {
  int count = slot->count;
  if (count >= 0) {
    memcpy(capture->pcs, slot->pcs, (size_t)count * sizeof *capture->pcs);
    capture->count = count;
    capture->mark = (sonde_mark_t)slot->mark;
    capture->reason = slot->reason;
    capture->flags = slot->flags | SONDE_FLAG_SIGNALLED;
  }
  set_free(slot, state);
  return count;
}

/* Gives up. True when the answer came in the very last moment. */
static bool give_up(slot_t *slot, uint32_t asked) {
  if (change(slot, asked, in_phase(asked, FREE) + NEXT_USE)) return false;
  return !change(slot, in_phase(asked, ANSWERING), in_phase(asked, ABANDONED));
}

int asked_wait(int index, uint64_t deadline_ns, sonde_capture_t *capture) {
  slot_t *slot = &load_acquire(&the_slots)[index];
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
  return take(slot, asked, capture);
}
