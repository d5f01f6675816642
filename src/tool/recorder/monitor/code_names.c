/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/code_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/hash.h"
#include "os/os.h"
#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/writer.h"
#include "target/jit/file.h"
#include "target/jit/registered.h"
#include "target/jit/runtime.h"

#define FIRST_NS    UINT64_C(100000000)
#define INTERVAL_NS UINT64_C(200000000)
/* The same in a program that has run for some time and shows no generated code. */
#define UNUSED_NS UINT64_C(1000000000)
/* Between two searches for files, until a stack shows that the program generates code. */
#define SEARCH_NS    UINT64_C(2000000000)
#define PAUSE_FACTOR 100u /* at most 1 % of a CPU */

struct code_names {
  monitor_thread_t thread;
  recording_t *recording;
  monitor_writer_t *writer;
  jit_files_t files;
  jit_t *codes;
  /* codes that are registered, and the program as it was when their lists were searched; NULL: they
   * were not */
  jit_registered_t registered;
  target_t *target;
  uint64_t registered_ns, lists_due_ns;
  /* when lists were searched for last: the count of pcs, and a hash of the images */
  uint32_t lists_pcs;
  uint64_t lists_images;
  uint32_t exec_index;
  uint64_t search_due_ns;
  /* pcs and codes of the last look-up */
  uint32_t pcs;
  size_t known;
  uint64_t written_bytes, left_out;
  bool has_read;
  /* the executable, for a hint */
  char program[PATH_MAX];
  uint32_t bell, stop;
};

static uint32_t pc_count(const code_names_t *n) {
  uint32_t count = load_acquire(&n->recording->control->code.count);
  return count < SHM_CODE_MAX ? count : SHM_CODE_MAX;
}

/* ---- registered code ------------------------------------------------------------------------ */

static void close_target(code_names_t *n) {
  target_close(n->target);
  n->target = NULL;
  n->registered.list_count = 0;
}

/* Data files that the program maps do not count. */
static uint64_t hash_of_images(const target_t *target) {
  uint64_t hash = HASH_START;
  for (size_t i = 0; i < target->maps.count; i++) {
    const mapping_t *m = &target->maps.items[i];
    const uint64_t file[] = {m->start, m->end, m->inode, m->dev_major, m->dev_minor};
    if (m->inode && m->access & MAP_EXEC) hash = hash_bytes(hash, file, sizeof file);
  }
  return hash;
}

/* A library with a list may be loaded at any time. Its list is searched for when new pcs and other
 * images are there. The search reads the symbols of all images. */
static void find_lists(code_names_t *n, uint64_t now_ns) {
  problem_t problem;
  if (now_ns < n->lists_due_ns || pc_count(n) == n->lists_pcs) return;
  n->lists_due_ns = now_ns + SEARCH_NS;
  n->lists_pcs = pc_count(n);
  target_t *target = target_open_process((pid_t)n->recording->header.pid, &problem);
  uint64_t images = target ? hash_of_images(target) : 0;
  if (target && images == n->lists_images) {
    target_close(target);
    return;
  }
  close_target(n);
  n->target = target;
  n->lists_images = images;
  if (n->target) jit_registered_find(&n->registered, n->target);
  if (!n->registered.list_count) close_target(n);
}

static void read_registered(code_names_t *n, uint64_t now_ns) {
  find_lists(n, now_ns);
  if (!n->target || !n->registered.list_count) return;
  jit_reader_t reader = jit_reader(n->target);
  n->has_read |= jit_registered_add(&n->registered, &reader.memory, n->registered_ns, n->codes);
  n->registered_ns = now_ns;
}

/* ---- the recording -------------------------------------------------------------------------- */

/* Codes of the program before are gone. Its pcs stay: which are the new one's is not known. */
static void follow_exec(code_names_t *n) {
  uint32_t exec_index = recording_current_program(n->recording);
  if (exec_index == n->exec_index) return;
  n->exec_index = exec_index;
  n->pcs = n->lists_pcs = 0;
  n->known = 0;
  n->files.path[0] = n->files.mapped[0] = 0;
  n->search_due_ns = n->lists_due_ns = n->lists_images = n->registered_ns = 0;
  n->has_read = false;
  close_target(n);
  jit_registered_free(&n->registered);
  jit_clear(n->codes);
}

/* The process has gone by the end. */
static void find_program(code_names_t *n) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%u/exe", n->recording->header.pid);
  ssize_t length = readlink(path, n->program, sizeof n->program - 1);
  if (length > 0) n->program[length] = 0;
}

static uint64_t bytes_max(const code_names_t *n) {
  uint64_t limit = n->recording->control->limit_bytes;
  return limit && limit / 8 < CODE_NAMES_BYTES_MAX ? limit / 8 : CODE_NAMES_BYTES_MAX;
}

