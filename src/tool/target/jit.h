/* SPDX-License-Identifier: MIT
 *
 * Names of code made at run time, as its maker published them: a perf map (/tmp/perf-PID.map) or a
 * jitdump file (jit-PID.dump, which the maker keeps mapped). Only what was published is known.
 */
#ifndef SONDE_TARGET_JIT_H
#define SONDE_TARGET_JIT_H

#include "target/target.h"

typedef struct jit jit_t;

typedef struct jit_symbol {
  uint64_t address, size;
  const char *name; /* lives as long as the jit_t */
} jit_symbol_t;

/* Reads what TARGET has published. NULL when that is nothing. */
jit_t *jit_open(target_t *target);
void jit_close(jit_t *jit);

/* The code that holds ADDRESS; of several that do, the one published last. */
const jit_symbol_t *jit_find(const jit_t *jit, uint64_t address);

/* Which file said so. */
const char *jit_source(const jit_t *jit);

/* The parsers; false when memory is short. What is damaged is left out. */
bool jit_parse_perf_map(jit_t *jit, const char *text, size_t size);
bool jit_parse_dump(jit_t *jit, const uint8_t *data, size_t size);
jit_t *jit_new(const char *source);

/* After the last parse, before the first find. */
void jit_sort(jit_t *jit);

#endif
