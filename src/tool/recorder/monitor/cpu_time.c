/* SPDX-License-Identifier: MIT
 *
 * Each poll reads the CPU time of every thread (schedstat) and its entry in the table of threads
 * (record/thread_table.h), where the thread itself notes how far its samples reach. A thread whose
 * samples fall behind its CPU time is sampled from outside until its ticks arrive again.
 *
 * A thread that ended between two polls has noted its CPU time itself. A thread that was killed has
 * not; its total is the last reading.
 *
 * Without the agent (recorder/monitor/outside/observed.h), every thread that runs is sampled from
 * outside. If the kernel refuses that, too many threads run, or the program has Python frames, they
 * are stopped instead (outside/stopped.h).
 */
#define _GNU_SOURCE
#include "recorder/monitor/cpu_time.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/array.h"
#include "os/os.h"
#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/outside/outside.h"
#include "recorder/monitor/signal_state.h"
#include "recorder/monitor/outside/stopped.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/process_facts.h"

/* Between two polls, while CPU time is sampled, and otherwise. A poll takes some intervals of the
 * samples, since the kernel's buffer holds only few. */
#define POLL_NS      UINT64_C(50000000)
#define POLL_SAMPLES 5u
/* While no thread is sampled from outside, and while nothing is sampled. */
#define OWN_POLL_NS  UINT64_C(100000000)
#define IDLE_POLL_NS UINT64_C(250000000)
/* A program that sonde starts is polled after parts of its age first. */
#define YOUNG_POLL_NS UINT64_C(2000000)
#define YOUNG_PART    8u
/* After n ns of CPU time, the monitor pauses for 19 n. */
#define PAUSE_FACTOR 19u
#define WRITE_NS     UINT64_C(1000000000)
/* How far samples may fall behind: by an interval and this, as the kernel's timer interrupt is
 * coarse; by three and UNKNOWN_NS if nothing seems to keep the ticks away; and for a thread that
 * has no timer yet. */
#define LATE_NS     UINT64_C(10000000)
#define UNKNOWN_NS  UINT64_C(50000000)
#define NO_TIMER_NS UINT64_C(100000000)
/* Threads without the agent that the kernel samples at the same time, each into 0.5 MB; and the
 * polls without CPU time after which it does not sample one any longer. */
#define OUTSIDE_MAX        64u
#define OUTSIDE_IDLE_POLLS 100u
/* A thread that is sampled by stops, and has more intervals without a sample, cannot be stopped. */
#define STOPS_MAX 10u
/* Time before the first sample from outside for which that sample may count. */
#define MERGE_MAX_NS UINT64_C(200000000)

typedef struct timed_thread {
  pid_t tid;
  /* open file; -1: too many are open */
  int schedstat;
  bool here;
  /* no user code: its time is never sampled */
  bool is_kernel;
  /* it is sampled by stops */
  bool is_stopped;
  /* polls since it ran, while the kernel samples it */
  uint32_t idle_polls;
  /* without the agent: its CPU time before the recording, which run_ns leaves out */
  uint64_t base_ns;
  /* for which it waited for a CPU, and that before the recording */
  uint64_t queued_ns, queued_base_ns;
  /* sampling from outside was refused */
  bool is_refused;
  /* why its own samples do not come */
  no_sample_cause_t cause;
  /* NULL: the table is full */
  shm_thread_t *entry;
  uint64_t run_ns;
  /* when it was found and seen last */
  uint64_t found_ns, seen_ns;
  uint32_t ticks_seen;
  outside_t outside;
  /* by this monitor; the entry has the sums of the thread itself */
  uint64_t no_sample_ns[NO_SAMPLE_CAUSES];
  char name[THREAD_NAME_MAX];
  uint32_t number;
  /* its CPU time when it was last written */
  uint64_t written_ns;
} timed_thread_t;

