/* SPDX-License-Identifier: MIT
 *
 * Memory order: a place's `began` is stored last when a turn begins, and read first. The monitor
 * announces its sleep, looks again a tick later and only then sleeps without limit: a store that
 * the announcement overtook has arrived by then, so a turn needs no fence.
 */
#include "sensor/stall/self_monitor.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/thread_slot.h"
#include "sensor/stall/attribution.h"
#include "sensor/stall/rules.h"
#if defined(__APPLE__)
#include "sensor/stall/apple/run_loop.h"
#endif
#include "sonde/thread.h"

#define PLACES_MAX    256u
#define DEPTH_MAX     ATTRIBUTION_DEPTH
#define THRESHOLD_MIN 10u
#define MS            UINT64_C(1000000)

/* Written by its thread. */
typedef struct place {
  uint64_t began_ns;   /* of the present turn; 0: none */
  uint64_t ended_ns;   /* when the turn that was watched ended … */
  uint64_t ended_of;   /* … and when that one had begun */
  uint64_t limit_ns;   /* of the present turn; 0: the threshold */
  uint32_t tid;        /* 0: a free place */
  uint32_t is_watched; /* by the monitor: it wants to know when the turn ends */
  bool is_declared;    /* the thread tells of its turns itself: its loop does not count */
} __attribute__((aligned(64))) place_t;

/* What the monitor knows of it. */
typedef struct watched {
  uint64_t began_ns; /* the turn; 0: none … */
  pid_t tid;         /* … and whose: its place may be another's by now */
  stall_iteration_t turn;
  uint32_t number;      /* of the stall; 0: it is none */
  uint64_t told_ns;     /* how long it was when it was told of last */
  attribution_t *blame; /* stacks of it; NULL: none so far, or no room for them */
} watched_t;

static struct {
  uint32_t running, stop, asleep, bell, used;
  place_t places[PLACES_MAX];
  watched_t watched[PLACES_MAX];
  uintptr_t pcs[DEPTH_MAX];
  uint32_t stalls;
  stall_rules_t rules;
  sonde_stall_call_t *call;
  void *context;
} monitor;

#if defined(__APPLE__)
#define own_place ((place_t *)os_thread_slot(SLOT_ITERATION))
#else
extern __thread place_t *own_place SLOT_MODEL;
#endif
SLOT_HERE(place_t, own_place);

/* ---- the watched threads ------------------------------------------------------------------ */

static bool take_place(place_t *place, uint32_t self) {
  uint32_t tid = load_acquire(&place->tid);
  if (tid && tid != self && os_thread_alive((pid_t)tid)) return false;
  return cas_acq_rel(&place->tid, &tid, self);
}

static NOINLINE place_t *find_place(void) {
  uint32_t self = (uint32_t)os_tid(), used = load_acquire(&monitor.used);
  for (uint32_t i = 0; i < PLACES_MAX; i++) {
    if (!take_place(&monitor.places[i], self)) continue;
    while (used <= i && !cas_acq_rel(&monitor.used, &used, i + 1)) {
    }
    monitor.places[i].is_declared = false;
    SLOT_SET(own_place, SLOT_ITERATION, &monitor.places[i]);
    return &monitor.places[i];
  }
  return NULL;
}

static void ring(void) {
  add_relaxed(&monitor.bell, 1);
  (void)os_futex_wake(&monitor.bell, 1);
}

static void end_turn(place_t *place) {
  if (!load_relaxed(&place->is_watched)) return;
  store_relaxed(&place->ended_ns, os_monotonic_ns());
  store_relaxed(&place->ended_of, place->began_ns);
  store_release(&place->is_watched, 0u);
  ring();
}

static void begin_turn(place_t *place, uint32_t limit_ms) {
  end_turn(place);
  store_relaxed(&place->limit_ns, limit_ms * MS);
  store_release(&place->began_ns, os_monotonic_ns());
  uint32_t asleep = 1;
  if (load_relaxed(&monitor.asleep) && cas_acq_rel(&monitor.asleep, &asleep, 0u)) ring();
}

int self_monitor_begin(uint32_t limit_ms) {
  if (!load_acquire(&monitor.running)) return SONDE_EUNSUPPORTED;
  place_t *place = own_place ? own_place : find_place();
  if (!place) return SONDE_EFULL;
  place->is_declared = true;
  begin_turn(place, limit_ms);
  return 0;
}

