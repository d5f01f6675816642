/* SPDX-License-Identifier: MIT
 *
 * What a Python code object says: its names, and the line of a position.
 *
 * Positions are counted in bytes of bytecode. The three formats of line tables are those of
 * co_lnotab to 3.9 (Objects/lnotab_notes.txt), of PEP 626 in 3.10, and of the location table from
 * 3.11 on (Objects/locations.md, both in CPython's sources).
 *
 * All functions are async-signal-safe if the memory_t is.
 */
#ifndef SONDE_PYTHON_CODE_H
#define SONDE_PYTHON_CODE_H

#include "python/layout.h"
#include "unwind/memory.h"

/* A code object's fields; equal fields at one address are taken for one code object. */
typedef struct python_code {
  uint64_t address, type;
  /* of strings: `name` is the qualified name from 3.11 on, `own_name` its last part */
  uint64_t file, name, own_name;
  /* of a bytes object */
  uint64_t lines;
  uint32_t first_line;
} python_code_t;

/* Reads the code object at ADDRESS. False: unreadable. `file` is 0 in the code of frames that the
 * interpreter inserts. */
bool python_code_read(const python_layout_t *layout, memory_t *memory, uint64_t address,
                      python_code_t *out);

/* Copies the string at ADDRESS to OUT as UTF-8 with a final 0; one that needs more than SIZE bytes
 * is cut. Returns the length, 0 for an unreadable string. */
size_t python_text(const python_layout_t *layout, memory_t *memory, uint64_t address, char *out,
                   size_t size);

/* As python_text, for the name of CODE. A code object that was given another name by code.replace
 * is shown with that name, as the interpreter's tracebacks show it: the qualified name is still the
 * former one. */
size_t python_code_name(const python_layout_t *layout, memory_t *memory, const python_code_t *code,
                        char *out, size_t size);

/* Sets the place and size of the data of the bytes object at ADDRESS. */
bool python_bytes(memory_t *memory, uint64_t address, uint64_t *data, uint64_t *size);

/* A frame that has executed no instruction. */
#define PYTHON_NOT_BEGUN UINT32_MAX

/* The position of INSTRUCTION, as python_chain_next returned it, in the code object at CODE. False:
 * it is outside of any bytecode. */
bool python_position(const python_layout_t *layout, uint64_t code, uint64_t instruction,
                     uint32_t *position);

/* The line of POSITION in a code object of 3.MINOR that begins in line FIRST; 0: it has none. TABLE
 * has SIZE bytes and is not trusted. */
uint32_t python_line(uint32_t minor, uint32_t first, const uint8_t *table, size_t size,
                     uint32_t position);

#endif
