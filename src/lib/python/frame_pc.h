/* SPDX-License-Identifier: MIT
 *
 * The pc that stands for a Python frame of a process (base/language.h):
 *
 *   bits 63:48  0x5079 ("Py")
 *   bits 47:24  number of the code object, from 0
 *   bits 23:0   position in its bytecode, in bytes
 */
#ifndef SONDE_PYTHON_FRAME_PC_H
#define SONDE_PYTHON_FRAME_PC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/language.h"
#include "python/code.h"

#define PYTHON_CODES_MAX (1u << 24)
/* Values of the position: a frame that has executed no instruction, and one with a position that
 * does not fit, which has no line. */
#define PYTHON_PC_NOT_BEGUN 0xffffffu
#define PYTHON_PC_FAR       0xfffffeu

static inline uint64_t python_pc(uint32_t code, uint32_t position) {
  if (position == PYTHON_NOT_BEGUN)
    position = PYTHON_PC_NOT_BEGUN;
  else if (position > PYTHON_PC_FAR)
    position = PYTHON_PC_FAR;
  return PYTHON_PC_TAG << 48 | (uint64_t)code << 24 | position;
}

static inline bool python_pc_is(uint64_t pc) { return pc >> 48 == PYTHON_PC_TAG; }

static inline uint32_t python_pc_code(uint64_t pc) { return (uint32_t)(pc >> 24) & 0xffffffu; }

/* As python_line takes it; a position that does not fit is beyond every table. */
static inline uint32_t python_pc_position(uint64_t pc) {
  uint32_t position = (uint32_t)pc & 0xffffffu;
  return position == PYTHON_PC_NOT_BEGUN ? PYTHON_NOT_BEGUN
         : position == PYTHON_PC_FAR     ? PYTHON_NOT_BEGUN - 1
                                         : position;
}

#endif
