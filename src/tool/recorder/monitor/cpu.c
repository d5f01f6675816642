/* SPDX-License-Identifier: MIT
 *
 * The counters of a thread vanish when it ends, so its total is the last reading. The CPU time of
 * its last second is only in the total of the process.
 */
#define _GNU_SOURCE
#include "recorder/monitor/cpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/writer.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/monitor/thread_file.h"
#include "base/array.h"
#include "os/os.h"

#define PERIOD_NS  UINT64_C(1000000000)
#define TRACKS_MAX 65536u

typedef struct cpu_thread {
  pid_t tid;
  char name[THREAD_NAME_MAX];
  uint64_t run_ns, runq_ns, wakeups;
  /* before the recording; not part of the above */
  uint64_t base_run_ns, base_runq_ns, base_wakeups;
  /* the first and last reading */
  uint64_t first_ns, last_ns;
  cpu_track_t track;
} cpu_thread_t;

struct cpu_monitor {
  monitor_thread_t thread;
  recording_t *recording;
  monitor_writer_t *writer;
  cpu_options_t options;
  cpu_track_t process;
  uint64_t process_ns;
  /* there is no agent: threads have used CPU time before the recording */
  bool from_outside, has_read;
  uint64_t process_base_ns;
  /* sorted by tid */
  cpu_thread_t *threads;
  size_t count, capacity;
  uint32_t bell, stop;
};

/* ---- readings ----------------------------------------------------------------------------- */

/* A process' CPU clock (linux/posix-timers_types.h). It is exact and includes ended threads. */
static bool read_process(const cpu_monitor_t *m, uint64_t *cpu_ns) {
  clockid_t clock = (clockid_t)(~(unsigned)m->recording->header.pid << 3 | 2);
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) return false;
  *cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - m->process_base_ns;
  return true;
}

static bool read_file(const cpu_monitor_t *m, pid_t tid, const char *name, char *out, size_t size) {
  return thread_file_read(-1, (pid_t)m->recording->header.pid, tid, name, out, size);
}

static cpu_thread_t *thread_of(cpu_monitor_t *m, pid_t tid) {
  size_t i = ARRAY_SEARCH(m->count, k, m->threads[k].tid < tid);
  if (i < m->count && m->threads[i].tid == tid) return &m->threads[i];
  if (m->count == TRACKS_MAX) return NULL;
  if (!ARRAY_GROW(m->threads, m->count, m->capacity)) return NULL;
  memmove(m->threads + i + 1, m->threads + i, (m->count - i) * sizeof *m->threads);
  m->count++;
  m->threads[i] = (cpu_thread_t){.tid = tid};
  return &m->threads[i];
}

static void note_progress(const cpu_monitor_t *m, const cpu_thread_t *thread,
                          const cpu_episode_t *e) {
  char line[160], who[64];
  double seconds = (double)(e->to_ns - e->from_ns) / 1e9;
  if (thread)
    snprintf(who, sizeof who, "thread %d (%s)", (int)thread->tid, thread->name);
  else
    snprintf(who, sizeof who, "the program");
  snprintf(line, sizeof line, "%s has used %.0f %% of a CPU for %.0f s", who,
           (double)e->cpu_ns / (seconds * 1e7), seconds);
  m->options.note(line);
}

static void report(cpu_monitor_t *m, const cpu_thread_t *thread, const cpu_episode_t *e) {
  monitor_writer_begin(m->writer, EXTENDED_CPU_EPISODE);
  monitor_writer_value(m->writer, thread ? (uint64_t)thread->tid : 0);
  monitor_writer_value(m->writer, e->to_ns - e->from_ns);
  monitor_writer_value(m->writer, e->cpu_ns);
  monitor_writer_text(m->writer, thread ? thread->name : "");
  monitor_writer_end(m->writer);
  (void)monitor_writer_flush(m->writer);
  if (m->options.note) note_progress(m, thread, e);
}

static uint64_t wakeups_of(const char *status) {
  const char *at = strstr(status, "\nvoluntary_ctxt_switches:");
  return at ? strtoull(at + 25, NULL, 10) : 0;
}

