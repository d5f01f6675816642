/* SPDX-License-Identifier: MIT
 *
 * The cache of symbol indexes: the folder $XDG_CACHE_HOME/sonde/symbols, else
 * ~/.cache/sonde/symbols, with one file per module, named by its key.
 *
 * Any number of processes may use it at the same time. A file is created by rename and never
 * written again; a removed file stays readable for processes that mapped it. The modification time
 * of a file is the time of its last use. When a new file exceeds the limit of the cache, the least
 * recently used files are removed.
 *
 * KEY.spent is a number of 8 bytes: what processes have spent on a module without its index. It is
 * written in place. An update may be lost; then the index is built later.
 */
#ifndef SONDE_SYMBOL_INDEX_CACHE_H
#define SONDE_SYMBOL_INDEX_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "symbol/index/index.h"

#define INDEX_CACHE_LIMIT_DEFAULT ((uint64_t)1 << 30)
#define INDEX_CACHE_PATH_MAX      4096

/* Writes the folder's path to OUT (INDEX_CACHE_PATH_MAX bytes). False when neither variable is set.
 */
bool index_cache_folder(char *out);

/* Writes the path of KEY's file to OUT (INDEX_CACHE_PATH_MAX bytes). */
bool index_cache_path(const char *key, char *out);

/* The index of KEY; NULL when there is none that is valid and made from files with this
 * FINGERPRINT. Removes a damaged or outdated index. */
index_t *index_cache_open(const char *key, uint64_t fingerprint);

/* Stores BYTES under KEY. Failures are ignored: the cache only saves time. */
void index_cache_store(const char *key, const uint8_t *bytes, size_t size);
void index_cache_remove(const char *key);

/* What processes have spent on the module of KEY since its last index was built; 0: nothing known.
 * Its unit is the caller's. Failures are ignored. */
uint64_t index_cache_spent(const char *key);
void index_cache_spend(const char *key, uint64_t cost);
void index_cache_forget_spent(const char *key);

typedef struct index_cache_entry {
  char key[2 * INDEX_KEY_MAX + 1];
  uint64_t size_bytes;
  struct timespec used; /* the last time */
} index_cache_entry_t;

/* Lists all entries, least recently used first; the caller frees *ENTRIES. Returns their number: 0
 * when the folder does not exist, -1 when it cannot be read. */
long index_cache_list(index_cache_entry_t **entries);

/* Removes entries, least recently used first, until the total is at most LIMIT bytes; with LIMIT 0
 * also what was spent. Returns the number of removed entries. */
long index_cache_shrink(uint64_t limit_bytes);

uint64_t index_cache_limit(void);
bool index_cache_set_limit(uint64_t bytes);

#endif
