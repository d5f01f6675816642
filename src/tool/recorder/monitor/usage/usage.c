/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/usage/usage.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/os.h"
#include "recorder/monitor/usage/cgroup.h"
#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/usage/usage_read.h"
#include "recorder/monitor/writer.h"
#include "recorder/process_facts.h"

#define POLL_NS      UINT64_C(100000000)
#define START_NS     UINT64_C(10000000)   /* until the program begins */
#define SLOW_NS      UINT64_C(1000000000) /* between two readings of threads and cgroup, and writes */
#define PAUSE_FACTOR 1000u

struct usage_monitor {
  monitor_thread_t thread;
  recording_t *recording;
  monitor_writer_t *writer;
  usage_files_t files;
  cgroup_files_t cgroup;
  usage_values_t now, written;
  uint64_t slow_due_ns;
  uint64_t process_ns; /* CPU time of the process when the last poll began; 0: unknown */
  uint32_t exec_index;
  uint32_t bell, stop;
};

/* Each chunk begins with all values, so that it can be read alone. */
static void flush(usage_monitor_t *m) {
  (void)monitor_writer_flush(m->writer);
  m->written = (usage_values_t){0};
}

static bool is_written(const usage_monitor_t *m, unsigned i) {
  return !m->now.known[i] || (m->written.known[i] && m->written.value[i] == m->now.value[i]);
}

/* ALL: also values that did not change. */
static void write_values(usage_monitor_t *m, bool all) {
  monitor_writer_begin(m->writer, EXTENDED_USAGE);
  for (unsigned i = 1; i < USAGE_FIELDS; i++) {
    if (!m->now.known[i] || (!all && is_written(m, i))) continue;
    monitor_writer_value(m->writer, i);
    monitor_writer_value(m->writer, m->now.value[i]);
  }
  monitor_writer_end(m->writer);
  m->written = m->now;
}

static bool has_changed(const usage_monitor_t *m, const usage_values_t *before) {
  for (unsigned i = 1; i < USAGE_FIELDS; i++)
    if (m->now.known[i] && (!before->known[i] || before->value[i] != m->now.value[i])) return true;
  return false;
}

/* Before the first exec, the process is a copy of the recorder. */
static bool has_begun(const usage_monitor_t *m) {
  return recording_current_program(m->recording) != 0;
}

/* What others change in a process that has not run, such as pages that the kernel swaps out, is
 * seen by the slow readings. */
static void poll_once(usage_monitor_t *m, bool last) {
  uint64_t now_ns = os_monotonic_ns();
  uint32_t exec_index = recording_current_program(m->recording);
  bool slow = last || now_ns >= m->slow_due_ns;
  if (process_facts_idle((pid_t)m->recording->header.pid, &m->process_ns) && !slow) return;
  usage_values_t before = m->now;
  if (exec_index != m->exec_index) flush(m);
  bool anew = exec_index != m->exec_index;
  m->exec_index = exec_index;
  if (anew) usage_files_begin(&m->files, &m->now);
  usage_read(&m->files, slow, &m->now);
  if (slow) cgroup_read(&m->cgroup, &m->now);
  uint64_t sonde_ns = load_relaxed(&m->recording->control->sonde_ns);
  if (sonde_ns) usage_set(&m->now, USAGE_SONDE, sonde_ns);
  if (recording_current_program(m->recording) != exec_index) {
    m->now = before; /* of the program before an exec */
    return;
  }
  if (last || anew || has_changed(m, &before)) write_values(m, last);
  if (!slow) return;
  m->slow_due_ns = now_ns + SLOW_NS;
  flush(m);
}

static void *watch(void *context) {
  usage_monitor_t *m = context;
  prctl(PR_SET_NAME, "sonde-usage");
  while (!load_acquire(&m->stop)) {
    uint64_t used_ns = (uint64_t)os_thread_cpu_ns(os_tid());
    if (has_begun(m)) poll_once(m, false);
    unsigned doublings = load_relaxed(&m->recording->control->pace) + monitor_settled(m->recording);
    uint64_t poll_ns = POLL_NS << doublings;
    uint64_t least_ns = has_begun(m) ? poll_ns : START_NS;
    uint64_t pause_ns = PAUSE_FACTOR * ((uint64_t)os_thread_cpu_ns(os_tid()) - used_ns);
    if (has_begun(m)) usage_read_kinds(&m->files, &m->now); /* rare: it causes no pause */
    (void)os_futex_wait(&m->bell, 0, pause_ns < least_ns ? least_ns : pause_ns);
  }
  return NULL;
}

static void free_monitor(usage_monitor_t *m) {
  usage_files_close(&m->files);
  cgroup_close(&m->cgroup);
  monitor_writer_free(m->writer);
  free(m);
}

static void set_machine_memory(usage_values_t *values) {
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0)
    usage_set(values, USAGE_MACHINE_MEMORY, (uint64_t)pages * (uint64_t)page_bytes);
}

usage_monitor_t *usage_monitor_new(recording_t *recording) {
  usage_monitor_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->recording = recording;
  m->writer = monitor_writer_new(recording, MONITOR_STREAM + 5);
  usage_files_open(&m->files, (pid_t)recording->header.pid);
  cgroup_open(&m->cgroup, (pid_t)recording->header.pid);
  set_machine_memory(&m->now);
  if (m->writer) return m;
  free_monitor(m);
  return NULL;
}

void usage_monitor_begin(usage_monitor_t *m) {
  if (m) poll_once(m, false);
}

void usage_monitor_run(usage_monitor_t *m) {
  if (m) (void)monitor_thread_start(&m->thread, watch, m);
}

void usage_monitor_stop(usage_monitor_t *m, bool executed) {
  if (!m) return;
  monitor_thread_stop(&m->thread, &m->stop, &m->bell);
  if (executed)
    flush(m);
  else if (has_begun(m))
    poll_once(m, true);
  free_monitor(m);
}