void self_monitor_loop_begin(void) {
  if (!load_acquire(&monitor.running)) return;
  place_t *place = own_place ? own_place : find_place();
  if (place && !place->is_declared) begin_turn(place, 0);
}

void self_monitor_loop_end(void) {
  if (own_place && !own_place->is_declared) (void)self_monitor_end();
}

int self_monitor_expect(uint32_t limit_ms) {
  if (!load_acquire(&monitor.running)) return SONDE_EUNSUPPORTED;
  if (!own_place || !load_relaxed(&own_place->began_ns)) return SONDE_EINVAL;
  store_relaxed(&own_place->limit_ns, limit_ms * MS);
  return 0;
}

int self_monitor_end(void) {
  if (!load_acquire(&monitor.running)) return SONDE_EUNSUPPORTED;
  if (!own_place) return 0;
  end_turn(own_place);
  store_release(&own_place->began_ns, (uint64_t)0);
  return 0;
}

/* ---- the monitor -------------------------------------------------------------------------- */

/* False when the thread has ended. */
static bool look_at_thread(pid_t tid, stall_poll_t *look) {
  os_thread_t thread;
  if (os_thread_read(-1, tid, &thread) < 0 || thread.state == 'Z' || thread.state == 'X')
    return false;
  look->state = thread.state;
  (void)os_thread_times(tid, &look->run_ns, &look->runq_ns);
  return true;
}

/* Where the thread is now. Waits for a tick at most, not for a thread that gets no CPU. A stack
 * that may be of its next turn is not held against this one. */
static int take_stack(watched_t *w) {
  sonde_capture_t capture = {.pcs = monitor.pcs, .max = DEPTH_MAX};
  const sonde_thread_options_t options = {.timeout_ns = monitor.rules.tick_ns};
  int count = sonde_capture_thread(w->tid, &capture, &options);
  bool lasts = load_acquire(&monitor.places[w - monitor.watched].began_ns) == w->began_ns;
  if (!w->blame) w->blame = attribution_acquire();
  if (w->blame && lasts) attribution_add(w->blame, os_monotonic_ns(), monitor.pcs, count);
  return count;
}

static void tell(watched_t *w, sonde_stall_phase_t phase, uint64_t length_ns, uint64_t now_ns) {
  sonde_stall_t stall = {.phase = phase,
                         .number = w->number,
                         .tid = w->tid,
                         .limit_ns = w->turn.threshold_ns,
                         .length_ns = length_ns,
                         .pcs = monitor.pcs,
                         .culprit_count = SONDE_EFULL};
  if (phase != SONDE_STALL_ENDED) stall.count = take_stack(w);
  if (w->blame)
    stall.culprit_count =
        attribution_find(w->blame, w->began_ns, now_ns, &stall.culprit, &stall.culprit_percent);
  w->told_ns = length_ns;
  monitor.call(&stall, monitor.context);
}

/* The kernel books time on a CPU late while a thread runs, and exactly once it has slept: what was
 * taken for waiting is put right at the end. */
static void look_last(watched_t *w, uint64_t end) {
  const stall_poll_t *last = &w->turn.last;
  stall_poll_t look = {.now_ns = end};
  if (last->state != 'R' || end <= last->now_ns || !look_at_thread(w->tid, &look)) return;
  look.state = 'R';
  (void)stall_iteration_poll(&w->turn, &monitor.rules, &look);
}

static void end_watch(place_t *place, watched_t *w, uint64_t now) {
  uint64_t end =
      load_relaxed(&place->ended_of) == w->began_ns ? load_relaxed(&place->ended_ns) : now;
  if (w->number) look_last(w, end);
  if (w->number) tell(w, SONDE_STALL_ENDED, stall_iteration_active_ns(&w->turn, end), end);
  attribution_release(w->blame);
  *w = (watched_t){0};
}

static void begin_watch(place_t *place, watched_t *w, uint64_t began) {
  w->began_ns = began;
  w->tid = (pid_t)load_acquire(&place->tid);
  w->turn = (stall_iteration_t){.began_ns = began,
                                .threshold_ns = monitor.rules.threshold_ns,
                                .next_sample_ns = os_monotonic_ns() + monitor.rules.tick_ns / 2};
  store_release(&place->is_watched, 1u);
}