struct cpu_time_monitor {
  monitor_thread_t thread;
  recording_t *recording;
  monitor_writer_t *writer;
  thread_stacks_t stacks;
  pid_t pid;
  /* /proc/PID/task; NULL: not open yet */
  DIR *folder;
  /* sorted by tid */
  timed_thread_t *threads;
  size_t count, capacity;
  uint32_t numbers;
  uint32_t entries; /* of the table that THREADS have had */
  /* without the agent: it was polled before; the threads that the kernel samples */
  bool from_outside, has_polled;
  uint32_t sampled;
  /* of the process before the recording */
  uint64_t process_base_ns;
  /* of the process, at the last poll; of its ended threads */
  uint64_t process_ns, ended_ns, ended_queued_ns;
  uint64_t written_at_ns;
  /* when the program began, under cpu_time_monitor_begin; 0: before */
  uint64_t begun_ns;
  uint32_t bell, stop;
  /* it stops since the process executes another program, which is recorded in another way */
  bool has_executed;
};

static shm_threads_t *table_of(const cpu_time_monitor_t *m) {
  return &m->recording->control->threads;
}

static bool is_sampling(const cpu_time_monitor_t *m) {
  const shm_control_t *c = m->recording->control;
  return load_relaxed(&c->mode) & RECORD_SAMPLES && load_relaxed(&c->exec_index);
}

static bool has_no_agent(const cpu_time_monitor_t *m) {
  return load_relaxed(&m->recording->control->executing) && !m->has_executed;
}

/* ---- records ------------------------------------------------------------------------------ */

static void write_thread(cpu_time_monitor_t *m, const timed_thread_t *t, uint64_t run_ns) {
  uint64_t gaps[NO_SAMPLE_CAUSES];
  memcpy(gaps, t->no_sample_ns, sizeof gaps);
  gaps[NO_SAMPLE_BEFORE] += load_relaxed(&t->entry->before_ns);
  gaps[NO_SAMPLE_OFF] += load_relaxed(&t->entry->off_ns);
  gaps[NO_SAMPLE_LOST] += load_relaxed(&t->entry->lost_ns);
  monitor_writer_begin(m->writer, EXTENDED_THREAD_TIME);
  monitor_writer_value(m->writer, t->number);
  monitor_writer_value(m->writer, (uint64_t)t->tid);
  monitor_writer_value(m->writer, run_ns);
  monitor_writer_value(m->writer, load_relaxed(&t->entry->sampled_ns));
  monitor_writer_value(m->writer, t->seen_ns - t->found_ns);
  monitor_writer_text(m->writer, t->name);
  for (unsigned i = 0; i < NO_SAMPLE_CAUSES; i++) {
    if (!gaps[i]) continue;
    monitor_writer_value(m->writer, i);
    monitor_writer_value(m->writer, gaps[i]);
  }
  monitor_writer_end(m->writer);
}

/* The time of threads that were not seen is known once all have ended. */
static void write_process(cpu_time_monitor_t *m, bool at_end) {
  uint64_t noted = load_acquire(&table_of(m)->process_ns);
  uint64_t process_ns = m->process_ns > noted ? m->process_ns : noted;
  uint64_t queued_ns = m->ended_queued_ns;
  for (size_t i = 0; !at_end && i < m->count; i++)
    queued_ns += m->threads[i].queued_ns;
  monitor_writer_begin(m->writer, EXTENDED_PROCESS_TIME);
  monitor_writer_value(m->writer, process_ns > m->ended_ns ? process_ns : m->ended_ns);
  monitor_writer_value(m->writer, load_relaxed(&table_of(m)->started));
  monitor_writer_value(m->writer,
                       at_end && process_ns > m->ended_ns ? process_ns - m->ended_ns : 0);
  monitor_writer_value(m->writer, queued_ns);
  monitor_writer_end(m->writer);
}

/* ---- one thread --------------------------------------------------------------------------- */

/* Accounts for all time until RUN_NS. */
static void account(timed_thread_t *t, uint64_t run_ns, no_sample_cause_t cause) {
  thread_table_account(t->entry, run_ns, &t->no_sample_ns[cause]);
}

