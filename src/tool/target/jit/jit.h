/* SPDX-License-Identifier: MIT
 *
 * Names of code that was generated at run time: from the files that a JIT compiler writes, a perf
 * map (/tmp/perf-PID.map) or a jitdump file (jit-PID.dump, which it keeps mapped), and from what it
 * registers with GDB's JIT interface (registered.h).
 *
 * A table keeps every code that was at an address, in the order in which they became known. One
 * thread uses a table. Its memory is at most JIT_BYTES_MAX; codes beyond that are counted.
 */
#ifndef SONDE_TARGET_JIT_JIT_H
#define SONDE_TARGET_JIT_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"

#define JIT_BYTES_MAX ((uint64_t)256 << 20)
/* Longer names are truncated. */
#define JIT_NAME_MAX 1024u

typedef struct jit jit_t;

typedef struct jit_symbol {
  uint64_t address, size;
  /* The code was put there between these times of CLOCK_MONOTONIC. A jitdump file has the time
   * itself: both are equal, and is_exact is set. earliest_ns 0: unknown. */
  uint64_t earliest_ns, latest_ns;
  /* larger is later; from 1 */
  uint64_t number;
  /* owned by the jit_t */
  const char *name;
  bool is_exact;
  /* for the caller, false at first */
  bool is_recorded;
} jit_symbol_t;

jit_t *jit_new(void); /* NULL: out of memory */
void jit_close(jit_t *jit);
/* Removes all codes. */
void jit_clear(jit_t *jit);

/* Until the next call of it: the times of codes that are added without a time. */
void jit_set_times(jit_t *jit, uint64_t earliest_ns, uint64_t latest_ns);

/* Adds a code with the first LENGTH bytes of NAME. INDEX is the number of the code in a jitdump
 * file; TIME_NS 0: as jit_set_times says. */
void jit_add(jit_t *jit, uint64_t address, uint64_t size, uint64_t index, uint64_t time_ns,
             const char *name, size_t length);
/* The code INDEX is now at ADDRESS, too. */
void jit_move(jit_t *jit, uint64_t index, uint64_t address, uint64_t size, uint64_t time_ns);

/* Codes so far, and those for which there was no memory. */
size_t jit_count(const jit_t *jit);
uint64_t jit_lost(const jit_t *jit);

/* The code that contains ADDRESS; if several do, the one written last. */
const jit_symbol_t *jit_find(jit_t *jit, uint64_t address);

/* Calls VISIT for each code that contains or contained ADDRESS. */
typedef void jit_visit_t(void *context, jit_symbol_t *symbol);
void jit_find_all(jit_t *jit, uint64_t address, jit_visit_t *visit, void *context);

#endif