/* Returns when to look again; UINT64_MAX: not before a turn begins. */
static uint64_t look_at(place_t *place, watched_t *w, uint64_t now, uint64_t late) {
  uint64_t began = load_acquire(&place->began_ns);
  if (w->began_ns && began != w->began_ns) end_watch(place, w, now);
  if (!began) return UINT64_MAX;
  if (!w->began_ns) {
    begin_watch(place, w, began);
    late = 0;
  }
  stall_poll_t look = {.now_ns = now, .late_ns = late};
  if (!look_at_thread(w->tid, &look)) {
    end_watch(place, w, now);
    store_release(&place->began_ns, (uint64_t)0);
    return UINT64_MAX;
  }
  uint64_t limit = load_relaxed(&place->limit_ns);
  if (limit > w->turn.threshold_ns && !w->number) w->turn.threshold_ns = limit;
  unsigned todo = stall_iteration_poll(&w->turn, &monitor.rules, &look);
  uint64_t own = stall_iteration_active_ns(&w->turn, now);
  if (load_acquire(&place->began_ns) != began) return now; /* it ended meanwhile */
  if (todo & STALL_DO_REPORT) {
    w->number = ++monitor.stalls;
    tell(w, SONDE_STALL_BEGAN, own, now);
  } else if (w->number && own >= 2 * w->told_ns) {
    tell(w, SONDE_STALL_GOES_ON, own, now);
  } else if (todo & STALL_DO_SAMPLE) {
    (void)take_stack(w);
  }
  return stall_iteration_next_poll_ns(&w->turn, &monitor.rules, now);
}

static uint64_t look_at_all(uint64_t late) {
  uint64_t next = UINT64_MAX, now = os_monotonic_ns();
  uint32_t used = load_acquire(&monitor.used);
  for (uint32_t i = 0; i < used; i++) {
    uint64_t wanted = look_at(&monitor.places[i], &monitor.watched[i], now, late);
    if (wanted < next) next = wanted;
  }
  return next;
}

/* Sleeps while the bell is BELL, until NEXT. Returns by how much it came late. */
static uint64_t sleep_until(uint32_t bell, uint64_t next) {
  uint64_t now = os_monotonic_ns();
  if (next <= now) return 0;
  (void)os_futex_wait(&monitor.bell, bell, next - now);
  uint64_t woke = os_monotonic_ns();
  return woke > next ? woke - next : 0;
}

static void sleep_idle(uint32_t bell) {
  store_release(&monitor.asleep, 1u);
  (void)sleep_until(bell, os_monotonic_ns() + monitor.rules.tick_ns);
  if (load_acquire(&monitor.bell) == bell && look_at_all(0) == UINT64_MAX &&
      !load_acquire(&monitor.stop))
    (void)os_futex_wait(&monitor.bell, bell, 0);
  store_release(&monitor.asleep, 0u);
}

static void watch(void) {
  uint64_t late = 0;
  while (!load_acquire(&monitor.stop)) {
    uint32_t bell = load_acquire(&monitor.bell);
    uint64_t next = look_at_all(late);
    late = 0;
    if (next == UINT64_MAX)
      sleep_idle(bell);
    else
      late = sleep_until(bell, next);
  }
}

int self_monitor_run(uint32_t threshold_ms, sonde_stall_call_t *call, void *context) {
  uint32_t nobody = 0;
  if (threshold_ms < THRESHOLD_MIN || !call) return SONDE_EINVAL;
  if (!cas_acq_rel(&monitor.running, &nobody, 1u)) return SONDE_EBUSY;
  monitor.rules = stall_rules_for(threshold_ms * MS);
  monitor.call = call;
  monitor.context = context;
#if defined(__APPLE__)
  run_loop_watch();
  watch();
  run_loop_leave();
#else
  watch();
#endif
  for (uint32_t i = 0; i < PLACES_MAX; i++)
    attribution_release(monitor.watched[i].blame);
  memset(monitor.watched, 0, sizeof monitor.watched);
  store_release(&monitor.stop, 0u);
  store_release(&monitor.running, 0u);
  return 0;
}

void self_monitor_stop(void) {
  store_release(&monitor.stop, 1u);
  ring();
}
