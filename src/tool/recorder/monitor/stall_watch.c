/* SPDX-License-Identifier: MIT
 *
 * Facts and stacks of one turn, gathered while it lasts, and written once it is a stall.
 *
 * A blocked thread that has not been given a CPU since the last look has the stack it had: it is
 * not read again.
 */
#include "recorder/monitor/stall_watch.h"

#include <stdio.h>

#include "recorder/monitor/thread_file.h"
#include "os/os.h"
#include "target/state.h"

#define NOTE_NS  UINT64_C(2000000000)
#define FLUSH_NS UINT64_C(1000000000)

static uint64_t ns_of(const watching_t *w, uint64_t ticks) {
  return w->base_ns +
         (uint64_t)(int64_t)((double)(int64_t)(ticks - w->base_ticks) * w->ns_per_tick);
}

void watch_begin(watching_t *w, watch_t *watch, shm_loop_t *loop, uint64_t turn) {
  watch->turn = turn;
  watch->seen = false;
  watch->moved = load_relaxed(&loop->moved);
  watch->number = 0;
  watch->pending_count = 0;
  watch->asked = false;
  watch->owner_asked = 0;
  watch->noted_ns = 0;
  watch->lost = 0;
  watch->latest = (watch_sample_t){0};
  watch->ran = true;
  watch->state =
      (stall_iteration_t){.began_ns = ns_of(w, turn), .threshold_ns = w->rules.threshold_ns};
}

/* The program may have declared, by now, that this turn is a long one. */
static void allow(watch_t *watch, shm_loop_t *loop) {
  if (load_acquire(&loop->allowed_of) != (uint32_t)watch->turn || watch->state.reported) return;
  uint64_t allowed = (uint64_t)load_relaxed(&loop->allowed_ms) * 1000000;
  if (allowed > watch->state.threshold_ns) watch->state.threshold_ns = allowed;
}

/* ---- records ------------------------------------------------------------------------------ */

static uint64_t since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

