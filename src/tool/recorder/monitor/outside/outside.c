/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/outside/outside.h"

#include <stdlib.h>

#include "os/os.h"

#define DEPTH_MAX 512u
/* After a broken walk, the list of images is read again if it is older than this. */
#define DOUBT_NS UINT64_C(200000000)

bool outside_start(outside_t *o, monitor_writer_t *writer, pid_t tid, const char *name,
                   const shm_control_t *control, uint64_t run_ns, uint64_t before_ns) {
  uint64_t pause_ns = shm_sample_pause_ns(control);
  if (!o->stream) o->stream = monitor_writer_stream(writer, tid, name);
  if (!o->stream || !perf_ticks_open(&o->ticks, tid, pause_ns)) return false;
  o->on = true;
  o->interval_ns = load_relaxed(&control->sample_interval_ns);
  o->pause_ns = pause_ns;
  o->start_ns = run_ns;
  o->before_ns = before_ns;
  o->written_ns = o->sampled_ns = 0;
  return true;
}

void outside_set_pause(outside_t *o, uint64_t pause_ns) {
  if (o->pause_ns == pause_ns) return;
  o->pause_ns = pause_ns;
  perf_ticks_set_interval(&o->ticks, pause_ns);
}

void outside_stop(outside_t *o) {
  if (o->on) perf_ticks_close(&o->ticks);
  o->on = false;
}

typedef struct reading {
  outside_t *outside;
  thread_stacks_t *stacks;
  bool any;
} reading_t;

static uint32_t stack_of(thread_stacks_t *s, const perf_tick_t *tick) {
  const stack_copy_t copy = {tick->regs, tick->stack, tick->stack_size};
  thread_t thread = {0};
  target_t *target = thread_stacks_target(s);
  if (target) stacks_of_copy(target, &copy, DEPTH_MAX, &thread);
  bool is_doubtful = thread.ending == ENDING_BROKEN && os_monotonic_ns() - s->opened_ns > DOUBT_NS;
  if (target && is_doubtful && thread_stacks_renew(s)) {
    target = thread_stacks_target(s);
    stacks_of_copy(target, &copy, DEPTH_MAX, &thread);
  }
  uint32_t stack = target ? monitor_writer_stack(s->writer, target, &thread) : 0;
  free(thread.frames);
  return stack;
}

/* A sample stands for the intervals of the thread's clock that no sample stands for yet. */
static void add_tick(void *context, const perf_tick_t *tick) {
  reading_t *r = context;
  outside_t *o = r->outside;
  uint64_t used_ns = o->before_ns + (uint64_t)((double)tick->cpu_ns * o->ratio);
  uint64_t half = o->interval_ns / 2;
  uint64_t ticks =
      used_ns + half > o->written_ns ? (used_ns + half - o->written_ns) / o->interval_ns : 0;
  o->sampled_ns = tick->cpu_ns;
  r->any = true;
  if (!ticks) return;
  o->written_ns += ticks * o->interval_ns;
  monitor_stream_sample(r->stacks->writer, o->stream, tick->time_ns, ticks - 1,
                        stack_of(r->stacks, tick));
}

uint64_t outside_read(outside_t *o, thread_stacks_t *stacks, uint64_t run_ns) {
  reading_t reading = {o, stacks, false};
  uint64_t counted_ns = perf_ticks_cpu_ns(&o->ticks), passed_ns = run_ns - o->start_ns;
  o->ratio = counted_ns > passed_ns ? (double)passed_ns / (double)counted_ns : 1;
  perf_ticks_read(&o->ticks, add_tick, &reading);
  return reading.any ? o->start_ns + (uint64_t)((double)o->sampled_ns * o->ratio) : 0;
}

uint64_t outside_end_ns(const outside_t *o, uint64_t run_ns) {
  double ratio = o->ratio > 0 ? o->ratio : 1;
  uint64_t end_ns = o->start_ns + (uint64_t)((double)perf_ticks_cpu_ns(&o->ticks) * ratio);
  return end_ns > run_ns ? end_ns : run_ns;
}