static uint64_t pause_of(const cpu_time_monitor_t *m) {
  return shm_sample_pause_ns(m->recording->control);
}

/* Why the ticks of T do not arrive. False if nothing shows that, and they may be late. */
static bool find_cause(const cpu_time_monitor_t *m, timed_thread_t *t, uint64_t late_ns) {
  signal_state_t state;
  if (!signal_state_read(m->pid, t->tid, &state)) return false;
  t->is_kernel = state.is_kernel;
  t->cause = state.is_kernel          ? NO_SAMPLE_KERNEL
             : state.is_blocked       ? NO_SAMPLE_BLOCKED
             : state.is_filtered      ? NO_SAMPLE_FILTER
             : !state.is_caught       ? NO_SAMPLE_REPLACED
             : !t->entry->position_ns ? NO_SAMPLE_NO_TIMER
             : t->entry->no_timer     ? NO_SAMPLE_NO_TIMER
                                      : NO_SAMPLE_REPLACED;
  bool is_new = !t->entry->position_ns && late_ns < NO_TIMER_NS;
  if (state.is_kernel || state.is_blocked) return true;
  return !is_new && (!state.is_caught || late_ns >= 3 * pause_of(m) + UNKNOWN_NS);
}

/* CPU time since the last sample, or 0 if the next one is not late. */
static uint64_t late_ns_of(const cpu_time_monitor_t *m, const timed_thread_t *t) {
  uint64_t position_ns = load_relaxed(&t->entry->position_ns);
  uint64_t late_ns = t->run_ns > position_ns ? t->run_ns - position_ns : 0;
  return late_ns < pause_of(m) + LATE_NS ? 0 : late_ns;
}

static void stop_outside(cpu_time_monitor_t *m, timed_thread_t *t) {
  if (t->outside.on && m->from_outside) m->sampled--;
  outside_stop(&t->outside);
  if (!m->from_outside) thread_table_give_back(t->entry);
}

/* The first sample counts for LATE_NS too, unless that is long: then it has no sample, for CAUSE.
 */
static bool start_outside(cpu_time_monitor_t *m, timed_thread_t *t, uint64_t late_ns,
                          no_sample_cause_t cause) {
  bool merges = late_ns <= MERGE_MAX_NS;
  t->is_refused = !outside_start(&t->outside, m->writer, t->tid, t->name, m->recording->control,
                                 t->run_ns, merges ? late_ns : 0);
  if (!t->is_refused && !merges) account(t, t->run_ns, cause);
  return !t->is_refused;
}

/* The time since the last sample is read once the thread cannot take one itself any longer. While
 * it takes one, its signals are blocked by sonde's own handler. */
static void take_over(cpu_time_monitor_t *m, timed_thread_t *t) {
  uint64_t late_ns = late_ns_of(m, t);
  if (!late_ns || !find_cause(m, t, late_ns)) return;
  if (t->is_kernel || t->is_refused) {
    account(t, t->run_ns, t->cause);
    return;
  }
  t->ticks_seen = load_relaxed(&t->entry->ticks_outside);
  if (!thread_table_take(t->entry)) return;
  late_ns = late_ns_of(m, t);
  if (!late_ns || !start_outside(m, t, late_ns, t->cause)) thread_table_give_back(t->entry);
}

static void read_outside(cpu_time_monitor_t *m, timed_thread_t *t) {
  outside_set_pause(&t->outside, pause_of(m));
  uint64_t until_ns = outside_read(&t->outside, &m->stacks, t->run_ns);
  thread_table_account(t->entry, until_ns < t->run_ns ? until_ns : t->run_ns,
                       &t->entry->sampled_ns);
}

/* The thread got a tick itself. */
static void hand_back(cpu_time_monitor_t *m, timed_thread_t *t) {
  signal_state_t state;
  uint32_t ticks = load_relaxed(&t->entry->ticks_outside);
  if (ticks == t->ticks_seen) return;
  t->ticks_seen = ticks;
  if (!signal_state_read(m->pid, t->tid, &state) || state.is_blocked) return;
  stop_outside(m, t);
}

