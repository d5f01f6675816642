/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/outside/program.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel appends this to the path of a file without a name. */
static const char deleted[] = " (deleted)";

static void put_path(monitor_writer_t *w, pid_t pid) {
  char path[32], exe[PATH_MAX];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  ssize_t n = readlink(path, exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = 0;
  size_t length = strlen(exe), ending = sizeof deleted - 1;
  if (length > ending && !strcmp(exe + length - ending, deleted)) exe[length - ending] = 0;
  monitor_writer_text(w, exe);
}

/* The header has the mode of the programs with the agent. */
static void write_mode(monitor_writer_t *w, const recording_t *recording) {
  if (!load_relaxed(&recording->agentless_program)) return;
  monitor_writer_begin(w, 0);
  monitor_writer_value(w, recording->agentless_mode);
  monitor_writer_define(w, TABLE_OUTSIDE);
}

void program_write(monitor_writer_t *w, const recording_t *recording) {
  char path[32], text[2048];
  pid_t pid = (pid_t)recording->header.pid;
  monitor_writer_begin(w, 0);
  monitor_writer_value(w, (uint64_t)pid);
  put_path(w, pid);
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  FILE *file = fopen(path, "re");
  size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[size] = 0;
  for (size_t at = 0; at < size; at += strlen(text + at) + 1)
    monitor_writer_text(w, text + at);
  monitor_writer_define(w, TABLE_PROCESS);
  write_mode(w, recording);
}
