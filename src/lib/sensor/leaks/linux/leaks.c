/* SPDX-License-Identifier: MIT
 *
 * Holding the threads and making the copy.
 *
 * `round` of the hold is odd while threads are to stay; a handler that comes too late finds it
 * even, or its thread in no entry, and goes on with its call. The hold is mapped once and never
 * unmapped, so that it finds anything at all. It is no memory of the recording: the copy reads it
 * too.
 */
#include "sensor/leaks/leaks.h"

#include <string.h>

#include "os/os.h"
#include "record/writer.h"
#include "sensor/sensor.h"
#include "sonde/status.h"
#include "capture/passive_capture.h"

#define TRIES       40
#define PASSES      8
#define ANSWER_NS   UINT64_C(100000000)  /* for threads to come into their handlers */
#define STAY_NS     UINT64_C(5000000000) /* at the very most */
#define KEEPING_NS  UINT64_C(2000000000) /* for the recorder to set aside what is live */
#define PAUSE_NS    UINT64_C(500000)     /* between the first two tries; ever longer then, until */
#define LONGEST     20                   /* times that */
#define DEPTH       8                    /* frames from the system call to the hook that spills */
#define LEAST_BYTES (UINT64_C(64) << 20)

#define QUESTION_PLACES 8 /* tids are given out in a row: neighbours hardly meet */

/* What a thread that is asked goes on with. It may come when the look is long over, for nothing
 * says how soon a busy machine lets it run, and its call must go on all the same: a question stays
 * until the thread has come, or has ended. */
typedef struct question {
  uint32_t tid; /* 0: a free place; the last to be written */
  os_blocked_t call;
} question_t;

typedef struct hold {
  uint32_t pid;   /* whose it is: a child of fork has its parent's, which may be in the middle */
  uint32_t round; /* odd: threads that are asked stay */
  uint32_t answers;
  uint32_t count;
  passive_buffer_t copy;
  question_t questions[LEAKS_THREADS];
  leaks_thread_t threads[LEAKS_THREADS];
} hold_t;

static hold_t *the_hold;

/* ---- in a thread that is asked -------------------------------------------------------------- */

static void save(leaks_thread_t *t, const void *ucontext) {
  uint64_t known;
  _Static_assert(ARCH_DWARF_REGISTERS <= LEAKS_REGISTERS, "room for all of them");
  arch_frame_t frame = arch_context_frame(ucontext);
  (void)arch_context_registers(ucontext, t->registers, &known);
  t->register_count = ARCH_DWARF_REGISTERS;
  t->sp = frame.sp;
  t->pc = frame.pc;
  t->pointer = arch_thread_pointer();
  t->vectors = arch_context_vectors(ucontext, &t->vectors_size);
}

static leaks_thread_t *entry_of(hold_t *h, uint32_t tid) {
  for (uint32_t i = 0; i < load_acquire(&h->count); i++)
    if (h->threads[i].tid == tid) return &h->threads[i];
  return NULL;
}

/* Place number I of those where TID's question may stand. */
static question_t *question_place(hold_t *h, uint32_t tid, uint32_t i) {
  return &h->questions[(tid + i) % LEAKS_THREADS];
}

/* Takes the question that TID was asked; false when there is none, or another one takes it. */
static bool take_question(hold_t *h, uint32_t tid, os_blocked_t *call) {
  for (uint32_t i = 0; i < QUESTION_PLACES; i++) {
    question_t *q = question_place(h, tid, i);
    uint32_t asked = tid;
    if (load_acquire(&q->tid) != tid) continue;
    *call = q->call;
    if (cas_acq_rel(&q->tid, &asked, 0)) return true;
  }
  return false;
}

static void stay(hold_t *h, leaks_thread_t *t, uint32_t round, void *ucontext) {
  uint64_t mask = os_signals_block(), until = os_monotonic_ns() + STAY_NS;
  save(t, ucontext);
  store_release(&t->state, (uint32_t)LEAKS_THREAD_STOPPED);
  add_relaxed(&h->answers, 1);
  (void)os_futex_wake(&h->answers, 1);
  while (load_acquire(&h->round) == round && os_monotonic_ns() < until)
    (void)os_futex_wait(&h->round, round, STAY_NS);
  store_release(&t->state, (uint32_t)LEAKS_THREAD_RESUMED);
  os_signals_restore(mask);
}

/* ---- approaching a thread ------------------------------------------------------------------- */

extern const char __start_sonde_spilling[] __attribute__((weak)) HIDDEN;
extern const char __stop_sonde_spilling[] __attribute__((weak)) HIDDEN;

