/* SPDX-License-Identifier: MIT
 *
 * jmp *DISTANCE(%rip): six bytes; the rest of the gate is never executed.
 */
#include "agent/attached/gates.h"

#include <string.h>

void gate_write(uint8_t code[GATE_BYTES], uint64_t at, uint64_t word) {
  int32_t distance = (int32_t)(word - (at + 6));
  memset(code, 0xcc, GATE_BYTES);
  code[0] = 0xff;
  code[1] = 0x25;
  memcpy(code + 2, &distance, sizeof distance);
}
