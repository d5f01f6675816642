/* SPDX-License-Identifier: MIT */
#include "target/jit/live.h"

#include "os/os.h"
#include "target/process.h"

static bool read_file(jit_live_t *live, target_t *target) {
  if (!target->live) return false;
  jit_files_open(&live->files, target->reader, process_inner_tid(process_of(target), target->pid));
  return jit_files_read(&live->files, live->codes, os_monotonic_ns());
}

static bool read_registered(jit_live_t *live, target_t *target) {
  jit_reader_t reader = jit_reader(target);
  jit_registered_find(&live->registered, target);
  return jit_registered_add(&live->registered, &reader.memory, 0, live->codes);
}

void jit_live_open(jit_live_t *live, target_t *target) {
  *live = (jit_live_t){.files = {.root_fd = -1, .cwd_fd = -1}, .codes = jit_new()};
  if (!live->codes) return;
  bool any = read_file(live, target);
  live->file_count = jit_count(live->codes);
  any |= read_registered(live, target);
  if (any) return;
  jit_close(live->codes);
  live->codes = NULL;
}

void jit_live_close(jit_live_t *live) {
  jit_files_close(&live->files);
  jit_registered_free(&live->registered);
  jit_close(live->codes);
  live->codes = NULL;
}