static void read_thread(cpu_monitor_t *m, pid_t tid) {
  char text[4096];
  thread_stats_t stats = {0};
  if (!thread_stats_read_use(-1, (pid_t)m->recording->header.pid, tid, &stats)) return;
  cpu_thread_t *t = thread_of(m, tid);
  if (!t) return;
  uint64_t now = os_monotonic_ns(), wakeups = t->base_wakeups + t->wakeups;
  if (read_file(m, tid, "status", text, sizeof text)) wakeups = wakeups_of(text);
  if (m->from_outside && !m->has_read) {
    t->base_run_ns = stats.run_ns;
    t->base_runq_ns = stats.runq_ns;
    t->base_wakeups = wakeups;
  }
  if (stats.run_ns < t->base_run_ns + t->run_ns)
    *t = (cpu_thread_t){.tid = tid}; /* the tid was reused */
  if (!t->first_ns) t->first_ns = now;
  t->last_ns = now;
  t->run_ns = stats.run_ns - t->base_run_ns;
  t->runq_ns = stats.runq_ns - t->base_runq_ns;
  t->wakeups = wakeups - t->base_wakeups;
  thread_file_name((pid_t)m->recording->header.pid, tid, t->name);
  cpu_episode_t episode;
  if (cpu_track_read(&t->track, &m->options.rules, now, t->run_ns, &episode))
    report(m, t, &episode);
}

static void read_threads(cpu_monitor_t *m) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%u/task", m->recording->header.pid);
  DIR *folder = opendir(path);
  struct dirent *entry;
  while (folder && (entry = readdir(folder))) {
    pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (tid > 0) read_thread(m, tid);
  }
  if (folder) closedir(folder);
}

static void read_all(cpu_monitor_t *m) {
  cpu_episode_t episode;
  uint64_t cpu_ns;
  if (!read_process(m, &cpu_ns)) return;
  if (m->from_outside && !m->has_read) {
    m->process_base_ns = cpu_ns;
    cpu_ns = 0;
  }
  m->process_ns = cpu_ns;
  read_threads(m);
  m->has_read = true;
  if (cpu_track_read(&m->process, &m->options.rules, os_monotonic_ns(), cpu_ns, &episode))
    report(m, NULL, &episode);
}

/* ---- the thread --------------------------------------------------------------------------- */

static void *watch_cpu(void *context) {
  cpu_monitor_t *m = context;
  prctl(PR_SET_NAME, "sonde-cpu");
  while (!load_acquire(&m->stop)) {
    read_all(m);
    (void)os_futex_wait(&m->bell, 0, PERIOD_NS);
  }
  return NULL;
}

static void free_monitor(cpu_monitor_t *m) {
  monitor_writer_free(m->writer);
  free(m->threads);
  free(m);
}

cpu_monitor_t *cpu_monitor_start(recording_t *recording, const cpu_options_t *options) {
  cpu_monitor_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->recording = recording;
  m->options = *options;
  m->from_outside = load_relaxed(&recording->control->from_outside);
  m->writer = monitor_writer_new(recording, MONITOR_STREAM + 1);
  if (m->writer && monitor_thread_start(&m->thread, watch_cpu, m)) return m;
  free_monitor(m);
  return NULL;
}

static void write_sums(cpu_monitor_t *m) {
  for (size_t i = 0; i < m->count; i++) {
    const cpu_thread_t *t = &m->threads[i];
    monitor_writer_begin(m->writer, EXTENDED_CPU_THREAD);
    monitor_writer_value(m->writer, (uint64_t)t->tid);
    monitor_writer_value(m->writer, t->run_ns);
    monitor_writer_value(m->writer, t->runq_ns);
    monitor_writer_value(m->writer, t->wakeups);
    monitor_writer_value(m->writer, t->last_ns - t->first_ns);
    monitor_writer_text(m->writer, t->name);
    monitor_writer_end(m->writer);
  }
  monitor_writer_begin(m->writer, EXTENDED_CPU_PROCESS);
  monitor_writer_value(m->writer, m->process_ns);
  monitor_writer_end(m->writer);
  (void)monitor_writer_flush(m->writer);
}

void cpu_monitor_stop(cpu_monitor_t *m) {
  if (!m) return;
  monitor_thread_stop(&m->thread, &m->stop, &m->bell);
  uint64_t cpu_ns;
  if (read_process(m, &cpu_ns)) m->process_ns = cpu_ns;
  write_sums(m);
  free_monitor(m);
}
