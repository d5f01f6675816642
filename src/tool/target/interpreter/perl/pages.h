/* SPDX-License-Identifier: MIT
 *
 * Pages of a program's memory that were read last. One frame of Perl takes some ten reads, most of
 * them close to each other. The pages are forgotten before the next thread is read.
 */
#ifndef SONDE_TARGET_INTERPRETER_PERL_PAGES_H
#define SONDE_TARGET_INTERPRETER_PERL_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/memory.h"

#define PERL_PAGE_BYTES 4096u
#define PERL_PAGES      32u
/* A stack of 4096 functions takes a quarter of them. */
#define PERL_READS_MAX (1u << 20)

typedef struct perl_pages {
  memory_t *memory;
  /* how many reads are left for this thread: a damaged program has no end of operations */
  uint32_t left;
  /* the address of each page; 0: none */
  uint64_t addresses[PERL_PAGES];
  uint8_t bytes[PERL_PAGES][PERL_PAGE_BYTES];
} perl_pages_t;

void perl_pages_forget(perl_pages_t *pages);

/* Reads SIZE bytes at ADDRESS. False: they are unreadable, or no read is left. */
bool perl_read(perl_pages_t *pages, uint64_t address, void *out, size_t size);

/* Reads the word at ADDRESS, which must be a multiple of 8. */
bool perl_word(perl_pages_t *pages, uint64_t address, uint64_t *out);

/* Reads a text that ends with a 0 into TEXT of SIZE bytes. False: unreadable, or longer. */
bool perl_string(perl_pages_t *pages, uint64_t address, char *text, size_t size);

#endif
