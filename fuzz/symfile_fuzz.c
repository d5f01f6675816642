/* SPDX-License-Identifier: MIT
 *
 * Code that a program registers with GDB's JIT interface. The input is the program's memory: its
 * descriptor is at the start. It is also read as one symbol file.
 */
#include <string.h>

#include "target/jit/registered.h"
#include "target/jit/symfile.h"

#define BASE UINT64_C(0x10000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
  /* must be first */
  memory_t memory;
  const uint8_t *data;
  size_t size;
} input_t;

static bool read_input(memory_t *self, uint64_t address, void *out, size_t size) {
  const input_t *input = (const input_t *)self;
  uint64_t offset = address - BASE;
  if (offset > input->size || size > input->size - offset) return false;
  memcpy(out, input->data + offset, size);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input_t input = {.memory.read = read_input, .data = data, .size = size};
  jit_registered_t registered = {.lists = {BASE}, .list_count = 1};
  image_t image;
  jit_t *jit = jit_new();
  if (!jit) return 0;
  jit_registered_add(&registered, &input.memory, 0, jit);
  jit_registered_add(&registered, &input.memory, 1, jit);
  jit_symfile_read(jit, data, size);
  if (jit_symfile_image(data, size, &image) && image.segment_count > IMAGE_SEGMENTS_MAX)
    __builtin_trap();
  jit_find(jit, BASE);
  jit_registered_free(&registered);
  jit_close(jit);
  return 0;
}