static size_t place_of(const cpu_time_monitor_t *m, pid_t tid) {
  return ARRAY_SEARCH(m->count, k, m->threads[k].tid < tid);
}

/* ---- without the agent -------------------------------------------------------------------- */

/* The kernel copies the native stack, and no Python frames. A thread under a debugger cannot be
 * stopped. */
static bool stops_for_python(cpu_time_monitor_t *m, const timed_thread_t *t, uint64_t late_ns) {
  target_t *target = stopped_is_possible() ? thread_stacks_target(&m->stacks) : NULL;
  signal_state_t state;
  if (!target || !stacks_has_interpreter(target)) return false;
  return late_ns < STOPS_MAX * pause_of(m) || !signal_state_read(m->pid, t->tid, &state) ||
         !state.is_traced;
}

/* False if the thread has to be stopped for its samples. */
static bool start_without_agent(cpu_time_monitor_t *m, timed_thread_t *t) {
  uint64_t late_ns = t->run_ns - load_relaxed(&t->entry->position_ns);
  if (t->is_refused || m->sampled == OUTSIDE_MAX || stops_for_python(m, t, late_ns) ||
      !start_outside(m, t, late_ns, NO_SAMPLE_BEFORE))
    return false;
  m->sampled++;
  t->idle_polls = 0;
  return true;
}

static bool is_kernel_thread(const cpu_time_monitor_t *m, pid_t tid) {
  signal_state_t state;
  return signal_state_read(m->pid, tid, &state) && state.is_kernel;
}

static void update_from_outside(cpu_time_monitor_t *m, timed_thread_t *t, bool ran) {
  if (t->is_kernel) {
    account(t, t->run_ns, NO_SAMPLE_KERNEL);
  } else if (!is_sampling(m)) {
    stop_outside(m, t);
    account(t, t->run_ns, NO_SAMPLE_OFF);
  } else if (t->outside.on) {
    read_outside(m, t);
    t->idle_polls = ran ? 0 : t->idle_polls + 1;
    if (t->idle_polls == OUTSIDE_IDLE_POLLS ||
        t->outside.interval_ns != m->recording->control->sample_interval_ns)
      stop_outside(m, t);
  } else if (!start_without_agent(m, t)) {
    t->is_stopped = true;
  }
}

/* The thread was stopped with STACK: a sample of all its CPU time since the last one. */
static void add_stop(void *context, pid_t tid, uint32_t stack) {
  cpu_time_monitor_t *m = context;
  timed_thread_t *t = &m->threads[place_of(m, tid)];
  uint64_t interval_ns = m->recording->control->sample_interval_ns;
  uint64_t position_ns = load_relaxed(&t->entry->position_ns);
  uint64_t ticks = (t->run_ns - position_ns) / interval_ns;
  outside_t *o = &t->outside;
  if (!o->stream) o->stream = monitor_writer_stream(m->writer, tid, t->name);
  if (!o->stream || !stack || !ticks) return;
  monitor_stream_sample(m->writer, o->stream, os_monotonic_ns(), ticks - 1, stack);
  thread_table_account(t->entry, position_ns + ticks * interval_ns, &t->entry->sampled_ns);
}

/* Stops the threads that the kernel does not sample and that have used an interval. */
static void stop_threads(cpu_time_monitor_t *m) {
  size_t count = 0;
  pid_t *tids = stopped_is_possible() && m->count ? malloc(m->count * sizeof *tids) : NULL;
  for (size_t i = 0; tids && i < m->count; i++) {
    const timed_thread_t *t = &m->threads[i];
    uint64_t pending_ns = t->entry ? t->run_ns - load_relaxed(&t->entry->position_ns) : 0;
    if (t->is_stopped && pending_ns >= pause_of(m)) tids[count++] = t->tid;
  }
  if (count) stopped_read(&m->stacks, tids, count, add_stop, m);
  free(tids);
}

