/* SPDX-License-Identifier: MIT
 *
 * A sample is taken only while the thread runs, and represents the CPU time since the sample before
 * it. A stack taken while the thread is blocked would show where it waits, not where it used the
 * CPU. The pause between two samples varies, so that it does not follow a period of the program.
 */
#include "sensor/cpu/monitor.h"

#include <string.h>

#include "base/bits.h"
#include "capture/stack.h"
#include "os/os.h"
#include "sensor/cpu/call_tree.h"
#include "sensor/cpu/rules.h"
#include "sensor/stall/function_of_pc.h"
#include "sonde/thread.h"

#define THREADS_MAX   4096u
#define TREES         8
#define PERCENT_MAX   100u
#define SECONDS_MAX   86400u
#define MS            UINT64_C(1000000)
#define SECOND        (1000 * MS)
#define READS         10 /* in the time of an episode */
#define READ_MIN_NS   (100 * MS)
#define SAMPLE_MIN_NS (25 * MS)
#define SAMPLE_VARIES (50 * MS)

typedef struct watched_thread {
  pid_t tid; /* 0: free */
  uint64_t identity;
  cpu_track_t track;
  bool is_here; /* the last reading has it */
  /* of its episode; -1: it is in none, or all trees are in use */
  int tree;
  uint64_t unknown_ns;
  /* the CPU time up to which samples account for it */
  uint64_t accounted_ns;
} watched_thread_t;

/* The monitor's memory. */
typedef struct state {
  pid_t self;
  uint64_t now_ns, read_ns, random;
  uint32_t used, unwatched;
  /* where the next thread of a reading is expected, since their order seldom changes */
  uint32_t expected;
  watched_thread_t threads[THREADS_MAX];
  bool tree_is_used[TREES];
  call_tree_t trees[TREES];
  sonde_cpu_node_t nodes[CALL_TREE_NODES];
  uintptr_t pcs[CALL_TREE_DEPTH];
  uint64_t functions[CALL_TREE_DEPTH];
} state_t;

static struct {
  uint32_t running, bell, stop;
  cpu_rules_t rules;
  sonde_cpu_call_t *call;
  void *context;
} monitor;

/* ---- episodes ------------------------------------------------------------------------------- */

static void end_episode(state_t *s, watched_thread_t *t) {
  if (t->tree >= 0) s->tree_is_used[t->tree] = false;
  t->tree = -1;
}

static void begin_episode(state_t *s, watched_thread_t *t, uint64_t run_ns) {
  t->accounted_ns = run_ns;
  t->unknown_ns = 0;
  for (int i = 0; i < TREES; i++) {
    if (s->tree_is_used[i]) continue;
    s->tree_is_used[i] = true;
    call_tree_clear(&s->trees[i]);
    t->tree = i;
    return;
  }
}

static void report(state_t *s, watched_thread_t *t, const cpu_episode_t *e) {
  os_thread_t about;
  bool is_named = os_thread_read(-1, t->tid, &about) == 0;
  sonde_cpu_episode_t episode = {.tid = t->tid,
                                 .name = is_named ? about.name : "",
                                 .length_ns = e->to_ns - e->from_ns,
                                 .cpu_ns = e->cpu_ns,
                                 .unknown_ns = e->cpu_ns,
                                 .nodes = s->nodes,
                                 .unwatched = s->unwatched};
  if (t->tree >= 0) {
    call_tree_t *tree = &s->trees[t->tree];
    episode.unknown_ns = t->unknown_ns;
    episode.sampled_ns = tree->sampled_ns;
    episode.samples = tree->samples;
    episode.count = call_tree_write(tree, s->nodes);
  }
  monitor.call(&episode, monitor.context);
}

/* ---- readings ------------------------------------------------------------------------------- */

/* NULL: the table is full. */
static watched_thread_t *find_thread(state_t *s, pid_t tid) {
  uint32_t unused = s->used;
  for (uint32_t i = 0, at = s->expected; i < s->used; i++, at++) {
    if (at >= s->used) at = 0;
    if (s->threads[at].tid == tid) {
      s->expected = at + 1;
      return &s->threads[at];
    }
    if (!s->threads[at].tid) unused = at;
  }
  if (unused == THREADS_MAX) return NULL;
  if (unused == s->used) s->used++;
  s->expected = unused + 1;
  s->threads[unused] = (watched_thread_t){.tid = tid, .tree = -1};
  return &s->threads[unused];
}