/* Whether the thread waits in a function that has spilled its callers' registers. */
static bool has_spilled(hold_t *h, pid_t tid) {
  uintptr_t pcs[DEPTH];
  sonde_capture_t capture = {.pcs = pcs, .max = DEPTH};
  uintptr_t start = (uintptr_t)__start_sonde_spilling, stop = (uintptr_t)__stop_sonde_spilling;
  if (start == stop) return false;
  int count = passive_capture(&h->copy, tid, 0, &capture);
  for (int i = 0; i < count; i++)
    if (pcs[i] > start && pcs[i] <= stop) return true;
  return false;
}

/* False when there is no place. Questions of threads that have ended give theirs. */
static bool put_question(hold_t *h, uint32_t tid, const os_blocked_t *at) {
  for (uint32_t i = 0; i < QUESTION_PLACES; i++) {
    question_t *q = question_place(h, tid, i);
    uint32_t there = load_acquire(&q->tid);
    if (there && (os_thread_alive((pid_t)there) || !cas_acq_rel(&q->tid, &there, 0))) continue;
    q->call = *at;
    store_release(&q->tid, tid);
    return true;
  }
  return false;
}

static leaks_thread_state_t ask(hold_t *h, leaks_thread_t *t, const os_blocked_t *at) {
  os_blocked_t before;
  (void)take_question(h, t->tid, &before); /* a question that it has not come for yet */
  if (!put_question(h, t->tid, at)) return LEAKS_THREAD_RUNNING;
  store_release(&t->state, (uint32_t)LEAKS_THREAD_SIGNALED);
  if (os_signal_process(os_pid(), (pid_t)t->tid) == 0) return LEAKS_THREAD_SIGNALED;
  (void)take_question(h, t->tid, &before);
  return LEAKS_THREAD_NONE;
}

/* It does not run at this moment: AT says where it is. */
static leaks_thread_state_t approach_blocked(hold_t *h, leaks_thread_t *t, const os_thread_t *about,
                                             const os_blocked_t *at) {
  t->sp = at->sp;
  t->pc = at->pc;
  t->call = at->call;
  bool may_ask = about->state == 'S' && !os_blocks_signal(about) && at->call >= 0;
  if (may_ask && os_call_restarts(at)) return ask(h, t, at);
  if (has_spilled(h, (pid_t)t->tid)) return LEAKS_THREAD_SPILLED;
  return may_ask && os_call_resumes(at) ? ask(h, t, at) : LEAKS_THREAD_UNKNOWN;
}

static void approach(hold_t *h, leaks_thread_t *t) {
  static const os_blocked_t nowhere = {.call = -1};
  os_thread_t about;
  os_blocked_t at;
  pid_t tid = (pid_t)t->tid;
  leaks_thread_state_t how;
  t->sp = t->pc = t->pointer = t->vectors = 0;
  t->register_count = 0;
  t->call = -1;
  if (os_thread_read(-1, tid, &about) != 0 || about.state == 'Z' || about.state == 'X') {
    t->state = LEAKS_THREAD_NONE;
    return;
  }
  t->progress = os_thread_progress(-1, tid);
  int r = os_thread_blocked(-1, tid, &at);
  if (r == 0)
    how = approach_blocked(h, t, &about, &at);
  else if (about.state == 'R' || r == -11 /* EAGAIN: it runs */)
    how = os_blocks_signal(&about) ? LEAKS_THREAD_RUNNING : ask(h, t, &nowhere);
  else
    how = LEAKS_THREAD_UNKNOWN;
  if (how != LEAKS_THREAD_SIGNALED) t->state = how;
}

static bool is_in_place(const leaks_thread_t *t) {
  return t->state == LEAKS_THREAD_SPILLED || t->state == LEAKS_THREAD_UNKNOWN;
}

static bool has_moved(const leaks_thread_t *t) {
  if (!is_in_place(t)) return false;
  int64_t now = os_thread_progress(-1, (pid_t)t->tid);
  return (now < 0 || now != t->progress) && os_thread_alive((pid_t)t->tid);
}

/* ---- holding all of them -------------------------------------------------------------------- */

typedef struct listing {
  hold_t *hold;
  uint32_t added;
  bool full;
} listing_t;

static bool add_thread(pid_t tid, uint64_t identity, void *context) {
  listing_t *l = context;
  hold_t *h = l->hold;
  (void)identity;
  if (entry_of(h, (uint32_t)tid)) return true;
  l->full = h->count == LEAKS_THREADS;
  if (l->full) return false;
  leaks_thread_t *t = &h->threads[h->count];
  memset(t, 0, sizeof *t);
  t->tid = (uint32_t)tid;
  store_release(&h->count, h->count + 1);
  approach(h, t);
  l->added++;
  return true;
}

static uint32_t count_how(const hold_t *h, leaks_thread_state_t how) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->count; i++)
    n += load_acquire(&h->threads[i].state) == (uint32_t)how;
  return n;
}