static void write_code(void *context, jit_symbol_t *code) {
  code_names_t *n = context;
  if (code->is_recorded) return;
  code->is_recorded = true;
  n->written_bytes += 32 + strlen(code->name);
  if (n->written_bytes > bytes_max(n)) {
    n->left_out++;
    return;
  }
  monitor_writer_t *w = n->writer;
  uint64_t earliest = code->earliest_ns ? monitor_writer_ticks(w, code->earliest_ns) : 0;
  monitor_writer_begin(w, 0);
  monitor_writer_value(w, code->address);
  monitor_writer_value(w, code->size);
  monitor_writer_value(w, earliest);
  monitor_writer_value(w, monitor_writer_ticks(w, code->latest_ns));
  monitor_writer_value(w, code->number);
  monitor_writer_value(w, code->is_exact ? CODE_EXACT_TIME : 0);
  monitor_writer_text(w, code->name);
  monitor_writer_define(w, TABLE_CODE);
}

/* A return address belongs to the code of the byte before it. */
static void write_names(code_names_t *n) {
  const uint64_t *pcs = n->recording->control->code.pcs;
  uint32_t count = pc_count(n);
  if (count == n->pcs && jit_count(n->codes) == n->known) return;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t pc = load_acquire(&pcs[i]);
    jit_find_all(n->codes, pc - 1, write_code, n);
    jit_find_all(n->codes, pc, write_code, n);
  }
  n->pcs = count;
  n->known = jit_count(n->codes);
  (void)monitor_writer_flush(n->writer);
}

static void poll_once(code_names_t *n, bool last) {
  follow_exec(n);
  uint64_t now_ns = os_monotonic_ns();
  if (!last && (pc_count(n) || now_ns >= n->search_due_ns)) {
    jit_files_refresh(&n->files);
    find_program(n);
    n->search_due_ns = now_ns + (SEARCH_NS << load_relaxed(&n->recording->control->pace));
  }
  if (!pc_count(n)) return;
  pid_t own = (pid_t)load_relaxed(&n->recording->control->own_pid);
  if (own > 0) n->files.inner = own;
  n->has_read |= jit_files_read(&n->files, n->codes, now_ns);
  if (!last) read_registered(n, now_ns);
  write_names(n);
}

static void *watch(void *context) {
  code_names_t *n = context;
  uint64_t interval_ns = FIRST_NS;
  prctl(PR_SET_NAME, "sonde-code");
  while (!load_acquire(&n->stop)) {
    (void)os_futex_wait(&n->bell, 0, interval_ns);
    if (load_acquire(&n->stop)) break;
    uint64_t used_ns = (uint64_t)os_thread_cpu_ns(os_tid());
    poll_once(n, false);
    uint64_t pause_ns = PAUSE_FACTOR * ((uint64_t)os_thread_cpu_ns(os_tid()) - used_ns);
    uint64_t least_ns = !pc_count(n) && monitor_settled(n->recording) ? UNUSED_NS : INTERVAL_NS;
    least_ns <<= load_relaxed(&n->recording->control->pace);
    interval_ns = pause_ns > least_ns ? pause_ns : least_ns;
  }
  return NULL;
}

static void free_names(code_names_t *n) {
  close_target(n);
  jit_registered_free(&n->registered);
  jit_files_close(&n->files);
  jit_close(n->codes);
  monitor_writer_free(n->writer);
  free(n);
}

code_names_t *code_names_new(recording_t *recording) {
  code_names_t *n = calloc(1, sizeof *n);
  if (!n) return NULL;
  n->recording = recording;
  n->codes = jit_new();
  n->writer = monitor_writer_new(recording, MONITOR_STREAM + 6);
  jit_files_open(&n->files, (pid_t)recording->header.pid, 0);
  if (n->codes && n->writer) return n;
  free_names(n);
  return NULL;
}

void code_names_run(code_names_t *n) {
  if (n) (void)monitor_thread_start(&n->thread, watch, n);
}

static void note(const code_names_t *n, void (*print)(const char *line)) {
  char line[PATH_MAX + 256];
  const jit_runtime_t *runtime = jit_runtime_of(n->program);
  line[0] = 0;
  if (!pc_count(n)) return;
  if (n->files.problem)
    snprintf(line, sizeof line, "generated code has no names: '%s' is not used: %s", n->files.path,
             n->files.problem);
  else if (!n->has_read && runtime)
    snprintf(line, sizeof line, "generated code has no names: run '%s'%s", runtime->command,
             runtime->variable ? ", or add --jit" : "");
  else if (n->left_out || jit_lost(n->codes) || n->registered.lost || pc_count(n) == SHM_CODE_MAX)
    snprintf(line, sizeof line, "some generated code has no names: there is too much of it");
  if (line[0]) print(line);
}

void code_names_stop(code_names_t *n, void (*print)(const char *line)) {
  if (!n) return;
  monitor_thread_stop(&n->thread, &n->stop, &n->bell);
  poll_once(n, true);
  if (print) note(n, print);
  free_names(n);
}
