/* SPDX-License-Identifier: MIT
 *
 * The rarer half of the stall monitor's watched side: finding homes, ending watched turns, waking
 * the recorder, answering its questions.
 */
#include "sensor/stall/stall.h"

#include "sensor/sensor.h"
#include "sonde/status.h"
#include "capture/stack.h"

/* ---- the rule ----------------------------------------------------------------------------- */

static bool same_place(wait_site_t a, wait_site_t b) {
  return a.site == b.site && a.frame == b.frame;
}

/* Stacks grow down: a smaller frame is deeper. */
wait_kind_t wait_classify(wait_candidate_t *guess, wait_site_t home, uint32_t turns,
                          wait_site_t place) {
  bool inside = home.site && place.frame < home.frame;
  bool again = same_place(guess->place, place) && (!inside || guess->turns == turns);
  guess->visits = again ? guess->visits + 1 : 1;
  guess->place = place;
  guess->turns = turns;
  if (inside) return guess->visits < NESTED_WAITS ? WAIT_INSIDE : WAIT_IDLE;
  if (guess->visits >= SITE_WAITS) return WAIT_SITE;
  return home.site ? WAIT_IDLE : WAIT_INSIDE;
}

/* The home of a thread that declares its turns: no wait's. */
#define DECLARED 1

/* ---- a thread's place --------------------------------------------------------------------- */

/* Guesses stand beside the table of the scratch: nobody else needs them. */
static wait_candidate_t guesses[SHM_LOOPS];

static bool take_place(shm_loop_t *loop, uint32_t self) {
  uint32_t tid = load_acquire(&loop->tid);
  if (tid && tid != self && os_thread_alive((pid_t)tid)) return false;
  return cas_acq_rel(&loop->tid, &tid, self);
}

static shm_loop_t *find_place(shm_loops_t *loops, uint32_t self) {
  uint32_t used = load_acquire(&loops->used);
  for (uint32_t i = 0; i < SHM_LOOPS; i++) {
    shm_loop_t *loop = &loops->loops[i];
    if (!take_place(loop, self)) continue;
    while (used <= i && !cas_acq_rel(&loops->used, &used, i + 1)) {
    }
    return loop;
  }
  add_relaxed(&loops->missed, 1);
  return NULL;
}

/* A thread that found no place looks for one again, but not at each of its waits: that is a system
 * call for each place. */
#define WAITS_UNPLACED 4096u
static uint32_t unplaced_waits; /* of all such threads, until the next look; need not be exact */

static bool is_full(void) {
  uint32_t left = load_relaxed(&unplaced_waits);
  if (left) store_relaxed(&unplaced_waits, left - 1);
  return left;
}

/* The calling thread's place, cleared; NULL when it has none. */
static shm_loop_t *enter_table(writer_t *w) {
  shm_loops_t *loops = &w->control->stall;
  if (!(load_relaxed(&w->control->mode) & RECORD_STALLS) || w->depth == WRITER_MUTED) return NULL;
  if (is_full()) return NULL;
  shm_loop_t *loop = find_place(loops, (uint32_t)w->tid);
  if (!loop) store_relaxed(&unplaced_waits, WAITS_UNPLACED);
  if (!loop) return NULL;
  store_relaxed(&loop->turn, (uint64_t)0);
  store_relaxed(&loop->watched, 0u);
  loop->site = loop->frame = 0;
  loop->turns = 0;
  guesses[loop - loops->loops] = (wait_candidate_t){0};
  w->loop = loop;
  return loop;
}

static void ring(shm_loops_t *loops) {
  add_relaxed(&loops->bell, 1);
  (void)os_futex_wake_shared(&loops->bell, 1);
}

