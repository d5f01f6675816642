/* SPDX-License-Identifier: MIT
 *
 * A sled of clang 14 for aarch64, of any kind: `b #32` and seven NOPs. The end of an exit, `ret` or
 * the branch of a tail call, follows it. A patched sled:
 *
 *   nop                      the head; NOP and B may replace each other while other processors
 *   str x30, [sp, #-16]!     execute them (Arm ARM B2.2.5), unlike compiler-rt's store
 *   bl stub
 *   ldr x30, [sp], #16
 *   b #16                    and three NOPs
 *
 * The stub saves x16 and x17, because the branch of a tail call may use one of them.
 */
#include "arch/sled.h"

#include <string.h>

#include "arch/arch.h"

#define NOP  0xd503201fu
#define OVER 0x14000008u /* b #32 */

static bool holds(uint64_t code, uint32_t word) {
  return memcmp((const void *)(uintptr_t)code, &word, sizeof word) == 0;
}

bool sled_looks_right(uint64_t sled, sled_kind_t kind) {
  (void)kind;
  return sled % sizeof(sled_head_t) == 0 && holds(sled, OVER) && holds(sled + 20, NOP) &&
         holds(sled + 24, NOP) && holds(sled + 28, NOP);
}

void sled_code(uint64_t sled, sled_kind_t kind, uint64_t stub, uint8_t *out) {
  uint32_t distance = (uint32_t)((int64_t)(stub - (sled + 8)) >> 2);
  const uint32_t code[SLED_BYTES / 4] = {
      NOP,
      0xf81f0ffe,                          /* str x30, [sp, #-16]! */
      0x94000000 | (distance & 0x3ffffff), /* bl stub */
      0xf84107fe,                          /* ldr x30, [sp], #16 */
      0x14000004,                          /* b #16 */
      NOP,
      NOP,
      NOP,
  };
  (void)kind;
  memcpy(out, code, sizeof code);
}

sled_head_t sled_head(sled_kind_t kind) {
  (void)kind;
  return OVER;
}

void sled_stub(uint64_t stub, void (*to)(void)) {
  static const uint32_t code[] = {
      0xa9bf47f0, /* stp x16, x17, [sp, #-16]! */
      0x58000070, /* ldr x16, stub + 16 */
      0xd61f0200, /* br x16 */
      NOP,
  };
  uint64_t address = (uint64_t)(uintptr_t)to;
  memcpy((void *)(uintptr_t)stub, code, sizeof code);
  memcpy((void *)(uintptr_t)(stub + sizeof code), &address, sizeof address);
  arch_code_written(stub, SLED_STUB_BYTES);
}
