/* SPDX-License-Identifier: MIT
 *
 * A poll costs one read of a file for each thread, and a few more for each that has run.
 */
#define _GNU_SOURCE
#include "recorder/monitor/outside/loops.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/process_facts.h"
#include "target/process.h"
#include "target/state.h"

/* Times that a thread must be found in the same wait. */
#define VISITS 2u

/* ---- decisions ---------------------------------------------------------------------------- */

bool outside_loop_has_run(const outside_loop_t *l, uint64_t slices) {
  return !slices || slices != l->slices || !l->is_settled;
}

static void visit(outside_loop_t *l, uint64_t sp) {
  if (sp < l->site) return; /* a wait inside an iteration */
  if (sp > l->site) l->visits = 0;
  l->site = sp;
  l->visits++;
}

void outside_loop_step(outside_loop_t *l, const outside_poll_t *p) {
  bool has_run = outside_loop_has_run(l, p->slices);
  l->slices = p->slices;
  if (has_run) l->began = 0;
  l->is_settled = p->is_blocked;
  if (!has_run || !p->is_blocked) return;
  if (p->is_event_wait)
    visit(l, p->sp);
  else if (l->visits >= VISITS && p->sp < l->site)
    l->began = p->time;
}

/* ---- threads ------------------------------------------------------------------------------ */

typedef struct seen_thread {
  pid_t tid;
  /* open file; -1: too many are open */
  int schedstat;
  bool is_here;
  outside_loop_t loop;
  /* its entry in the table; NULL: none */
  shm_loop_t *entry;
} seen_thread_t;

struct outside_loops {
  thread_stacks_t *stacks;
  shm_loops_t *table;
  /* sorted by tid */
  seen_thread_t *threads;
  size_t count, capacity;
  /* CPU time of the process when the last poll began; 0: unknown */
  uint64_t process_ns;
};

outside_loops_t *outside_loops_new(thread_stacks_t *stacks) {
  outside_loops_t *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->stacks = stacks;
  o->table = &stacks->recording->control->stall;
  return o;
}

void outside_loops_free(outside_loops_t *o) {
  if (!o) return;
  for (size_t i = 0; i < o->count; i++)
    thread_file_close(o->threads[i].schedstat);
  free(o->threads);
  free(o);
}

/* NULL: out of memory. */
static seen_thread_t *thread_of(outside_loops_t *o, pid_t tid) {
  size_t at = ARRAY_SEARCH(o->count, i, o->threads[i].tid < tid);
  if (at < o->count && o->threads[at].tid == tid) return &o->threads[at];
  if (!ARRAY_GROW(o->threads, o->count, o->capacity)) return NULL;
  memmove(&o->threads[at + 1], &o->threads[at], (o->count - at) * sizeof *o->threads);
  o->count++;
  o->threads[at] =
      (seen_thread_t){.tid = tid, .schedstat = thread_file_open(o->stacks->pid, tid, "schedstat")};
  return &o->threads[at];
}

static bool is_event_wait(long number) {
  static const char *const waits[] = {"epoll_wait", "epoll_pwait", "epoll_pwait2",
                                      "poll",       "ppoll",       "select",
                                      "pselect6",   "_newselect",  "io_uring_enter"};
  const char *name = number < 0 ? NULL : syscall_name(MACHINE_HERE, number);
  for (size_t i = 0; name && i < ARRAY_COUNT(waits); i++)
    if (!strcmp(name, waits[i])) return true;
  return false;
}

/* What the thread waits for. A thread that ran while it was read counts as running. */
static void read_wait(const target_t *target, pid_t tid, outside_poll_t *out) {
  thread_files_t files;
  sample_t sample;
  if (!thread_files_open(target->own, tid, &files)) return;
  thread_sample(&files, &sample);
  thread_files_close(&files);
  out->is_blocked = sample.activity == ACTIVITY_BLOCKED && sample.switches == out->slices &&
                    sample.switches_after == out->slices;
  out->is_event_wait = is_event_wait(sample.number);
  out->sp = sample.sp;
}

/* ---- the table ---------------------------------------------------------------------------- */

static void claim(const outside_loops_t *o, seen_thread_t *t) {
  for (uint32_t i = 0; i < SHM_LOOPS && !t->entry; i++)
    if (!o->table->loops[i].tid) {
      t->entry = &o->table->loops[i];
      if (o->table->used <= i) o->table->used = i + 1;
    }
  if (t->entry)
    *t->entry = (shm_loop_t){.site = t->loop.site, .tid = (uint32_t)t->tid};
  else
    o->table->missed++;
}

/* As the thread itself would do at the start and the end of an iteration. */
static void update_entry(seen_thread_t *t, uint64_t now) {
  shm_loop_t *entry = t->entry;
  if (entry->began && entry->began != t->loop.began) {
    entry->ended = now;
    entry->ended_of = entry->began;
    entry->watched = 0;
  }
  entry->began = t->loop.began;
}

static void poll_thread(outside_loops_t *o, target_t *target, seen_thread_t *t, uint64_t now) {
  thread_stats_t stats;
  if (!thread_stats_read_use(t->schedstat, o->stacks->pid, t->tid, &stats)) return;
  if (!outside_loop_has_run(&t->loop, stats.slices)) return;
  outside_poll_t poll = {.time = now, .slices = stats.slices};
  read_wait(target, t->tid, &poll);
  outside_loop_step(&t->loop, &poll);
  if (!t->entry && t->loop.visits >= VISITS) claim(o, t);
  if (t->entry) update_entry(t, now);
}

static void remove_ended(outside_loops_t *o) {
  size_t kept = 0;
  for (size_t i = 0; i < o->count; i++) {
    seen_thread_t *t = &o->threads[i];
    if (t->is_here) {
      o->threads[kept++] = *t;
      continue;
    }
    thread_file_close(t->schedstat);
    if (t->entry) t->entry->began = t->entry->tid = 0;
  }
  o->count = kept;
}

/* Whether the last poll has read every thread, and none has run since: the process' CPU clock
 * stands still. */
static bool is_idle(outside_loops_t *o) {
  bool idle = process_facts_idle(o->stacks->pid, &o->process_ns);
  for (size_t i = 0; i < o->count && idle; i++)
    idle = o->threads[i].loop.is_settled;
  return idle;
}

void outside_loops_poll(outside_loops_t *o, uint64_t now) {
  if (is_idle(o)) return;
  target_t *target = thread_stacks_threads(o->stacks);
  if (!target || !process_list_threads(target)) return;
  for (size_t i = 0; i < o->count; i++)
    o->threads[i].is_here = false;
  for (size_t i = 0; i < target->thread_count; i++) {
    seen_thread_t *t = thread_of(o, target->threads[i].tid);
    if (!t) continue;
    t->is_here = true;
    poll_thread(o, target, t, now);
  }
  target_forget_threads(target);
  remove_ended(o);
}
