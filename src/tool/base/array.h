/* SPDX-License-Identifier: MIT
 *
 * Arrays that grow: items, how many there are, how many there is room for.
 */
#ifndef SONDE_BASE_ARRAY_H
#define SONDE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static inline bool array_grow(void **items, size_t size, size_t count, size_t *room) {
  if (count < *room) return true;
  size_t bigger = *room ? 2 * *room : 64;
  void *grown = realloc(*items, bigger * size);
  if (!grown) return false;
  *items = grown;
  *room = bigger;
  return true;
}

/* Room for one more after COUNT; false without memory. */
#define GROW(items, count, room) array_grow((void **)&(items), sizeof *(items), count, &(room))

#endif