static void write_sample(watching_t *w, const watch_t *watch, const watch_sample_t *s) {
  const thread_facts_t *f = &s->facts, *b = &watch->base;
  monitor_writer_t *j = w->journal;
  monitor_writer_begin(j, EXTENDED_STALL_SAMPLE);
  monitor_writer_value(j, watch->number);
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

static void write_link(watching_t *w, const watch_t *watch, const lock_link_t *l) {
  monitor_writer_t *j = w->journal;
  monitor_writer_begin(j, EXTENDED_STALL_LOCK);
  monitor_writer_value(j, watch->number);
  monitor_writer_value(j, (uint64_t)l->waiter);
  monitor_writer_value(j, (uint64_t)l->owner);
  monitor_writer_value(j, l->address);
  monitor_writer_value(j, (uint8_t)l->owner_state);
  monitor_writer_value(j, l->in_cycle);
  monitor_writer_value(j, l->owner_stack);
  monitor_writer_end(j);
}

static void write_locks(watching_t *w, watch_t *watch) {
  lock_link_t links[STALL_LINKS_MAX];
  int count = stacks_locks(&w->stacks, watch->tid, links);
  for (int i = 0; i < count; i++) {
    write_link(w, watch, &links[i]);
    if (links[i].owner_state == 'R' && !watch->owner_asked &&
        stacks_ask(&w->stacks, links[i].owner)) {
      watch->owner_asked = links[i].owner;
      watch->owner_address = links[i].address;
    }
  }
}

static void collect_owner(watching_t *w, watch_t *watch) {
  lock_link_t link = {.waiter = watch->tid,
                      .owner = watch->owner_asked,
                      .address = watch->owner_address,
                      .owner_state = 'R'};
  uint64_t time;
  if (!watch->owner_asked ||
      !stacks_answer(&w->stacks, watch->owner_asked, &link.owner_stack, &time))
    return;
  write_link(w, watch, &link);
  watch->owner_asked = 0;
}

/* The loop has a stall: what was gathered of it so far is written. */
static void report(watching_t *w, watch_t *watch) {
  monitor_writer_t *j = w->journal;
  watch->number = ++w->stalls;
  monitor_writer_begin(j, EXTENDED_STALL);
  monitor_writer_value(j, watch->number);
  monitor_writer_value(j, (uint64_t)watch->tid);
  monitor_writer_value(j, watch->turn);
  monitor_writer_value(j, watch->state.threshold_ns);
  char name[THREAD_NAME_MAX] = "";
  thread_file_name(w->stacks.pid, watch->tid, name);
  monitor_writer_text(j, name);
  monitor_writer_end(j);
  for (int i = 0; i < watch->pending_count; i++)
    write_sample(w, watch, &watch->pending[i]);
  watch->pending_count = 0;
  if (watch->latest.is_mutex && watch->last.state != 'R') write_locks(w, watch);
  (void)monitor_writer_flush(j);
}

/* ---- samples ------------------------------------------------------------------------------ */

/* Room in the kept samples: every second one goes. */
static void thin_out(watch_t *watch) {
  int kept = 0;
  for (int i = 1; i < watch->pending_count; i += 2)
    watch->pending[kept++] = watch->pending[i];
  watch->pending_count = kept;
}

static void add_sample(watching_t *w, watch_t *watch, const watch_sample_t *s) {
  if (watch->number) {
    write_sample(w, watch, s);
    return;
  }
  if (watch->pending_count == WATCH_SAMPLES) thin_out(watch);
  watch->pending[watch->pending_count++] = *s;
}

static void collect_answer(watching_t *w, watch_t *watch, const thread_facts_t *facts) {
  watch_sample_t s = {0};
  if (!watch->asked || !stacks_answer(&w->stacks, watch->tid, &s.stack, &s.time)) return;
  watch->asked = false;
  if (s.time < watch->turn) return; /* of the turn before */
  s.facts = *facts;
  s.facts.state = 'R';
  s.facts.call = -1;
  s.window_ns = os_monotonic_ns() - watch->base_ns;
  watch->latest = s;
  watch->ran = true; /* where it ran is not where it is blocked since */
  add_sample(w, watch, &s);
}

/* Signal 23, SIGURG on every Linux, is how a thread is asked. */
#define ASK_BIT (UINT64_C(1) << 22)

static void take_sample(watching_t *w, watch_t *watch, const thread_facts_t *facts) {
  if (facts->state == 'R') {
    watch->asked = !(facts->blocked_signals & ASK_BIT) && stacks_ask(&w->stacks, watch->tid);
    return;
  }
  watch_sample_t s = {0};
  blocked_at_t at;
  if (!watch->ran && watch->latest.stack) {
    s = watch->latest;
  } else if (stacks_blocked(&w->stacks, watch->tid, &at)) {
    watch->ran = false;
    s.stack = at.stack;
    s.owner = at.owner;
    s.is_mutex = at.is_mutex;
    s.address = at.address;
    memcpy(s.what, at.what, sizeof s.what);
  }
  s.time = monitor_writer_now(w->journal);
  s.window_ns = os_monotonic_ns() - watch->base_ns;
  s.facts = *facts;
  watch->latest = s;
  add_sample(w, watch, &s);
}

/* ---- the looks ---------------------------------------------------------------------------- */

static void tell(const watching_t *w, watch_t *watch, uint64_t age_ns) {
  if (!w->note || age_ns < NOTE_NS || age_ns < 4 * watch->noted_ns) return;
  watch->noted_ns = age_ns;
  char line[512], doing[320];
  const thread_facts_t *f = &watch->last;
  const char *call = f->call < 0 ? NULL : syscall_name(MACHINE_HERE, f->call);
  const watch_sample_t *s = &watch->latest;
  if (f->state == 'R')
    snprintf(doing, sizeof doing, "it is running");
  else if (s->owner)
    snprintf(doing, sizeof doing, "it waits for a lock that thread %d holds", (int)s->owner);
  else if (call)
    snprintf(doing, sizeof doing, "it is in %s%s%s", call, *s->what ? " on " : "", s->what);
  else
    snprintf(doing, sizeof doing, "it is blocked");
  snprintf(line, sizeof line, "the event loop of thread %d has stalled for %.1f s so far: %s",
           (int)watch->tid, (double)age_ns / 1e9, doing);
  w->note(line);
}

bool watch_look(watching_t *w, watch_t *watch, shm_loop_t *loop, uint64_t now_ns,
                uint64_t late_ns) {
  thread_facts_t facts;
  if (watch->files.tid != watch->tid) {
    thread_facts_close(&watch->files);
    thread_facts_open(&watch->files, w->stacks.pid, watch->tid);
  }
  if (!thread_facts_read(&watch->files, &facts)) return false;
  if (facts.exiting || facts.state == 'Z' || facts.state == 'X') return false;
  if (!watch->seen) {
    watch->base = watch->last = facts;
    watch->base_ns = now_ns;
    watch->state.next_sample_ns = now_ns + w->rules.tick_ns / 2;
    watch->seen = true;
  }
  if (facts.slices != watch->last.slices || watch->last.state == 'R') watch->ran = true;
  stall_poll_t look = {.now_ns = now_ns,
                       .late_ns = late_ns,
                       .state = facts.state,
                       .frozen = facts.frozen,
                       .run_ns = facts.run_ns,
                       .runq_ns = facts.runq_ns};
  allow(watch, loop);
  collect_answer(w, watch, &facts);
  collect_owner(w, watch);
  unsigned todo = stall_iteration_poll(&watch->state, &w->rules, &look);
  watch->last = facts;
  if (load_acquire(&loop->turn) != watch->turn) return true; /* it ended meanwhile */
  if (todo & STALL_DO_SAMPLE) take_sample(w, watch, &facts);
  if (todo & STALL_DO_REPORT) {
    report(w, watch);
    store_relaxed(&loop->watched, SHM_WATCH_CALL);
  }
  if (!watch->number) return true;
  tell(w, watch, stall_iteration_active_ns(&watch->state, now_ns));
  if (now_ns - watch->flushed_ns > FLUSH_NS) {
    watch->flushed_ns = now_ns;
    (void)monitor_writer_flush(w->journal);
  }
  return true;
}

bool watch_is_exiting(const watch_t *watch) {
  thread_facts_t facts;
  return thread_facts_read(&watch->files, &facts) && facts.exiting && facts.state != 'Z' &&
         facts.state != 'X';
}

/* At a turn's end: its last looks may have missed that it was a stall; and the kernel books time on
 * a CPU late while a thread runs, which was taken for waiting and is put right. */
static void last_look(watching_t *w, watch_t *watch, uint64_t end_ns) {
  stall_iteration_t *t = &watch->state;
  if (!t->polled || end_ns < t->last.now_ns) return;
  if (t->reported ? t->last.state != 'R' : stall_iteration_active_ns(t, end_ns) < t->threshold_ns)
    return;
  thread_facts_t facts;
  stall_poll_t look = t->last;
  uint64_t gap = end_ns - t->last.now_ns;
  if (thread_facts_read(&watch->files,
                        &facts)) { /* what it did since the end is small beside the gap */
    look.run_ns = facts.run_ns;
    look.runq_ns = facts.runq_ns;
  }
  look.now_ns = end_ns;
  look.late_ns = gap > w->rules.tick_ns ? gap - w->rules.tick_ns : 0;
  if (stall_iteration_poll(t, &w->rules, &look) & STALL_DO_REPORT) report(w, watch);
}

void watch_end(watching_t *w, watch_t *watch, uint64_t end, stall_ending_t ending) {
  if (!watch->turn) return;
  uint64_t length = end > watch->turn ? end - watch->turn : 0;
  if (ending == STALL_ENDED && length > watch->longest) watch->longest = length;
  if (watch->seen) {
    collect_answer(w, watch, &watch->last);
    last_look(w, watch, ns_of(w, end));
  }
  stacks_drop(&w->stacks, watch->tid);
  if (watch->owner_asked) stacks_drop(&w->stacks, watch->owner_asked);
  if (watch->number) {
    const stall_iteration_t *t = &watch->state;
    monitor_writer_begin(w->journal, EXTENDED_STALL_END);
    monitor_writer_value(w->journal, watch->number);
    monitor_writer_value(w->journal, end);
    monitor_writer_value(w->journal, ending);
    monitor_writer_value(w->journal, t->stopped_ns);
    monitor_writer_value(w->journal, t->late_ns);
    monitor_writer_value(w->journal, stall_iteration_runq_wait_ns(t));
    monitor_writer_end(w->journal);
    (void)monitor_writer_flush(w->journal);
    stacks_forget(&w->stacks);
  }
  watch->turn = 0;
  watch->number = 0;
}

void watch_close(watching_t *w, watch_t *watch) {
  if (watch->turns) {
    monitor_writer_begin(w->journal, EXTENDED_LOOP);
    monitor_writer_value(w->journal, (uint64_t)watch->tid);
    monitor_writer_value(w->journal, watch->turns);
    monitor_writer_end(w->journal);
  }
  thread_facts_close(&watch->files);
  *watch = (watch_t){0};
}
