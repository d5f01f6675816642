/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/filters.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Threads that are examined at a time. */
#define THREADS_MAX 64

/* The number of filters of a thread; -1: unknown. Linux 5.9 and later. */
static long filters_of(uint32_t pid, const char *tid) {
  char path[300], line[256];
  long count = -1;
  snprintf(path, sizeof path, "/proc/%u/task/%s/status", pid, tid);
  FILE *file = fopen(path, "re");
  while (file && count < 0 && fgets(line, sizeof line, file))
    (void)sscanf(line, "Seccomp_filters: %ld", &count);
  if (file) fclose(file);
  return count;
}

/* The filter may already have refused a write, which then looks like a lost file. */
static void end_recording(shm_control_t *c) {
  uint32_t reason = load_acquire(&c->stop_reason);
  if (reason == RECORD_STOP_NONE || reason == RECORD_STOP_LOST_FILE || reason == RECORD_STOP_IO)
    store_release(&c->stop_reason, (uint32_t)RECORD_STOP_UNREAD_FILTER);
  store_release(&c->unread_filter, 1u);
  store_release(&c->mode, 0u);
  __atomic_fetch_add(&c->request, 1, __ATOMIC_ACQ_REL);
}

/* The agent sets the address when it starts (writer_attach). */
static bool has_no_agent(const shm_control_t *c) {
  return load_relaxed(&c->from_outside) && !load_relaxed(&c->trampoline_pc);
}

void filters_check(shm_control_t *c) {
  char path[40];
  if (!load_acquire(&c->exec_index) || load_relaxed(&c->unread_filter) || has_no_agent(c)) return;
  snprintf(path, sizeof path, "/proc/%u/task", c->pid);
  DIR *tasks = opendir(path);
  int left = THREADS_MAX;
  for (struct dirent *e; tasks && left > 0 && (e = readdir(tasks));) {
    if (e->d_name[0] == '.') continue;
    left--;
    if (filters_of(c->pid, e->d_name) <= (long)load_acquire(&c->seccomp_known)) continue;
    end_recording(c);
    break;
  }
  if (tasks) closedir(tasks);
}
