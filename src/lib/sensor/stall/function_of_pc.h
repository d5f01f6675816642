/* SPDX-License-Identifier: MIT
 *
 * Identifies the function of a program counter, for call trees. Any thread.
 */
#ifndef SONDE_SENSOR_STALL_FUNCTION_OF_PC_H
#define SONDE_SENSOR_STALL_FUNCTION_OF_PC_H

#include <stdbool.h>
#include <stdint.h>

#include "sonde/name.h"

/* The address of the function's symbol; the image's id in an image without symbols; else PC itself.
 * IS_EXACT: PC is no return address. */
static inline uint64_t function_of_pc(uintptr_t pc, bool is_exact) {
  sonde_name_t name;
  int status = sonde_name(pc, is_exact ? SONDE_NAME_EXACT : 0, &name);
  if (status == 0) return pc - name.symbol_offset;
  return status == SONDE_ESTRIPPED ? name.image_id : pc;
}

#endif
