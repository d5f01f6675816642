/* SPDX-License-Identifier: MIT
 *
 * The generated code of a running process, read at once.
 */
#ifndef SONDE_TARGET_JIT_LIVE_H
#define SONDE_TARGET_JIT_LIVE_H

#include "target/jit/file.h"

typedef struct jit_live {
  jit_files_t files;
  jit_t *codes; /* NULL: no file, or out of memory */
} jit_live_t;

/* Reads the file of TARGET. `files.path` is its path, `files.problem` why it is not read. */
void jit_live_open(jit_live_t *live, target_t *target);
void jit_live_close(jit_live_t *live);

#endif
