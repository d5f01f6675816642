/* SPDX-License-Identifier: MIT
 *
 * Writes words of images whose pages may be read-only (RELRO), and leaves the protection unchanged.
 */
#ifndef SONDE_HOOK_PATCH_H
#define SONDE_HOOK_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#define PATCH_RUN 128u

/* Zeroed, except for `maps`, which is -1. Used under the hooks' lock. */
typedef struct patcher {
  int maps;            /* /proc/self/maps */
  uint64_t start, end; /* the last mapping that was looked up */
  int protection;      /* its original protection */
  bool opened;         /* the patcher has made it writable */
  int memory;          /* descriptor of /proc/self/mem + 1; 0: not opened yet; -1: not usable */
  uint64_t run_start;  /* words to write there with one system call */
  uint32_t run_count;  /* 0: none */
  uint64_t run[PATCH_RUN];
} patcher_t;

typedef enum patched {
  PATCH_DONE,
  PATCH_CHANGED, /* the word was not EXPECTED */
  PATCH_REFUSED, /* the page cannot be made writable */
} patched_t;

/* Replaces the aligned word at ADDRESS if it is EXPECTED. In a read-only mapping, the write may be
 * delayed until patch_end. */
patched_t patch_word(patcher_t *patcher, uint64_t address, uint64_t expected, uint64_t value);

/* The original protection of the mapping of ADDRESS, as PROT_…; negative: there is none. */
int patch_protection(patcher_t *patcher, uint64_t address);

/* Adds write permission to the mapping of ADDRESS until patch_end. */
bool patch_open(patcher_t *patcher, uint64_t address);

/* Writes the delayed words, restores the protection and closes descriptors. */
void patch_end(patcher_t *patcher);

#endif