/* Waits for those that were asked; who has not come by then is loose. */
static void collect(hold_t *h, uint64_t deadline_ns) {
  for (;;) {
    uint32_t answers = load_acquire(&h->answers);
    uint64_t now = os_monotonic_ns();
    if (!count_how(h, LEAKS_THREAD_SIGNALED)) return;
    if (now >= deadline_ns) break;
    (void)os_futex_wait(&h->answers, answers, deadline_ns - now);
  }
  for (uint32_t i = 0; i < h->count; i++) {
    uint32_t asked = LEAKS_THREAD_SIGNALED, *how = &h->threads[i].state;
    bool alive = os_thread_alive((pid_t)h->threads[i].tid);
    (void)cas_acq_rel(how, &asked, (uint32_t)(alive ? LEAKS_THREAD_RUNNING : LEAKS_THREAD_NONE));
  }
}

/* Those that went on while others were held, and those that would not be asked a moment ago. */
static uint32_t approach_again(hold_t *h) {
  uint32_t again = 0;
  for (uint32_t i = 0; i < h->count; i++) {
    leaks_thread_t *t = &h->threads[i];
    if (t->state != LEAKS_THREAD_RUNNING && !has_moved(t)) continue;
    approach(h, t);
    again++;
  }
  return again;
}

/* Until a look finds nobody new and nobody that has moved. */
static int hold_all(hold_t *h, const void *ucontext) {
  uint64_t deadline = os_monotonic_ns() + ANSWER_NS;
  store_relaxed(&h->count, 0u);
  memset(&h->threads[0], 0, sizeof h->threads[0]);
  h->threads[0].tid = (uint32_t)os_tid();
  h->threads[0].state = LEAKS_THREAD_STOPPED;
  h->threads[0].call = -1;
  save(&h->threads[0], ucontext);
  store_release(&h->count, 1u);
  store_release(&h->round, h->round + 1);
  for (int pass = 0; pass < PASSES; pass++) {
    listing_t l = {.hold = h};
    if (os_threads(add_thread, &l) != 0) return SONDE_EUNSUPPORTED;
    if (l.full) return SONDE_EFULL;
    collect(h, deadline);
    if (!l.added && !approach_again(h)) return 0;
    collect(h, deadline);
  }
  return 0;
}

static void release(hold_t *h) {
  store_release(&h->round, h->round + 1);
  (void)os_futex_wake(&h->round, INT32_MAX);
}

/* While a realloc runs its block is in neither place as far as the log goes. */
static uint32_t moving(void) {
  uint32_t count = 0;
  for (writer_t *w = load_acquire(&writer_global->writers); w; w = w->next)
    if (load_relaxed(&w->realloc_old) && os_thread_alive(load_relaxed(&w->tid))) count++;
  return count;
}

/* ---- leading -------------------------------------------------------------------------------- */

static void enter_state(leaks_exchange_t *x, uint32_t state) {
  store_release(&x->state, state);
  (void)os_futex_wake_shared(&x->state, INT32_MAX);
}

static hold_t *hold_open(void) {
  hold_t *h = the_hold;
  if (!h && (h = os_map(sizeof *h))) {
    if (!passive_open(&h->copy)) {
      os_unmap(h, sizeof *h);
      return NULL;
    }
    store_release(&the_hold, h);
  }
  if (h && h->pid != (uint32_t)os_pid()) {
    store_relaxed(&h->round, 0u);
    for (uint32_t i = 0; i < LEAKS_THREADS; i++)
      store_relaxed(&h->questions[i].tid, 0u);
    store_release(&h->pid, (uint32_t)os_pid());
  }
  return h;
}

static void wait_until_kept(leaks_exchange_t *x) {
  uint64_t deadline = os_monotonic_ns() + KEEPING_NS;
  while (load_acquire(&x->state) == LEAKS_STOPPED) {
    uint64_t now = os_monotonic_ns();
    if (now >= deadline) {
      x->error = SONDE_ETIMEDOUT;
      return;
    }
    (void)os_futex_wait_shared(&x->state, LEAKS_STOPPED, deadline - now);
  }
}

static uint64_t ticks(const shm_control_t *c) {
  uint64_t now = c->clock != RECORD_CLOCK_MONOTONIC ? arch_cycles() : os_monotonic_ns();
  return now >> c->clock_shift;
}

/* All are held. */
static int make_copy(hold_t *h, shm_control_t *c, leaks_exchange_t *x) {
  x->time = ticks(c);
  x->thread_count = h->count;
  memcpy(x->threads, h->threads, h->count * sizeof *h->threads);
  enter_state(x, LEAKS_STOPPED);
  uint64_t start = os_monotonic_ns();
  pid_t copy = os_process_copy(os_parent() == (pid_t)c->recorder_pid);
  if (copy == 0) leaks_copy(x);
  x->copying_ns = os_monotonic_ns() - start;
  if (copy < 0) return LEAKS_ERRNO + copy;
  x->copy_pid = (uint32_t)copy;
  if (load_relaxed(&c->mode) & RECORD_LIVE) wait_until_kept(x);
  for (uint32_t i = 0; i < h->count; i++)
    if (has_moved(&h->threads[i]) || h->threads[i].state == LEAKS_THREAD_RESUMED)
      x->threads[i].state = LEAKS_THREAD_RUNNING;
  return x->error;
}

