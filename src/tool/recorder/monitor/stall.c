/* SPDX-License-Identifier: MIT
 *
 * The monitor's thread: scans the loops in shared memory and decides when to scan again.
 */
#define _GNU_SOURCE
#include "recorder/monitor/stall.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/outside/loops.h"
#include "recorder/monitor/unsampled.h"
#include "recorder/monitor/stall_loop.h"
#include "os/os.h"

/* When to look for loops that the monitor cannot see: after a program's start, and then at this
 * interval while it is busy. */
#define UNSAMPLED_NS       UINT64_C(1000000000)
#define UNSAMPLED_AGAIN_NS UINT64_C(10000000000)

/* After n ns of CPU time of a poll from outside, the monitor pauses for 19 n. */
#define PAUSE_FACTOR 19u

/* Between two scans while no iteration lasts, in ticks. An iteration that is seen this late is
 * still polled several times before its length reaches the threshold. */
#define QUIET_TICKS 3u

/* Scans in sequence that find no iteration, until the program is asked to announce the next one. An
 * announcement costs the program a system call, so those of a steady load are not asked for. */
#define QUIET_SCANS 3u

/* From the end of a thread until the end of its whole process would be known. */
#define LOST_NS UINT64_C(500000000)

struct stall_monitor {
  monitor_thread_t thread;
  shm_loops_t *loops;
  stall_context_t context;
  stall_loop_t monitored[SHM_LOOPS];
  uint32_t used; /* entries from here on were never touched, and take no memory */
  uint32_t exec_index;
  /* an iteration began since the last scan, or lasts */
  bool active;
  unsigned quiet_scans;
  unsigned unsampled;
  /* since the last exec */
  bool unsampled_checked;
  /* the next check */
  uint64_t unsampled_due_ns;
  uint32_t stop;
  /* of a program without the agent; else NULL */
  outside_loops_t *outside;
};

/* The rate between the two clocks becomes more exact with time. */
static void calibrate(stall_context_t *w) {
  const record_header_t *h = &w->recording->header;
  uint64_t ns = os_monotonic_ns(), ticks = monitor_writer_now(w->writer);
  if (h->clock == RECORD_CLOCK_MONOTONIC)
    w->ns_per_tick = (double)(UINT64_C(1) << h->clock_shift);
  else
    w->ns_per_tick =
        (double)(ns - h->start_monotonic_ns) / (double)(ticks - (h->start_ticks >> h->clock_shift));
  w->base_ns = ns;
  w->base_ticks = ticks;
}

/* ---- one loop ----------------------------------------------------------------------------- */

/* Whether the program has noted the end of the monitored iteration. */
static bool has_reported_end(const stall_loop_t *monitored, const shm_loop_t *loop) {
  return monitored->iteration && !load_acquire(&loop->watched) &&
         load_relaxed(&loop->ended_of) == monitored->iteration;
}

/* The monitored iteration has ended. Its end is unknown if it was not yet monitored then. */
static void end_iteration(stall_monitor_t *m, stall_loop_t *monitored, const shm_loop_t *loop) {
  uint64_t end = has_reported_end(monitored, loop) ? load_relaxed(&loop->ended)
                                                   : monitor_writer_now(m->context.writer);
  bool moved = load_relaxed(&loop->moved) != monitored->moved;
  stall_loop_end(&m->context, monitored, end, moved ? STALL_MOVED : STALL_ENDED);
}

static uint64_t end_of(const stall_monitor_t *m, const stall_loop_t *monitored) {
  return monitored->lost ? monitored->lost : monitor_writer_now(m->context.writer);
}

/* The thread is gone, for the reason ENDING. Its iteration may have ended since the last poll. */
static void drop(stall_monitor_t *m, stall_loop_t *monitored, stall_ending_t ending) {
  const shm_loop_t *loop = &m->loops->loops[monitored - m->monitored];
  if (has_reported_end(monitored, loop))
    end_iteration(m, monitored, loop);
  else
    stall_loop_end(&m->context, monitored, end_of(m, monitored), ending);
  stall_loop_close(&m->context, monitored);
}

/* The thread has ended, or its whole process was killed, which will soon be known. Returns the time
 * of the next poll. */
static uint64_t poll_lost(stall_monitor_t *m, stall_loop_t *monitored, shm_loop_t *loop,
                          uint64_t now) {
  uint32_t tid = (uint32_t)monitored->tid;
  if (!monitored->lost) {
    monitored->lost = monitor_writer_now(m->context.writer);
    monitored->lost_ns = now;
  }
  if (now - monitored->lost_ns < LOST_NS) return monitored->lost_ns + LOST_NS;
  if (stall_loop_is_exiting(monitored)) return now + LOST_NS; /* it frees much memory */
  drop(m, monitored, STALL_EXITED);
  (void)cas_acq_rel(&loop->tid, &tid, 0u);
  return UINT64_MAX;
}

static void count_iterations(stall_loop_t *monitored, shm_loop_t *loop, bool *active) {
  uint32_t iterations = load_relaxed(&loop->iterations);
  if (iterations == monitored->iterations_seen) return;
  monitored->iterations += iterations > monitored->iterations_seen
                               ? iterations - monitored->iterations_seen
                               : iterations;
  monitored->iterations_seen = iterations;
  *active = true;
}

