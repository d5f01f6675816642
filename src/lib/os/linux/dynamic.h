/* SPDX-License-Identifier: MIT
 *
 * The dynamic section of a loaded image. It suffices to find a symbol by name in the loader and in
 * the C library without calling them and without an undefined symbol in sonde.
 */
#ifndef SONDE_OS_LINUX_DYNAMIC_H
#define SONDE_OS_LINUX_DYNAMIC_H

#include "base/text.h"
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dynamic {
  uint64_t slide;
  const Elf64_Sym *symbols;
  const char *names;
  const uint32_t *gnu_hash;
  const uint32_t *sysv_hash;
  const char *soname;     /* NULL: none */
  uint64_t debug_address; /* DT_DEBUG: address of struct r_debug; 0: none */
} dynamic_t;

/* Reads the section at ENTRIES of an image in [START, END) with the slide SLIDE. The image must
 * stay mapped. Its contents are trusted, since the loader has used them. */
void dynamic_read(dynamic_t *out, const Elf64_Dyn *entries, uint64_t slide, uint64_t start,
                  uint64_t end);

/* Returns the run-time address of the defined symbol NAME, or 0. SIZE may be NULL. */
uint64_t dynamic_symbol(const dynamic_t *dynamic, const char *name, uint64_t *size);

#endif
