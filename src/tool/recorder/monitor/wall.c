/* SPDX-License-Identifier: MIT
 *
 * A poll reads a thread's stack only if the thread has run since the stack was last read. The
 * thread has run if the third number of its schedstat, which counts how often it got a CPU, has
 * changed. A kernel without CONFIG_SCHED_INFO reports 0 or has no such file. Every poll then reads
 * every stack, CPU time has steps of 10 ms, and waiting for a CPU looks like being blocked.
 *
 * Consecutive polls that find a thread at the same place become one record, which covers at most a
 * second. The totals of each thread are also written every second, so that a part of a recording
 * can be read by itself.
 */
#define _GNU_SOURCE
#include "recorder/monitor/wall.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/writer.h"
#include "recorder/monitor/thread_stacks.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/process_facts.h"
#include "base/array.h"
#include "os/os.h"
#include "target/state.h"

#define DEPTH_MAX 512u
/* The longest time that a record covers. */
#define PERIOD_NS UINT64_C(1000000000)
/* After n ns of CPU time, the sampler pauses for 9 n. */
#define PAUSE_FACTOR 9u
/* A thread that waits for a mutex is read again after so many polls: the owner may differ. */
#define OWNER_POLLS 10u
#define NAME_READS  8u

/* Where a thread was at consecutive polls, and what it waited for. */
typedef struct thread_location {
  /* 0: unreadable */
  uint32_t stack;
  char state;
  /* -1: none */
  long call;
  /* that it waited on; -1: none */
  int fd;
  /* whether it waited for a mutex, and its owner; 0: unknown */
  bool is_mutex;
  pid_t owner;
  /* of the futex */
  uint64_t address;
  /* the file or socket of `fd` */
  char what[WAIT_PATH_MAX];
} thread_location_t;

typedef struct watched {
  pid_t tid;
  /* open file; -1: too many are open, so each poll opens it */
  int schedstat;
  /* seen at this poll */
  bool here;
  /* its stack must be read */
  bool wanted;
  /* it remains at `at` until `slices` changes */
  bool settled;
  /* at the last poll */
  bool runnable;
  uint64_t slices;
  /* since `settled` became true */
  unsigned polls_settled;
  /* since it was found */
  uint64_t run_ns, runq_ns, seen_ns;
  /* length of the current wait for a CPU; the kernel adds it to runq_ns only when the wait ends */
  uint64_t queued_ns;
  /* the part of these that was written */
  uint64_t written_run_ns, written_runq_ns, written_seen_ns, written_slices;
  char name[THREAD_NAME_MAX];
  /* times that the name was read when the thread had come to rest */
  unsigned name_reads;
  thread_location_t at;
  /* time and polls at the location `at` that are not written yet */
  uint64_t time_ns, polls;
} monitored_thread_t;

struct wall_monitor {
  monitor_thread_t thread;
  monitor_writer_t *writer;
  thread_stacks_t stacks;
  uint64_t interval_ns, started_ns, polled_ns, flushed_ns;
  /* CPU time of the process when the last poll began; 0: unknown */
  uint64_t process_ns;
  /* sorted by tid */
  monitored_thread_t *threads;
  size_t count, capacity;
  /* there is no agent: threads have used CPU time before the recording */
  bool from_outside, has_looked;
  uint32_t exec_index;
  uint32_t bell, stop;
};

/* ---- records ------------------------------------------------------------------------------ */

