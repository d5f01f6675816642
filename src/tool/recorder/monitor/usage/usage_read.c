/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/usage/usage_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/monitor/usage/descriptors.h"

enum { TEXT_BYTES = 4096 };

static int open_file(pid_t pid, const char *name, int flags) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  return open(path, flags | O_CLOEXEC);
}

void usage_files_open(usage_files_t *f, pid_t pid) {
  *f = (usage_files_t){.pid = pid, .tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)};
  f->status = open_file(pid, "status", O_RDONLY);
  f->stat = open_file(pid, "stat", O_RDONLY);
  f->fd = open_file(pid, "fd", O_RDONLY | O_DIRECTORY);
}

void usage_files_close(usage_files_t *f) {
  const int fds[] = {f->status, f->stat, f->fd};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
    if (fds[i] >= 0) close(fds[i]);
  free(f->threads);
}

void usage_files_begin(usage_files_t *f, usage_values_t *values) {
  f->classified = 0;
  descriptors_forget(values);
}

void usage_read_kinds(usage_files_t *f, usage_values_t *values) {
  if (values->known[USAGE_DESCRIPTORS]) descriptors_read_kinds(f->fd, &f->classified, values);
}

static bool read_text(int fd, char *out) {
  ssize_t n = fd < 0 ? -1 : pread(fd, out, TEXT_BYTES - 1, 0);
  out[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* ---- memory and switches ------------------------------------------------------------------ */

static const struct {
  const char *name;
  usage_field_t field;
  uint64_t unit;
} lines[] = {{"VmHWM:", USAGE_PEAK_RSS, 1024},
             {"VmRSS:", USAGE_RSS, 1024},
             {"RssAnon:", USAGE_ANONYMOUS, 1024},
             {"VmSwap:", USAGE_SWAP, 1024},
             {"Threads:", USAGE_THREADS, 1},
             {"voluntary_ctxt_switches:", USAGE_VOLUNTARY, 1},
             {"nonvoluntary_ctxt_switches:", USAGE_INVOLUNTARY, 1}};
enum { LINES = sizeof lines / sizeof *lines };

/* The lines appear in the order of the table; a missing one is skipped. */
bool usage_parse_status(const char *text, usage_values_t *out) {
  bool has_memory = false;
  for (const char *p = text; p && *p; p = strchr(p, '\n')) {
    p += *p == '\n';
    for (int i = 0; i < LINES; i++) {
      size_t size = strlen(lines[i].name);
      if (strncmp(p, lines[i].name, size) != 0) continue;
      usage_set(out, lines[i].field, strtoull(p + size, NULL, 10) * lines[i].unit);
      has_memory |= lines[i].field == USAGE_RSS;
      break;
    }
  }
  return has_memory;
}

/* ---- switches of all threads -------------------------------------------------------------- */

static int by_tid(const void *left, const void *right) {
  const thread_switches_t *a = left, *b = right;
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static void read_thread(usage_files_t *f, pid_t tid, size_t known) {
  char text[TEXT_BYTES];
  usage_values_t values = {0};
  if (!thread_file_read(-1, f->pid, tid, "status", text, sizeof text)) return;
  (void)usage_parse_status(text, &values);
  thread_switches_t now = {tid, true, values.value[USAGE_VOLUNTARY],
                           values.value[USAGE_INVOLUNTARY]};
  thread_switches_t *found = known ? bsearch(&now, f->threads, known, sizeof now, by_tid) : NULL;
  if (found)
    *found = now;
  else if (ARRAY_GROW(f->threads, f->count, f->capacity))
    f->threads[f->count++] = now;
}

static void remove_ended(usage_files_t *f) {
  size_t kept = 0;
  for (size_t i = 0; i < f->count; i++) {
    thread_switches_t *t = &f->threads[i];
    if (t->here)
      f->threads[kept++] = *t;
    else {
      f->ended_voluntary += t->voluntary;
      f->ended_involuntary += t->involuntary;
    }
  }
  f->count = kept;
  if (kept) qsort(f->threads, kept, sizeof *f->threads, by_tid);
}

static void read_threads(usage_files_t *f) {
  DIR *folder = thread_file_folder(f->pid);
  size_t known = f->count;
  for (size_t i = 0; i < known; i++)
    f->threads[i].here = false;
  for (pid_t tid; (tid = thread_file_next(folder));)
    read_thread(f, tid, known);
  if (folder) closedir(folder);
  remove_ended(f);
}

/* The status file of a process has the switches of its first thread. */
static void set_switches(usage_files_t *f, const usage_values_t *now, usage_values_t *out) {
  uint64_t voluntary = f->ended_voluntary, involuntary = f->ended_involuntary;
  for (size_t i = 0; i < f->count; i++) {
    bool first = f->threads[i].tid == f->pid;
    voluntary += first ? now->value[USAGE_VOLUNTARY] : f->threads[i].voluntary;
    involuntary += first ? now->value[USAGE_INVOLUNTARY] : f->threads[i].involuntary;
  }
  if (voluntary >= out->value[USAGE_VOLUNTARY]) usage_set(out, USAGE_VOLUNTARY, voluntary);
  if (involuntary >= out->value[USAGE_INVOLUNTARY]) usage_set(out, USAGE_INVOLUNTARY, involuntary);
}

/* ---- a reading ---------------------------------------------------------------------------- */

static void read_memory(usage_files_t *f, bool with_threads, usage_values_t *out) {
  char text[TEXT_BYTES];
  usage_values_t now = {0};
  uint64_t descriptors;
  if (!read_text(f->status, text) || !usage_parse_status(text, &now)) return;
  bool alone = now.value[USAGE_THREADS] == 1 && f->count <= 1;
  if (with_threads || (alone && !f->count)) read_threads(f);
  for (unsigned i = 0; i < USAGE_FIELDS; i++)
    if (now.known[i] && i != USAGE_VOLUNTARY && i != USAGE_INVOLUNTARY)
      usage_set(out, (usage_field_t)i, now.value[i]);
  set_switches(f, &now, out);
  if (descriptors_count(f->fd, &descriptors)) usage_set(out, USAGE_DESCRIPTORS, descriptors);
}

void usage_read(usage_files_t *f, bool with_threads, usage_values_t *out) {
  char text[TEXT_BYTES];
  thread_stats_t stat;
  read_memory(f, with_threads, out);
  if (!read_text(f->stat, text) || !thread_stats_parse_stat(text, &stat)) return;
  usage_set(out, USAGE_MINOR_FAULTS, stat.minor_faults);
  usage_set(out, USAGE_MAJOR_FAULTS, stat.major_faults);
  usage_set(out, USAGE_USER_TIME, stat.user_ticks * f->tick_ns);
  usage_set(out, USAGE_SYSTEM_TIME, stat.system_ticks * f->tick_ns);
}
