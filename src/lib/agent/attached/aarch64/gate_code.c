/* SPDX-License-Identifier: MIT
 *
 * bti c; ldr x16, WORD; br x16. A call leaves x16 and x17 to the linker (AAPCS64, 6.1.1).
 */
#include "agent/attached/gates.h"

#include <string.h>

void gate_write(uint8_t code[GATE_BYTES], uint64_t at, uint64_t word) {
  uint32_t distance = (uint32_t)((word - (at + 4)) / 4);
  const uint32_t words[4] = {0xd503245f, 0x58000010 | (distance & 0x7ffff) << 5, 0xd61f0200,
                             0xd4200000};
  memcpy(code, words, sizeof words);
}
