/* SPDX-License-Identifier: MIT
 *
 * Memory that is freed as a whole. A pool begins as zeros. One thread.
 */
#ifndef SONDE_BASE_POOL_H
#define SONDE_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pool_block pool_block_t;

typedef struct pool {
  pool_block_t *blocks;
  bool failed; /* memory ran out, once or more */
} pool_t;

/* COUNT items of SIZE bytes, as zeros; valid until pool_free. NULL: out of memory. */
void *pool_array(pool_t *pool, size_t count, size_t size);

/* A copy of TEXT, as valid UTF-8 (base/unicode.h). NULL: out of memory. */
char *pool_text(pool_t *pool, const char *text);

void pool_free(pool_t *pool);

#endif
