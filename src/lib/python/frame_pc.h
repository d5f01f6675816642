/* SPDX-License-Identifier: MIT
 *
 * The pc that stands for a Python frame: a number outside of every address space that user programs
 * have, so that stacks, tables and files need no second kind of frame.
 *
 *   bits 63:48  0x5079 ("Py")
 *   bits 47:24  number of the code object, from 0
 *   bits 23:0   position in its bytecode, in bytes
 *
 * A recording outlives the numbers of code objects, and several writers contribute to it. There the
 * bits 47:0 are a hash of the function's name, file and line, which are in the recording too.
 */
#ifndef SONDE_PYTHON_FRAME_PC_H
#define SONDE_PYTHON_FRAME_PC_H

#include <stdbool.h>
#include <stdint.h>

#include "python/code.h"

#define PYTHON_PC_TAG    UINT64_C(0x5079)
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

/* FNV-1a of the function's name, its file, both with their final 0, and its line. */
static inline uint64_t python_name_hash(const char *function, const char *file, uint32_t line) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  const char *const texts[] = {function, file};
  for (int i = 0; i < 2; i++)
    for (const char *p = texts[i];; p++) {
      hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
      if (!*p) break;
    }
  for (int i = 0; i < 4; i++, line >>= 8)
    hash = (hash ^ (line & 0xff)) * UINT64_C(0x100000001b3);
  return hash ? hash : 1;
}

/* The pc in a recording, for a frame whose name, file and line have HASH. */
static inline uint64_t python_recorded_pc(uint64_t hash) {
  return PYTHON_PC_TAG << 48 | (hash & ((UINT64_C(1) << 48) - 1));
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
