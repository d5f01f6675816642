/* SPDX-License-Identifier: MIT
 *
 * The dynamic section of an image that the loader has mapped: enough to find a symbol by name in
 * the loader and the C library without asking them, and without an undefined symbol of our own.
 */
#ifndef SONDE_OS_LINUX_DYNAMIC_H
#define SONDE_OS_LINUX_DYNAMIC_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dynamic {
  uint64_t slide;
  const Elf64_Sym *symbols;
  const char *names;
  const uint32_t *gnu_hash;
  const uint32_t *sysv_hash;
  const char *soname;     /* NULL when it has none */
  uint64_t debug_address; /* DT_DEBUG: of struct r_debug; 0 when it has none */
} dynamic_t;

/* Reads the section at ENTRIES of an image that lies in [START, END), moved by SLIDE. The image
 * must stay mapped; it is trusted, since the loader has worked with it. */
void dynamic_read(dynamic_t *out, const Elf64_Dyn *entries, uint64_t slide, uint64_t start,
                  uint64_t end);

/* The run-time address of the defined symbol NAME, and its size; 0 when there is none. */
uint64_t dynamic_symbol(const dynamic_t *dynamic, const char *name, uint64_t *size);

bool text_equal(const char *a, const char *b);

#endif
