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
/* After a listing that took n ns, the next one is at least 50 n later. */
#define LIST_PAUSE_FACTOR 50u
#define LOCK_TRIES        1000000
/* To deliver a signal and to return from its handler: an estimate. */
#define DELIVERY_NS 2000u
/* A tick may take longer than the time between two ticks, for example if the stack is deep. The
 * thread would then execute nothing but ticks. So after a tick that took N ns, ticks are left out
 * until the thread has run on for this many times N ns. Slow ticks thus take a quarter of its CPU
 * time, as much as the kernel allows its own samples (sysctl kernel.perf_cpu_time_max_percent). N
 * is that of the faster one of the last two ticks: the first one in a program is slow because it
 * reads the unwind tables. The next sample counts for those that were left out. */
#define PROGRAM_PARTS 3

typedef struct timer {
  pid_t tid; /* 0: free */
  int number;
} timer_entry_t;

static struct {
  timer_entry_t timers[TIMERS_MAX];
  uint32_t used; /* entries below this may be in use */
  uint32_t locked;
  uint64_t pause_ns, listed_ns, list_pause_ns;
  uint32_t pace; /* a tick stands for 2^pace intervals */
  bool wanted;   /* a thread was created too early for a listing */
  bool full;     /* the table, at the last listing: the recorder samples the other threads */
  bool resumed;  /* sampling was off or had another rate before */
  bool limited;  /* signal handlers cannot return: see limit */
} sampler;

/* Adds the CPU time of TID since its last sample to *SUM. */
static void account(shm_thread_t *thread, pid_t tid, uint64_t *sum) {
  int64_t now = os_thread_cpu_ns(tid);
  if (now > 0) thread_table_account(thread, (uint64_t)now, sum);
}

/* How many intervals before this tick have no sample of their own. */
static uint64_t intervals_missed(uint32_t missed) {
  return (((uint64_t)missed + 1) << load_relaxed(&sampler.pace)) - 1;
}

/* Counts the time of the ticks that were left out as sampled: the next sample stands for it. */
static void count_left_out(writer_t *w, shm_thread_t *thread) {
  store_relaxed(&thread->sampled_ns, load_relaxed(&thread->sampled_ns) + w->left_out_ns);
  store_relaxed(&thread->lost_ns, load_relaxed(&thread->lost_ns) - w->left_out_ns);
}

/* Leaves out the tick that began at BEGAN_NS of the thread's CPU clock. */
static void leave_out(writer_t *w, shm_thread_t *thread, uint32_t missed, int64_t began_ns) {
  w->left_out += missed + 1;
  add_relaxed(&w->control->sampler_ns, DELIVERY_NS);
  if (!thread) return;
  uint64_t before = load_relaxed(&thread->lost_ns);
  thread_table_account(thread, (uint64_t)began_ns, &thread->lost_ns);
  w->left_out_ns += load_relaxed(&thread->lost_ns) - before;
}

static void record_sample(stream_t *s, shm_thread_t *thread, const void *ucontext, uint32_t missed,
                          int64_t began_ns) {
  writer_t *w = s->writer;
  uint32_t stack = 0;
  uint64_t time = writer_now(w);
  if (stack_id_of_context(&stack, ucontext) < 0) {
    stack = 0;
    add_relaxed(&w->control->lost_stacks, 1);
  }
  bool written = event_put_sample(s, time, intervals_missed(missed + w->left_out), stack);
  if (!written) writer_lost_event(w->control);
  if (thread && written) count_left_out(w, thread);
  w->left_out = 0;
  w->left_out_ns = 0;
  if (thread) account(thread, w->tid, written ? &thread->sampled_ns : &thread->lost_ns);
  int64_t now_ns = os_thread_cpu_ns(w->tid), used_ns = now_ns > began_ns ? now_ns - began_ns : 0;
  w->no_tick_until_ns = now_ns + PROGRAM_PARTS * (used_ns < w->tick_ns ? used_ns : w->tick_ns);
  w->tick_ns = used_ns;
  add_relaxed(&w->control->sampler_ns, DELIVERY_NS + (uint64_t)used_ns);
}

/* Without the thread's CPU clock, no tick is left out. */
static void record_tick(const void *ucontext, uint32_t missed) {
  stream_t *s = writer_enter(RECORD_SAMPLES);
  if (!s) return;
  writer_t *w = s->writer;
  int64_t began_ns = os_thread_cpu_ns(w->tid);
  shm_thread_t *thread = thread_table_find(&w->control->threads, (uint32_t)w->tid);
  if (!thread || thread_table_begin_tick(thread)) {
    if (UNLIKELY(began_ns > 0 && began_ns < w->no_tick_until_ns))
      leave_out(w, thread, missed, began_ns);
    else
      record_sample(s, thread, ucontext, missed, began_ns);
    if (thread) thread_table_end_tick(thread);
  }
  writer_leave(s);
}

