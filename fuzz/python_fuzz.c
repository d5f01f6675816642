/* SPDX-License-Identifier: MIT
 *
 * The memory of a Python interpreter, which changes while it is read: thread state, frames, code
 * objects, strings, line tables and exception tables of all versions, and the locks in frames.
 */
#include <stddef.h>
#include <string.h>

#include "python/chain.h"
#include "python/code.h"
#include "target/interpreter/python/held.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_memory {
  memory_t memory;
  const uint8_t *data;
  size_t size;
} fuzz_memory_t;

#define BASE 0x10000u

static bool read_data(memory_t *self, uint64_t address, void *out, size_t size) {
  const fuzz_memory_t *m = (const fuzz_memory_t *)self;
  if (address < BASE || address - BASE > m->size || size > m->size - (address - BASE)) return false;
  memcpy(out, m->data + (address - BASE), size);
  return true;
}

static void read_code(const python_layout_t *layout, fuzz_memory_t *m, uint64_t address) {
  python_code_t code;
  char text[100];
  uint64_t at, count;
  if (!python_code_read(layout, &m->memory, address, &code)) return;
  python_text(layout, &m->memory, code.name, text, sizeof text);
  python_text(layout, &m->memory, code.file, text, 5);
  python_bytes(&m->memory, code.lines, &at, &count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  uint32_t minor = 8 + data[0] % 8, steps = 0;
  const python_layout_t *layout = python_layout(3u << 24 | minor << 16);
  fuzz_memory_t m = {{read_data}, data, size};
  python_chain_t chain;
  static held_locks_t locks;
  python_line(minor, data[1], data + 2, size - 2, data[1] * 3u);
  held_values_at(data + 2, size - 2, data[1] * 2u);
  held_locks_clear(&locks);
  held_locks_add(&locks, layout, &m.memory, BASE);
  if (!python_chain_start(&chain, layout, &m.memory, BASE)) return 0;
  for (python_step_t step; (step = python_chain_next(&chain)) < PYTHON_END && steps < 100; steps++)
    if (step == PYTHON_FRAME) read_code(layout, &m, chain.code);
  return 0;
}
