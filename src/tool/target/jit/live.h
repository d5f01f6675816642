/* SPDX-License-Identifier: MIT
 *
 * The generated code of a running process or of a core file, read at once.
 */
#ifndef SONDE_TARGET_JIT_LIVE_H
#define SONDE_TARGET_JIT_LIVE_H

#include "target/jit/file.h"
#include "target/jit/registered.h"

typedef struct jit_live {
  jit_files_t files;
  jit_registered_t registered;
  /* codes before this number are from the file, the others are registered */
  uint64_t file_count;
  jit_t *codes; /* NULL: there are none, or out of memory */
} jit_live_t;

/* Reads the codes of TARGET. `files.path` is the path of its file, `files.problem` why it is not
 * read. */
void jit_live_open(jit_live_t *live, target_t *target);
void jit_live_close(jit_live_t *live);

/* The file that names SYMBOL; NULL: it is registered. */
static inline const char *jit_live_file_of(const jit_live_t *live, const jit_symbol_t *symbol) {
  return symbol->number <= live->file_count ? live->files.path : NULL;
}

#endif
