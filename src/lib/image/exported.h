/* SPDX-License-Identifier: MIT
 *
 * Looks up names in the symbol tables of a 64-bit ELF image in the order of bytes of this machine.
 * Async-signal-safe if IMAGE stays loaded.
 */
#ifndef SONDE_IMAGE_EXPORTED_H
#define SONDE_IMAGE_EXPORTED_H

#include "image/image.h"

typedef struct exported {
  const char *name;
  /* run-time address and size; 0: the image does not define NAME */
  uint64_t address, size;
} exported_t;

/* Sets the address and size of the COUNT symbols from the dynamic symbol table. False: IMAGE has no
 * such table. */
bool image_find_exported(const image_t *image, exported_t *symbols, int count);

/* As above, from the table of all symbols (.symtab), which files have that are not stripped. */
bool image_find_defined(const image_t *image, exported_t *symbols, int count);

#endif