/* Returns the time of the next poll; UINT64_MAX: after the next change. */
static uint64_t scan_loop(stall_monitor_t *m, uint32_t i, uint64_t now, uint64_t late) {
  stall_context_t *w = &m->context;
  stall_loop_t *monitored = &m->monitored[i];
  shm_loop_t *loop = &m->loops->loops[i];
  pid_t tid = (pid_t)load_acquire(&loop->tid);
  if (monitored->tid && monitored->tid != tid) drop(m, monitored, STALL_EXITED);
  if (!tid) return UINT64_MAX;
  monitored->tid = tid;
  count_iterations(monitored, loop, &m->active);
  uint64_t began = load_acquire(&loop->began);
  if (monitored->iteration && began != monitored->iteration) end_iteration(m, monitored, loop);
  if (!began) return UINT64_MAX;
  m->active = true;
  if (!monitored->iteration) {
    stall_loop_begin(w, monitored, loop, began);
    store_release(&loop->watched, SHM_WATCH_END);
    late = 0;
  }
  if (monitored->lost || !stall_loop_poll(w, monitored, loop, now, late))
    return poll_lost(m, monitored, loop, now);
  return stall_iteration_next_poll_ns(&monitored->state, &w->rules, now);
}

/* ---- all of them -------------------------------------------------------------------------- */

static void end_all(stall_monitor_t *m, stall_ending_t ending) {
  for (uint32_t i = 0; i < m->used; i++)
    if (m->monitored[i].tid) drop(m, &m->monitored[i], ending);
  (void)monitor_writer_flush(m->context.writer);
}

/* The program runs on: stalls that last have no end yet. */
static void release_all(stall_monitor_t *m) {
  for (uint32_t i = 0; i < m->used; i++)
    if (m->monitored[i].tid) stall_loop_close(&m->context, &m->monitored[i]);
  (void)monitor_writer_flush(m->context.writer);
}

static void follow_exec(stall_monitor_t *m) {
  uint32_t now = recording_current_program(m->context.recording);
  if (now == m->exec_index) return;
  if (m->exec_index) { /* otherwise the first program has loaded the agent */
    m->unsampled = 0;
    m->unsampled_checked = false;
    m->unsampled_due_ns = os_monotonic_ns() + UNSAMPLED_NS;
    end_all(m, STALL_EXEC);
  }
  thread_stacks_close(&m->context.stacks);
  m->exec_index = now;
}

/* Reports each reason in SEEN once. */
static void report_unsampled(stall_monitor_t *m, unsigned seen) {
  stall_context_t *w = &m->context;
  if (load_relaxed(&m->loops->missed)) seen |= UNSAMPLED_LOOPS;
  unsigned found = seen & ~m->unsampled;
  m->unsampled |= found;
  for (unsigned one = 1; one <= found; one <<= 1) {
    if (!(found & one)) continue;
    monitor_writer_begin(w->writer, EXTENDED_UNSAMPLED);
    monitor_writer_text(w->writer, unsampled_text(one));
    monitor_writer_end(w->writer);
    (void)monitor_writer_flush(w->writer);
    if (w->note && one != UNSAMPLED_OUTSIDE) w->note(unsampled_text(one));
  }
}

static void check_unsampled(stall_monitor_t *m, uint64_t now) {
  if (m->outside || now < m->unsampled_due_ns) return; /* those are limits of the agent */
  m->unsampled_due_ns = now + UNSAMPLED_AGAIN_NS;
  m->unsampled_checked = true;
  report_unsampled(m, unsampled_detect(m->context.stacks.pid));
}

static uint64_t scan(stall_monitor_t *m, uint64_t late) {
  uint64_t next = UINT64_MAX, now = os_monotonic_ns();
  uint32_t used = load_acquire(&m->loops->used);
  if (used > m->used) m->used = used < SHM_LOOPS ? used : SHM_LOOPS;
  m->active = false;
  follow_exec(m);
  check_unsampled(m, now);
  calibrate(&m->context);
  for (uint32_t i = 0; i < m->used; i++) {
    uint64_t wanted = scan_loop(m, i, now, late);
    if (wanted < next) next = wanted;
  }
  return next;
}

/* Sleeps until NEXT or until the bell changes. Returns by how much it woke late. */
static uint64_t sleep_until(stall_monitor_t *m, uint32_t bell, uint64_t next) {
  uint64_t now = os_monotonic_ns();
  if (next <= now) return 0;
  (void)os_futex_wait_shared(&m->loops->bell, bell, next - now);
  uint64_t woke = os_monotonic_ns();
  return woke > next ? woke - next : 0;
}

/* Sleeps until the bell changes, or until the first check for unmonitored loops. */
static void sleep_long(stall_monitor_t *m, uint32_t bell) {
  uint64_t now = os_monotonic_ns(), due = m->unsampled_due_ns;
  uint64_t limit = due > now ? due - now : 1;
  (void)os_futex_wait_shared(&m->loops->bell, bell, m->unsampled_checked ? 0 : limit);
}

