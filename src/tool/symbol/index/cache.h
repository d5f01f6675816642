/* SPDX-License-Identifier: MIT
 *
 * The folder that keeps the symbol indexes: $XDG_CACHE_HOME/sonde/symbols, else
 * ~/.cache/sonde/symbols, one file a module, named by its key.
 *
 * Any number of processes may use it at once: a file appears whole, by rename, and is never written
 * again; one that is removed stays readable for those who mapped it. A file's modification time is
 * when it was last used. When a new file takes the total above the limit, those unused longest go.
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

/* Writes the folder's path to OUT (INDEX_CACHE_PATH_MAX bytes). False when there is no home. */
bool index_cache_folder(char *out);

/* Writes the path of KEY's file to OUT (INDEX_CACHE_PATH_MAX bytes). */
bool index_cache_path(const char *key, char *out);

/* The index of KEY, if it is there, sound, and made from files with this FINGERPRINT. A damaged or
 * outdated one is removed. */
index_t *index_cache_open(const char *key, uint64_t fingerprint);

/* Keeps BYTES under KEY. A failure is silent: the cache is a convenience. */
void index_cache_store(const char *key, const uint8_t *bytes, size_t size);
void index_cache_remove(const char *key);

typedef struct index_cache_entry {
  char key[2 * INDEX_KEY_MAX + 1];
  uint64_t size_bytes;
  struct timespec used; /* last */
} index_cache_entry_t;

/* All entries, least recently used first, for the caller to free; the count, or -1 when the folder
 * cannot be read for another reason than not being there. */
long index_cache_list(index_cache_entry_t **entries);

/* Removes entries, least recently used first, until the total is at most LIMIT bytes. Returns how
 * many it removed. */
long index_cache_shrink(uint64_t limit_bytes);

uint64_t index_cache_limit(void);
bool index_cache_set_limit(uint64_t bytes);

#endif