static void write_period(wall_monitor_t *m, monitored_thread_t *t) {
  if (!t->polls) return;
  const char *name = t->at.call < 0 ? NULL : syscall_name(MACHINE_HERE, t->at.call);
  monitor_writer_begin(m->writer, EXTENDED_WALL);
  monitor_writer_value(m->writer, (uint64_t)t->tid);
  monitor_writer_value(m->writer, t->time_ns);
  monitor_writer_value(m->writer, t->polls);
  monitor_writer_value(m->writer, t->at.stack);
  monitor_writer_value(m->writer, (uint8_t)t->at.state);
  monitor_writer_value(m->writer, t->at.call < 0 ? 0 : (uint64_t)t->at.call + 1);
  monitor_writer_text(m->writer, name);
  monitor_writer_value(m->writer, (uint64_t)t->at.fd + 1);
  monitor_writer_value(m->writer, t->at.address);
  monitor_writer_value(m->writer, t->at.is_mutex);
  monitor_writer_value(m->writer, (uint64_t)t->at.owner);
  monitor_writer_text(m->writer, t->at.what);
  monitor_writer_end(m->writer);
  t->time_ns = t->polls = 0;
}

static bool is_same(const thread_location_t *a, const thread_location_t *b) {
  return a->stack == b->stack && a->state == b->state && a->call == b->call && a->fd == b->fd &&
         a->is_mutex == b->is_mutex && a->owner == b->owner && a->address == b->address &&
         strcmp(a->what, b->what) == 0;
}

static void add_poll(wall_monitor_t *m, monitored_thread_t *t, const thread_location_t *at,
                     uint64_t passed_ns) {
  if (!is_same(at, &t->at) || t->time_ns >= PERIOD_NS) write_period(m, t);
  t->at = *at;
  t->time_ns += passed_ns;
  t->polls++;
}

static uint64_t not_written(uint64_t all, uint64_t *written) {
  uint64_t fresh = all > *written ? all - *written : 0;
  *written = all;
  return fresh;
}

/* Writes what the thread did since the last time. */
static void write_thread(wall_monitor_t *m, monitored_thread_t *t) {
  write_period(m, t);
  monitor_writer_begin(m->writer, EXTENDED_WALL_THREAD);
  monitor_writer_value(m->writer, (uint64_t)t->tid);
  monitor_writer_value(m->writer, not_written(t->seen_ns, &t->written_seen_ns));
  monitor_writer_value(m->writer, not_written(t->run_ns, &t->written_run_ns));
  monitor_writer_value(m->writer, not_written(t->runq_ns + t->queued_ns, &t->written_runq_ns));
  monitor_writer_text(m->writer, t->name);
  monitor_writer_value(m->writer, not_written(t->slices, &t->written_slices));
  monitor_writer_end(m->writer);
}

/* A thread may get its name after it was found. */
static void write_threads(wall_monitor_t *m) {
  for (size_t i = 0; i < m->count; i++) {
    thread_file_name(m->stacks.pid, m->threads[i].tid, m->threads[i].name);
    write_thread(m, &m->threads[i]);
  }
  (void)monitor_writer_flush(m->writer);
}

/* ---- threads ------------------------------------------------------------------------------ */

/* False if the thread has ended. */
static bool read_stats(const wall_monitor_t *m, monitored_thread_t *t, thread_stats_t *out) {
  return thread_stats_read_use(t->schedstat, m->stacks.pid, t->tid, out);
}

static size_t find_slot(const wall_monitor_t *m, pid_t tid) {
  return ARRAY_SEARCH(m->count, k, m->threads[k].tid < tid);
}

static monitored_thread_t *find_thread(const wall_monitor_t *m, pid_t tid) {
  size_t i = find_slot(m, tid);
  return i < m->count && m->threads[i].tid == tid ? &m->threads[i] : NULL;
}

/* NULL: out of memory. */
static monitored_thread_t *add_thread(wall_monitor_t *m, pid_t tid) {
  if (!ARRAY_GROW(m->threads, m->count, m->capacity)) return NULL;
  size_t i = find_slot(m, tid);
  monitored_thread_t *t = &m->threads[i];
  memmove(t + 1, t, (m->count - i) * sizeof *t);
  m->count++;
  *t = (monitored_thread_t){.tid = tid,
                            .schedstat = thread_file_open(m->stacks.pid, tid, "schedstat"),
                            .at = {.call = -1, .fd = -1}};
  thread_file_name(m->stacks.pid, tid, t->name);
  return t;
}

