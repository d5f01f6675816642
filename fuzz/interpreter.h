/* SPDX-License-Identifier: MIT
 *
 * What the targets for interpreters share: a process whose memory is the input, from FUZZ_BASE on.
 */
#ifndef SONDE_FUZZ_INTERPRETER_H
#define SONDE_FUZZ_INTERPRETER_H

#include <string.h>

#include "target/interpreter/interpreter.h"

#define FUZZ_BASE UINT64_C(0x10000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *fuzz_data;
static size_t fuzz_size;

static bool fuzz_read(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  uint64_t offset = address - FUZZ_BASE;
  if (offset > fuzz_size || size > fuzz_size - offset) return false;
  memcpy(out, fuzz_data + offset, size);
  return true;
}

/* Lists the threads of SELF, which is zero and of KIND, reads the frames of one, and names them.
 * SET_UP sets what `find` would. */
static int fuzz_interpreter(interpreter_t *self, const interpreter_kind_t *kind,
                            void (*set_up)(void), const uint8_t *data, size_t size) {
  static target_t target = {.pid = 1, .machine = MACHINE_X86_64};
  static module_t module;
  fuzz_data = data;
  fuzz_size = size;
  memset(self, 0, kind->size);
  self->memory.read = fuzz_read;
  self->kind = kind;
  self->target = &target;
  self->module = &module;
  set_up();
  kind->list_threads(self);
  interpreter_frames_clear(&self->frames);
  kind->read(self, 1, 1000);
  for (size_t i = 0; i < self->frames.pcs.count; i++) {
    interpreter_name_t name;
    if (!kind->name(self, self->frames.pcs.items[i], &name)) __builtin_trap();
  }
  kind->close(self);
  interpreter_frames_free(&self->frames);
  return 0;
}

#endif