/* Between two polls. Threads that a poll stops need one for each sample. */
static uint64_t poll_pause_ns(const cpu_time_monitor_t *m) {
  if (!is_sampling(m) && m->recording->control->exec_index) return IDLE_POLL_NS;
  uint32_t pace = load_relaxed(&m->recording->control->pace);
  uint64_t pause_ns = OWN_POLL_NS << (pace + monitor_settled(m->recording));
  uint64_t most_ns = POLL_NS << pace, least_ns = most_ns;
  if (POLL_SAMPLES * pause_of(m) < least_ns) least_ns = POLL_SAMPLES * pause_of(m);
  for (size_t i = 0; i < m->count; i++) {
    if (m->threads[i].is_stopped) return pause_of(m) < most_ns ? pause_of(m) : most_ns;
    if (m->threads[i].outside.on) pause_ns = least_ns;
  }
  return pause_ns;
}

/* PAUSE_NS; less while a program is young, since it starts most of its threads then. */
static uint64_t young_pause_ns(const cpu_time_monitor_t *m, uint64_t pause_ns) {
  uint64_t part_ns = m->begun_ns ? (os_monotonic_ns() - m->begun_ns) / YOUNG_PART : pause_ns;
  if (part_ns < YOUNG_POLL_NS) part_ns = YOUNG_POLL_NS;
  return part_ns < pause_ns ? part_ns : pause_ns;
}

/* ---- one poll ----------------------------------------------------------------------------- */

static void update_thread(cpu_time_monitor_t *m, timed_thread_t *t) {
  thread_stats_t stats;
  if (!t->entry || !thread_stats_read_use(t->schedstat, m->pid, t->tid, &stats)) return;
  if (m->from_outside && !m->has_polled) {
    t->base_ns = stats.run_ns;
    t->queued_base_ns = stats.runq_ns;
  }
  if (stats.runq_ns > t->queued_base_ns) t->queued_ns = stats.runq_ns - t->queued_base_ns;
  stats.run_ns -= t->base_ns < stats.run_ns ? t->base_ns : stats.run_ns;
  bool ran = stats.run_ns != t->run_ns;
  t->run_ns = stats.run_ns;
  t->is_stopped = false;
  if (!ran && !t->outside.on) return;
  if (m->from_outside) {
    update_from_outside(m, t, ran);
    return;
  }
  if (has_no_agent(m))
    account(t, t->run_ns, NO_SAMPLE_NO_AGENT);
  else if (t->outside.on && !is_sampling(m))
    stop_outside(m, t);
  else if (t->outside.on) {
    read_outside(m, t);
    hand_back(m, t);
  } else if (is_sampling(m)) {
    take_over(m, t);
  }
}

/* The thread has ended, or the monitor stops. */
static void end_thread(cpu_time_monitor_t *m, timed_thread_t *t) {
  thread_file_close(t->schedstat);
  if (!t->entry) return;
  uint64_t noted = load_acquire(&t->entry->end_ns);
  if (t->run_ns < noted) t->run_ns = noted;
  if (t->outside.on && !t->here && !noted) t->run_ns = outside_end_ns(&t->outside, t->run_ns);
  if (t->outside.on) read_outside(m, t);
  stop_outside(m, t);
  uint64_t run_ns = t->run_ns;
  if (run_ns < load_relaxed(&t->entry->position_ns)) run_ns = load_relaxed(&t->entry->position_ns);
  bool is_stoppable = m->from_outside && stopped_is_possible();
  uint64_t late_ns = run_ns - load_relaxed(&t->entry->position_ns);
  bool is_late = late_ns >= STOPS_MAX * pause_of(m);
  bool is_unsampled = t->is_refused && (!is_stoppable || is_late);
  account(t, run_ns, !is_sampling(m) ? NO_SAMPLE_OFF : is_unsampled ? t->cause : NO_SAMPLE_LAST);
  write_thread(m, t, run_ns);
  m->ended_ns += run_ns;
  m->ended_queued_ns += t->queued_ns;
  thread_table_free(t->entry);
}