/* Whether it has run since it was read. */
static bool has_run(const monitored_thread_t *t, const thread_stats_t *now) {
  return !now->slices || now->slices != t->slices;
}

/* True if the futex wait must be read again. A mutex that changes owners has no owner for a short
 * time and does not look like a mutex, so each futex wait is read a second time. */
static bool owner_may_differ(monitored_thread_t *t) {
  t->polls_settled++;
  return t->at.address &&
         (t->polls_settled == 1 || (t->at.is_mutex && t->polls_settled % OWNER_POLLS == 0));
}

/* A thread is often found before it has set its name, and waits before that, too. */
static void read_name_again(const wall_monitor_t *m, monitored_thread_t *t) {
  if (t->polls_settled != 1 || t->name_reads == NAME_READS) return;
  t->name_reads++;
  thread_file_name(m->stacks.pid, t->tid, t->name);
}

/* What a thread did before the recording is not written. */
static void skip_past(monitored_thread_t *t, const thread_stats_t *stats) {
  t->written_run_ns = stats->run_ns;
  t->written_runq_ns = stats->runq_ns;
  t->written_slices = stats->slices;
}

/* If the thread has not run, this counts the poll; else its stack is to be read. */
static void update_thread(wall_monitor_t *m, monitored_thread_t *t, const thread_stats_t *stats,
                          uint64_t passed_ns) {
  t->here = true;
  t->seen_ns += passed_ns;
  bool ran = !t->settled || has_run(t, stats);
  if (ran) t->polls_settled = 0;
  t->wanted = ran || owner_may_differ(t);
  read_name_again(m, t);
  bool waits = t->runnable && stats->run_ns == t->run_ns && stats->runq_ns == t->runq_ns;
  t->queued_ns = waits ? t->queued_ns + passed_ns : 0;
  t->settled = t->runnable = false;
  t->slices = stats->slices;
  t->run_ns = stats->run_ns;
  t->runq_ns = stats->runq_ns;
  if (t->wanted) return;
  t->settled = true;
  add_poll(m, t, &t->at, passed_ns);
}

static void read_thread(wall_monitor_t *m, pid_t tid, uint64_t passed_ns) {
  thread_stats_t stats = {0};
  monitored_thread_t *t = find_thread(m, tid);
  if (t && !read_stats(m, t, &stats)) return; /* it has ended; the tid may be reused */
  if (!t && (t = add_thread(m, tid)) && read_stats(m, t, &stats) && m->from_outside &&
      !m->has_looked)
    skip_past(t, &stats);
  if (t) update_thread(m, t, &stats, passed_ns);
}

/* Whether no thread has run, started or ended since the last poll began: the process' CPU clock
 * stands still, and no thread waited for a CPU. One system call then replaces some for each thread.
 */
static bool is_idle(wall_monitor_t *m) {
  bool idle = process_facts_idle(m->stacks.pid, &m->process_ns);
  for (size_t i = 0; i < m->count && idle; i++)
    idle = !m->threads[i].runnable;
  return idle;
}

static void update_idle(wall_monitor_t *m, uint64_t passed_ns) {
  for (size_t i = 0; i < m->count; i++) {
    monitored_thread_t *t = &m->threads[i];
    const thread_stats_t same = {.run_ns = t->run_ns, .runq_ns = t->runq_ns, .slices = t->slices};
    update_thread(m, t, &same, passed_ns);
  }
}

static void update_threads(wall_monitor_t *m, uint64_t passed_ns) {
  if (is_idle(m)) {
    update_idle(m, passed_ns);
    return;
  }
  DIR *folder = thread_file_folder(m->stacks.pid);
  for (size_t i = 0; i < m->count; i++)
    m->threads[i].here = m->threads[i].wanted = false;
  for (pid_t tid; (tid = thread_file_next(folder));)
    read_thread(m, tid, passed_ns);
  if (folder) closedir(folder);
}

