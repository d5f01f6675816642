/* SPDX-License-Identifier: MIT
 *
 * Stops the threads and makes the copy.
 *
 * `round` is odd while threads must wait. A handler that runs too late finds it even, or has no
 * entry for its thread, and resumes its call. The stop_t is mapped once and never unmapped, so a
 * late handler can read it. It is not memory of the recording, because the copy reads it too.
 */
#include "sensor/leaks/leaks.h"

#include <string.h>

#include "os/os.h"
#include "record/writer.h"
#include "sensor/sensor.h"
#include "sonde/status.h"
#include "capture/passive_capture.h"

#define PASSES 8
/* Time for signaled threads to enter their handlers. */
#define ANSWER_NS UINT64_C(100000000)
/* The longest that a thread waits. */
#define STAY_NS UINT64_C(5000000000)
/* Between the first two tries; then longer, up to LONGEST times this. */
#define PAUSE_NS UINT64_C(500000)
#define LONGEST  20
/* Frames from the system call to the hook that spills. */
#define DEPTH 8

/* Entries where the request to a tid may be. Consecutive tids rarely collide. */
#define REQUEST_ENTRIES 8

/* A request to a thread to stop, with the call that it must resume. On a busy machine its handler
 * may run long after the copy is made, and must still resume the call. So a request stays until the
 * handler has run or the thread has ended. */
typedef struct stop_request {
  uint32_t tid; /* 0: free; written last */
  os_blocked_t call;
} stop_request_t;

typedef struct stop {
  /* the process; a forked child inherits its parent's, perhaps in the middle of a round */
  uint32_t pid;
  /* odd: signaled threads wait */
  uint32_t round;
  uint32_t answers;
  uint32_t count;
  passive_buffer_t copy;
  stop_request_t requests[LEAKS_THREADS];
  leaks_thread_t threads[LEAKS_THREADS];
} stop_t;

static stop_t *the_stop;

/* ---- in a signaled thread ------------------------------------------------------------------- */

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

static leaks_thread_t *entry_of(stop_t *h, uint32_t tid) {
  for (uint32_t i = 0; i < load_acquire(&h->count); i++)
    if (h->threads[i].tid == tid) return &h->threads[i];
  return NULL;
}

/* Entry I of those where the request to TID may be. */
static stop_request_t *request_entry(stop_t *h, uint32_t tid, uint32_t i) {
  return &h->requests[(tid + i) % LEAKS_THREADS];
}

/* Removes the request to TID; false if there is none, or another thread removes it. */
static bool take_request(stop_t *h, uint32_t tid, os_blocked_t *call) {
  for (uint32_t i = 0; i < REQUEST_ENTRIES; i++) {
    stop_request_t *q = request_entry(h, tid, i);
    uint32_t old = tid;
    if (load_acquire(&q->tid) != tid) continue;
    *call = q->call;
    if (cas_acq_rel(&q->tid, &old, 0)) return true;
  }
  return false;
}

