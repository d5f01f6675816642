/* SPDX-License-Identifier: MIT
 *
 * Memory order: `began_ns` of an entry is stored last when an iteration begins, and read first. The
 * monitor sets `asleep`, polls once more a tick later, and only then sleeps without limit: by then
 * a store that raced with `asleep` is visible. So beginning an iteration needs no fence.
 */
#include "sensor/stall/self_monitor.h"

#include <string.h>

#include "base/bits.h"
#include "capture/stack.h"
#include "os/os.h"
#include "os/thread_slot.h"
#include "sensor/stall/attribution.h"
#include "sensor/stall/rules.h"
#include "sensor/stall/stall_locks.h"
#if defined(__APPLE__)
#include "sensor/stall/apple/run_loop.h"
#endif
#include "sonde/thread.h"

#define ENTRIES_MAX   256u
#define DEPTH_MAX     ATTRIBUTION_DEPTH
#define THRESHOLD_MIN 10u
#define MS            UINT64_C(1000000)

/* Written by its thread. */
typedef struct monitored {
  /* start of the current iteration; 0: none */
  uint64_t began_ns;
  /* end and start of the last iteration that was watched */
  uint64_t ended_ns, ended_of;
  /* of the current iteration; 0: the threshold */
  uint64_t limit_ns;
  /* 0: free */
  uint32_t tid;
  /* set by the monitor: the thread must report the end of the iteration */
  uint32_t is_watched;
  /* the thread declares its iterations: its event loop is ignored */
  bool is_declared;
} __attribute__((aligned(64))) monitored_t;

/* The monitor's state of an entry. */
typedef struct watch {
  /* the iteration and its thread; 0: none. The entry may belong to another thread by now. */
  uint64_t began_ns;
  pid_t tid;
  stall_iteration_t iteration;
  /* number of the stall; 0: not a stall */
  uint32_t number;
  /* active time at the last call of the callback */
  uint64_t reported_ns;
  /* where the time went, and the locks that were waited for */
  stall_totals_t totals;
  stall_locks_t locks;
  /* sampled stacks; NULL: none yet, or no memory for them */
  attribution_t *attribution;
} watch_t;

static struct {
  uint32_t running, stop, asleep, bell, used;
  monitored_t entries[ENTRIES_MAX];
  watch_t watches[ENTRIES_MAX];
  uintptr_t pcs[DEPTH_MAX];
  uint32_t stalls;
  stall_rules_t rules;
  sonde_stall_call_t *call;
  void *context;
} monitor;

#if defined(SLOT_BY_CALL)
#define own_entry ((monitored_t *)os_thread_slot(SLOT_ITERATION))
#else
extern __thread monitored_t *own_entry SLOT_MODEL;
#endif
SLOT_HERE(monitored_t, own_entry);

/* ---- the watched threads --------------------------------------------------------------------- */

static bool claim(monitored_t *entry, uint32_t self) {
  uint32_t tid = load_acquire(&entry->tid);
  if (tid && tid != self && os_thread_alive((pid_t)tid)) return false;
  return cas_acq_rel(&entry->tid, &tid, self);
}

static NOINLINE monitored_t *find_entry(void) {
  uint32_t self = (uint32_t)os_tid(), used = load_acquire(&monitor.used);
  for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
    if (!claim(&monitor.entries[i], self)) continue;
    while (used <= i && !cas_acq_rel(&monitor.used, &used, i + 1)) {
    }
    monitor.entries[i].is_declared = false;
    SLOT_SET(own_entry, SLOT_ITERATION, &monitor.entries[i]);
    return &monitor.entries[i];
  }
  return NULL;
}

static void ring(void) {
  add_relaxed(&monitor.bell, 1);
  (void)os_futex_wake(&monitor.bell, 1);
}

static void end_iteration(monitored_t *entry) {
  if (!load_relaxed(&entry->is_watched)) return;
  store_relaxed(&entry->ended_ns, os_monotonic_ns());
  store_relaxed(&entry->ended_of, entry->began_ns);
  store_release(&entry->is_watched, 0u);
  ring();
}

static void begin_iteration(monitored_t *entry, uint32_t limit_ms) {
  end_iteration(entry);
  store_relaxed(&entry->limit_ns, limit_ms * MS);
  store_release(&entry->began_ns, os_monotonic_ns());
  uint32_t asleep = 1;
  if (load_relaxed(&monitor.asleep) && cas_acq_rel(&monitor.asleep, &asleep, 0u)) ring();
}

int self_monitor_begin(uint32_t limit_ms) {
  if (!load_acquire(&monitor.running)) return SONDE_EUNSUPPORTED;
  monitored_t *entry = own_entry ? own_entry : find_entry();
  if (!entry) return SONDE_EFULL;
  entry->is_declared = true;
  begin_iteration(entry, limit_ms);
  return 0;
}

void self_monitor_loop_begin(void) {
  if (!load_acquire(&monitor.running)) return;
  monitored_t *entry = own_entry ? own_entry : find_entry();
  if (entry && !entry->is_declared) begin_iteration(entry, 0);
}

