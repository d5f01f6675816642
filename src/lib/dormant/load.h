/* SPDX-License-Identifier: MIT
 *
 * Loads libsonde-attached.so without the program's loader: an object with relocations of its base
 * only, without thread-local storage, dependencies and undefined symbols (tests/check/exports.sh).
 *
 * The file lies beside libsonde-dormant.so and is trusted as that is. A truncated or other file is
 * refused; it is copied, so a later change of the file changes nothing.
 */
#ifndef SONDE_DORMANT_LOAD_H
#define SONDE_DORMANT_LOAD_H

#include "agent/attach_block.h"
#include "base/bits.h"

typedef struct loaded {
  uint64_t start, size; /* of the mapping; 0: not loaded */
  void (*entry)(attach_block_t *block);
  const uint8_t *build_id;
  uint32_t build_id_size;
} loaded_t;

/* A reason. */
extern HIDDEN const char dormant_other_build[];

/* Whether LOADED is the build BUILD_ID of SIZE bytes. */
HIDDEN bool dormant_is_build(const loaded_t *loaded, const uint8_t *build_id, uint32_t size);

/* Loads the file PATH, if it is the build BUILD_ID of SIZE bytes, and runs its initializers.
 * Returns NULL, or the reason why not. Makes only system calls. */
HIDDEN const char *dormant_load(loaded_t *out, const char *path, const uint8_t *build_id,
                                uint32_t size);

#endif