static void wait_for_copy(stop_t *h, leaks_thread_t *t, uint32_t round, void *ucontext) {
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

/* ---- stopping a thread ----------------------------------------------------------------------- */

extern const char __start_sonde_spilling[] __attribute__((weak)) HIDDEN;
extern const char __stop_sonde_spilling[] __attribute__((weak)) HIDDEN;

/* True if the thread waits in a function that has spilled its callers' registers. */
static bool has_spilled(stop_t *h, pid_t tid) {
  uintptr_t pcs[DEPTH];
  sonde_capture_t capture = {.pcs = pcs, .max = DEPTH};
  uintptr_t start = (uintptr_t)__start_sonde_spilling, stop = (uintptr_t)__stop_sonde_spilling;
  if (start == stop) return false;
  int count = passive_capture(&h->copy, tid, 0, &capture);
  for (int i = 0; i < count; i++)
    if (pcs[i] > start && pcs[i] <= stop) return true;
  return false;
}

/* Adds a request to TID; false if its entries are full. Requests to ended threads are replaced. */
static bool put_request(stop_t *h, uint32_t tid, const os_blocked_t *at) {
  for (uint32_t i = 0; i < REQUEST_ENTRIES; i++) {
    stop_request_t *q = request_entry(h, tid, i);
    uint32_t there = load_acquire(&q->tid);
    if (there && (os_thread_alive((pid_t)there) || !cas_acq_rel(&q->tid, &there, 0))) continue;
    q->call = *at;
    store_release(&q->tid, tid);
    return true;
  }
  return false;
}

/* A thread that has not handled an earlier request runs, or waits for a CPU, because of that
 * signal: the call that it must resume is still the one of that request. */
static leaks_thread_state_t signal_stop(stop_t *h, leaks_thread_t *t, const os_blocked_t *at) {
  os_blocked_t before;
  if (take_request(h, t->tid, &before) && at->call < 0) at = &before;
  if (!put_request(h, t->tid, at)) return LEAKS_THREAD_RUNNING;
  store_release(&t->state, (uint32_t)LEAKS_THREAD_SIGNALED);
  if (os_signal_process(os_pid(), (pid_t)t->tid) == 0) return LEAKS_THREAD_SIGNALED;
  (void)take_request(h, t->tid, &before);
  return LEAKS_THREAD_NONE;
}

/* The thread is blocked at AT. */
static leaks_thread_state_t stop_blocked(stop_t *h, leaks_thread_t *t, const os_thread_t *about,
                                         const os_blocked_t *at) {
  t->sp = at->sp;
  t->pc = at->pc;
  t->call = at->call;
  bool may_signal = about->state == 'S' && !os_blocks_signal(about) && at->call >= 0;
  if (may_signal && os_call_restarts(at)) return signal_stop(h, t, at);
  if (has_spilled(h, (pid_t)t->tid)) return LEAKS_THREAD_SPILLED;
  return may_signal && os_call_resumes(at) ? signal_stop(h, t, at) : LEAKS_THREAD_UNKNOWN;
}

static void stop_thread(stop_t *h, leaks_thread_t *t) {
  static const os_blocked_t nowhere = {.call = -1};
  os_thread_t about;
  os_blocked_t at;
  pid_t tid = (pid_t)t->tid;
  leaks_thread_state_t state;
  t->sp = t->pc = t->pointer = t->vectors = 0;
  t->register_count = 0;
  t->call = -1;
  if (os_thread_read(-1, tid, &about) != 0 || about.state == 'Z' || about.state == 'X') {
    t->state = LEAKS_THREAD_NONE;
    return;
  }
  t->progress = os_thread_progress_exact(-1, tid);
  int r = os_thread_blocked(-1, tid, &at);
  if (r == 0)
    state = stop_blocked(h, t, &about, &at);
  else if (about.state == 'R' || r == -11 /* EAGAIN: it runs */)
    state = os_blocks_signal(&about) ? LEAKS_THREAD_RUNNING : signal_stop(h, t, &nowhere);
  else
    state = LEAKS_THREAD_UNKNOWN;
  if (state != LEAKS_THREAD_SIGNALED) t->state = state;
}

static bool is_in_place(const leaks_thread_t *t) {
  return t->state == LEAKS_THREAD_SPILLED || t->state == LEAKS_THREAD_UNKNOWN;
}

static bool has_moved(const leaks_thread_t *t) {
  if (!is_in_place(t)) return false;
  int64_t now = os_thread_progress_exact(-1, (pid_t)t->tid);
  return (now < 0 || now != t->progress) && os_thread_alive((pid_t)t->tid);
}

/* ---- stopping all threads -------------------------------------------------------------------- */

typedef struct listing {
  stop_t *stop;
  uint32_t added;
  bool full;
} listing_t;

static bool add_thread(pid_t tid, uint64_t identity, void *context) {
  listing_t *l = context;
  stop_t *h = l->stop;
  (void)identity;
  if (entry_of(h, (uint32_t)tid)) return true;
  l->full = h->count == LEAKS_THREADS;
  if (l->full) return false;
  leaks_thread_t *t = &h->threads[h->count];
  memset(t, 0, sizeof *t);
  t->tid = (uint32_t)tid;
  store_release(&h->count, h->count + 1);
  stop_thread(h, t);
  l->added++;
  return true;
}

static uint32_t count_in_state(const stop_t *h, leaks_thread_state_t state) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->count; i++)
    n += load_acquire(&h->threads[i].state) == (uint32_t)state;
  return n;
}