static void end_thread(wall_monitor_t *m, monitored_thread_t *t) {
  write_thread(m, t);
  thread_file_close(t->schedstat);
}

static void remove_ended(wall_monitor_t *m) {
  size_t kept = 0;
  for (size_t i = 0; i < m->count; i++)
    if (m->threads[i].here)
      m->threads[kept++] = m->threads[i];
    else
      end_thread(m, &m->threads[i]);
  m->count = kept;
}

/* ---- stacks ------------------------------------------------------------------------------- */

static bool is_wanted(void *context, pid_t tid) {
  const monitored_thread_t *t = find_thread(context, tid);
  return t && t->wanted;
}

static void note_wait(thread_location_t *at, const thread_t *thread) {
  const wait_t *wait = &thread->wait;
  const char *what = state_wait_what(thread);
  at->call = wait->number;
  at->fd = wait->fd;
  at->is_mutex = wait->is_mutex;
  at->owner = wait->owner;
  at->address = wait->address;
  if (what) snprintf(at->what, sizeof at->what, "%s", what);
}

/* Counts this poll of T; READ has the stack that was just read. A running thread is not counted,
 * because CPU-time samples cover it. Nor is a thread that was blocked but ran again before its
 * stack was read. */
static void add_stack(wall_monitor_t *m, target_t *target, monitored_thread_t *t,
                      const thread_t *read, uint64_t passed_ns) {
  thread_stats_t stats = {0};
  t->wanted = false;
  if (!read_stats(m, t, &stats)) return;
  bool ran = has_run(t, &stats);
  if (read->state == 'Z') t->seen_ns -= passed_ns; /* it has ended, and others have not */
  t->runnable = read->state == 'R';
  if (!read->frame_count && (read->state == 'R' || read->state == 'Z')) return;
  thread_location_t at = {.stack = monitor_writer_stack(m->writer, target, read),
                          .state = read->state,
                          .call = -1,
                          .fd = -1};
  if (read->frame_count) note_wait(&at, read);
  add_poll(m, t, &at, passed_ns);
  t->settled = at.stack && !ran && read->ending != ENDING_BROKEN;
}

static target_t *read_wanted(wall_monitor_t *m) {
  problem_t problem;
  target_t *target = thread_stacks_target(&m->stacks);
  const stacks_options_t options = {.depth = DEPTH_MAX,
                                    .touch = TOUCH_NONE,
                                    .wanted = is_wanted,
                                    .context = m,
                                    .interpreted = true};
  return target && stacks_capture(target, &options, &problem) ? target : NULL;
}

/* Whether a broken walk may be due to an outdated list of mappings: a library or a thread's stack
 * may be new. New mappings become rare as a program ages. So the list counts as outdated when it is
 * older than an eighth of the monitored time that preceded it. */
static bool is_outdated(const wall_monitor_t *m, const target_t *target) {
  uint64_t before = m->stacks.opened_ns - m->started_ns;
  if (m->polled_ns < m->stacks.opened_ns || 8 * (m->polled_ns - m->stacks.opened_ns) < before)
    return false;
  for (size_t i = 0; i < target->thread_count; i++)
    if (target->threads[i].ending == ENDING_BROKEN) return true;
  return false;
}

static void read_stacks(wall_monitor_t *m, uint64_t passed_ns) {
  bool any = false;
  for (size_t i = 0; i < m->count && !any; i++)
    any = m->threads[i].wanted;
  target_t *target = any ? read_wanted(m) : NULL;
  if (target && is_outdated(m, target)) {
    thread_stacks_close(&m->stacks);
    target = read_wanted(m);
  }
  for (size_t i = 0; target && i < target->thread_count; i++) {
    monitored_thread_t *t = find_thread(m, target->threads[i].tid);
    if (t) add_stack(m, target, t, &target->threads[i], passed_ns);
  }
}

