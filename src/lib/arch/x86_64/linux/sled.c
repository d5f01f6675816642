/* SPDX-License-Identifier: MIT
 *
 * A sled of clang 14 for x86_64 (compiler-rt/lib/xray/xray_x86_64.cpp describes the same): 11 bytes
 * at an even address. An entry or a tail exit is `jmp +9` and a NOP of 9 bytes; an exit is `ret`
 * and a NOP of 10 bytes. A patched sled is `call stub` and 6 bytes: a NOP, or for an exit `ret` and
 * a NOP. The head is two bytes, which are one whole instruction before and the start of one after.
 */
#include "arch/sled.h"

#include <string.h>

bool sled_looks_right(uint64_t sled, sled_kind_t kind) {
  const uint8_t *p = (const uint8_t *)(uintptr_t)sled;
  if (sled % sizeof(sled_head_t)) return false;
  return kind == SLED_EXIT ? p[0] == 0xc3 : p[0] == 0xeb && p[1] == 0x09;
}

void sled_code(uint64_t sled, sled_kind_t kind, uint64_t stub, uint8_t *out) {
  static const uint8_t nop_6[] = {0x66, 0x0f, 0x1f, 0x44, 0, 0},
                       ret_nop[] = {0xc3, 0x0f, 0x1f, 0x44, 0, 0};
  int32_t distance = (int32_t)(stub - (sled + 5));
  out[0] = 0xe8;
  memcpy(out + 1, &distance, 4);
  memcpy(out + 5, kind == SLED_EXIT ? ret_nop : nop_6, 6);
}

sled_head_t sled_head(sled_kind_t kind) { return kind == SLED_EXIT ? 0x66c3 : 0x09eb; }

void sled_stub(uint64_t stub, void (*to)(void)) {
  static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
  uint64_t address = (uint64_t)(uintptr_t)to;
  memcpy((void *)(uintptr_t)stub, jump, sizeof jump);
  memcpy((void *)(uintptr_t)(stub + sizeof jump), &address, sizeof address);
}
