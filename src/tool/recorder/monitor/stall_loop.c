/* SPDX-License-Identifier: MIT
 *
 * Samples one iteration while it lasts, and writes the samples when it becomes a stall.
 *
 * A blocked thread that did not get a CPU since the last poll has the same stack, which is not read
 * again.
 */
#include "recorder/monitor/stall_loop.h"

#include <stdio.h>

#include "recorder/monitor/thread_file.h"
#include "os/os.h"
#include "target/state.h"

#define NOTE_NS  UINT64_C(2000000000)
#define FLUSH_NS UINT64_C(1000000000)

static uint64_t ns_of(const stall_context_t *w, uint64_t ticks) {
  return w->base_ns +
         (uint64_t)(int64_t)((double)(int64_t)(ticks - w->base_ticks) * w->ns_per_tick);
}

void stall_loop_begin(stall_context_t *w, stall_loop_t *monitored, shm_loop_t *loop,
                      uint64_t turn) {
  monitored->iteration = turn;
  monitored->seen = false;
  monitored->moved = load_relaxed(&loop->moved);
  monitored->number = 0;
  monitored->pending_count = 0;
  monitored->requested = false;
  monitored->owner_requested = 0;
  monitored->noted_ns = 0;
  monitored->lost = 0;
  monitored->latest = (loop_sample_t){0};
  monitored->ran = true;
  monitored->state =
      (stall_iteration_t){.began_ns = ns_of(w, turn), .threshold_ns = w->rules.threshold_ns};
}

/* The program may have declared a longer limit for this iteration (sonde/stall.h). */
static void apply_limit(stall_loop_t *monitored, shm_loop_t *loop) {
  if (load_acquire(&loop->allowed_of) != (uint32_t)monitored->iteration ||
      monitored->state.reported)
    return;
  uint64_t allowed = (uint64_t)load_relaxed(&loop->allowed_ms) * 1000000;
  if (allowed > monitored->state.threshold_ns) monitored->state.threshold_ns = allowed;
}

/* ---- records ------------------------------------------------------------------------------ */

static uint64_t since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

static void write_sample(stall_context_t *w, const stall_loop_t *monitored,
                         const loop_sample_t *s) {
  const thread_stats_t *f = &s->stats, *b = &monitored->base;
  monitor_writer_t *j = w->writer;
  monitor_writer_begin(j, EXTENDED_STALL_SAMPLE);
  monitor_writer_value(j, monitored->number);
  monitor_writer_value(j, s->time);
  monitor_writer_value(j, s->stack);
  monitor_writer_value(j, (uint8_t)f->state | (f->frozen ? 0x100u : 0u));
  monitor_writer_value(j, f->call < 0 ? 0 : (uint64_t)f->call + 1);
  for (int i = 0; i < 3; i++)
    monitor_writer_value(j, f->args[i]);
  monitor_writer_value(j, s->window_ns);
  monitor_writer_value(j, since(f->run_ns, b->run_ns));
  monitor_writer_value(j, since(f->runq_ns, b->runq_ns));
  monitor_writer_value(j, since(f->minor_faults, b->minor_faults));
  monitor_writer_value(j, since(f->major_faults, b->major_faults));
  monitor_writer_value(j, since(f->user_ticks, b->user_ticks));
  monitor_writer_value(j, since(f->system_ticks, b->system_ticks));
  monitor_writer_value(j, s->is_mutex ? 1 : 0);
  monitor_writer_value(j, (uint64_t)s->owner);
  monitor_writer_value(j, s->address);
  const char *name = f->call < 0 ? NULL : syscall_name(MACHINE_HERE, f->call);
  monitor_writer_text(j, name);
  monitor_writer_text(j, s->what);
  monitor_writer_end(j);
}

static void write_link(stall_context_t *w, const stall_loop_t *monitored, const lock_link_t *l) {
  monitor_writer_t *j = w->writer;
  monitor_writer_begin(j, EXTENDED_STALL_LOCK);
  monitor_writer_value(j, monitored->number);
  monitor_writer_value(j, (uint64_t)l->waiter);
  monitor_writer_value(j, (uint64_t)l->owner);
  monitor_writer_value(j, l->address);
  monitor_writer_value(j, (uint8_t)l->owner_state);
  monitor_writer_value(j, l->in_cycle);
  monitor_writer_value(j, l->owner_stack);
  monitor_writer_end(j);
}

static void write_locks(stall_context_t *w, stall_loop_t *monitored) {
  lock_link_t links[STALL_LINKS_MAX];
  int count = thread_stacks_locks(&w->stacks, monitored->tid, links);
  for (int i = 0; i < count; i++) {
    write_link(w, monitored, &links[i]);
    if (links[i].owner_state == 'R' && !monitored->owner_requested &&
        thread_stacks_request(&w->stacks, links[i].owner)) {
      monitored->owner_requested = links[i].owner;
      monitored->owner_address = links[i].address;
    }
  }
}