void stall_end_watched(shm_loop_t *loop) {
  uint64_t began = load_relaxed(&loop->turn);
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

/* The calling thread's state, when the recording asks for stalls. A wait may be the first that a
 * forked child does. */
static writer_t *enter(void) {
  const shm_control_t *control = writer_control();
  if (control && !(load_relaxed(&control->mode) & RECORD_STALLS)) return NULL;
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  return w && load_relaxed(&w->control->mode) & RECORD_STALLS ? w : NULL;
}

/* The ordinary case is stall_wait_begin'. */
stall_wait_t stall_wait_slow(wait_site_t place) {
  writer_t *w = enter();
  if (!w) return NULL;
  shm_loop_t *loop = w->loop ? w->loop : enter_table(w);
  if (!loop || loop->site == DECLARED) return NULL;
  wait_candidate_t *guess = &guesses[loop - w->control->stall.loops];
  wait_site_t home = {loop->site, loop->frame};
  wait_kind_t kind = wait_classify(guess, home, loop->turns, place);
  if (kind == WAIT_INSIDE) return NULL;
  /* Visits of a nested loop within one turn of the home are counted on: its own turns, which are
   * about to be counted, are not the home's. */
  guess->turns = loop->turns + 1;
  if (kind == WAIT_SITE) {
    loop->site = place.site;
    loop->frame = place.frame;
  }
  /* What was taken for one long turn was none: the recorder takes it back. */
  if (load_relaxed(&loop->watched)) {
    store_relaxed(&loop->moved, loop->moved + 1);
    stall_end_watched(loop);
  }
  store_release(&loop->turn, (uint64_t)0);
  return loop;
}

/* ---- declared turns ----------------------------------------------------------------------- */

/* Ends the present turn of the calling thread, which declares its turns from now on. */
static int declare(shm_loop_t **out) {
  writer_t *w = enter();
  if (!w) return SONDE_EUNSUPPORTED;
  shm_loop_t *loop = w->loop ? w->loop : enter_table(w);
  if (!loop) return SONDE_EFULL;
  loop->site = DECLARED;
  if (load_relaxed(&loop->watched)) stall_end_watched(loop);
  store_release(&loop->turn, (uint64_t)0);
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
  store_relaxed(&loop->turns, loop->turns + 1);
  store_release(&loop->turn, now);
  if (load_relaxed(&writer_tls->control->stall.asleep)) stall_wake_recorder();
  return 0;
}

int stall_heartbeat(void) { return stall_begin(0); }

int stall_expect(uint32_t limit_ms) {
  writer_t *w = writer_tls;
  if (!w || !w->control) return SONDE_EUNSUPPORTED;
  shm_loop_t *loop = w->loop;
  uint64_t turn = loop ? load_relaxed(&loop->turn) : 0;
  if (!turn) return SONDE_EINVAL;
  store_relaxed(&loop->allowed_ms, limit_ms);
  store_release(&loop->allowed_of, (uint32_t)turn);
  return 0;
}

int stall_end(void) {
  shm_loop_t *loop;
  return declare(&loop);
}

/* ---- questions ---------------------------------------------------------------------------- */

/* Where a thread is when a signal finds it is no fair sample of where it uses the CPU: one that
 * gets too little of it was put off in the calls that make the scheduler look, and is found there
 * again and again. So a question only arms a timer of the thread's CPU time, whose signal comes
 * with a tick of the kernel's clock, wherever the thread runs then; that one is answered. */
typedef struct armed {
  uint32_t tid; /* 0: nobody */
  int timer;
} armed_t;

static armed_t armed[SHM_STACK_REQUESTS]; /* by question; written by its thread */

static bool arm(armed_t *a, uint32_t tid) {
  int timer = os_signal_thread_after((pid_t)tid, 1);
  if (timer < 0) return false;
  a->timer = timer;
  store_relaxed(&a->tid, tid);
  return true;
}

static bool was_armed(armed_t *a, uint32_t tid) {
  if (load_relaxed(&a->tid) != tid) return false;
  os_tick_stop(a->timer);
  store_relaxed(&a->tid, 0u);
  return true;
}

static void answer_one(writer_t *w, shm_stack_request_t *q, const void *ucontext) {
  uint32_t stack = 0;
  uint64_t time = writer_now(w);
  if (stack_id_of_context(&stack, ucontext) < 0) stack = 0;
  q->stack = stack;
  q->time = time;
  store_release(&q->state, SHM_CAPTURED);
}

static void on_request(void *ucontext) {
  stream_t *s = writer_enter(RECORD_STALLS);
  if (!s) return;
  writer_t *w = s->writer;
  for (uint32_t i = 0; i < SHM_STACK_REQUESTS; i++) {
    shm_stack_request_t *q = &w->control->stall.stack_requests[i];
    bool second = was_armed(&armed[i], (uint32_t)w->tid);
    if (load_acquire(&q->state) != SHM_REQUESTED || q->tid != (uint32_t)w->tid) continue;
    if (second || !arm(&armed[i], (uint32_t)w->tid)) answer_one(w, q, ucontext);
  }
  writer_leave(s);
}

static void start(shm_control_t *control) {
  if (!(control->mode & RECORD_STALLS) || !sensor_takes_requests()) return;
  memset(control->stall.loops, 0, sizeof control->stall.loops); /* of a program before an execve */
  store_release(&control->stall.sampler, 1u);
}

HIDDEN const sensor_t sensor_stall = {.start = start, .on_request = on_request, .restart = start};