/* ---- all of them -------------------------------------------------------------------------- */

/* NULL: out of memory. */
static timed_thread_t *thread_of(cpu_time_monitor_t *m, pid_t tid) {
  size_t i = place_of(m, tid);
  if (i < m->count && m->threads[i].tid == tid) return &m->threads[i];
  if (!ARRAY_GROW(m->threads, m->count, m->capacity)) return NULL;
  timed_thread_t *t = &m->threads[i];
  memmove(t + 1, t, (m->count - i) * sizeof *t);
  m->count++;
  *t = (timed_thread_t){
      .tid = tid, .schedstat = -1, .number = ++m->numbers, .found_ns = os_monotonic_ns()};
  t->entry = thread_table_find_ended(table_of(m), (uint32_t)tid); /* it is ending */
  if (!t->entry) t->entry = thread_table_claim(table_of(m), (uint32_t)tid);
  if (t->entry) m->entries++;
  return t;
}

static void found_in_proc(cpu_time_monitor_t *m, pid_t tid) {
  size_t before = m->count;
  timed_thread_t *t = thread_of(m, tid);
  if (!t) return;
  t->here = true;
  t->seen_ns = os_monotonic_ns();
  if (m->count == before) return;
  t->schedstat = thread_file_open(m->pid, tid, "schedstat");
  if (m->from_outside) {
    t->is_kernel = is_kernel_thread(m, tid);
    t->cause = NO_SAMPLE_REFUSED;
  }
  thread_file_name(m->pid, tid, t->name);
}

static void list_threads(cpu_time_monitor_t *m) {
  for (size_t i = 0; i < m->count; i++)
    m->threads[i].here = false;
  /* The folder stays open: to find it costs more than to read it. */
  if (m->folder)
    rewinddir(m->folder);
  else
    m->folder = thread_file_folder(m->pid);
  for (pid_t tid; (tid = thread_file_next(m->folder));)
    found_in_proc(m, tid);
}

static void remove_ended(cpu_time_monitor_t *m) {
  size_t kept = 0;
  for (size_t i = 0; i < m->count; i++)
    if (m->threads[i].here)
      m->threads[kept++] = m->threads[i];
    else
      end_thread(m, &m->threads[i]);
  m->count = kept;
}

/* Threads that started and ended since the last poll. The table is large, so it is searched only if
 * it has had entries of others. */
static void add_short_threads(cpu_time_monitor_t *m) {
  if (load_acquire(&table_of(m)->started) == m->entries) return;
  for (uint32_t i = 0; i < SHM_THREADS; i++) {
    shm_thread_t *entry = &table_of(m)->items[i];
    pid_t tid = thread_table_has(table_of(m), i) ? (pid_t)load_acquire(&entry->tid) : 0;
    size_t place = place_of(m, tid);
    bool known = place < m->count && m->threads[place].entry == entry;
    if (!tid || known || !load_acquire(&entry->end_ns)) continue;
    timed_thread_t t = {.tid = tid, .schedstat = -1, .number = ++m->numbers, .entry = entry};
    m->entries++;
    end_thread(m, &t);
  }
}

/* The clock is exact and includes ended threads. Returns whether it stands still. */
static bool read_process(cpu_time_monitor_t *m) {
  uint64_t now = process_facts_cpu_ns(m->pid);
  if (!now) return false;
  if (m->from_outside && !m->has_polled) m->process_base_ns = now;
  now -= m->process_base_ns;
  bool stands = m->has_polled && now == m->process_ns;
  if (now > m->process_ns) m->process_ns = now;
  return stands;
}

/* Whether no thread has run since the last poll, and none is sampled in a way that has to be
 * ended. */
static bool is_idle(cpu_time_monitor_t *m) {
  bool idle = read_process(m);
  for (size_t i = 0; i < m->count && idle; i++)
    idle = !m->threads[i].outside.on && !m->threads[i].is_stopped;
  return idle;
}