static void collect_owner(stall_context_t *w, stall_loop_t *monitored) {
  lock_link_t link = {.waiter = monitored->tid,
                      .owner = monitored->owner_requested,
                      .address = monitored->owner_address,
                      .owner_state = 'R'};
  uint64_t time;
  if (!monitored->owner_requested ||
      !thread_stacks_response(&w->stacks, monitored->owner_requested, &link.owner_stack, &time))
    return;
  write_link(w, monitored, &link);
  monitored->owner_requested = 0;
}

/* The iteration is a stall: writes it and its samples. */
static void report(stall_context_t *w, stall_loop_t *monitored) {
  monitor_writer_t *j = w->writer;
  monitored->number = ++w->stalls;
  monitor_writer_begin(j, EXTENDED_STALL);
  monitor_writer_value(j, monitored->number);
  monitor_writer_value(j, (uint64_t)monitored->tid);
  monitor_writer_value(j, monitored->iteration);
  monitor_writer_value(j, monitored->state.threshold_ns);
  char name[THREAD_NAME_MAX] = "";
  thread_file_name(w->stacks.pid, monitored->tid, name);
  monitor_writer_text(j, name);
  monitor_writer_end(j);
  for (int i = 0; i < monitored->pending_count; i++)
    write_sample(w, monitored, &monitored->pending[i]);
  monitored->pending_count = 0;
  if (monitored->latest.is_mutex && monitored->last.state != 'R') write_locks(w, monitored);
  (void)monitor_writer_flush(j);
}

/* ---- samples ------------------------------------------------------------------------------ */

/* Makes space by removing every second sample. */
static void thin_out(stall_loop_t *monitored) {
  int kept = 0;
  for (int i = 1; i < monitored->pending_count; i += 2)
    monitored->pending[kept++] = monitored->pending[i];
  monitored->pending_count = kept;
}

static void add_sample(stall_context_t *w, stall_loop_t *monitored, const loop_sample_t *s) {
  if (monitored->number) {
    write_sample(w, monitored, s);
    return;
  }
  if (monitored->pending_count == LOOP_SAMPLES) thin_out(monitored);
  monitored->pending[monitored->pending_count++] = *s;
}

static void collect_response(stall_context_t *w, stall_loop_t *monitored,
                             const thread_stats_t *stats) {
  loop_sample_t s = {0};
  if (!monitored->requested ||
      !thread_stacks_response(&w->stacks, monitored->tid, &s.stack, &s.time))
    return;
  monitored->requested = false;
  if (s.time < monitored->iteration) return; /* of the previous iteration */
  s.stats = *stats;
  s.stats.state = 'R';
  s.stats.call = -1;
  s.window_ns = os_monotonic_ns() - monitored->base_ns;
  monitored->latest = s;
  monitored->ran = true; /* it may have blocked elsewhere since */
  add_sample(w, monitored, &s);
}

static void add_current_sample(stall_context_t *w, stall_loop_t *monitored,
                               const thread_stats_t *stats) {
  if (stats->state == 'R') {
    monitored->requested = thread_stacks_request(&w->stacks, monitored->tid);
    return;
  }
  loop_sample_t s = {0};
  blocked_thread_t at;
  if (!monitored->ran && monitored->latest.stack) {
    s = monitored->latest;
  } else if (thread_stacks_blocked(&w->stacks, monitored->tid, &at)) {
    monitored->ran = false;
    s.stack = at.stack;
    s.owner = at.owner;
    s.is_mutex = at.is_mutex;
    s.address = at.address;
    memcpy(s.what, at.what, sizeof s.what);
  }
  s.time = monitor_writer_now(w->writer);
  s.window_ns = os_monotonic_ns() - monitored->base_ns;
  s.stats = *stats;
  monitored->latest = s;
  add_sample(w, monitored, &s);
}

/* ---- the polls ---------------------------------------------------------------------------- */

static void note_progress(const stall_context_t *w, stall_loop_t *monitored, uint64_t age_ns) {
  if (!w->note || age_ns < NOTE_NS || age_ns < 4 * monitored->noted_ns) return;
  monitored->noted_ns = age_ns;
  char line[512], doing[320];
  const thread_stats_t *f = &monitored->last;
  const char *call = f->call < 0 ? NULL : syscall_name(MACHINE_HERE, f->call);
  const loop_sample_t *s = &monitored->latest;
  if (f->state == 'R')
    snprintf(doing, sizeof doing, "it is running");
  else if (s->owner)
    snprintf(doing, sizeof doing, "it waits for a lock that thread %d holds", (int)s->owner);
  else if (call)
    snprintf(doing, sizeof doing, "it is in %s%s%s", call, *s->what ? " on " : "", s->what);
  else
    snprintf(doing, sizeof doing, "it is blocked");
  snprintf(line, sizeof line, "the event loop of thread %d has stalled for %.1f s so far: %s",
           (int)monitored->tid, (double)age_ns / 1e9, doing);
  w->note(line);
}