static int hold_and_copy(hold_t *h, shm_control_t *c, leaks_exchange_t *x, const void *ucontext) {
  static const uint32_t never_woken;
  for (x->tries = 1;; x->tries++) {
    if (load_acquire(&x->state) == LEAKS_FAILED) return SONDE_ETIMEDOUT; /* nobody waits any more */
    uint64_t start = os_monotonic_ns();
    int status = hold_all(h, ucontext);
    x->reallocating = status == 0 ? moving() : 0;
    bool good = status == 0 && (!x->reallocating || x->tries == TRIES);
    if (good) status = make_copy(h, c, x);
    release(h);
    x->pause_ns = os_monotonic_ns() - start;
    if (good || status < 0) return status;
    (void)os_futex_wait(&never_woken, 0, PAUSE_NS * (x->tries < LONGEST ? x->tries : LONGEST));
  }
}

/* As much of it as the address space has room for. */
static leaks_exchange_t *open_exchange(const shm_control_t *c) {
  int fd = writer_open_of_recorder(c, c->leaks_fd);
  leaks_exchange_t *x = NULL;
  if (fd < 0) return NULL;
  leaks_exchange_t *head = os_map_shared(fd, 0, sizeof *head);
  uint64_t size = head && head->magic == LEAKS_MAGIC ? head->size : 0;
  for (; !x && size >= LEAST_BYTES; size /= 2) {
    x = os_map_shared(fd, 0, size);
    if (x) x->size = size;
  }
  if (head) os_unmap(head, sizeof *head);
  os_close(fd);
  return x;
}

/* The call that the leading thread was blocked in when it was called. */
static void go_on(const leaks_exchange_t *x, void *ucontext) {
  os_blocked_t at = {.call = x->call, .sp = x->call_sp, .pc = x->call_pc};
  memcpy(at.arguments, x->call_arguments, sizeof at.arguments);
  if (x->called == (uint32_t)os_tid()) os_call_resume(ucontext, &at);
}

static void lead(shm_control_t *c, void *ucontext) {
  static pid_t last;
  uint64_t mask = os_signals_block();
  if (last > 0 && os_reap(last)) last = 0;
  leaks_exchange_t *x = open_exchange(c);
  hold_t *h = hold_open();
  if (x && h) {
    enter_state(x, LEAKS_ACCEPTED);
    int status = hold_and_copy(h, c, x, ucontext);
    if (status < 0) x->error = status;
    last = (pid_t)x->copy_pid;
    go_on(x, ucontext);
    enter_state(x, status < 0 ? LEAKS_FAILED : LEAKS_COPIED);
  }
  if (x) os_unmap(x, x->size);
  os_signals_restore(mask);
}

/* One thread leads at a time: the recorder may have given up on one that was stopped for long, and
 * call another. A child of fork finds its parent's pid there, which leads no more. */
static void lead_alone(shm_control_t *c, void *ucontext) {
  static uint32_t leader; /* pid of the process whose thread leads, or one that did */
  uint32_t pid = (uint32_t)os_pid(), before = load_acquire(&leader), asked = LEAKS_REQUESTED;
  if (before == pid || !cas_acq_rel(&leader, &before, pid)) return;
  if (cas_acq_rel(&c->leaks_state, &asked, LEAKS_ACCEPTED)) lead(c, ucontext);
  store_release(&leader, 0u);
}

static void answer(hold_t *h, uint32_t round, void *ucontext) {
  shm_control_t *c = writer_control();
  if (round & 1) {
    leaks_thread_t *t = entry_of(h, (uint32_t)os_tid());
    if (t && load_acquire(&t->state) == LEAKS_THREAD_SIGNALED) stay(h, t, round, ucontext);
  } else if (c && c->pid == (uint32_t)os_pid())
    lead_alone(c, ucontext);
}

static void on_request(void *ucontext) {
  hold_t *h = load_acquire(&the_hold);
  bool ours = h && load_acquire(&h->pid) == (uint32_t)os_pid();
  os_blocked_t call = {.call = -1};
  bool asked = ours && take_question(h, (uint32_t)os_tid(), &call);
  answer(h, ours ? load_acquire(&h->round) : 0, ucontext);
  if (asked) os_call_resume(ucontext, &call);
}

HIDDEN const sensor_t sensor_leaks = {.on_request = on_request};
