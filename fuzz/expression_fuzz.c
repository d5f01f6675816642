/* SPDX-License-Identifier: MIT
 *
 * DWARF expressions from arbitrary bytes, with arbitrary registers and partly readable memory.
 */
#include <stddef.h>
#include <string.h>

#include "unwind/cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every third address cannot be read; the value at another is computed from the address. */
static bool read_some(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  if (address % 3 == 0 || size > 8) return false;
  uint64_t value = address * 0x9e3779b97f4a7c15u;
  memcpy(out, &value, size);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_t memory = {read_some};
  regs_t regs = {.pc = 0x401000, .known = 0};
  if (size < 10) return 0;
  machine_t machine = data[0] & 1 ? MACHINE_AARCH64 : MACHINE_X86_64;
  bool has_memory = data[0] & 2, has_initial = data[0] & 4;
  uint64_t initial, result = 0;
  unsigned touched = 0;
  memcpy(&initial, data + 1, 8);
  regs.known = initial ^ 0xff;
  for (int i = 0; i < REGS_COUNT; i++)
    regs.r[i] = initial * (uint64_t)(i + 1);
  int status = cfi_evaluate(data + 9, size - 9, machine, &regs, has_memory ? &memory : NULL,
                            has_initial ? &initial : NULL, &result, &touched);
  if (status > 0) __builtin_trap();
  if (!status && !has_memory && touched & EXPRESSION_READ_MEMORY) __builtin_trap();
  return 0;
}
