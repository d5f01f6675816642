/* SPDX-License-Identifier: MIT
 *
 * Writing words of images whose pages may be read-only (RELRO), and leaving the pages as they were.
 */
#ifndef SONDE_HOOK_PATCH_H
#define SONDE_HOOK_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#define PATCH_RUN 128u

/* Zeroed but for `maps`, which is -1. Used under the hooks' lock alone. */
typedef struct patcher {
  int maps;            /* /proc/self/maps */
  uint64_t start, end; /* the mapping asked about last */
  int protection;      /* as it was found */
  bool opened;         /* it is writable now, by us */
  int memory;          /* /proc/self/mem, plus 1; 0: not asked for yet; -1: it cannot be used */
  uint64_t run_start;  /* words that are to be written there at once */
  uint32_t run_count;  /* 0: none */
  uint64_t run[PATCH_RUN];
} patcher_t;

typedef enum patched {
  PATCH_DONE,
  PATCH_CHANGED, /* the word was not EXPECTED any more */
  PATCH_REFUSED, /* the page cannot be made writable */
} patched_t;

/* Replaces the aligned word at ADDRESS, if it is EXPECTED. In a mapping that is not writable the
 * word may be written as late as by patch_end. */
patched_t patch_word(patcher_t *patcher, uint64_t address, uint64_t expected, uint64_t value);

/* The protection of the mapping of ADDRESS as it was found, as PROT_…; negative: there is none. */
int patch_protection(patcher_t *patcher, uint64_t address);

/* Makes the mapping of ADDRESS writable as well as what it is. */
bool patch_open(patcher_t *patcher, uint64_t address);

void patch_end(patcher_t *patcher);

#endif