bool stall_loop_poll(stall_context_t *w, stall_loop_t *monitored, shm_loop_t *loop, uint64_t now_ns,
                     uint64_t late_ns) {
  thread_stats_t stats;
  if (monitored->files.tid != monitored->tid) {
    thread_stats_close(&monitored->files);
    thread_stats_open(&monitored->files, w->stacks.pid, monitored->tid);
  }
  if (!thread_stats_read(&monitored->files, &stats)) return false;
  if (stats.exiting || stats.state == 'Z' || stats.state == 'X') return false;
  if (!monitored->seen) {
    monitored->base = monitored->last = stats;
    monitored->base_ns = now_ns;
    monitored->state.next_sample_ns = now_ns + w->rules.tick_ns / 2;
    monitored->seen = true;
  }
  if (stats.slices != monitored->last.slices || monitored->last.state == 'R') monitored->ran = true;
  stall_poll_t look = {.now_ns = now_ns,
                       .late_ns = late_ns,
                       .state = stats.state,
                       .frozen = stats.frozen,
                       .run_ns = stats.run_ns,
                       .runq_ns = stats.runq_ns};
  apply_limit(monitored, loop);
  collect_response(w, monitored, &stats);
  collect_owner(w, monitored);
  unsigned todo = stall_iteration_poll(&monitored->state, &w->rules, &look);
  monitored->last = stats;
  if (load_acquire(&loop->began) != monitored->iteration) return true; /* it has ended */
  if (todo & STALL_DO_SAMPLE) add_current_sample(w, monitored, &stats);
  if (todo & STALL_DO_REPORT) {
    report(w, monitored);
    store_relaxed(&loop->watched, SHM_WATCH_CALL);
  }
  if (!monitored->number) return true;
  note_progress(w, monitored, stall_iteration_active_ns(&monitored->state, now_ns));
  if (now_ns - monitored->flushed_ns > FLUSH_NS) {
    monitored->flushed_ns = now_ns;
    (void)monitor_writer_flush(w->writer);
  }
  return true;
}

bool stall_loop_is_exiting(const stall_loop_t *monitored) {
  thread_stats_t stats;
  return thread_stats_read(&monitored->files, &stats) && stats.exiting && stats.state != 'Z' &&
         stats.state != 'X';
}

/* At the end of an iteration: checks whether it became a stall after the last poll. It also
 * corrects the CPU time, which the kernel updates late while a thread runs. */
static void last_poll(stall_context_t *w, stall_loop_t *monitored, uint64_t end_ns) {
  stall_iteration_t *t = &monitored->state;
  if (!t->polled || end_ns < t->last.now_ns) return;
  if (t->reported ? t->last.state != 'R' : stall_iteration_active_ns(t, end_ns) < t->threshold_ns)
    return;
  thread_stats_t stats;
  stall_poll_t look = t->last;
  uint64_t gap = end_ns - t->last.now_ns;
  /* The time since the end of the iteration is small compared with the gap. */
  if (thread_stats_read(&monitored->files, &stats)) {
    look.run_ns = stats.run_ns;
    look.runq_ns = stats.runq_ns;
  }
  look.now_ns = end_ns;
  look.late_ns = gap > w->rules.tick_ns ? gap - w->rules.tick_ns : 0;
  if (stall_iteration_poll(t, &w->rules, &look) & STALL_DO_REPORT) report(w, monitored);
}

void stall_loop_end(stall_context_t *w, stall_loop_t *monitored, uint64_t end,
                    stall_ending_t ending) {
  if (!monitored->iteration) return;
  uint64_t length = end > monitored->iteration ? end - monitored->iteration : 0;
  if (ending == STALL_ENDED && length > monitored->longest) monitored->longest = length;
  if (monitored->seen) {
    collect_response(w, monitored, &monitored->last);
    last_poll(w, monitored, ns_of(w, end));
  }
  thread_stacks_cancel(&w->stacks, monitored->tid);
  if (monitored->owner_requested) thread_stacks_cancel(&w->stacks, monitored->owner_requested);
  if (monitored->number) {
    const stall_iteration_t *t = &monitored->state;
    monitor_writer_begin(w->writer, EXTENDED_STALL_END);
    monitor_writer_value(w->writer, monitored->number);
    monitor_writer_value(w->writer, end);
    monitor_writer_value(w->writer, ending);
    monitor_writer_value(w->writer, t->stopped_ns);
    monitor_writer_value(w->writer, t->late_ns);
    monitor_writer_value(w->writer, stall_iteration_runq_wait_ns(t));
    monitor_writer_end(w->writer);
    (void)monitor_writer_flush(w->writer);
    thread_stacks_close(&w->stacks);
  }
  monitored->iteration = 0;
  monitored->number = 0;
}

void stall_loop_close(stall_context_t *w, stall_loop_t *monitored) {
  if (monitored->iterations) {
    monitor_writer_begin(w->writer, EXTENDED_LOOP);
    monitor_writer_value(w->writer, (uint64_t)monitored->tid);
    monitor_writer_value(w->writer, monitored->iterations);
    monitor_writer_end(w->writer);
  }
  thread_stats_close(&monitored->files);
  *monitored = (stall_loop_t){0};
}
