/* SPDX-License-Identifier: MIT */
#include "target/jit/live.h"

#include "os/os.h"
#include "target/process.h"

void jit_live_open(jit_live_t *live, target_t *target) {
  *live = (jit_live_t){.files = {.root_fd = -1, .cwd_fd = -1}};
  if (!target->live) return;
  jit_files_open(&live->files, target->reader, process_inner_tid(process_of(target), target->pid));
  live->codes = jit_new();
  if (!live->codes || jit_files_read(&live->files, live->codes, os_monotonic_ns())) return;
  jit_close(live->codes);
  live->codes = NULL;
}

void jit_live_close(jit_live_t *live) {
  jit_files_close(&live->files);
  jit_close(live->codes);
  live->codes = NULL;
}