static void read_thread(pid_t tid, uint64_t identity, uint64_t run_ns, void *context) {
  state_t *s = context;
  cpu_episode_t episode;
  if (tid == s->self) return;
  watched_thread_t *t = find_thread(s, tid);
  if (!t) {
    s->unwatched++;
    return;
  }
  if (t->identity != identity) {
    end_episode(s, t);
    t->track = (cpu_track_t){0};
    t->identity = identity;
  }
  t->is_here = true;
  bool was_tracked = t->track.tracked;
  bool is_due = cpu_track_read(&t->track, &monitor.rules, s->now_ns, run_ns, &episode);
  if (is_due) report(s, t, &episode);
  if (t->track.tracked && !was_tracked)
    begin_episode(s, t, run_ns);
  else if (!t->track.tracked)
    end_episode(s, t);
}

static int read_all(state_t *s) {
  s->now_ns = os_monotonic_ns();
  s->expected = s->unwatched = 0;
  for (uint32_t i = 0; i < s->used; i++)
    s->threads[i].is_here = false;
  int r = os_threads_use(read_thread, s);
  for (uint32_t i = 0; i < s->used; i++) {
    watched_thread_t *t = &s->threads[i];
    if (!t->tid || t->is_here) continue;
    end_episode(s, t);
    t->tid = 0;
  }
  return r;
}

/* ---- samples -------------------------------------------------------------------------------- */

static void sample_thread(state_t *s, watched_thread_t *t) {
  uint64_t run_ns, ready_ns;
  os_thread_t about;
  if (os_thread_read(-1, t->tid, &about) != 0 || about.state != 'R') return;
  sonde_capture_t capture = {.pcs = s->pcs, .max = CALL_TREE_DEPTH, .async = stack_async_mode()};
  const sonde_thread_options_t options = {.timeout_ns = SAMPLE_MIN_NS};
  int count = sonde_capture_thread(t->tid, &capture, &options);
  if (!os_thread_times(t->tid, &run_ns, &ready_ns) || run_ns <= t->accounted_ns) return;
  uint64_t weight_ns = run_ns - t->accounted_ns;
  t->accounted_ns = run_ns;
  for (int i = 0; i < count; i++)
    s->functions[i] = function_of_pc(s->pcs[i], i == 0);
  if (count > 0)
    call_tree_add(&s->trees[t->tree], s->pcs, s->functions, count, weight_ns);
  else
    t->unknown_ns += weight_ns;
}

static bool sample_all(state_t *s) {
  bool any = false;
  for (uint32_t i = 0; i < s->used; i++) {
    watched_thread_t *t = &s->threads[i];
    if (!t->tid || t->tree < 0) continue;
    any = true;
    sample_thread(s, t);
  }
  return any;
}

/* ---- the monitor ---------------------------------------------------------------------------- */

static uint64_t sample_pause_ns(state_t *s) {
  s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return SAMPLE_MIN_NS + (s->random >> 33) % SAMPLE_VARIES;
}

static int run(state_t *s) {
  uint64_t period_ns = monitor.rules.seconds_ns / READS;
  if (period_ns < READ_MIN_NS) period_ns = READ_MIN_NS;
  if (period_ns > SECOND) period_ns = SECOND;
  while (!load_acquire(&monitor.stop)) {
    uint32_t bell = load_acquire(&monitor.bell);
    if (os_monotonic_ns() >= s->read_ns) {
      if (read_all(s) < 0) return SONDE_EUNSUPPORTED;
      s->read_ns = s->now_ns + period_ns;
    }
    bool is_sampling = sample_all(s);
    uint64_t now_ns = os_monotonic_ns();
    uint64_t pause_ns = s->read_ns > now_ns ? s->read_ns - now_ns : 1;
    uint64_t sample_ns = is_sampling ? sample_pause_ns(s) : pause_ns;
    if (!load_acquire(&monitor.stop))
      (void)os_futex_wait(&monitor.bell, bell, sample_ns < pause_ns ? sample_ns : pause_ns);
  }
  return 0;
}

int cpu_self_monitor_run(uint32_t percent, uint32_t seconds, sonde_cpu_call_t *call,
                         void *context) {
  uint32_t none = 0;
  if (!percent || percent > PERCENT_MAX || !seconds || seconds > SECONDS_MAX || !call)
    return SONDE_EINVAL;
  if (!cas_acq_rel(&monitor.running, &none, 1u)) return SONDE_EBUSY;
  monitor.rules = (cpu_rules_t){percent * 10, seconds * SECOND};
  monitor.call = call;
  monitor.context = context;
  state_t *s = os_map(sizeof *s);
  int r = SONDE_ENOMEM;
  if (s) {
    s->self = os_tid();
    s->random = os_monotonic_ns();
    r = run(s);
    os_unmap(s, sizeof *s);
  }
  store_release(&monitor.stop, 0u);
  store_release(&monitor.running, 0u);
  return r;
}

void cpu_self_monitor_stop(void) {
  store_release(&monitor.stop, 1u);
  add_relaxed(&monitor.bell, 1);
  (void)os_futex_wake(&monitor.bell, 1);
}
