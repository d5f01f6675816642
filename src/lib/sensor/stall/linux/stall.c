/* SPDX-License-Identifier: MIT
 *
 * The slow paths of the stall sensor: finding wait sites, ending watched iterations, waking the
 * recorder, and capturing the stacks that it requests.
 */
#include "sensor/stall/stall.h"

#include "sensor/sample.h"
#include "sensor/sensor.h"
#include "sonde/status.h"
#include "capture/stack.h"

/* ---- the rule -------------------------------------------------------------------------------- */

static bool same_place(wait_site_t a, wait_site_t b) {
  return a.site == b.site && a.frame == b.frame;
}

/* Stacks grow down: a smaller frame is deeper. */
wait_kind_t wait_classify(wait_candidate_t *candidate, wait_site_t site, uint32_t iterations,
                          wait_site_t place) {
  bool inside = site.site && place.frame < site.frame;
  bool again =
      same_place(candidate->place, place) && (!inside || candidate->iterations == iterations);
  candidate->visits = again ? candidate->visits + 1 : 1;
  candidate->place = place;
  candidate->iterations = iterations;
  if (inside) return candidate->visits < NESTED_WAITS ? WAIT_INSIDE : WAIT_IDLE;
  if (candidate->visits >= SITE_WAITS) return WAIT_SITE;
  return site.site ? WAIT_IDLE : WAIT_INSIDE;
}

/* The wait site of a thread that declares its iterations; no code has this address. */
#define DECLARED 1

/* ---- a thread's entry ------------------------------------------------------------------------ */

/* One per entry of the shared table; the recorder does not need them. */
static wait_candidate_t candidates[SHM_LOOPS];

static bool claim(shm_loop_t *loop, uint32_t self) {
  uint32_t tid = load_acquire(&loop->tid);
  if (tid && tid != self && os_thread_alive((pid_t)tid)) return false;
  return cas_acq_rel(&loop->tid, &tid, self);
}

static shm_loop_t *find_entry(shm_loops_t *loops, uint32_t self) {
  uint32_t used = load_acquire(&loops->used);
  for (uint32_t i = 0; i < SHM_LOOPS; i++) {
    shm_loop_t *loop = &loops->loops[i];
    if (!claim(loop, self)) continue;
    while (used <= i && !cas_acq_rel(&loops->used, &used, i + 1)) {
    }
    return loop;
  }
  add_relaxed(&loops->missed, 1);
  return NULL;
}

/* If the table is full, threads try again only after this many waits in all: a try costs a system
 * call per entry. */
#define WAITS_UNTIL_RETRY 4096u
static uint32_t waits_until_retry; /* need not be exact */

static bool is_full(void) {
  uint32_t left = load_relaxed(&waits_until_retry);
  if (left) store_relaxed(&waits_until_retry, left - 1);
  return left;
}

/* The calling thread's entry, cleared; NULL if the table is full. */
static shm_loop_t *claim_entry(writer_t *w) {
  shm_loops_t *loops = &w->control->stall;
  if (!(load_relaxed(&w->control->mode) & RECORD_STALLS) || w->depth == WRITER_MUTED) return NULL;
  if (is_full()) return NULL;
  shm_loop_t *loop = find_entry(loops, (uint32_t)w->tid);
  if (!loop) store_relaxed(&waits_until_retry, WAITS_UNTIL_RETRY);
  if (!loop) return NULL;
  store_relaxed(&loop->began, (uint64_t)0);
  store_relaxed(&loop->watched, 0u);
  loop->site = loop->frame = 0;
  loop->iterations = 0;
  candidates[loop - loops->loops] = (wait_candidate_t){0};
  w->loop = loop;
  return loop;
}

static void ring(shm_loops_t *loops) {
  add_relaxed(&loops->bell, 1);
  (void)os_futex_wake_shared(&loops->bell, 1);
}

void stall_end_watched(shm_loop_t *loop) {
  uint64_t began = load_relaxed(&loop->began);
  uint32_t wanted = load_relaxed(&loop->watched);
  if (!began) return;
  store_relaxed(&loop->ended, writer_now(writer_tls));
  store_relaxed(&loop->ended_of, began);
  store_release(&loop->watched, 0u);
  if (wanted == SHM_WATCH_CALL) ring(&writer_tls->control->stall);
}

void stall_wake_recorder(void) {
  shm_loops_t *loops = &writer_tls->control->stall;
  uint32_t asleep = 1;
  if (cas_acq_rel(&loops->asleep, &asleep, 0u)) ring(loops);
}

/* The calling thread's state, if stalls are recorded. A wait may be the first event of a forked
 * child. */
static writer_t *enter(void) {
  const shm_control_t *control = writer_control();
  if (control && !(load_relaxed(&control->mode) & RECORD_STALLS)) return NULL;
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  return w && load_relaxed(&w->control->mode) & RECORD_STALLS ? w : NULL;
}

/* stall_wait_begin handles the wait site. */
stall_wait_t stall_wait_slow(wait_site_t place) {
  writer_t *w = enter();
  if (!w) return NULL;
  shm_loop_t *loop = w->loop ? w->loop : claim_entry(w);
  if (!loop || loop->site == DECLARED) return NULL;
  wait_candidate_t *candidate = &candidates[loop - w->control->stall.loops];
  wait_site_t site = {loop->site, loop->frame};
  wait_kind_t kind = wait_classify(candidate, site, loop->iterations, place);
  if (kind == WAIT_INSIDE) return NULL;
  /* Visits of a nested loop within one iteration of the outer loop keep counting: the iterations of
   * the nested loop, which are counted from now on, are not the outer loop's. */
  candidate->iterations = loop->iterations + 1;
  if (kind == WAIT_SITE) {
    loop->site = place.site;
    loop->frame = place.frame;
  }
  /* This was not one long iteration: the recorder withdraws a stall that it reported. */
  if (load_relaxed(&loop->watched)) {
    store_relaxed(&loop->moved, loop->moved + 1);
    stall_end_watched(loop);
  }
  store_release(&loop->began, (uint64_t)0);
  return loop;
}

