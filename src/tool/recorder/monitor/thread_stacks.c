/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/thread_stacks.h"

#include <stdio.h>
#include <stdlib.h>

#include "os/os.h"
#include "recorder/monitor/signal_state.h"
#include "recorder/process_facts.h"
#include "target/state.h"

#define DEPTH_MAX 512u
/* The list of images is read again after this time, or sooner if a walk ends early. */
#define STALE_NS UINT64_C(2000000000)
#define DOUBT_NS UINT64_C(200000000)

void thread_stacks_close(thread_stacks_t *s) {
  target_close(s->target);
  s->target = NULL;
}

/* The program may have loaded the agent since the target was opened. */
static target_t *with_trampolines(const thread_stacks_t *s) {
  const shm_control_t *control = s->recording->control;
  s->target->trampoline_pc = load_relaxed(&control->trampoline_pc);
  s->target->call_states = load_relaxed(&control->call_states);
  return s->target;
}

static bool has_ended(pid_t pid) {
  process_facts_t facts;
  return !process_facts_read(pid, &facts) || facts.state == 'Z';
}

bool thread_stacks_renew(thread_stacks_t *s) {
  problem_t problem;
  target_t *target = target_open_process(s->pid, &problem);
  s->opened_ns = os_monotonic_ns();
  if (!target) {
    if (!has_ended(s->pid)) thread_stacks_close(s); /* the right to read it is gone */
    return false;
  }
  target->follows_async = s->recording->control->follows_async;
  target_close(s->target);
  s->target = target;
  return true;
}

target_t *thread_stacks_target(thread_stacks_t *s) {
  uint64_t stale_ns = STALE_NS << load_relaxed(&s->recording->control->pace);
  if (s->target && os_monotonic_ns() - s->opened_ns > stale_ns) (void)thread_stacks_renew(s);
  return thread_stacks_threads(s);
}

target_t *thread_stacks_threads(thread_stacks_t *s) {
  uint32_t exec_index = recording_current_program(s->recording);
  if (exec_index != s->exec_index) thread_stacks_close(s);
  s->exec_index = exec_index;
  if (s->target) {
    target_forget_threads(s->target);
    return with_trampolines(s);
  }
  if (!thread_stacks_renew(s)) {
    s->denied++;
    return NULL;
  }
  return with_trampolines(s);
}

static thread_t *find(target_t *t, pid_t tid) {
  for (size_t i = 0; i < t->thread_count; i++)
    if (t->threads[i].tid == tid) return &t->threads[i];
  return NULL;
}

static const thread_t *capture(thread_stacks_t *s, pid_t tid) {
  problem_t problem;
  target_t *t = thread_stacks_target(s);
  const stacks_options_t options = {
      .depth = DEPTH_MAX, .touch = TOUCH_UNSEEN, .tid = tid, .interpreted = true};
  return t && stacks_capture(t, &options, &problem) ? find(t, tid) : NULL;
}

bool thread_stacks_blocked(thread_stacks_t *s, pid_t tid, blocked_thread_t *out) {
  memset(out, 0, sizeof *out);
  const thread_t *thread = capture(s, tid);
  if (thread && thread->ending == ENDING_BROKEN && os_monotonic_ns() - s->opened_ns > DOUBT_NS) {
    thread_stacks_close(s);
    thread = capture(s, tid);
  }
  if (!thread) return false;
  out->stack = monitor_writer_stack(s->writer, s->target, thread);
  out->owner = thread->wait.owner;
  out->is_mutex = thread->wait.is_mutex;
  out->address = thread->wait.address;
  const char *what = state_wait_what(thread);
  if (what) snprintf(out->what, sizeof out->what, "%s", what);
  return out->stack != 0;
}