static bool has_timer(pid_t tid) {
  for (uint32_t i = 0; i < sampler.used; i++)
    if (sampler.timers[i].tid == tid) return true;
  return false;
}

uint64_t sample_random_delay_ns(pid_t tid) {
  uint64_t x = (os_monotonic_ns() ^ (uint64_t)tid << 32) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
  uint64_t pause_ns = load_relaxed(&sampler.pause_ns);
  return pause_ns ? 1 + (x ^ x >> 32) % pause_ns : 1;
}

/* The time of TID until now has no samples. */
static void account_start(pid_t tid, bool has_no_timer) {
  shm_control_t *control = writer_control();
  if (!control || (has_no_timer && !os_thread_alive(tid)) ||
      thread_table_find_ended(&control->threads, (uint32_t)tid))
    return; /* it ended before its creator came here */
  shm_thread_t *thread = thread_table_claim(&control->threads, (uint32_t)tid);
  if (!thread) return;
  store_relaxed(&thread->no_timer, (uint16_t)has_no_timer);
  if (load_acquire(&thread->outside)) return;
  account(thread, tid, sampler.resumed ? &thread->off_ns : &thread->before_ns);
}

static bool add_timer(pid_t tid, uint64_t identity, void *unused) {
  (void)identity;
  (void)unused;
  if (has_timer(tid)) return true;
  for (uint32_t i = 0; i < TIMERS_MAX; i++) {
    timer_entry_t *t = &sampler.timers[i];
    if (t->tid) continue;
    /* Random, so that short threads get their share of samples on average. */
    int number = os_tick_start(tid, sample_random_delay_ns(tid), sampler.pause_ns);
    account_start(tid, number < 0);
    if (number < 0) return true; /* the thread has ended, or the timers are exhausted */
    *t = (timer_entry_t){tid, number};
    if (sampler.used <= i) sampler.used = i + 1;
    return true;
  }
  store_relaxed(&sampler.full, true);
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
  store_relaxed(&sampler.full, false);
  drop_timers_of_ended_threads();
  os_threads(add_timer, NULL);
  store_relaxed(&sampler.list_pause_ns, LIST_PAUSE_FACTOR * (os_monotonic_ns() - now));
  store_release(&sampler.locked, 0u);
}

static bool is_list_old(uint64_t now) {
  uint64_t pause_ns = load_relaxed(&sampler.list_pause_ns);
  return now - load_relaxed(&sampler.listed_ns) >= (pause_ns > LIST_NS ? pause_ns : LIST_NS);
}

static void on_tick(const void *ucontext, uint32_t missed) {
  if (sensor_is_silenced()) return;
  record_tick(ucontext, missed);
  sensor_tick(ucontext);
  if (!writer_control()) return;
  uint64_t now = os_monotonic_ns();
  if (is_list_old(now) || load_relaxed(&sampler.wanted)) list_threads(now);
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
  if (!sampler.pause_ns || !control || !(load_relaxed(&control->mode) & RECORD_SAMPLES)) return;
  uint64_t now = os_monotonic_ns(), since = now - load_relaxed(&sampler.listed_ns);
  if (!is_list_old(now) && (load_relaxed(&sampler.full) || add_timer_of(handle))) return;
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
  bool wanted = !sampler.limited && load_relaxed(&control->mode) & RECORD_SAMPLES;
  uint32_t pace = load_relaxed(&control->pace);
  uint64_t pause_ns = wanted ? load_relaxed(&control->sample_interval_ns) << pace : 0;
  store_relaxed(&sampler.pace, pace);
  if (pause_ns == sampler.pause_ns || !drop_timers()) return;
  sampler.resumed |= sampler.pause_ns != 0;
  sampler.pause_ns = pause_ns;
  if (pause_ns && os_tick_prepare(on_tick) == 0) list_threads(os_monotonic_ns());
}

static void limit(uint32_t effects) {
  sampler.limited = effects & SECCOMP_STOPS_TICKS;
  if (writer_control()) reconfigure(writer_control());
}

static void forget_timers(void) { memset(&sampler, 0, sizeof sampler); }

HIDDEN const sensor_t sensor_sample = {.start = reconfigure,
                                       .reconfigure = reconfigure,
                                       .after_fork = forget_timers,
                                       .restart = reconfigure,
                                       .limit = limit};