/* Counts threads that may not be read (another user's by now, or forbidden by the system): their
 * time is known, their stacks are not. */
static void count_unread(wall_monitor_t *m, uint64_t passed_ns) {
  static const thread_location_t nowhere = {.call = -1, .fd = -1};
  if (m->stacks.target) return; /* each was read or has ended */
  for (size_t i = 0; i < m->count; i++)
    if (m->threads[i].wanted) add_poll(m, &m->threads[i], &nowhere, passed_ns);
}

/* ---- polls -------------------------------------------------------------------------------- */

/* The recorder learns late that a program without the agent has executed another one. The stacks
 * until now are of the program before. */
static void follow_exec(wall_monitor_t *m) {
  uint32_t exec_index = recording_current_program(m->stacks.recording);
  if (!m->from_outside || exec_index == m->exec_index) return;
  for (size_t i = 0; i < m->count; i++) {
    m->threads[i].at.stack = 0;
    m->threads[i].settled = false;
  }
  m->exec_index = exec_index;
}

static void look(wall_monitor_t *m, uint64_t now) {
  uint64_t passed_ns = now - m->polled_ns;
  m->polled_ns = now;
  follow_exec(m);
  update_threads(m, passed_ns);
  m->has_looked = true;
  remove_ended(m);
  read_stacks(m, passed_ns);
  count_unread(m, passed_ns);
  if (now - m->flushed_ns < PERIOD_NS) return;
  m->flushed_ns = now;
  write_threads(m);
}

/* CPU time of the recorder, one thread of which reads the stacks. */
static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *watch(void *context) {
  wall_monitor_t *m = context;
  prctl(PR_SET_NAME, "sonde-wall");
  /* The priority makes polls punctual on a busy machine. Without the right to raise it, polls are
   * late and each covers more time. */
  (void)setpriority(PRIO_PROCESS, (id_t)os_tid(), -10);
  for (uint64_t next = m->polled_ns; !load_acquire(&m->stop);) {
    uint64_t now = os_monotonic_ns();
    if (now < next) {
      (void)os_futex_wait(&m->bell, 0, next - now);
      continue;
    }
    uint64_t used_ns = cpu_ns();
    look(m, now);
    uint64_t rested = os_monotonic_ns() + PAUSE_FACTOR * (cpu_ns() - used_ns);
    next += m->interval_ns << load_relaxed(&m->stacks.recording->control->pace);
    if (next < rested) next = rested;
  }
  return NULL;
}

static void free_monitor(wall_monitor_t *m) {
  thread_stacks_close(&m->stacks);
  monitor_writer_free(m->writer);
  free(m->threads);
  free(m);
}

wall_monitor_t *wall_monitor_new(recording_t *recording, uint64_t interval_ns) {
  wall_monitor_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->interval_ns = interval_ns;
  m->from_outside = load_relaxed(&recording->control->from_outside);
  m->writer = monitor_writer_new(recording, MONITOR_STREAM + 2);
  m->stacks = (thread_stacks_t){
      .recording = recording, .writer = m->writer, .pid = (pid_t)recording->header.pid};
  if (m->writer) return m;
  free_monitor(m);
  return NULL;
}

void wall_monitor_run(wall_monitor_t *m) {
  if (!m) return;
  m->started_ns = m->polled_ns = m->flushed_ns = os_monotonic_ns();
  (void)monitor_thread_start(&m->thread, watch, m);
}

void wall_monitor_stop(wall_monitor_t *m) {
  if (!m) return;
  monitor_thread_stop(&m->thread, &m->stop, &m->bell);
  for (size_t i = 0; i < m->count; i++)
    end_thread(m, &m->threads[i]);
  (void)monitor_writer_flush(m->writer);
  free_monitor(m);
}