void self_monitor_loop_end(void) {
  if (own_entry && !own_entry->is_declared) (void)self_monitor_end();
}

int self_monitor_expect(uint32_t limit_ms) {
  if (!load_acquire(&monitor.running)) return SONDE_EUNSUPPORTED;
  if (!own_entry || !load_relaxed(&own_entry->began_ns)) return SONDE_EINVAL;
  store_relaxed(&own_entry->limit_ns, limit_ms * MS);
  return 0;
}

int self_monitor_end(void) {
  if (!load_acquire(&monitor.running)) return SONDE_EUNSUPPORTED;
  if (!own_entry) return 0;
  end_iteration(own_entry);
  store_release(&own_entry->began_ns, (uint64_t)0);
  return 0;
}

/* ---- the monitor ----------------------------------------------------------------------------- */

/* False if the thread has ended. */
static bool poll_thread(pid_t tid, stall_poll_t *poll) {
  os_thread_t thread;
  if (os_thread_read(-1, tid, &thread) < 0 || thread.state == 'Z' || thread.state == 'X')
    return false;
  poll->state = thread.state;
  (void)os_thread_times(tid, &poll->run_ns, &poll->runq_ns);
  return true;
}

/* Captures the thread's stack. Waits one tick at most, so not for a thread that gets no CPU. A
 * stack that may belong to the next iteration is not attributed to this one. */
static int capture_stack(watch_t *w) {
  sonde_capture_t capture = {.pcs = monitor.pcs, .max = DEPTH_MAX, .async = stack_async_mode()};
  const sonde_thread_options_t options = {.timeout_ns = monitor.rules.tick_ns};
  int count = sonde_capture_thread(w->tid, &capture, &options);
  bool lasts = load_acquire(&monitor.entries[w - monitor.watches].began_ns) == w->began_ns;
  if (!w->attribution) w->attribution = attribution_acquire();
  if (w->attribution && lasts)
    attribution_add(w->attribution, os_monotonic_ns(), monitor.pcs, count);
  return count;
}

/* ---- the cause ------------------------------------------------------------------------------ */

#define OWNERS_MAX 64

/* True if OWNER is TID or waits for a lock of it, through the owners of further locks or not. */
static bool waits_for(pid_t owner, pid_t tid) {
  os_wait_t wait;
  for (int i = 0; i < OWNERS_MAX && owner && owner != tid; i++)
    owner = os_thread_wait(owner, &wait) == 0 && wait.is_lock ? wait.owner : 0;
  return owner == tid;
}

/* Attributes the time since the last poll to the state that POLL found. */
static void add_to_totals(watch_t *w, const stall_poll_t *poll, const os_wait_t *wait) {
  const stall_poll_t *last = &w->iteration.last;
  const stall_observation_t seen = {
      .state = poll->state, .is_mutex = wait->is_lock, .call = wait->in_call ? "unknown" : ""};
  bool counts = w->iteration.polled && poll->now_ns > last->now_ns && poll->run_ns >= last->run_ns;
  uint64_t weight_ns = counts ? poll->now_ns - last->now_ns : 0;
  if (counts) stall_totals_add(&w->totals, &seen, weight_ns, poll->run_ns - last->run_ns);
  const stall_lock_t lock = {.address = wait->is_lock ? wait->lock : 0,
                             .owner = wait->owner,
                             .deadlock = wait->is_lock && waits_for(wait->owner, w->tid),
                             .waited_ns = weight_ns};
  stall_locks_add(&w->locks, &lock);
}

/* Call it before stall_iteration_poll. */
static void note_cause(watch_t *w, const stall_poll_t *poll) {
  os_wait_t wait = {0};
  bool is_asleep = poll->state == 'S' || poll->state == 'D';
  if (is_asleep && os_thread_wait(w->tid, &wait) != 0)
    wait = (os_wait_t){.in_call = true}; /* unknown; a thread seldom waits elsewhere */
  add_to_totals(w, poll, &wait);
}

static void call_back(watch_t *w, sonde_stall_phase_t phase, uint64_t length_ns, uint64_t now_ns) {
  const stall_lock_t *lock = phase == SONDE_STALL_ENDED ? &w->locks.longest : &w->locks.current;
  w->totals.deadlock = lock->deadlock;
  sonde_stall_t stall = {.phase = phase,
                         .number = w->number,
                         .tid = w->tid,
                         .limit_ns = w->iteration.threshold_ns,
                         .length_ns = length_ns,
                         .pcs = monitor.pcs,
                         .cause = stall_cause_of_label(stall_label_of(&w->totals)),
                         .lock = lock->address,
                         .lock_owner = lock->owner,
                         .hot_path_count = SONDE_EFULL};
  if (phase != SONDE_STALL_ENDED) stall.count = capture_stack(w);
  if (w->attribution)
    stall.hot_path_count = attribution_find(w->attribution, w->began_ns, now_ns, &stall.hot_path,
                                            &stall.hot_path_percent);
  w->reported_ns = length_ns;
  monitor.call(&stall, monitor.context);
}

/* While a thread runs the kernel books its CPU time late; after it has slept the time is exact.
 * This corrects the time waiting for a CPU at the end. */