/* Waits for the signaled threads; those that do not stop in time are marked RUNNING. */
static void collect(stop_t *h, uint64_t deadline_ns) {
  for (;;) {
    uint32_t answers = load_acquire(&h->answers);
    uint64_t now = os_monotonic_ns();
    if (!count_in_state(h, LEAKS_THREAD_SIGNALED)) return;
    if (now >= deadline_ns) break;
    (void)os_futex_wait(&h->answers, answers, deadline_ns - now);
  }
  for (uint32_t i = 0; i < h->count; i++) {
    uint32_t signaled = LEAKS_THREAD_SIGNALED, *state = &h->threads[i].state;
    bool alive = os_thread_alive((pid_t)h->threads[i].tid);
    (void)cas_acq_rel(state, &signaled,
                      (uint32_t)(alive ? LEAKS_THREAD_RUNNING : LEAKS_THREAD_NONE));
  }
}

/* Stops threads that ran while others were stopped, and those that could not be signaled before.
 */
static uint32_t stop_again(stop_t *h) {
  uint32_t again = 0;
  for (uint32_t i = 0; i < h->count; i++) {
    leaks_thread_t *t = &h->threads[i];
    if (t->state != LEAKS_THREAD_RUNNING && !has_moved(t)) continue;
    stop_thread(h, t);
    again++;
  }
  return again;
}

/* The registers of the leader: those of its signal handler's UCONTEXT; without one, its callers'
 * are on its stack from SP up. */
typedef struct leader {
  const void *ucontext;
  uint64_t sp;
} leader_t;

static void save_leader(leaks_thread_t *t, const leader_t *leader) {
  memset(t, 0, sizeof *t);
  t->tid = (uint32_t)os_tid();
  t->state = LEAKS_THREAD_STOPPED;
  t->call = -1;
  t->sp = leader->sp;
  t->pointer = arch_thread_pointer();
  if (leader->ucontext) save(t, leader->ucontext);
}

/* Repeats until no thread is new and none has run. */
static int stop_all(stop_t *h, const leader_t *leader) {
  uint64_t deadline = os_monotonic_ns() + ANSWER_NS;
  store_relaxed(&h->count, 0u);
  save_leader(&h->threads[0], leader);
  store_release(&h->count, 1u);
  store_release(&h->round, h->round + 1);
  for (int pass = 0; pass < PASSES; pass++) {
    listing_t l = {.stop = h};
    if (os_threads(add_thread, &l) != 0) return SONDE_EUNSUPPORTED;
    if (l.full) return SONDE_EFULL;
    collect(h, deadline);
    if (!l.added && !stop_again(h)) return 0;
    collect(h, deadline);
  }
  return 0;
}

static void release(stop_t *h) {
  store_release(&h->round, h->round + 1);
  (void)os_futex_wake(&h->round, INT32_MAX);
}

/* ---- the leader ------------------------------------------------------------------------------ */

static stop_t *stop_open(void) {
  stop_t *h = the_stop;
  if (!h && (h = os_map(sizeof *h))) {
    if (!passive_open(&h->copy)) {
      os_unmap(h, sizeof *h);
      return NULL;
    }
    store_release(&the_stop, h);
  }
  if (h && h->pid != (uint32_t)os_pid()) {
    store_relaxed(&h->round, 0u);
    for (uint32_t i = 0; i < LEAKS_THREADS; i++)
      store_relaxed(&h->requests[i].tid, 0u);
    store_release(&h->pid, (uint32_t)os_pid());
  }
  return h;
}

/* All threads are stopped. */
static int make_copy(stop_t *h, const shm_control_t *c, leaks_exchange_t *x) {
  x->thread_count = h->count;
  memcpy(x->threads, h->threads, h->count * sizeof *h->threads);
  int status = leaks_make_copy(x, c, os_parent() == (pid_t)c->recorder_pid);
  for (uint32_t i = 0; i < h->count; i++)
    if (has_moved(&h->threads[i]) || h->threads[i].state == LEAKS_THREAD_RESUMED)
      x->threads[i].state = LEAKS_THREAD_RUNNING;
  return status;
}

