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

static void put_arguments(monitor_writer_t *w, pid_t pid) {
  char path[32], text[2048];
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  FILE *file = fopen(path, "re");
  size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[size] = 0;
  for (size_t at = 0; at < size; at += strlen(text + at) + 1)
    monitor_writer_text(w, text + at);
}

void program_write(monitor_writer_t *w, const recording_t *recording, char *const *command) {
  pid_t pid = (pid_t)recording->header.pid;
  monitor_writer_begin(w, 0);
  monitor_writer_value(w, (uint64_t)pid);
  put_path(w, pid);
  for (int i = 0; command && command[i]; i++)
    monitor_writer_text(w, command[i]);
  if (!command) put_arguments(w, pid);
  monitor_writer_define(w, TABLE_PROCESS);
  write_mode(w, recording);
}

void program_record(recording_t *recording, char *const *command) {
  monitor_writer_t *w = monitor_writer_new(recording, MONITOR_STREAM + 7);
  if (!w) return;
  program_write(w, recording, command);
  (void)monitor_writer_flush(w);
  monitor_writer_free(w);
}
