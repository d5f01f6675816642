/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/signal_state.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/monitor/thread_file.h"
#include "recorder/monitor/thread_stats.h"

/* The number after NAME at the start of a line of TEXT; 0 if there is none. */
static uint64_t number_of(const char *text, const char *name, int base) {
  const char *line = strstr(text, name);
  return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

void signal_state_parse(const char *text, signal_state_t *out) {
  const uint64_t bit = UINT64_C(1) << (SIGURG - 1);
  *out = (signal_state_t){.is_blocked = number_of(text, "\nSigBlk:", 16) & bit,
                          .is_caught = number_of(text, "\nSigCgt:", 16) & bit,
                          .is_traced = number_of(text, "\nTracerPid:", 10) != 0,
                          .filters = (unsigned)number_of(text, "\nSeccomp_filters:", 10)};
}

/* A container's filter applies to the recorder, too. */
static unsigned own_filters(void) {
  char text[4096];
  signal_state_t own;
  if (!thread_file_read(-1, getpid(), getpid(), "status", text, sizeof text)) return 0;
  signal_state_parse(text, &own);
  return own.filters;
}

bool signal_state_read(pid_t pid, pid_t tid, signal_state_t *out) {
  char text[4096];
  thread_stats_t stats;
  if (!thread_file_read(-1, pid, tid, "status", text, sizeof text)) return false;
  signal_state_parse(text, out);
  out->is_filtered = out->filters > own_filters();
  if (!thread_file_read(-1, pid, tid, "stat", text, sizeof text) ||
      !thread_stats_parse_stat(text, &stats))
    return false;
  out->is_kernel = stats.kernel;
  return true;
}
