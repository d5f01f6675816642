/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/budget.h"

#include <stdio.h>
#include <time.h>

#include "base/message.h"
#include "os/os.h"
#include "recorder/process_facts.h"

#define WINDOW_NS    UINT64_C(4000000000)
#define CALM_WINDOWS 8u
#define CALM_PART    4u /* below this part of the budget, a window is calm */
#define PACE_MAX     6u
/* CPU time for a sampled block and its free: an estimate. */
#define BLOCK_NS 3000u

static uint64_t own_ns(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t samples_ns(const recording_t *r) {
  const shm_control_t *c = r->control;
  return load_relaxed(&c->sampler_ns) + BLOCK_NS * load_relaxed(&c->blocks_chosen);
}

static void add_samples(void *sum, control_t *c) { *(uint64_t *)sum += samples_ns(c->recording); }

static uint64_t used_ns(const recording_t *recording, follow_t *follow) {
  uint64_t sum = own_ns() + samples_ns(recording);
  if (follow) follow_each(follow, add_samples, &sum);
  return sum;
}

/* ---- the pace ----------------------------------------------------------------------------- */

static void set_pace(void *context, control_t *control) {
  recording_t *r = control->recording;
  uint32_t pace = *(const uint32_t *)context, mode = load_relaxed(&r->control->mode);
  uint32_t before = load_relaxed(&r->control->pace);
  if (pace == before) return;
  store_relaxed(&r->control->pace, pace);
  uint64_t bytes = r->control->sample_bytes;
  bytes = pace > before ? bytes << (pace - before) : bytes >> (before - pace);
  if (mode & RECORD_SAMPLED_BLOCKS) (void)recording_set_mode(r, mode, bytes);
  control_notify(control);
}

static void change_pace(budget_t *b, control_t *control, follow_t *follow, uint32_t pace,
                        double share) {
  char text[128];
  double budget = b->permille / 10.0;
  bool slower = pace > load_relaxed(&control->recording->control->pace);
  set_pace(&pace, control);
  if (follow) follow_each(follow, set_pace, &pace);
  snprintf(text, sizeof text, "sonde samples 1/%u as often: it used %.1f %% of a CPU, budget %g %%",
           1u << pace, 100 * share, budget);
  if (!pace) snprintf(text, sizeof text, "sonde samples as often as at first");
  (void)recording_add_marker(control->recording, text);
  if (slower && !b->has_noted)
    message_note(
        "samples and readings are fewer from here on: sonde used %.1f %% of a CPU, and the "
        "budget is %g %%; '--budget' changes it",
        100 * share, budget);
  b->has_noted |= slower;
}

uint32_t budget_slower(uint32_t pace, double share, double budget) {
  do
    pace++, share /= 2;
  while (share >= 2 * budget && pace < PACE_MAX);
  return pace < PACE_MAX ? pace : PACE_MAX;
}

/* A window ends early once it has used the budget of a whole one. */
static bool is_window_over(const budget_t *b, uint64_t passed_ns, uint64_t used) {
  return passed_ns >= WINDOW_NS || (used - b->used_ns) * 1000 >= WINDOW_NS * b->permille;
}

void budget_refresh(budget_t *b, control_t *control, follow_t *follow) {
  const recording_t *recording = control->recording;
  uint64_t now_ns = os_monotonic_ns(), used = used_ns(recording, follow);
  uint64_t program = process_facts_cpu_ns((pid_t)recording->header.pid);
  uint64_t passed = now_ns - b->began_ns;
  uint32_t pace = load_relaxed(&recording->control->pace);
  store_relaxed(&recording->control->sonde_ns, used);
  if (used < b->used_ns) used = b->used_ns; /* samples of a child that has ended */
  if (!b->permille || (b->began_ns && !is_window_over(b, passed, used))) return;
  uint64_t most = program > b->program_ns + passed ? program - b->program_ns : passed;
  double share = (double)(used - b->used_ns) / (double)most;
  double budget = b->permille / 1000.0;
  bool first = !b->began_ns;
  b->began_ns = now_ns;
  b->used_ns = used;
  b->program_ns = program;
  if (first) return;
  b->calm = share < budget / CALM_PART ? b->calm + 1 : 0;
  if (share > budget && pace < PACE_MAX)
    change_pace(b, control, follow, budget_slower(pace, share, budget), share);
  else if (b->calm >= CALM_WINDOWS && pace)
    change_pace(b, control, follow, pace - 1, share);
  else
    return;
  b->calm = 0;
}
