/* SPDX-License-Identifier: MIT
 *
 * The Python code objects that stacks contain, numbered in the order in which they were first seen,
 * with copies of their names and line tables: the program may free a code object at any time.
 */
#ifndef SONDE_TARGET_INTERPRETER_PYTHON_CODES_H
#define SONDE_TARGET_INTERPRETER_PYTHON_CODES_H

#include "base/hash.h"
#include "python/code.h"
#include "python/frame_pc.h"

typedef struct known_code {
  python_code_t code;
  char *function, *file;
  uint8_t *lines;
  size_t lines_size;
} known_code_t;

typedef struct python_codes {
  known_code_t *items;
  size_t count, capacity;
  hash_index_t index; /* by address */
} python_codes_t;

/* Sets *NUMBER to that of CODE, whose names are copied if it is new. False when memory runs out. */
bool python_codes_add(python_codes_t *codes, const python_layout_t *layout, memory_t *memory,
                      const python_code_t *code, uint32_t *number);
void python_codes_free(python_codes_t *codes);

#endif