static void poll_last(watch_t *w, uint64_t end) {
  const stall_poll_t *last = &w->iteration.last;
  stall_poll_t poll = {.now_ns = end};
  if (last->state != 'R' || end <= last->now_ns || !poll_thread(w->tid, &poll)) return;
  poll.state = 'R';
  (void)stall_iteration_poll(&w->iteration, &monitor.rules, &poll);
}

static void end_watch(monitored_t *entry, watch_t *w, uint64_t now) {
  uint64_t end =
      load_relaxed(&entry->ended_of) == w->began_ns ? load_relaxed(&entry->ended_ns) : now;
  if (w->number) poll_last(w, end);
  if (w->number)
    call_back(w, SONDE_STALL_ENDED, stall_iteration_active_ns(&w->iteration, end), end);
  attribution_release(w->attribution);
  *w = (watch_t){0};
}

static void begin_watch(monitored_t *entry, watch_t *w, uint64_t began) {
  w->began_ns = began;
  w->tid = (pid_t)load_acquire(&entry->tid);
  w->iteration =
      (stall_iteration_t){.began_ns = began,
                          .threshold_ns = monitor.rules.threshold_ns,
                          .next_sample_ns = os_monotonic_ns() + monitor.rules.tick_ns / 2};
  store_release(&entry->is_watched, 1u);
}

/* Returns when to poll next; UINT64_MAX: when an iteration begins. */
static uint64_t poll_entry(monitored_t *entry, watch_t *w, uint64_t now, uint64_t late) {
  uint64_t began = load_acquire(&entry->began_ns);
  if (w->began_ns && began != w->began_ns) end_watch(entry, w, now);
  if (!began) return UINT64_MAX;
  if (!w->began_ns) {
    begin_watch(entry, w, began);
    late = 0;
  }
  stall_poll_t poll = {.now_ns = now, .late_ns = late};
  if (!poll_thread(w->tid, &poll)) {
    end_watch(entry, w, now);
    store_release(&entry->began_ns, (uint64_t)0);
    return UINT64_MAX;
  }
  uint64_t limit = load_relaxed(&entry->limit_ns);
  if (limit > w->iteration.threshold_ns && !w->number) w->iteration.threshold_ns = limit;
  note_cause(w, &poll);
  unsigned todo = stall_iteration_poll(&w->iteration, &monitor.rules, &poll);
  uint64_t active = stall_iteration_active_ns(&w->iteration, now);
  if (load_acquire(&entry->began_ns) != began) return now; /* it has just ended */
  if (todo & STALL_DO_REPORT) {
    w->number = ++monitor.stalls;
    call_back(w, SONDE_STALL_BEGAN, active, now);
  } else if (w->number && active >= 2 * w->reported_ns) {
    call_back(w, SONDE_STALL_CONTINUES, active, now);
  } else if (todo & STALL_DO_SAMPLE) {
    (void)capture_stack(w);
  }
  return stall_iteration_next_poll_ns(&w->iteration, &monitor.rules, now);
}

static uint64_t poll_all(uint64_t late) {
  uint64_t next = UINT64_MAX, now = os_monotonic_ns();
  uint32_t used = load_acquire(&monitor.used);
  for (uint32_t i = 0; i < used; i++) {
    uint64_t wanted = poll_entry(&monitor.entries[i], &monitor.watches[i], now, late);
    if (wanted < next) next = wanted;
  }
  return next;
}

/* Sleeps until NEXT or until `bell` differs from BELL. Returns how much too late it woke. */
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
  if (load_acquire(&monitor.bell) == bell && poll_all(0) == UINT64_MAX &&
      !load_acquire(&monitor.stop))
    (void)os_futex_wait(&monitor.bell, bell, 0);
  store_release(&monitor.asleep, 0u);
}

static void run(void) {
  uint64_t late = 0;
  while (!load_acquire(&monitor.stop)) {
    uint32_t bell = load_acquire(&monitor.bell);
    uint64_t next = poll_all(late);
    late = 0;
    if (next == UINT64_MAX)
      sleep_idle(bell);
    else
      late = sleep_until(bell, next);
  }
}

int self_monitor_run(uint32_t threshold_ms, sonde_stall_call_t *call, void *context) {
  uint32_t none = 0;
  if (threshold_ms < THRESHOLD_MIN || !call) return SONDE_EINVAL;
  if (!cas_acq_rel(&monitor.running, &none, 1u)) return SONDE_EBUSY;
  monitor.rules = stall_rules_for(threshold_ms * MS);
  monitor.call = call;
  monitor.context = context;
#if defined(__APPLE__)
  run_loop_watch();
  run();
  run_loop_leave();
#else
  run();
#endif
  for (uint32_t i = 0; i < ENTRIES_MAX; i++)
    attribution_release(monitor.watches[i].attribution);
  memset(monitor.watches, 0, sizeof monitor.watches);
  store_release(&monitor.stop, 0u);
  store_release(&monitor.running, 0u);
  return 0;
}

void self_monitor_stop(void) {
  store_release(&monitor.stop, 1u);
  ring();
}