/* No loop is in an iteration, nor was for a tick. Announces the sleep, then scans once more,
 * because an iteration that began before the announcement did not change the bell. */
static void sleep_idle(stall_monitor_t *m, uint32_t bell) {
  store_release(&m->loops->asleep, 1u);
  (void)sleep_until(m, bell, os_monotonic_ns() + m->context.rules.tick_ns);
  if (load_acquire(&m->loops->bell) == bell) {
    (void)scan(m, 0);
    if (!m->active && !load_acquire(&m->stop)) sleep_long(m, bell);
  }
  store_release(&m->loops->asleep, 0u);
}

/* Without the agent nothing changes the bell when an iteration begins, so this polls. */
static void monitor_from_outside(stall_monitor_t *m) {
  while (!load_acquire(&m->stop)) {
    uint64_t now = os_monotonic_ns(), used_ns = (uint64_t)os_thread_cpu_ns(os_tid());
    outside_loops_poll(m->outside, monitor_writer_now(m->context.writer));
    (void)scan(m, 0);
    report_unsampled(m, UNSAMPLED_OUTSIDE);
    uint64_t pause_ns = PAUSE_FACTOR * ((uint64_t)os_thread_cpu_ns(os_tid()) - used_ns);
    uint32_t pace = load_relaxed(&m->context.recording->control->pace);
    uint64_t tick_ns = m->context.rules.tick_ns << pace;
    (void)sleep_until(m, load_acquire(&m->loops->bell),
                      now + (pause_ns > tick_ns ? pause_ns : tick_ns));
  }
}

static void *monitor_loops(void *context) {
  stall_monitor_t *m = context;
  prctl(PR_SET_NAME, "sonde-stall");
  /* To be punctual on a busy machine. Without the right to do so, the lateness is measured. */
  (void)setpriority(PRIO_PROCESS, (id_t)os_tid(), -10);
  uint64_t late = 0;
  if (m->outside) monitor_from_outside(m);
  while (!load_acquire(&m->stop)) {
    uint32_t bell = load_acquire(&m->loops->bell);
    uint64_t now = os_monotonic_ns(), next = scan(m, late);
    late = 0;
    m->quiet_scans = m->active ? 0 : m->quiet_scans + 1;
    if (m->quiet_scans >= QUIET_SCANS && !load_acquire(&m->stop)) {
      sleep_idle(m, bell);
      m->quiet_scans = 0;
      continue;
    }
    unsigned ticks = next == UINT64_MAX ? QUIET_TICKS : 1;
    uint64_t latest = now + ticks * m->context.rules.tick_ns;
    late = sleep_until(m, bell, next < latest ? next : latest);
  }
  return NULL;
}

/* ---- start and stop ----------------------------------------------------------------------- */

static void free_monitor(stall_monitor_t *m) {
  outside_loops_free(m->outside);
  thread_stacks_close(&m->context.stacks);
  monitor_writer_free(m->context.writer);
  os_unmap(m, sizeof *m);
}

stall_monitor_t *stall_monitor_new(recording_t *recording, const stall_options_t *options) {
  /* Not calloc, which writes the zeros of memory that was freed: 5 MB, of which few are used. */
  stall_monitor_t *m = os_map(sizeof *m);
  if (!m) return NULL;
  m->loops = &recording->control->stall;
  stall_context_t *w = &m->context;
  w->recording = recording;
  w->writer = monitor_writer_new(recording, MONITOR_STREAM);
  w->rules = stall_rules_for(options->threshold_ns);
  w->stacks = (thread_stacks_t){.recording = recording,
                                .writer = w->writer,
                                .pid = (pid_t)recording->header.pid,
                                .ticks_max_ns = w->rules.tick_ns / 2};
  w->note = options->note;
  m->unsampled_due_ns = os_monotonic_ns() + UNSAMPLED_NS;
  bool from_outside = load_relaxed(&recording->control->from_outside);
  if (from_outside) m->outside = outside_loops_new(&w->stacks);
  if (from_outside == !!m->outside && w->writer) return m;
  free_monitor(m);
  return NULL;
}

void stall_monitor_run(stall_monitor_t *m) {
  if (m) (void)monitor_thread_start(&m->thread, monitor_loops, m);
}

static void stop_thread(stall_monitor_t *m) {
  store_release(&m->stop, 1u);
  store_release(&m->loops->asleep, 0u);
  add_relaxed(&m->loops->bell, 1);
  (void)os_futex_wake_shared(&m->loops->bell, 1);
  monitor_thread_join(&m->thread);
  report_unsampled(m, 0);
}

void stall_monitor_leave(stall_monitor_t *m) {
  if (!m) return;
  stop_thread(m);
  end_all(m, STALL_EXEC);
  free_monitor(m);
}

void stall_monitor_stop(stall_monitor_t *m, int wait_status) {
  if (!m) return;
  stop_thread(m);
  if ((uint32_t)wait_status != RECORD_STATUS_RUNNING)
    end_all(m, WIFSIGNALED(wait_status) ? STALL_KILLED : STALL_EXITED);
  else
    release_all(m);
  free_monitor(m);
}