static void poll_threads(cpu_time_monitor_t *m) {
  if (is_idle(m)) {
    uint64_t now_ns = os_monotonic_ns();
    for (size_t i = 0; i < m->count; i++)
      m->threads[i].seen_ns = now_ns;
    return;
  }
  list_threads(m);
  for (size_t i = 0; i < m->count; i++)
    if (m->threads[i].here) update_thread(m, &m->threads[i]);
  remove_ended(m);
  if (m->from_outside) stop_threads(m);
  m->has_polled = true;
  if (!m->from_outside) add_short_threads(m);
}

/* Each record replaces the one before, so that a recording has the times even if its recorder is
 * killed. */
static void write_all(cpu_time_monitor_t *m) {
  uint64_t now = os_monotonic_ns();
  if (now - m->written_at_ns < WRITE_NS) return;
  m->written_at_ns = now;
  for (size_t i = 0; i < m->count; i++) {
    timed_thread_t *t = &m->threads[i];
    uint64_t run_ns = t->entry ? load_relaxed(&t->entry->position_ns) : 0;
    if (run_ns == t->written_ns) continue;
    t->written_ns = run_ns;
    thread_file_name(m->pid, t->tid, t->name);
    write_thread(m, t, run_ns);
  }
  write_process(m, false);
  (void)monitor_writer_flush(m->writer);
}

/* ---- the thread --------------------------------------------------------------------------- */

static void *watch(void *context) {
  cpu_time_monitor_t *m = context;
  prctl(PR_SET_NAME, "sonde-cpu-time");
  /* To be punctual on a busy machine: the kernel's buffer holds few samples. */
  (void)setpriority(PRIO_PROCESS, (id_t)os_tid(), -10);
  while (!load_acquire(&m->stop)) {
    uint64_t used_ns = (uint64_t)os_thread_cpu_ns(os_tid());
    poll_threads(m);
    write_all(m);
    uint64_t pause_ns = PAUSE_FACTOR * ((uint64_t)os_thread_cpu_ns(os_tid()) - used_ns);
    uint64_t least_ns = young_pause_ns(m, poll_pause_ns(m));
    (void)os_futex_wait(&m->bell, 0, pause_ns < least_ns ? least_ns : pause_ns);
  }
  return NULL;
}

static void free_monitor(cpu_time_monitor_t *m) {
  thread_stacks_close(&m->stacks);
  if (m->folder) closedir(m->folder);
  monitor_writer_free(m->writer);
  free(m->threads);
  free(m);
}

cpu_time_monitor_t *cpu_time_monitor_new(recording_t *recording) {
  cpu_time_monitor_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->recording = recording;
  m->pid = (pid_t)recording->header.pid;
  m->from_outside = load_relaxed(&recording->control->from_outside);
  m->writer = monitor_writer_new(recording, MONITOR_STREAM + 4);
  m->stacks = (thread_stacks_t){.recording = recording, .writer = m->writer, .pid = m->pid};
  if (m->writer) return m;
  free_monitor(m);
  return NULL;
}

void cpu_time_monitor_begin(cpu_time_monitor_t *m) {
  if (!m) return;
  m->begun_ns = os_monotonic_ns();
  poll_threads(m);
  (void)thread_stacks_target(&m->stacks); /* it may end soon, and its images can then not be read */
  for (size_t i = 0; i < m->count; i++)
    if (m->threads[i].entry && is_sampling(m)) (void)start_without_agent(m, &m->threads[i]);
}

void cpu_time_monitor_run(cpu_time_monitor_t *m) {
  if (m) (void)monitor_thread_start(&m->thread, watch, m);
}

void cpu_time_monitor_stop(cpu_time_monitor_t *m, bool executed) {
  if (!m) return;
  monitor_thread_stop(&m->thread, &m->stop, &m->bell);
  m->has_executed = executed;
  poll_threads(m);
  for (size_t i = 0; i < m->count; i++)
    end_thread(m, &m->threads[i]);
  write_process(m, true);
  (void)monitor_writer_flush(m->writer);
  free_monitor(m);
}