static int stop_and_copy(stop_t *h, shm_control_t *c, leaks_exchange_t *x, const leader_t *leader) {
  static const uint32_t never_woken;
  for (x->tries = 1;; x->tries++) {
    if (load_acquire(&x->state) == LEAKS_FAILED) return SONDE_ETIMEDOUT; /* the recorder gave up */
    uint64_t start = os_monotonic_ns();
    int status = stop_all(h, leader);
    x->reallocating = status == 0 ? leaks_count_reallocating() : 0;
    bool good = status == 0 && (!x->reallocating || x->tries == LEAKS_TRIES);
    if (good) status = make_copy(h, c, x);
    release(h);
    x->pause_ns = os_monotonic_ns() - start;
    if (good || status < 0) return status;
    (void)os_futex_wait(&never_woken, 0, PAUSE_NS * (x->tries < LONGEST ? x->tries : LONGEST));
  }
}

static void lead(shm_control_t *c, int exchange, const leader_t *leader) {
  static pid_t last;
  uint64_t mask = os_signals_block();
  if (last > 0 && os_reap(last)) last = 0;
  leaks_exchange_t *x = leaks_open_exchange(c, exchange);
  stop_t *h = stop_open();
  if (x && h) {
    leaks_enter_state(x, LEAKS_ACCEPTED);
    int status = stop_and_copy(h, c, x, leader);
    if (status < 0) x->error = status;
    last = (pid_t)x->copy_pid;
    leaks_enter_state(x, status < 0 ? LEAKS_FAILED : LEAKS_COPIED);
  }
  if (x) os_unmap(x, x->size);
  os_signals_restore(mask);
}

/* One thread leads at a time: the recorder may have given up on a leader that was stopped for long,
 * and signaled another thread. In a forked child LEADS is the parent's pid, and ignored. */
static uint32_t leads; /* pid of the process whose thread leads; 0: none */

static bool begin_to_lead(void) {
  uint32_t pid = (uint32_t)os_pid(), before = load_acquire(&leads);
  return before != pid && cas_acq_rel(&leads, &before, pid);
}

static void lead_alone(shm_control_t *c, void *ucontext) {
  uint32_t requested = LEAKS_REQUESTED;
  if (!begin_to_lead()) return;
  if (cas_acq_rel(&c->leaks_state, &requested, LEAKS_ACCEPTED))
    lead(c, c->leaks_fd, &(leader_t){.ucontext = ucontext});
  store_release(&leads, 0u);
}

static void handle(stop_t *h, uint32_t round, void *ucontext) {
  shm_control_t *c = writer_control();
  if (round & 1) {
    leaks_thread_t *t = entry_of(h, (uint32_t)os_tid());
    if (t && load_acquire(&t->state) == LEAKS_THREAD_SIGNALED) wait_for_copy(h, t, round, ucontext);
  } else if (writer_is_of_process(c))
    lead_alone(c, ucontext);
}

static void on_request(void *ucontext) {
  stop_t *h = load_acquire(&the_stop);
  bool own = h && load_acquire(&h->pid) == (uint32_t)os_pid();
  shm_control_t *c = writer_control();
  uint32_t tid = (uint32_t)os_tid();
  os_blocked_t call = {.call = -1}, asked = {.call = -1};
  if (own) (void)take_request(h, tid, &call);
  if (c) (void)shm_take_asked(c->asked, tid, &asked);
  handle(h, own ? load_acquire(&h->round) : 0, ucontext);
  os_call_resume(ucontext, call.call >= 0 ? &call : &asked);
}

/* ---- at the end of the program ----------------------------------------------------------------
 */

static bool is_forbidden;
static void limit(uint32_t effects) { is_forbidden |= effects & SECCOMP_STOPS_LEAKS; }
bool leaks_is_forbidden(void) { return is_forbidden; }

/* The frame of at_exit, which contains the registers of its callers, is above this one. */
static NOINLINE void lead_at_exit(shm_control_t *c) {
  const leader_t leader = {.sp = (uint64_t)(uintptr_t)__builtin_frame_address(0)};
  if (!begin_to_lead()) return;
  lead(c, c->exit_leaks_fd, &leader);
  store_release(&leads, 0u);
}

SPILLING static void at_exit(shm_control_t *c) {
  SPILLS();
  if (c->exit_leaks_fd > 0 && !is_forbidden && !sensor_is_silenced()) lead_at_exit(c);
  __asm__ volatile(""); /* no tail call: this frame has the registers */
}

HIDDEN const sensor_t sensor_leaks = {.on_request = on_request, .limit = limit, .stop = at_exit};
