/* SPDX-License-Identifier: MIT
 *
 * Timers are kept in a table by tid. A try-lock protects the table: a thread that does not get it
 * skips its work, so a signal handler never waits.
 */
#include "sensor/sample.h"

#include <string.h>

#include "record/event.h"
#include "sensor/sensor.h"
#include "capture/stack.h"

#define TIMERS_MAX 4096u
/* Between two listings of the threads, by ticks; and at least, by thread creation. */
#define LIST_NS       100000000u
#define LIST_LEAST_NS 1000000u
#define LOCK_TRIES    1000000

typedef struct timer {
  pid_t tid; /* 0: free */
  int number;
} timer_entry_t;

static struct {
  timer_entry_t timers[TIMERS_MAX];
  uint32_t used; /* entries below this may be in use */
  uint32_t locked;
  uint64_t interval_ns, listed_ns;
  bool wanted; /* a thread was created too early for a listing */
} sampler;

static void record_tick(const void *ucontext, uint32_t missed) {
  stream_t *s = writer_enter(RECORD_SAMPLES);
  if (!s) return;
  uint32_t stack = 0;
  uint64_t time = writer_now(s->writer);
  if (stack_id_of_context(&stack, ucontext) < 0) {
    stack = 0;
    add_relaxed(&s->writer->control->lost_stacks, 1);
  }
  if (!event_put_sample(s, time, missed, stack)) writer_lost_event(s->writer->control);
  writer_leave(s);
}

static bool has_timer(pid_t tid) {
  for (uint32_t i = 0; i < sampler.used; i++)
    if (sampler.timers[i].tid == tid) return true;
  return false;
}

/* Random within the first interval, so that short threads get their share of samples on average. */
static uint64_t first_tick_ns(pid_t tid) {
  uint64_t x = (os_monotonic_ns() ^ (uint64_t)tid << 32) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
  return 1 + (x ^ x >> 32) % sampler.interval_ns;
}

static bool add_timer(pid_t tid, uint64_t identity, void *unused) {
  (void)identity;
  (void)unused;
  if (has_timer(tid)) return true;
  for (uint32_t i = 0; i < TIMERS_MAX; i++) {
    timer_entry_t *t = &sampler.timers[i];
    if (t->tid) continue;
    int number = os_tick_start(tid, first_tick_ns(tid), sampler.interval_ns);
    if (number < 0) return true; /* the thread has ended, or the timers are exhausted */
    *t = (timer_entry_t){tid, number};
    if (sampler.used <= i) sampler.used = i + 1;
    return true;
  }
  return false;
}

static void drop_timers_of_ended_threads(void) {
  for (uint32_t i = 0; i < sampler.used; i++) {
    timer_entry_t *t = &sampler.timers[i];
    if (!t->tid || os_thread_alive(t->tid)) continue;
    os_tick_stop(t->number);
    t->tid = 0;
  }
}

static void list_threads(uint64_t now) {
  uint32_t free_now = 0;
  if (!cas_acq_rel(&sampler.locked, &free_now, 1u)) return;
  store_relaxed(&sampler.listed_ns, now);
  store_relaxed(&sampler.wanted, false);
  drop_timers_of_ended_threads();
  os_threads(add_timer, NULL);
  store_release(&sampler.locked, 0u);
}

static void on_tick(const void *ucontext, uint32_t missed) {
  record_tick(ucontext, missed);
  if (!writer_control()) return;
  uint64_t now = os_monotonic_ns();
  if (now - load_relaxed(&sampler.listed_ns) >= LIST_NS || load_relaxed(&sampler.wanted))
    list_threads(now);
}

/* The holder of the lock releases it soon, unless this is a signal handler that interrupted it. */
static bool lock_table(void) {
  uint32_t free_now = 0;
  for (int i = 0; !cas_acq_rel(&sampler.locked, &free_now, 1u); i++, free_now = 0)
    if (i == LOCK_TRIES) return false;
  return true;
}

/* Adds the timer of the thread HANDLE. False if this C library's layout of pthread_t is unknown,
 * the thread has ended, or the table is full. */
static bool add_timer_of(uint64_t handle) {
  pid_t tid = os_thread_of_handle(handle);
  if (tid <= 0 || !lock_table()) return false;
  bool added = add_timer(tid, 0, NULL);
  store_release(&sampler.locked, 0u);
  return added;
}

void sample_thread_created(uint64_t handle) {
  shm_control_t *control = writer_control();
  if (!sampler.interval_ns || !control || !(load_relaxed(&control->mode) & RECORD_SAMPLES)) return;
  uint64_t now = os_monotonic_ns(), since = now - load_relaxed(&sampler.listed_ns);
  if (since < LIST_NS && add_timer_of(handle)) return;
  if (since < LIST_LEAST_NS)
    store_relaxed(&sampler.wanted, true);
  else
    list_threads(now);
}

/* Deletes all timers; the caller creates those for the new interval. */
static bool drop_timers(void) {
  if (!lock_table()) return false;
  for (uint32_t i = 0; i < sampler.used; i++) {
    if (sampler.timers[i].tid) os_tick_stop(sampler.timers[i].number);
    sampler.timers[i].tid = 0;
  }
  store_release(&sampler.locked, 0u);
  return true;
}

static void reconfigure(shm_control_t *control) {
  bool wanted = load_relaxed(&control->mode) & RECORD_SAMPLES;
  uint64_t interval_ns = wanted ? load_relaxed(&control->sample_interval_ns) : 0;
  if (interval_ns == sampler.interval_ns || !drop_timers()) return;
  sampler.interval_ns = interval_ns;
  if (interval_ns && os_tick_prepare(on_tick) == 0) list_threads(os_monotonic_ns());
}

static void forget_timers(void) { memset(&sampler, 0, sizeof sampler); }

HIDDEN const sensor_t sensor_sample = {.start = reconfigure,
                                       .reconfigure = reconfigure,
                                       .after_fork = forget_timers,
                                       .restart = reconfigure};