/* ---- declared iterations -----------------------------------------------------------------------
 */

/* Ends the current iteration of the calling thread, whose waits are ignored from now on. */
static int declare(shm_loop_t **out) {
  writer_t *w = enter();
  if (!w) return SONDE_EUNSUPPORTED;
  shm_loop_t *loop = w->loop ? w->loop : claim_entry(w);
  if (!loop) return SONDE_EFULL;
  loop->site = DECLARED;
  if (load_relaxed(&loop->watched)) stall_end_watched(loop);
  store_release(&loop->began, (uint64_t)0);
  *out = loop;
  return 0;
}

int stall_begin(uint32_t limit_ms) {
  shm_loop_t *loop;
  int status = declare(&loop);
  if (status < 0) return status;
  uint64_t now = writer_now(writer_tls);
  store_relaxed(&loop->allowed_ms, limit_ms);
  store_release(&loop->allowed_of, (uint32_t)now);
  store_relaxed(&loop->iterations, loop->iterations + 1);
  store_release(&loop->began, now);
  if (load_relaxed(&writer_tls->control->stall.asleep)) stall_wake_recorder();
  return 0;
}

int stall_heartbeat(void) { return stall_begin(0); }

int stall_expect(uint32_t limit_ms) {
  writer_t *w = writer_tls;
  if (!w || !w->control) return SONDE_EUNSUPPORTED;
  shm_loop_t *loop = w->loop;
  uint64_t began = loop ? load_relaxed(&loop->began) : 0;
  if (!began) return SONDE_EINVAL;
  store_relaxed(&loop->allowed_ms, limit_ms);
  store_release(&loop->allowed_of, (uint32_t)began);
  return 0;
}

int stall_end(void) {
  shm_loop_t *loop;
  return declare(&loop);
}

/* ---- stack requests ----------------------------------------------------------------------------
 */

/* A thread that is sampled learns of a request at its next tick. The recorder signals others. The
 * place where that signal reaches a thread is a biased sample of where it uses the CPU: a
 * thread that gets too little CPU is preempted in system calls, and found there again and again.
 * Ticks at equal distances may keep the pace of a program that does its work by turns. So both only
 * arm a timer on the thread's CPU clock. A tick arms it with a random delay. The timer's signal
 * comes with a tick of the kernel's clock, and its handler captures the stack. */

/* By stack request: the thread in the lower half, and its timer; 0: none. The thread of an earlier
 * request may still have one. Whoever takes it out of the table deletes it. */
static uint64_t armed[SHM_STACK_REQUESTS];

static void delete_timer(uint64_t of) {
  if (of) os_tick_stop((int)(of >> 32));
}

static bool arm(uint64_t *entry, uint32_t tid, uint64_t delay_ns) {
  int timer = os_signal_thread_after((pid_t)tid, delay_ns);
  if (timer < 0) return false;
  delete_timer(__atomic_exchange_n(entry, (uint64_t)timer << 32 | tid, __ATOMIC_ACQ_REL));
  return true;
}

static bool is_armed(const uint64_t *entry, uint32_t tid) {
  return (uint32_t)load_relaxed(entry) == tid;
}

static bool was_armed(uint64_t *entry, uint32_t tid) {
  uint64_t of = load_acquire(entry);
  if ((uint32_t)of != tid || !cas_acq_rel(entry, &of, (uint64_t)0)) return false;
  delete_timer(of);
  return true;
}

static void capture(writer_t *w, shm_stack_request_t *q, const void *ucontext) {
  uint32_t stack = 0;
  uint64_t time = writer_now(w);
  if (stack_id_of_context(&stack, ucontext) < 0) stack = 0;
  q->stack = stack;
  q->time = time;
  store_release(&q->state, SHM_CAPTURED);
}

static void serve(const void *ucontext, bool is_tick) {
  stream_t *s = writer_enter(RECORD_STALLS);
  if (!s) return;
  writer_t *w = s->writer;
  uint32_t tid = (uint32_t)w->tid;
  uint64_t delay_ns = is_tick ? sample_random_delay_ns(w->tid) : 1;
  for (uint32_t i = 0; i < SHM_STACK_REQUESTS; i++) {
    shm_stack_request_t *q = &w->control->stall.stack_requests[i];
    if (is_tick && is_armed(&armed[i], tid)) continue;
    bool second = was_armed(&armed[i], tid);
    if (load_acquire(&q->state) != SHM_REQUESTED || q->tid != tid) continue;
    if (second || !arm(&armed[i], tid, delay_ns)) capture(w, q, ucontext);
  }
  writer_leave(s);
}

static void on_request(void *ucontext) { serve(ucontext, false); }

static void on_tick(const void *ucontext) {
  const shm_control_t *control = writer_control();
  if (control && load_relaxed(&control->stall.requested)) serve(ucontext, true);
}

static void start(shm_control_t *control) {
  if (!(control->mode & RECORD_STALLS) || !sensor_takes_requests()) return;
  /* a program before an execve may have left entries */
  memset(control->stall.loops, 0, sizeof control->stall.loops);
  store_release(&control->stall.sampler, 1u);
}

HIDDEN const sensor_t sensor_stall = {
    .start = start, .on_request = on_request, .on_tick = on_tick, .restart = start};