int thread_stacks_locks(thread_stacks_t *s, pid_t tid, lock_link_t links[STALL_LINKS_MAX]) {
  problem_t problem;
  target_t *t = thread_stacks_target(s);
  const stacks_options_t options = {.depth = DEPTH_MAX, .touch = TOUCH_UNSEEN, .interpreted = true};
  if (!t || !stacks_capture(t, &options, &problem)) return 0;
  int count = 0;
  const thread_t *waiter = find(t, tid);
  while (waiter && waiter->wait.owner > 0 && count < STALL_LINKS_MAX) {
    const thread_t *owner = find(t, waiter->wait.owner);
    links[count++] = (lock_link_t){
        .waiter = waiter->tid,
        .owner = waiter->wait.owner,
        .address = waiter->wait.address,
        .owner_stack = owner ? monitor_writer_stack(s->writer, t, owner) : 0,
        .owner_state = owner ? owner->state : 0,
        .in_cycle = waiter->deadlock != 0,
    };
    for (int i = 0; i < count - 1; i++) /* a cycle */
      if (links[i].waiter == waiter->wait.owner) return count;
    if (waiter->wait.owner == tid) return count;
    waiter = owner;
  }
  return count;
}

/* ---- questions ---------------------------------------------------------------------------- */

static shm_stack_request_t *question(const thread_stacks_t *s, int i) {
  return &s->recording->control->stall.stack_requests[i];
}

static int find_slot(const thread_stacks_t *s, pid_t tid) {
  for (int i = 0; i < (int)SHM_STACK_REQUESTS; i++)
    if (s->requested[i] == tid) return i;
  return -1;
}

/* A blocked signal would stay pending, and the program could read it with sigwait or signalfd. */
static bool can_respond(const thread_stacks_t *s, pid_t tid) {
  signal_state_t state;
  return load_acquire(&s->recording->control->stall.sampler) &&
         signal_state_read(s->pid, tid, &state) && !state.is_blocked && state.is_caught;
}

/* Whether TID captures itself at one of its ticks. A signal of the recorder may come when the
 * thread begins a system call, and would end that call with EINTR. */
static bool captures_at_tick(const thread_stacks_t *s, pid_t tid) {
  shm_control_t *c = s->recording->control;
  if (!(load_relaxed(&c->mode) & RECORD_SAMPLES) ||
      load_relaxed(&c->sample_interval_ns) > s->ticks_max_ns)
    return false;
  const shm_thread_t *t = thread_table_find(&c->threads, (uint32_t)tid);
  return t && load_relaxed(&t->position_ns) && !load_relaxed(&t->no_timer);
}

bool thread_stacks_request(thread_stacks_t *s, pid_t tid) {
  if (!can_respond(s, tid)) return false;
  int i = find_slot(s, tid);
  if (i < 0) i = find_slot(s, 0);
  if (i < 0) return false;
  shm_stack_request_t *q = question(s, i);
  if (s->requested[i] == tid && load_acquire(&q->state) == SHM_REQUESTED) return true; /* pending */
  s->requested[i] = tid;
  q->tid = (uint32_t)tid;
  store_release(&q->state, SHM_REQUESTED);
  store_release(&s->recording->control->stall.requested, 1u);
  if (captures_at_tick(s, tid) || os_signal_process(s->pid, tid) == 0) return true;
  thread_stacks_cancel(s, tid);
  return false;
}

bool thread_stacks_response(thread_stacks_t *s, pid_t tid, uint32_t *stack, uint64_t *time) {
  int i = find_slot(s, tid);
  if (i < 0) return false;
  shm_stack_request_t *q = question(s, i);
  if (load_acquire(&q->state) != SHM_CAPTURED) return false;
  *stack = q->stack;
  *time = q->time;
  thread_stacks_cancel(s, tid);
  return *stack != 0;
}

void thread_stacks_cancel(thread_stacks_t *s, pid_t tid) {
  int i = find_slot(s, tid);
  if (i < 0) return;
  s->requested[i] = 0;
  store_release(&question(s, i)->state, SHM_FREE);
}
