/* SPDX-License-Identifier: MIT
 *
 * Names of code that was generated at run time, from the files that a JIT compiler writes: a perf
 * map
 * (/tmp/perf-PID.map) or a jitdump file (jit-PID.dump, which it keeps mapped).
 */
#ifndef SONDE_TARGET_JIT_H
#define SONDE_TARGET_JIT_H

#include "target/target.h"

typedef struct jit jit_t;

typedef struct jit_symbol {
  uint64_t address, size;
  /* owned by the jit_t */
  const char *name;
} jit_symbol_t;

/* Reads the files of TARGET; NULL if there are none. */
jit_t *jit_open(target_t *target);
void jit_close(jit_t *jit);

/* The code that contains ADDRESS; if several do, the one written last. */
const jit_symbol_t *jit_find(const jit_t *jit, uint64_t address);

/* The path of the file. */
const char *jit_source(const jit_t *jit);

/* The parsers. They skip damaged entries. False when memory runs out. */
bool jit_parse_perf_map(jit_t *jit, const char *text, size_t size);
bool jit_parse_dump(jit_t *jit, const uint8_t *data, size_t size);
jit_t *jit_new(const char *source);

/* Call it after the last parse and before the first find. */
void jit_sort(jit_t *jit);

#endif
