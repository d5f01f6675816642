/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/outside/agentless.h"

#include <string.h>

#include "base/message.h"
#include "os/os.h"
#include "recorder/process_facts.h"

/* Between two looks at a process: before it executes the program, if it is not held, and after. */
#define SOON_NS  UINT64_C(1000000)
#define LATER_NS UINT64_C(100000000)
/* In this time an announced program is executed, and the agent starts in a later one. */
#define PATIENCE_NS UINT64_C(2000000000)

void agentless_note(const char *program, bool all) {
  message_note("%s is statically linked, so sonde records it from outside: %sno allocations and no "
               "stack of a crash",
               program, all ? "CPU time, waits and stalls, but " : "");
}

void agentless_open(agentless_t *a, const agentless_options_t *options, recording_t *recording,
                    monitors_t *monitors, bool is_child) {
  *a = (agentless_t){.options = options,
                     .recording = recording,
                     .monitors = monitors,
                     .is_child = is_child,
                     .observed = {.pidfd = -1}};
}

static pid_t pid_of(const agentless_t *a) { return (pid_t)a->recording->header.pid; }

static void set_due(agentless_t *a, uint64_t pause_ns) { a->due_ns = os_monotonic_ns() + pause_ns; }

static void start_monitors(agentless_t *a, uint32_t mode, const monitor_options_t *options) {
  monitors_new(a->monitors, a->recording, mode & RECORD_STALLS, options);
  if (a->state == AGENTLESS_RECORDED) monitors_begin(a->monitors);
  monitors_run_wall(a->monitors);
  monitors_run(a->monitors);
}

/* ---- the program without the agent ------------------------------------------------------------
 */

/* What the agent of the program before left in the shared buffers. */
static void forget_threads(shm_control_t *control) {
  memset(control->stall.loops, 0, sizeof control->stall.loops);
  memset(&control->threads, 0, sizeof control->threads);
}

static void count_program(agentless_t *a) {
  uint32_t program = add_relaxed(&a->recording->control->exec_index, 1) + 1;
  store_release(&a->recording->agentless_program, program);
  observed_record(&a->observed, a->recording);
}

static bool begin(agentless_t *a) {
  shm_control_t *control = a->recording->control;
  uint64_t blocks;
  problem_t problem;
  a->state = AGENTLESS_NOT;
  observed_close(&a->observed);
  a->observed.pid = 0;
  if (!observed_open(&a->observed, pid_of(a), 0, true, &problem)) return false;
  (void)recording_snapshot(a->recording, SNAPSHOT_END, &blocks);
  monitors_leave(a->monitors);
  forget_threads(control);
  store_relaxed(&control->executing, SHM_EXECUTING);
  store_relaxed(&control->from_outside, 1u);
  a->recording->agentless_mode = a->options->mode;
  count_program(a);
  a->patience_ns = 0;
  a->state = AGENTLESS_RECORDED;
  start_monitors(a, a->options->mode, &a->options->monitors);
  set_due(a, LATER_NS);
  return true;
}

/* The announced program is executed. */
static bool has_executed(agentless_t *a) {
  if (a->hold.state == HOLD_EXECUTED || a->is_known) return true;
  return a->observed.pid && observed_has_executed(&a->observed);
}

static bool poll_announced(agentless_t *a, uint64_t now_ns) {
  if (has_executed(a)) {
    bool began = begin(a);
    hold_release(&a->hold);
    return began;
  }
  if (a->hold.state != HOLD_WAITS) set_due(a, SOON_NS);
  bool is_lost = a->hold.state == HOLD_NONE && !a->observed.pid; /* it has ended */
  if (is_lost || now_ns > a->patience_ns) agentless_stay(a);
  return false;
}

void agentless_announce(agentless_t *a, bool is_known) {
  problem_t problem;
  if (!a->options->records || a->state == AGENTLESS_ANNOUNCED) return;
  if (a->state == AGENTLESS_RECORDED) return; /* it is noticed like any other program */
  a->is_known = is_known;
  if (!is_known) hold_begin(&a->hold, pid_of(a), a->is_child);
  bool is_held = a->hold.state == HOLD_WAITS;
  if (!is_held && !is_known && !observed_open(&a->observed, pid_of(a), 0, true, &problem)) return;
  a->state = AGENTLESS_ANNOUNCED;
  a->patience_ns = os_monotonic_ns() + PATIENCE_NS;
  set_due(a, is_held ? PATIENCE_NS : 0);
}

void agentless_stay(agentless_t *a) {
  if (a->state != AGENTLESS_ANNOUNCED) return;
  hold_leave(&a->hold);
  observed_close(&a->observed);
  a->observed.pid = 0;
  a->state = AGENTLESS_NOT;
}

/* ---- the agent is back ------------------------------------------------------------------------
 */

/* The monitors have freed the entry of the first thread, which is entered again with the CPU time
 * until now: that is not only the program's. */
static void account_past(const agentless_t *a) {
  shm_threads_t *threads = &a->recording->control->threads;
  (void)add_relaxed(&threads->started, UINT32_MAX);
  shm_thread_t *first = thread_table_claim(threads, (uint32_t)pid_of(a));
  if (first) thread_table_account(first, process_facts_cpu_ns(pid_of(a)), &first->before_ns);
}

/* The agent counts the programs again. */
static void end(agentless_t *a) {
  monitors_leave(a->monitors);
  store_relaxed(&a->recording->control->from_outside, 0u);
  store_release(&a->recording->agentless_program, 0u);
  observed_close(&a->observed);
  a->observed.pid = 0;
  a->state = AGENTLESS_NOT;
  account_past(a);
  start_monitors(a, load_relaxed(&a->recording->control->mode), a->options->with_agent);
}

/* The agent should start in another program, unless something keeps it out. */
static void follow_exec(agentless_t *a, uint64_t now_ns) {
  bool executed = !a->patience_ns && observed_has_executed(&a->observed);
  bool is_late = a->patience_ns && now_ns > a->patience_ns;
  if (executed && !process_facts_why(pid_of(a), a->options->settings)) {
    a->patience_ns = now_ns + PATIENCE_NS;
  } else if (executed || is_late) {
    a->patience_ns = 0;
    count_program(a);
  }
}

static void poll_recorded(agentless_t *a, uint64_t now_ns) {
  set_due(a, LATER_NS);
  if (!load_acquire(&a->recording->control->executing))
    end(a);
  else
    follow_exec(a, now_ns);
}

bool agentless_poll(agentless_t *a) {
  uint64_t now_ns = os_monotonic_ns();
  (void)hold_poll(&a->hold);
  if (a->state == AGENTLESS_ANNOUNCED) return poll_announced(a, now_ns);
  if (a->state == AGENTLESS_RECORDED && now_ns >= a->due_ns) poll_recorded(a, now_ns);
  return false;
}

uint64_t agentless_time_left_ns(const agentless_t *a, uint64_t limit_ns) {
  uint64_t now_ns = os_monotonic_ns();
  uint64_t left_ns = a->due_ns > now_ns ? a->due_ns - now_ns : 0;
  return a->state != AGENTLESS_NOT && left_ns < limit_ns ? left_ns : limit_ns;
}

void agentless_close(agentless_t *a) {
  (void)hold_poll(&a->hold);
  observed_close(&a->observed);
}
